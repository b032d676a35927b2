"""``paddle.fluid.nets``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.nets", globals())
