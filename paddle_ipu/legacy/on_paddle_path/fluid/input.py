"""``paddle.fluid.input``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.input", globals())
