"""``paddle.fluid.layers.io``: the names of ``paddle.fluid.layers``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layers.io", globals())
