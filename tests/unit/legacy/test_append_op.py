"""Operators appended by hand write variables that exist, and what follows reads what they wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.legacy.pir_append_op import BINARY, UNARY

pytestmark = pytest.mark.usefixtures("static_mode")

PIR = not paddle.__version__.startswith("2.")
X = np.linspace(0.4, 2.9, 6, dtype=np.float32).reshape(2, 3)
Y = X[::-1].copy()
FUNCTIONS = {
    "erf": None, "reciprocal": np.reciprocal, "relu": lambda x: np.maximum(x, 0),
    "round": np.round, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def _append(target: Any, kind: str, inputs: Mapping[str, Any], **attributes: Any) -> None:
    paddle.static.default_main_program().global_block().append_op(
        type=kind, inputs=inputs, outputs={"Out": [target]}, attrs=attributes
    )


def _on_both(build: Any) -> tuple[list[Any], list[Any]]:
    """What `build` makes of x and y, by Paddle's CPU executor and on the IPU Model."""
    main = paddle.static.Program()
    with paddle.static.program_guard(main), paddle.utils.unique_name.guard():
        fetches = build(*(paddle.static.data(name, [2, 3], "float32") for name in "xy"))
    exe, feed = paddle.static.Executor(), {"x": X, "y": Y}
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
        list(feed), fetches
    )
    return exe.run(main, feed, fetches), exe.run(compiled, feed, fetches)


def test_what_follows_reads_what_was_written() -> None:
    def build(x: Any, y: Any) -> list[Any]:
        shared, summed, product, whole = x * 1, x * 1, paddle.zeros([2, 2]), x.astype("int32")
        before = shared * 2
        _append(shared, "share_data", {"X": y})
        _append(summed, "sum", {"X": [summed, x, y]})
        _append(summed, "scale", {"X": [summed]}, scale=2.0, bias=1.0, op_role=0)
        _append(product, "matmul_v2", {"X": [x], "Y": [y]}, trans_y=True)
        _append(whole, "cast", {"X": [y]}, in_dtype=5, out_dtype=2 if not PIR else "int32")
        filled = x * 1
        _append(
            filled, "fill_constant", {}, shape=[2, 3], value=7.0, dtype=5 if not PIR else "float32"
        )
        return [before, shared * 2, summed * 1, product * 1, whole * 1, filled * 1]

    by_cpu, by_ipu = _on_both(build)
    expected = [X * 2, Y * 2, (2 * X + Y) * 2 + 1, X @ Y.T, Y.astype(np.int32), np.full_like(X, 7)]
    for cpu, ipu, wanted in zip(by_cpu, by_ipu, expected, strict=True):
        np.testing.assert_allclose(cpu, wanted, rtol=1e-6)
        np.testing.assert_allclose(ipu, wanted, rtol=1e-6)


def test_functions_of_one_and_two_variables() -> None:
    names = [name for name in UNARY if name != "erf"]

    def build(x: Any, y: Any) -> list[Any]:
        made = [x * 1 for _ in (*names, *BINARY)]
        for target, name in zip(made, names):  # noqa: B905 - the rest is the other's
            _append(target, name, {"X": [x]})
        for target, name in zip(made[len(names) :], BINARY, strict=True):
            _append(target, name, {"X": [x], "Y": [y]}, axis=-1)
        return [target * 1 for target in made]

    by_cpu, by_ipu = _on_both(build)
    expected = [FUNCTIONS.get(name, getattr(np, name, None))(X) for name in names]
    expected += [getattr(np, name)(X, Y) for name in BINARY.values()]
    for cpu, ipu, wanted in zip(by_cpu, by_ipu, expected, strict=True):
        np.testing.assert_allclose(cpu, wanted, rtol=1e-5)
        np.testing.assert_allclose(ipu, wanted, rtol=1e-5)


@pytest.mark.skipif(not PIR, reason="Paddle 2.6 appends any operator to its ProgramDesc")
@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("conv2d", ["X"], {}, r"append_op\('conv2d'\).* takes abs, .*Write instead: the function"),
        ("tanh", ["X", "Y"], {}, r"takes no inputs \['X', 'Y'\] .*its inputs are X"),
        ("scale", ["X"], {"factor": 2.0}, r"attributes \{'factor': 2.0\}: 'factor'"),
        ("elementwise_add", ["X", "Y"], {"axis": 0}, "axis is -1 in today's Paddle"),
        ("matmul_v2", ["X", "Y"], {"trans_y": True}, r"\[2, 2\], and the variable .*\[2, 3\]"),
    ],
)
def test_what_is_not_built_this_way(
    kind: str, inputs: list[str], attributes: dict[str, Any], message: str
) -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [2, 3], "float32")
        target = x * 1
        with pytest.raises(NotSupported, match=message):
            _append(target, kind, dict.fromkeys(inputs, x), **attributes)


@pytest.mark.skipif(not PIR, reason="Paddle 2.6 appends any operator to its ProgramDesc")
def test_other_outputs_are_refused() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [2, 3], "float32")
        block = paddle.static.default_main_program().global_block()
        with pytest.raises(NotSupported, match=r"writes one variable, outputs=\{'Out': x\}; got"):
            block.append_op(type="tanh", inputs={"X": x}, outputs={"Y": x})


def test_a_feed_declared_twice_is_one_feed() -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x, again = (paddle.static.data("x", [2, 3], "float32") for _ in range(2))
        out = x + again * again
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [out])
    (got,) = paddle.static.Executor().run(compiled, {"x": X}, [out])
    np.testing.assert_allclose(got, X + X * X, rtol=1e-6)


@pytest.mark.skipif(not PIR, reason="Paddle 2.6 refuses it itself")
def test_a_feed_declared_in_two_ways() -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        out = paddle.static.data("x", [2, 3], "float32").sum()
        out = out + paddle.static.data("x", [3, 2], "float32").sum()
    compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=paddle.static.IpuStrategy())
    with pytest.raises(
        InvalidProgramError, match=r"'x' is declared as float32\[2, 3\] and again as .*\[3, 2\]"
    ):
        compiler.compile(["x"], [out])
