"""Programs for Graphcore's ``popart``, run with ``paddle_ipu.popart`` in its place."""
