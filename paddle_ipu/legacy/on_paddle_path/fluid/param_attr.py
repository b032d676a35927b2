"""``paddle.fluid.param_attr``: today's ``paddle.base.param_attr``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.param_attr", globals())
