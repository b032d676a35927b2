"""Half precision reaches into blocks: each result in them is rounded to half's grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import build, pair

NN = paddle.static.nn
X = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)


def _program() -> Any:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        weight = paddle.create_parameter([3, 3], "float32")
        chosen = NN.cond(
            paddle.mean(x) > 0, lambda: paddle.matmul(x, weight), lambda: paddle.exp(x)
        )
        start = [paddle.full([1], 0, "int64"), paddle.assign(chosen)]
        _, out = NN.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * 1.1], start)
        return ["x"], {"chosen": chosen, "out": out}, None

    return build(make)


def _on_half_grid(array: np.ndarray) -> bool:
    return bool(np.all(array.astype(np.float16).astype(np.float32) == array))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_value_in_blocks_is_half(sign: float) -> None:
    both = pair(_program(), {"enable_fp16": True}, is_training=False)
    feed = {"x": X + 2 * sign}
    exact, got = both.on_cpu(feed), both.on_ipu(feed)
    for wide, narrow in zip(exact, got, strict=True):
        assert _on_half_grid(np.asarray(narrow, np.float32))
        assert not _on_half_grid(wide)
        np.testing.assert_allclose(narrow, wide, rtol=1e-2, atol=1e-2)
    steps = got[0].astype(np.float16)
    for _ in range(3):
        steps = (steps.astype(np.float32) * np.float32(np.float16(1.1))).astype(np.float16)
    np.testing.assert_allclose(got[1], steps, rtol=2e-3)


def test_half_programs_with_blocks_train() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        hidden = NN.fc(x, 3)
        weight = paddle.create_parameter([3, 3], "float32")
        chosen = NN.cond(
            paddle.mean(x) > 0, lambda: paddle.matmul(hidden, weight), lambda: hidden * 2.0
        )
        loss = paddle.mean(chosen * chosen)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return ["x"], {"loss": loss}, None

    both = pair(build(make), {"enable_fp16": True})
    for sign in (2, -2):
        cpu, ipu = both.step({"x": X + sign})
        np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-2)
    both.assert_equal_weights(1e-2)
