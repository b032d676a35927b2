"""The old API: what PIR programs lack, and ``paddle.fluid``."""
