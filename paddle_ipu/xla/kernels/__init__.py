"""Kernels of oneDNN, which Paddle's wheel carries, for products by constant weights on CPUs."""
