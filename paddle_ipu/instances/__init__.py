"""This process among the others of its job: its index, its sign of life, the IPUs it holds."""
