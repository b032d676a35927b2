"""Dynamic to static: layers of ``paddle.jit.to_static`` that train and infer on the IPU."""
