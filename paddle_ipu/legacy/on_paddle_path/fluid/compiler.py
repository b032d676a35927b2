"""``paddle.fluid.compiler``: today's ``paddle.base.compiler``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.compiler", globals())
