"""``paddle.fluid.layers.loss``: the names of ``paddle.fluid.layers``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layers.loss", globals())
