"""A C library over predictors: its sources, what they call in Python, and what builds them."""
