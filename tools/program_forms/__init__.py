"""PopART programs without names, to compare what versions of Paddle make of the same code."""
