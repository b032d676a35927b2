"""Convolutions by the kernels of ``xla/kernels``, and by NumPy in float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.library import Spec
from paddle_ipu.xla.step import memory

Array = np.ndarray[Any, Any]

PLAIN = Spec(
    images=2, channels=8, height=6, width=5, results=16, groups=1, kernel_height=3, kernel_width=3,
    stride_y=1, stride_x=1, gap_y=1, gap_x=1, top=1, left=1, bottom=1, right=1, activation=0,
    has_bias=1, has_addend=0, parts=2,
)  # fmt: skip
LARGE = replace(PLAIN, channels=32, results=64, height=24, width=20)
"""Worth several threads."""
ONE = {"kernel_height": 1, "kernel_width": 1, "top": 0, "left": 0, "bottom": 0, "right": 0}
WEIGHTY = replace(PLAIN, channels=256, results=256, height=3, width=3, stride_y=2)
"""More weights than data."""


def numbers(spec: Spec, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """x [N, H, W, C], weights [M, C / groups, h, w], bias [M], addend of the result's shape."""
    random = np.random.default_rng(seed)
    shapes = (
        (spec.images, spec.height, spec.width, spec.channels),
        spec.weights_shape,
        (spec.results,),
        spec.shape,
    )
    x, weights, bias, addend = (random.standard_normal(s, np.float32) for s in shapes)
    return x, weights, bias, addend


def expected(spec: Spec, x: Array, weights: Array, bias: Array, addend: Array) -> Array:
    """The result by the definition, in float64."""
    data = np.pad(
        x.astype(np.float64),
        ((0, 0), (spec.top, spec.bottom), (spec.left, spec.right), (0, 0)),
    )
    _, height, width, results = spec.shape
    out = np.zeros(spec.shape)
    each, depth = results // spec.groups, spec.channels // spec.groups
    for group, i, j in itertools.product(
        range(spec.groups), range(spec.kernel_height), range(spec.kernel_width)
    ):
        rows = slice(i * spec.gap_y, i * spec.gap_y + (height - 1) * spec.stride_y + 1)
        columns = slice(j * spec.gap_x, j * spec.gap_x + (width - 1) * spec.stride_x + 1)
        part = data[:, rows, columns][:, :: spec.stride_y, :: spec.stride_x]
        part = part[..., group * depth : (group + 1) * depth]
        own = slice(group * each, (group + 1) * each)
        out[..., own] += part @ weights[own, :, i, j].T.astype(np.float64)
    out += bias if spec.has_bias else 0
    out += addend if spec.has_addend else 0
    name = library.ACTIVATIONS[spec.activation]
    if name == "Relu":
        return np.maximum(out, 0)
    if name == "GeluErf":
        return np.asarray(0.5 * out * (1 + np.vectorize(math.erf)(out / math.sqrt(2))))
    if name == "Gelu":
        return np.asarray(
            0.5 * out * (1 + np.tanh(math.sqrt(2 / math.pi) * (out + 0.044715 * out**3)))
        )
    if name == "HardSwish":
        return out * np.clip(out / 6 + 0.5, 0, 1)
    if name == "Swish":
        return np.asarray(out / (1 + np.exp(-out)))
    return out


def packed(spec: Spec, weights: Array) -> Array:
    """The weights as the kernel of the spec has them."""
    size = library.packed(spec)
    assert size is not None
    found = memory.allocate({"w": ((size,), np.dtype(np.float32))})["w"]
    library.pack(spec, weights, found)
    return found


def given(spec: Spec, x: Array, weights: Array, bias: Array, addend: Array) -> Array:
    """The result by the kernel."""
    run = jax.jit(lambda *arrays: library.convolved(spec, *arrays))
    return np.asarray(run(x, packed(spec, weights), bias, addend))


def check(spec: Spec, seed: int = 0) -> None:
    """The kernel's result is as near to NumPy's as float32 lets it be."""
    arrays = numbers(spec, seed)
    wanted = expected(spec, *arrays)
    difference = np.linalg.norm(given(spec, *arrays) - wanted)
    scale = np.linalg.norm(wanted)
    if library.ACTIVATIONS[spec.activation] not in ("", "Relu"):
        # Of a number below zero it is the small rest of two that nearly cancel.
        scale = max(scale, np.linalg.norm(expected(replace(spec, activation=0), *arrays)))
    assert difference <= 1e-6 * scale, spec
