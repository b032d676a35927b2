"""``paddle.fluid.layers.metric_op``: the names of ``paddle.fluid.layers``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layers.metric_op", globals())
