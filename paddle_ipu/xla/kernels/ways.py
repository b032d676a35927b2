"""Which way products and convolutions go: oneDNN, a kernel of our own, or XLA, in which type.

The rules are those of the table that ``benchmarks/kernels.py`` measures, that of bfloat16 excepted,
which ``benchmarks/training_modes.py`` does; ``benchmarks/README.md`` has them for AVX-512 and AVX2.
"""

from __future__ import annotations

import math
from dataclasses import replace

from paddle_ipu.operating_system import processors
from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.library import Spec

_LEAST_WEIGHTS = 1 << 16
"""A matrix of fewer elements is multiplied sooner than a custom call has begun."""
_LONGEST_ROW_IN_AVX2 = 2816
"""Where more is added up for an element, oneDNN 3.6 falls to a third of its rate with AVX2 on AMD's
processors."""
_FEWEST_TILES = 16
"""With fewer tiles of 2 by 2 results, Winograd's time is that of reading weights, and oneDNN's are
16 / 9 times smaller."""
_FEWEST_RESULTS = 16
"""With fewer channels of the result most of a vector is padding."""

_FEWEST_NARROW_ROWS = 128
"""With fewer, a product takes the time of reading the matrix, however fast it multiplies."""
_NARROW_INSTRUCTIONS = frozenset(("amx_bf16", "avx512_bf16"))
"""Features of processors that multiply numbers of bfloat16 at twice the rate of float32's."""


def fastest(spec: Spec) -> Spec:
    """The spec of a convolution with its fastest way, oneDNN's or ours."""
    lanes = library.lanes()
    is_plain = (
        (spec.kernel_height, spec.kernel_width, spec.groups) == (3, 3, 1)
        and (spec.stride_y, spec.stride_x, spec.gap_y, spec.gap_x) == (1, 1, 1, 1)
        and library.ACTIVATIONS[spec.activation] in ("", "Relu")
    )
    if not lanes or not is_plain or spec.channels % lanes or spec.results < _FEWEST_RESULTS:
        return spec
    images, height, width, _ = spec.shape
    tiles = images * math.ceil(height / 2) * math.ceil(width / 2)
    return replace(spec, lanes=lanes) if tiles >= _FEWEST_TILES else spec


def is_xlas(rows: int, depth: int, columns: int) -> bool:
    """Whether XLA is the fastest for a product of matrices [rows, depth] and [depth, columns]."""
    if not rows or depth * columns < _LEAST_WEIGHTS:
        return True
    return depth > _LONGEST_ROW_IN_AVX2 and library.lanes() < 16


def has_narrow_products(rows: int) -> bool:
    """Whether the processor multiplies that many rows by a matrix of bfloat16 as they are.

    Their products are exact, and the sums are in float32, as in a product of float32.
    """
    return rows >= _FEWEST_NARROW_ROWS and not processors.features().isdisjoint(
        _NARROW_INSTRUCTIONS
    )
