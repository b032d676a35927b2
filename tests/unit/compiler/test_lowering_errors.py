"""What a lowering raises names PopART's operator, Paddle's operator and the user's line."""

from __future__ import annotations

from typing import Any

import paddle
import pytest

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.step import graph

_HERE = __file__


def _compile(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    root = paddle.sqrt(x)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    paddle.static.IpuCompiledProgram(static_program, ipu_strategy=strategy).compile(["x"], [root])


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            ValueError("no such axis"),
            r"ai\.onnx\.Sqrt \(.*\) of float32\[2, 3\] cannot be lowered: ValueError: no such "
            r"axis\. This is a fault of paddle_ipu",
        ),
        (LoweringError("Sqrt cannot do that."), r"^Sqrt cannot do that\."),
    ],
)
def test_an_error_names_the_operator_and_the_line(
    static_program: Any, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str
) -> None:
    find = graph.find_lowering

    def fails(*_: Any) -> Any:
        raise raised

    def found(domain: str, op_type: str) -> Any:
        return fails if op_type == "Sqrt" else find(domain, op_type)

    monkeypatch.setattr(graph, "find_lowering", found)
    origin = rf" It comes from Paddle's sqrt at {_HERE}:\d+\."
    with pytest.raises(LoweringError, match=told) as caught:
        _compile(static_program)
    assert caught.match(origin)
