"""Convolutions by oneDNN with weights that change, and their gradients, as JAX functions."""

from __future__ import annotations

from dataclasses import astuple
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.library import Array, Spec


class Direction(IntEnum):
    """What is computed; the numbers are those of onednn/training.h."""

    FORWARD = 0
    DATA_GRADIENT = 1
    KERNEL_GRADIENT = 2


def has_kernel(spec: Spec, direction: Direction) -> bool:
    """Whether oneDNN can be used, and has a fast kernel for it."""
    return library.trains(_numbers(spec, direction))


def computed(spec: Spec, direction: Direction, first: jax.Array, second: jax.Array) -> jax.Array:
    """A convolution, or a gradient of it.

    Args:
        spec: of the convolution; it has no bias, addend and activation.
        direction: what is computed.
        first: float32 [images, height, width, channels], the data; for the data's gradient the
            result's, [images, height, width, results].
        second: float32 [M, C / groups, height, width], the weights; for their gradient the
            result's.

    Returns:
        The result, or the gradient of the data or weights, in the same layouts.
    """
    shape = {
        Direction.FORWARD: spec.shape,
        Direction.DATA_GRADIENT: (spec.images, spec.height, spec.width, spec.channels),
        Direction.KERNEL_GRADIENT: spec.weights_shape,
    }[direction]
    kind = jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(library.TRAINING_TARGET, kind, vmap_method="sequential")
    result: jax.Array = call(first, second, spec=_numbers(spec, direction))
    return result


def _numbers(spec: Spec, direction: Direction) -> Array:
    """int64: those of the spec, and the direction."""
    return np.asarray([*astuple(spec), direction], np.int64)
