"""``paddle.fluid.optimizer``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.optimizer", globals())
