"""``paddle.fluid.initializer``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.initializer", globals())
