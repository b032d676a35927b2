"""Random operators and chains of them, beside Paddle's CPU executor."""
