"""``paddle.fluid.layers.tensor``: the names of ``paddle.fluid.layers``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layers.tensor", globals())
