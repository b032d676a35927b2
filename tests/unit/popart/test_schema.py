"""The operator table: complete, without duplicates, and what builder methods are made from."""

from __future__ import annotations

import dataclasses

import onnx
import pytest

from paddle_ipu.popart.op_schema import ALL, NO_GRADIENT, OpCost
from paddle_ipu.popart.opsets import AiOnnxOpset11, operator_methods, signature_of
from paddle_ipu.popart.schema import all_schemas, register, schema_of


def test_a_row_is_found_by_domain_and_type() -> None:
    row = schema_of("", "MatMul")
    assert row is not None
    assert row is schema_of("ai.onnx", "MatMul")
    assert (row.builder_name, row.identifier) == ("matmul", "ai.onnx.MatMul:9")
    assert schema_of("ai.graphcore", "MatMul") is None


def test_a_second_row_of_an_operator_raises() -> None:
    row = schema_of("", "Add")
    assert row is not None
    with pytest.raises(ValueError, match=r"ai.onnx.Add \(add\) is listed twice"):
        register(row)
    with pytest.raises(ValueError, match=r"ai.onnx.Other \(add\) is listed twice"):
        register(dataclasses.replace(row, op_type="Other"))


def test_only_paddles_domain_is_not_portable() -> None:
    for row in all_schemas():
        assert row.portable == (row.domain != "ai.paddle_ipu"), row.identifier


def test_rows_of_ai_onnx_agree_with_onnx() -> None:
    """Versions, arity and attributes of each form against ONNX's own registry."""
    for row in all_schemas():
        if row.domain != "ai.onnx":
            continue
        onnx_row = onnx.defs.get_schema(row.op_type, row.version, "")
        most = onnx_row.max_input
        assert row.min_inputs == onnx_row.min_input, row.identifier
        assert row.max_inputs == (None if most > 1000 else most), row.identifier
        for name, attribute in row.attributes.items():
            known = onnx_row.attributes[name]
            if known.required:
                assert attribute.required, (row.identifier, name)
            written = {"INT": {"int", "dtype"}, "FLOAT": {"float"}, "INTS": {"ints"}}
            written |= {"STRING": {"string"}, "TENSOR": {"tensor"}}
            written |= {"FLOATS": {"floats"}, "STRINGS": {"strings"}, "GRAPH": {"graph"}}
            kinds = written[str(known.type).rpartition(".")[2]]
            assert attribute.kind in kinds, (row.identifier, name)
            default = known.default_value
            if default.name and not attribute.required and not attribute.kind.endswith("s"):
                value = onnx.helper.get_attribute_value(default)
                # PopART cuts Selu's constants after six digits.
                expected = (
                    value.decode() if isinstance(value, bytes) else pytest.approx(value, 1e-5)
                )
                assert attribute.default == expected, (row.identifier, name)
        assert row.version == onnx_row.since_version, row.identifier


def test_what_a_gradient_reads_is_among_the_operands_and_results() -> None:
    for row in all_schemas():
        if row.gradient is not NO_GRADIENT:
            for read, most in (
                (row.gradient.inputs, row.max_inputs),
                (row.gradient.outputs, row.outputs[1]),
            ):
                assert read == ALL or most is None or max(read, default=-1) < most, row.identifier


def test_forms_of_one_operator_have_one_cost() -> None:
    costs: dict[str, set[OpCost | None]] = {}
    for row in all_schemas():
        if row.implemented:
            costs.setdefault(row.op_type, set()).add(row.cost)
    assert [op_type for op_type, found in costs.items() if len(found) > 1] == []


def test_a_gradient_flows_through_what_popart_differentiates() -> None:
    stops = {row.op_type for row in all_schemas() if row.gradient is NO_GRADIENT}
    assert {"Equal", "Not", "ArgMax", "Shape", "Constant", "Detach", "Nop"} <= stops
    assert stops.isdisjoint({"MatMul", "TopK", "Where", "Gather", "Max", "Nll", "Sign"})


@pytest.mark.parametrize(
    ("op_type", "signature"),
    [
        ("Add", "(args: list[str], debugContext: str = '') -> str"),
        (
            "Split",
            "(args: list[str], num_outputs: int, axis: int = 0, split: ints = None, "
            "debugContext: str = '') -> list[str]",
        ),
        (
            "MaxPool",
            "(args: list[str], num_outputs: int, kernel_shape: ints, ceil_mode: int = 0, "
            "dilations: ints = None, pads: ints = None, storage_order: int = 0, "
            "strides: ints = None, debugContext: str = '') -> list[str]",
        ),
        (
            "Constant",
            "(value: tensor, is_value_sparse: bool = False, debugContext: str = '') -> str",
        ),
        ("Cast", "(args: list[str], to: dtype, debugContext: str = '') -> str"),
        (
            "TopK",
            "(args: list[str], axis: int = -1, largest: int = 1, sorted: int = 1, "
            "debugContext: str = '') -> list[str]",
        ),
    ],
)
def test_signatures(op_type: str, signature: str) -> None:
    row = schema_of("", op_type)
    assert row is not None
    assert signature_of(row) == signature
    assert signature in str(getattr(AiOnnxOpset11, row.builder_name).__doc__)


def test_every_row_has_a_method() -> None:
    methods = operator_methods(AiOnnxOpset11)
    assert len(methods) == len({row.op_type for row in all_schemas() if row.domain == "ai.onnx"})
    assert all(callable(getattr(AiOnnxOpset11, name)) for name in methods)
