"""Passes over the paddle dialect, one a file, in the order of ``pipeline.PIPELINE``."""
