"""Programs with arrays of tensors: in training, in half precision, saved, and fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle

from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import pir, pir_json
from tests.journeys.refusals import refused
from tests.journeys.saved_models.test_pir_json import as_text, by_paddle
from tests.journeys.training.side_by_side import Built, build, distance, pair, strategy

X = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)


def _states(x: Any, w: Any, turns: int, *, in_a_loop: bool) -> Any:
    """An array of ``x @ w`` and what `turns` layers make of it."""
    array = paddle.tensor.create_array("float32")
    at = paddle.zeros([1], "int64")
    paddle.tensor.array_write(paddle.matmul(x, w), at, array)

    def turn(at: Any) -> list[Any]:
        before = paddle.tensor.array_read(array, at)
        at = at + 1
        paddle.tensor.array_write(paddle.tanh(paddle.matmul(before, w)), at, array)
        return [at]

    if in_a_loop:
        paddle.static.nn.while_loop(lambda at: at < turns, turn, [at])
    else:
        for _ in range(turns):
            (at,) = turn(at)
    return array


def _program(*, in_a_loop: bool = False, plain: bool = False, is_training: bool = True) -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        w = paddle.create_parameter([3, 3], "float32", name="w")
        if plain:
            states = [paddle.matmul(x, w)]
            for _ in range(3):
                states.append(paddle.tanh(paddle.matmul(states[-1], w)))
            out = paddle.stack(states)
        else:
            array = _states(x, w, 3, in_a_loop=in_a_loop)
            out = paddle.tensor.manipulation.tensor_array_to_tensor(array, axis=0, use_stack=True)
            out = out[0]
        loss = paddle.mean(out * out)
        if is_training:
            paddle.optimizer.SGD(0.5).minimize(loss)
        return ["x"], {"loss": loss}, None

    return build(make)


def test_weights_follow_those_of_a_program_without_arrays() -> None:
    """Paddle's own gradient of a loop that writes to an array is not finished."""
    plain = pair(_program(plain=True))
    others = [pair(_program(in_a_loop=in_a_loop)) for in_a_loop in (False, True)]
    for _ in range(3):
        (expected,) = plain.on_cpu({"x": X})
        for other in others:
            assert distance(other.on_ipu({"x": X})[0], expected) <= 1e-6


def test_elements_are_half_where_the_program_is() -> None:
    both = pair(
        _program(in_a_loop=True, is_training=False), {"enable_fp16": True}, is_training=False
    )
    exact, got = both.on_cpu({"x": X})[0], both.on_ipu({"x": X})[0]
    assert got.astype(np.float16).astype(np.float32) == got
    assert 0 < distance(got, exact) < 5e-3


def test_an_array_cannot_be_fetched() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        w = paddle.create_parameter([3, 3], "float32", name="w")
        return ["x"], {"array": _states(x, w, 1, in_a_loop=False)}, None

    refused(
        NotSupported,
        "is an array of tensors. Fetch them as one: .*",
        build(make),
        is_training=False,
    )


def test_a_saved_program_keeps_its_arrays(tmp_path: Path) -> None:
    built = _program(in_a_loop=True, is_training=False)
    both = pair(built, is_training=False)
    (expected,) = both.on_cpu({"x": X})
    path = tmp_path / "model.json"
    prefix, executor = str(tmp_path / "model"), paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(both.cpu):
        paddle.static.save_inference_model(
            prefix,
            [built.main.global_block().var("x")],
            built.fetches,
            executor,
            program=built.main,
        )
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, fetches = paddle.static.load_inference_model(prefix, executor)
        compiled = paddle.static.IpuCompiledProgram(
            program, ipu_strategy=strategy(is_training=False)
        ).compile(feeds, fetches)
        (got,) = executor.run(compiled, feed={"x": X}, fetch_list=fetches)
    assert distance(got, expected) <= 1e-6
    if path.exists():
        ours = pir_json.parse(path.read_bytes(), str(path))
        assert as_text(pir.read(ours)) == as_text(pir.read(by_paddle(path)))
