"""``paddle.fluid.regularizer``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.regularizer", globals())
