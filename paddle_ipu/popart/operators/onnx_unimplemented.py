"""Rows of ai.onnx: operators that PopART's builder writes and its sessions do not implement.

Arity and attributes are those of ONNX's own registry, whose inference also types the outputs. A
session refuses a program with one of them: "No class for ai.onnx.Hardmax:11".
"""

from __future__ import annotations

from typing import cast

import onnx

from paddle_ipu.popart.op_schema import (
    ANY,
    NO_GRADIENT,
    UNPRICED,
    Attribute,
    AttributeKind,
    onnx_row,
    schema_of,
)
from paddle_ipu.popart.shape_inference.by_onnx import infer

_NAMES = (
    "BitShift", "Compress", "ConcatFromSequence", "ConvInteger", "DequantizeLinear", "Det",
    "DynamicQuantizeLinear", "EyeLike", "GatherElements", "GatherND", "GlobalLpPool", "Hardmax",
    "LpNormalization", "LpPool", "MatMulInteger", "MaxRoiPool", "MaxUnpool",
    "MeanVarianceNormalization", "Multinomial", "NonMaxSuppression", "NonZero", "QLinearConv",
    "QLinearMatMul", "QuantizeLinear", "Range", "ReverseSequence", "ScatterND", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "Size", "SplitToSequence", "StringNormalizer", "TfIdfVectorizer", "Unique", "Xor",
)  # fmt: skip
_BUILDER_NAMES = {"Xor": "logical_xor"}
_FIRST_OPSET, _LAST_OPSET = 6, 11
# PopART's builder has no argument for it.
_LEFT_OUT = "auto_pad"


def _attribute(known: onnx.defs.OpSchema.Attribute) -> Attribute:
    # ONNX calls the kinds of attributes as we do, in capitals.
    kind = cast(AttributeKind, str(known.type).rpartition(".")[2].lower())
    default = known.default_value
    value = onnx.helper.get_attribute_value(default) if default.name else None
    return Attribute(kind, value.decode() if isinstance(value, bytes) else value, known.required)


def _count(most: int) -> int | None:
    return None if most > 1000 else most


def _add(name: str) -> None:
    """A row for each form that an operator set has."""
    for opset in range(_FIRST_OPSET, _LAST_OPSET + 1):
        try:
            known = onnx.defs.get_schema(name, opset, "")
        except onnx.defs.SchemaError:
            continue
        present = schema_of("", name, opset)
        if present is not None and present.version == known.since_version:
            continue
        attributes = {
            key: _attribute(item) for key, item in known.attributes.items() if key != _LEFT_OUT
        }
        onnx_row(
            name, (known.min_input, _count(known.max_input)), infer, ANY, UNPRICED, NO_GRADIENT,
            sorted(attributes.items(), key=lambda item: (not item[1].required, item[0])),
            name=_BUILDER_NAMES.get(name), outputs=(known.min_output, _count(known.max_output)),
            version=known.since_version, implemented=False,
        )  # fmt: skip


for _name in _NAMES:
    _add(_name)
