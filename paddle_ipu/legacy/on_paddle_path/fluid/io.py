"""``paddle.fluid.io``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.io", globals())
