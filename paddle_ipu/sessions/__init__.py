"""PopART's sessions and devices: a PopART program on the IPU Model."""
