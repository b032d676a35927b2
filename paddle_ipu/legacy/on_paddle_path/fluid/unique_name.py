"""``paddle.fluid.unique_name``: today's ``paddle.base.unique_name``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.unique_name", globals())
