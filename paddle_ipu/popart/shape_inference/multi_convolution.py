"""Inference of MultiConv, and how its flat lists are told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string

INPUTS_EACH = 3
"""Data, weights and bias."""


class Geometry(NamedTuple):
    """One convolution: a value for each spatial axis; pads are all begins, then all ends."""

    strides: list[int]
    dilations: list[int]
    in_dilations: list[int]
    pads: list[int]
    out_pads: list[int]


def geometries(attributes: Mapping[str, Any], ranks: Sequence[int]) -> list[Geometry]:
    """The convolutions of flat attributes, by their numbers of spatial axes.

    Raises:
        ValueError: a list that is not as long as all convolutions need.
    """
    per_column = {}
    for name, each, default in (
        ("strides", 1, 1),
        ("dilations", 1, 1),
        ("inDilations", 1, 1),
        ("pads", 2, 0),
        ("outPads", 2, 0),
    ):
        lengths = [each * rank for rank in ranks]
        flat = list(attributes.get(name) or [default] * sum(lengths))
        if len(flat) != sum(lengths):
            raise ValueError(f"{name} has {len(flat)} values, the convolutions need {sum(lengths)}")
        starts = [sum(lengths[:at]) for at in range(len(lengths))]
        per_column[name] = [flat[a : a + n] for a, n in zip(starts, lengths, strict=True)]
    columns = ("strides", "dilations", "inDilations", "pads", "outPads")
    return [Geometry(*row) for row in zip(*(per_column[name] for name in columns), strict=True)]


def multi_conv(ctx: InferenceContext) -> list[TensorInfo]:
    """Data [N, C, *spatial], weights [M, C / group, *kernel], bias [M]; each -> [N, M, *out]."""
    if len(ctx.inputs) != INPUTS_EACH * ctx.num_outputs:
        raise ctx.error(
            f"has {len(ctx.inputs)} inputs for {ctx.num_outputs} convolutions, expected data, "
            "weights and bias of each"
        )
    numbers = range(0, len(ctx.inputs), INPUTS_EACH)
    ranks = [len(ctx.expect_rank(at, 3).dims) - 2 for at in numbers]
    try:
        all_geometries = geometries(ctx.attributes, ranks)
    except ValueError as error:
        raise ctx.error(str(error)) from None
    outputs = []
    for at, geometry in zip(numbers, all_geometries, strict=True):
        dtype = ctx.same_dtype(at, at + 1, at + 2)
        x = ctx.info(at).dims
        w = ctx.expect_rank(at + 1, len(x), len(x)).dims
        if not w[1] or x[1] % w[1] or w[0] % (x[1] // w[1]):
            raise ctx.error(
                f"weights {shape_string(w)} do not fit the {x[1]} channels of {shape_string(x)}"
            )
        if ctx.has(at + 2) and ctx.info(at + 2).dims != w[:1]:
            raise ctx.error(f"the bias must have shape [{w[0]}], got {ctx.info(at + 2)}")
        sizes = []
        for axis, (size, kernel) in enumerate(zip(x[2:], w[2:], strict=True)):
            rank = len(x) - 2
            wide = geometry.in_dilations[axis] * (size - 1) + 1
            span = wide + geometry.pads[axis] + geometry.pads[axis + rank]
            span -= geometry.dilations[axis] * (kernel - 1) + 1
            sizes.append(
                span // geometry.strides[axis]
                + 1
                + geometry.out_pads[axis]
                + geometry.out_pads[axis + rank]
            )
        if min(sizes) < 0:
            raise popart_exception(
                "Window parameter values combine to give invalid spatial output shape: "
                f"{shape_string(sizes)}. {ctx.op} got data {shape_string(x)} and weights "
                f"{shape_string(w)}."
            )
        outputs.append(TensorInfo.of(dtype, (x[0], w[0], *sizes)))
    return outputs
