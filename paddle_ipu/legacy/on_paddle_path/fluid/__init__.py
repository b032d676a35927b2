"""``paddle.fluid``; what it answers is in ``paddle_ipu.legacy.fluid_names``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid", globals())
