"""``paddle.fluid.framework``: today's ``paddle.base.framework``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.framework", globals())
