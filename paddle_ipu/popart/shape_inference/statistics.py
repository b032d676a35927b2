"""Inference of counts, medians and searches."""
