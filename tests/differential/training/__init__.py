"""Random trainings, beside the same training by Paddle's CPU executor."""
