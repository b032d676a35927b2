"""The functions of ``paddle.fluid.layers``, each built on today's functions."""
