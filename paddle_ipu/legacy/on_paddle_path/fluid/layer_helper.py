"""``paddle.fluid.layer_helper``: today's ``paddle.base.layer_helper``."""

from paddle_ipu.legacy.fluid_module import fill

fill("paddle.fluid.layer_helper", globals())
