"""``paddle.fluid.backward``: today's ``paddle.base.backward``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.backward", globals())
