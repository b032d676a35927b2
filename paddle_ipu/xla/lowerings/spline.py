"""Lowerings of B-splines over the edges of a graph.

The operators are those of PyTorch's spline convolution (Fey et al., "SplineCNN", CVPR 2018).
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

# The pieces of a uniform B-spline of a degree, as polynomials in the position between two knots:
# coefficients from the constant term on, and what divides them.
_PIECES: dict[int, tuple[int, tuple[tuple[int, ...], ...]]] = {
    1: (1, ((1, -1), (0, 1))),
    2: (2, ((1, -2, 1), (1, 2, -2), (0, 0, 1))),
    3: (6, ((1, -3, 3, -1), (4, 0, -6, 3), (1, 3, 3, -3), (0, 0, 0, 1))),
}


@lowering("ai.graphcore", "SplineBasis")
def spline_basis(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(products of the spline pieces, index of their weights), each [edges, pieces^dimensions].

    The pieces of the first dimension vary fastest. A closed spline wraps around.
    """
    pseudo, sizes, is_open = (jnp.asarray(value) for value in inputs)
    degree = int(attributes.get("degree", 1))
    divisor, pieces = _PIECES[degree]
    sizes = sizes.astype(jnp.int32)
    position = pseudo * (sizes - degree * is_open.astype(jnp.int32))
    knot = jnp.floor(position)
    fraction = position - knot
    knot = knot.astype(jnp.int32)
    values: list[Any] = [
        sum(factor * fraction**power for power, factor in enumerate(piece)) / divisor
        for piece in pieces
    ]
    strides = jnp.concatenate([jnp.ones(1, jnp.int32), jnp.cumprod(sizes)[:-1]])
    products, indices = [], []
    dimensions = pseudo.shape[1]
    for chosen in itertools.product(range(degree + 1), repeat=dimensions):
        product, index = jnp.ones_like(pseudo[:, 0]), jnp.zeros_like(knot[:, 0])
        for dimension, piece in enumerate(reversed(chosen)):
            product = product * values[piece][:, dimension]
            size = sizes[dimension]
            index = index + (knot[:, dimension] + piece) % size * strides[dimension]
        products.append(product)
        indices.append(index)
    return jnp.stack(products, 1), jnp.stack(indices, 1)


@lowering("ai.graphcore", "SplineWeighting")
def spline_weighting(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The sum over pieces of ``basis * (input @ weight[index])``, for each edge."""
    x, weight, basis, index = (jnp.asarray(value) for value in inputs)
    chosen = jnp.take(weight, index, axis=0, mode="clip")
    return jnp.einsum("ei,esio,es->eo", x, chosen, basis)
