"""The kinds that operators' attributes have, to say which one of a damaged program is wrong.

A reader, a pass or a translator that fails does not know which attribute it stumbled over. The
vocabulary has what Paddle takes where an attribute is left out, and Paddle's own description of an
operator the kinds of the others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import CHECKPOINT
from paddle_ipu.frontend.vocabulary import table
from paddle_ipu.frontend.vocabulary.row import Attribute

_NUMBER, _TEXT = "a number", "a text"
_NUMBERS, _TEXTS = "a list of numbers", "a list of texts"

_KINDS: Mapping[ir.AttributeType, str] = {
    ir.AttributeType.INT: _NUMBER,
    ir.AttributeType.FLOAT: _NUMBER,
    ir.AttributeType.STRING: _TEXT,
    ir.AttributeType.INTS: _NUMBERS,
    ir.AttributeType.FLOATS: _NUMBERS,
    ir.AttributeType.STRINGS: _TEXTS,
}

_PADDLES_KINDS: Mapping[int, str] = {
    0: _NUMBER, 1: _NUMBER, 2: _TEXT, 3: _NUMBERS, 4: _NUMBERS, 5: _TEXTS, 6: _NUMBER, 7: _NUMBERS,
    9: _NUMBER, 11: _NUMBERS, 12: _NUMBERS, 15: _NUMBER,
}  # fmt: skip
"""``AttrType`` of framework.proto -> the kind in the dialect."""

_OF_ALL: Mapping[str, str] = {"ipu_index": _NUMBER, "ipu_stage": _NUMBER, CHECKPOINT: _NUMBER}

_OF_CONSTANTS: Mapping[str, Mapping[str, str]] = {
    "full": {"shape": _NUMBERS, "value": _NUMBER, "dtype": _TEXT},
    "full_int_array": {"value": _NUMBERS, "dtype": _TEXT},
    "assign_value": {"shape": _NUMBERS, "values": _NUMBERS, "dtype": _TEXT},
}


def wrong_attribute(graph: ir.Graph) -> str:
    """The first attribute that is of another kind than its operator has, in words; "" for none."""
    for node in dialect.walk(graph):
        expected = {**_OF_ALL, **_expected(str(node.op_type))}
        for name, attribute in node.attributes.items():
            kind = _KINDS.get(attribute.type)
            wanted = expected.get(name, kind)
            # A list without elements may be of either.
            is_empty_list = wanted == _TEXTS and kind == _NUMBERS and not attribute.value
            if kind is not None and kind != wanted and not is_empty_list:
                return (
                    f"operator {dialect.describe(node)}: attribute {name!r} is "
                    f"{_shown(attribute.value)}, expected {wanted}"
                )
    return ""


@functools.cache
def _expected(op_type: str) -> Mapping[str, str]:
    """Attribute of an operator -> its kind, where that is known."""
    expected = dict(_OF_CONSTANTS.get(op_type, {}))
    for legacy, row in table.TABLE.items():
        if row.op == op_type:
            for name, attribute in row.attributes.items():
                expected.setdefault(name, _kind(legacy, attribute))
    return {name: kind for name, kind in expected.items() if kind}


def _kind(legacy: str, attribute: Attribute) -> str:
    if attribute.is_dtype or isinstance(attribute.default, str):
        return _TEXT
    if isinstance(attribute.default, (bool, int, float)):
        return _NUMBER
    return _paddles_kinds(legacy).get(attribute.name, "")


@functools.cache
def _paddles_kinds(legacy: str) -> Mapping[str, str]:
    from paddle.base.framework import OpProtoHolder

    proto = OpProtoHolder.instance().op_proto_map.get(legacy)
    if proto is None:
        return {}
    return {
        each.name: _PADDLES_KINDS[each.type] for each in proto.attrs if each.type in _PADDLES_KINDS
    }


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
