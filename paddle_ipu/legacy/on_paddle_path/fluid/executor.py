"""``paddle.fluid.executor``: today's ``paddle.base.executor``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.executor", globals())
