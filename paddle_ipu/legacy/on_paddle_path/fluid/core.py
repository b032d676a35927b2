"""``paddle.fluid.core``: today's ``paddle.base.core``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.core", globals())
