"""Paddle Inference on the IPU, beside Paddle's own predictor on the CPU."""
