"""Programs with control flow that are saved, verified, or compared by their form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from tests.journeys.training.side_by_side import Built, build, initialised, strategy
from tools.program_forms.named_program import NamedProgram, form_of

NN = paddle.static.nn
X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)


def _program(optimizer: Any = None) -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2, 3], "float32")
        weight = paddle.create_parameter([3, 3], "float32")
        hidden = paddle.tanh(x)
        chosen = NN.cond(
            paddle.mean(x) > 0, lambda: paddle.matmul(hidden, weight), lambda: hidden * 2.0
        )
        start = [paddle.full([1], 0, "int64"), paddle.assign(chosen)]
        _, turned = NN.while_loop(
            lambda i, y: i < 3, lambda i, y: [i + 1, paddle.tanh(paddle.matmul(y, weight))], start
        )
        if optimizer is None:
            start = [paddle.full([1], 0, "int64"), paddle.assign(turned)]
            _, turned = NN.while_loop(
                lambda i, y: paddle.sum(paddle.abs(y)) < 9.0, lambda i, y: [i + 1, y * 1.5], start
            )
            return ["x"], {"chosen": chosen, "turned": turned}, None
        loss = paddle.mean(turned * turned)
        optimizer(0.1).minimize(loss)
        return ["x"], {"loss": loss, "chosen": chosen}, None

    return build(make)


def test_a_saved_program_runs_as_it_was_saved(tmp_path: Path) -> None:
    built = _program()
    scope = initialised(built)
    executor = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(scope):
        expected = [
            executor.run(built.main, feed={"x": feed}, fetch_list=built.fetches)
            for feed in (X + 2, X - 2)
        ]
        x = next(iter(_inputs(built.main)))
        paddle.static.save_inference_model(
            str(tmp_path / "model"), [x], built.fetches, executor, program=built.main
        )
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(
            str(tmp_path / "model"), executor
        )
        compiled = paddle.static.IpuCompiledProgram(
            program, ipu_strategy=strategy(is_training=False, micro_batch_size=2)
        ).compile(feeds, fetches)
        for feed, wanted in zip((X + 2, X - 2), expected, strict=True):
            got = compiled.run({feeds[0]: feed}, fetches)
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)


def _inputs(program: Any) -> list[Any]:
    block = program.global_block()
    if hasattr(block, "var") and paddle.__version__.startswith("2."):
        return [block.var("x")]
    return [op.result(0) for op in block.ops if op.name() == "pd_op.data"]


@pytest.mark.parametrize("optimizer", [None, paddle.optimizer.Adam])
def test_verify_agrees(optimizer: Any) -> None:
    built = _program(optimizer)
    report = paddle_ipu.verify(
        built.main,
        {"x": X + 1},
        built.fetches,
        scope=initialised(built),
        ipu_strategy=strategy(is_training=optimizer is not None, micro_batch_size=2),
        every_operator=True,
    )
    assert "agrees with Paddle's CPU kernels" in str(report)


def test_the_form_of_a_program_shows_its_blocks() -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        p = paddle.static.data("p", [1], "bool")
        x = paddle.static.data("x", [2], "float32")
        out = NN.cond(p, lambda: paddle.tanh(x), lambda: paddle.exp(x))
        program = paddle.static.default_main_program()
        form = form_of(NamedProgram(program, ["p", "x"], [out], training=False))
    assert form["operators"] == [
        "Reshape(feed p, int64[0] ){} -> bool[]",
        "If(0){else_branch=[Exp(around feed x){} -> float32[2]; Identity(0){} -> float32[2] | 1], "
        "then_branch=[Tanh(around feed x){} -> float32[2]; Identity(0){} -> float32[2] | 1]} "
        "-> float32[2]",
    ]
    assert form["unread"] == {}
