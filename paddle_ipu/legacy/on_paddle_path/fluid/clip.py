"""``paddle.fluid.clip``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.clip", globals())
