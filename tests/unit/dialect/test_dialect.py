"""The paddle dialect: dtypes, attributes, constants, and how nodes are named in messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import paddle_ipu
from paddle_ipu.dialect import dialect


def _node(op_type: str, inputs: list[ir.Value | None] | None = None, **attributes: Any) -> ir.Node:
    made = [dialect.make_attribute(name, value) for name, value in attributes.items()]
    return ir.Node(dialect.DOMAIN, op_type, inputs or [], made)


@pytest.mark.parametrize("dtype", sorted(dialect.DTYPES))
def test_a_value_keeps_its_dtype_and_its_unknown_dimensions(dtype: str) -> None:
    value = dialect.make_value("x", [-1, 3], dtype)
    assert dialect.dtype_name(value) == dtype
    assert dialect.dims_of(value) == [-1, 3]


def test_a_value_without_type_or_shape_is_described_so() -> None:
    assert dialect.dtype_name(ir.Value(name="x")) == "undefined"
    assert dialect.dims_of(ir.Value(name="x")) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, ir.AttributeType.INT),
        (3, ir.AttributeType.INT),
        (np.int64(3), ir.AttributeType.INT),
        (0.5, ir.AttributeType.FLOAT),
        ("NCHW", ir.AttributeType.STRING),
        ([], ir.AttributeType.INTS),
        ([1, True], ir.AttributeType.INTS),
        ([1, 0.5], ir.AttributeType.FLOATS),
        (["a", "b"], ir.AttributeType.STRINGS),
    ],
)
def test_an_attribute_has_the_kind_that_fits(value: Any, kind: ir.AttributeType) -> None:
    made = dialect.make_attribute("a", value)
    assert made.type == kind
    assert made.value == (tuple(value) if isinstance(value, list) else value)


def test_an_attribute_no_kind_fits_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"attribute 'a' holds \[1, 'x'\], which no ONNX attribute"):
        dialect.make_attribute("a", [1, "x"])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (_node("full", shape=[2], value=1.5, dtype="float32"), np.full(2, 1.5, np.float32)),
        (_node("full_int_array", value=[3, -1], dtype="int64"), np.asarray([3, -1])),
        (
            _node("assign_value", values=[1, 2], shape=[2, 1], dtype="int32"),
            np.asarray([[1], [2]], np.int32),
        ),
        (_node("full", shape=[], value=2.0, dtype="bfloat16"), np.asarray(2.0, np.float32)),
    ],
)
def test_a_constant_operand_has_its_value(node: ir.Node, expected: np.ndarray) -> None:
    found = dialect.constant(node.outputs[0])
    assert found is not None
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_only_one_element_makes_a_scalar() -> None:
    one = _node("full", shape=[1], value=0.5, dtype="float32")
    two = _node("full", shape=[2], value=0.5, dtype="float32")
    assert dialect.scalar_constant(one.outputs[0]) == 0.5
    assert dialect.scalar_constant(two.outputs[0]) is None
    assert dialect.scalar_constant(_node("tanh").outputs[0]) is None
    assert dialect.scalar_constant(None) is None


def test_operands_of_a_list_share_its_name() -> None:
    x, y = ir.Value(name="x"), ir.Value(name="y")
    node = _node("concat", [x, y, None], input_segments=[2, 1])
    node.meta[dialect.INPUT_NAMES] = ("x", "axis")
    assert list(dialect.operands(node)) == [("x", x), ("x", y), ("axis", None)]
    assert dialect.operand(node, "x") is x
    assert dialect.operand(node, "axis") is None


def test_a_node_is_described_by_the_users_line() -> None:
    node = _node("tanh")
    assert dialect.describe(node) == "tanh"
    node.meta[dialect.CALLSTACK] = (
        '  File "/home/me/train.py", line 12, in main',
        "    paddle.tanh(x)",
        '  File "/lib/site-packages/paddle/tensor/ops.py", line 900, in tanh',
    )
    assert dialect.describe(node) == "tanh at /home/me/train.py:12"


def test_what_started_python_is_no_users_line() -> None:
    stack = (
        '  File "/home/me/train.py", line 12, in <module>',
        '  File "<frozen runpy>", line 88, in _run_code',
    )
    assert dialect.source_line(stack) == "/home/me/train.py:12"
    assert dialect.source_line(stack[1:]) == ""


def test_a_network_of_the_zoo_stands_for_a_users() -> None:
    zoo = Path(paddle_ipu.__file__).with_name("zoo")
    stack = [
        '  File "<frozen runpy>", line 88, in _run_code',
        f'  File "{zoo / "gpt2.py"}", line 51, in build',
        f'  File "{zoo / "layer_builder.py"}", line 12, in linear',
    ]
    assert dialect.source_line(stack) == f"{zoo / 'gpt2.py'}:51"
