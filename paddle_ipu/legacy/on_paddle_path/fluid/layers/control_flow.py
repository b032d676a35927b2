"""``paddle.fluid.layers.control_flow``: the names of ``paddle.fluid.layers``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layers.control_flow", globals())
