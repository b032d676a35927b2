"""A folder that is put behind Paddle's own on ``paddle.__path__``: it holds ``paddle.fluid``."""
