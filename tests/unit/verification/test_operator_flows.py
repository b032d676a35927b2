"""What the report of `verify` has of the data that operators hand to each other."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.verification.report import VerificationReport

ROWS, WIDTH = 4, 8
SIZE = ROWS * WIDTH * 4
"""Bytes of a hidden tensor in float32."""

PHI_NAMES = {
    "matmul_v2": "matmul", "elementwise_add": "add", "elementwise_mul": "multiply",
    "reduce_mean": "mean", "reduce_sum": "sum", "reshape2": "reshape", "top_k_v2": "topk",
}  # fmt: skip
"""What older programs call them."""
NOT_COMPARED = {"data", "parameter", "full", "full_int_array", "fill_constant"}


class Block(paddle.nn.Layer):  # type: ignore[misc]
    """A product, an activation, and what it was given added again."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = paddle.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return paddle.tanh(self.fc(x)) + x


class Net(paddle.nn.Layer):  # type: ignore[misc]
    """Two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = paddle.nn.LayerList([Block(), Block()])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.mean()


def verified(network: Any, **keywords: Any) -> tuple[Any, VerificationReport]:
    """(Paddle's program of ``network(x)``, the report of all its operators)."""
    paddle_ipu.activate()
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [-1, WIDTH], "float32")
        out = network()(x) if isinstance(network, type) else network(x)
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    feed = {"x": np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32)}
    return main, paddle_ipu.verify(main, feed, [out], scope=scope, every_operator=True, **keywords)


def read_from_paddle(program: Any) -> list[tuple[str, str]]:
    """(maker, reader) of every pair of operators, from Paddle's own program."""
    pairs = set()
    makers: dict[str, tuple[int, str]] = {}
    for number, operator in enumerate(program.global_block().ops):
        if hasattr(operator, "operands_source"):
            name = operator.name().rpartition(".")[2]
            read = [str(value.id) for value in operator.operands_source()]
            written = [str(value.id) for value in operator.results()]
        else:
            name = PHI_NAMES.get(operator.type, operator.type)
            read, written = operator.input_arg_names, operator.output_arg_names
        if name in NOT_COMPARED:
            continue
        pairs |= {(makers[each], (number, name)) for each in read if each in makers}
        makers.update(dict.fromkeys(written, (number, name)))
    return sorted((maker, reader) for (_, maker), (_, reader) in pairs)


def described(report: VerificationReport) -> list[tuple[str, str, int]]:
    """The flows with the layers and the operators at their ends."""
    at = {row.number: f"{row.layer or '-'} {row.operator}" for row in report.operators}
    return [(at[flow.source], at[flow.target], flow.bytes) for flow in report.flows]


def test_flows_lead_from_layer_to_layer() -> None:
    _, report = verified(Net)
    first, second = "blocks.0", "blocks.1"
    assert described(report) == [
        (f"{first}.fc matmul", f"{first}.fc add", SIZE),
        (f"{first}.fc add", f"{first} tanh", SIZE),
        (f"{first} tanh", f"{first} add", SIZE),
        (f"{first} add", f"{second}.fc matmul", SIZE),
        (f"{second}.fc matmul", f"{second}.fc add", SIZE),
        (f"{second}.fc add", f"{second} tanh", SIZE),
        (f"{second} tanh", f"{second} add", SIZE),
        (f"{first} add", f"{second} add", SIZE),
        (f"{second} add", "- mean", SIZE),
    ]


def two_results(x: Any) -> Any:
    """An operator with two results, of which another reads both."""
    values, places = paddle.topk(x, 2)
    return (values * paddle.cast(places, "float32") + paddle.scale(values, 3.0)).sum()


def with_constants(x: Any) -> Any:
    """Operators that read constants and the same tensor twice."""
    y = paddle.reshape(paddle.tanh(x), [-1, 2, WIDTH // 2])
    return (y * y + paddle.full([2, 1], 0.5)).mean()


@pytest.mark.parametrize("network", [Net, two_results, with_constants])
def test_flows_are_those_of_paddles_program(network: Any) -> None:
    program, report = verified(network)
    names = {row.number: row.operator for row in report.operators}
    assert sorted((names[x.source], names[x.target]) for x in report.flows) == read_from_paddle(
        program
    )


def test_tensors_in_half_are_half_as_large() -> None:
    _, report = verified(Net, against="fp16")
    assert {flow.bytes for flow in report.flows} == {SIZE // 2}


def test_the_json_has_flows_in_the_form_of_the_reports() -> None:
    _, report = verified(Net)
    found = json.loads(json.dumps(report.to_dict()))
    assert found["flows"]["columns"] == ["source", "target", "bytes"]
    assert found["flows"]["rows"] == [list(flow) for flow in report.flows]
    numbers = {row["number"] for row in found["operators"]}
    assert all({source, target} <= numbers for source, target, _ in found["flows"]["rows"])
