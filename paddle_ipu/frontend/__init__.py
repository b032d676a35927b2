"""Reads Paddle programs and writes the paddle dialect."""
