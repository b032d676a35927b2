"""Rows of ai.paddle_ipu: random numbers that PopART does not draw.

``seed`` 0 draws from the session's seed, anew in every micro-batch; any other seed repeats the
same numbers every time, as Paddle's kernels do.
"""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    NO_GRADIENT,
    NUMBERS,
    UNPRICED,
    float_,
    int_,
    ints,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import random
from paddle_ipu.popart.shape_inference.context import same_as_first

_SHAPE = [ints("shape"), int_("dtype", 1)]
_SEED = int_("seed", 0)

paddle_ipu_row(
    "SeededNormal", 0, random.seeded_by_shape, FLOATS, UNPRICED, NO_GRADIENT,
    [*_SHAPE, float_("mean", 0.0), float_("scale", 1.0), _SEED],
)  # fmt: skip
paddle_ipu_row(
    "SeededUniform", 0, random.seeded_by_shape, FLOATS, UNPRICED, NO_GRADIENT,
    [*_SHAPE, float_("low", 0.0), float_("high", 1.0), _SEED],
)  # fmt: skip
paddle_ipu_row(
    "TruncatedNormal", 0, random.seeded_by_shape, FLOATS, UNPRICED, NO_GRADIENT,
    [
        *_SHAPE, float_("mean", 0.0), float_("scale", 1.0), float_("low", -2.0),
        float_("high", 2.0), _SEED,
    ],
)  # fmt: skip
paddle_ipu_row(
    "RandomInteger", 0, random.integers_by_shape, INTS, UNPRICED, NO_GRADIENT,
    [ints("shape"), int_("low", required=True), int_("high", required=True)],
)  # fmt: skip
paddle_ipu_row(
    "RandomPermutation", 0, random.permutation, INTS, UNPRICED, NO_GRADIENT,
    [int_("n", required=True)],
)  # fmt: skip
paddle_ipu_row("Poisson", 1, same_as_first, FLOATS, UNPRICED, NO_GRADIENT)
paddle_ipu_row("Gamma", 1, same_as_first, FLOATS, UNPRICED, NO_GRADIENT)
paddle_ipu_row("Binomial", 2, random.binomial, NUMBERS, UNPRICED, NO_GRADIENT)
paddle_ipu_row(
    "Multinomial", 1, random.multinomial, FLOATS, UNPRICED, NO_GRADIENT,
    [int_("num_samples", 1), int_("replacement", 0)],
)  # fmt: skip
paddle_ipu_row(
    "ClassCenterSample", 1, random.class_centers, INTS, UNPRICED, NO_GRADIENT,
    [int_("num_classes", required=True), int_("num_samples", required=True), _SEED], outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "SeededPermutation", 1, random.seeded_permutation, INTS, UNPRICED, NO_GRADIENT,
    [int_("n", required=True)], outputs=2,
)  # fmt: skip
paddle_ipu_row("TopPSampling", 2, random.top_p, FLOATS, UNPRICED, NO_GRADIENT, [_SEED], outputs=2)
