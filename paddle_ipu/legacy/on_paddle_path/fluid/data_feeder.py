"""``paddle.fluid.data_feeder``: today's ``paddle.base.data_feeder``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.data_feeder", globals())
