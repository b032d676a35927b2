"""The IPU Model as a predictor: memory and cycles of a PopART program on a named machine."""
