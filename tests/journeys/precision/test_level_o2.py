"""AMP's level O2 in float16: half throughout, with float32 copies of the weights."""

from __future__ import annotations

import re

import numpy as np
import paddle
import pytest
from paddle.nn import functional

from tests.journeys.precision.test_bfloat16 import WITH_PIR, Trained, X


def _losses_in_float32(like: Trained, steps: int = 6) -> list[float]:
    """What Paddle's CPU executor gives for the model in float32, from the same weights."""
    scope = paddle.static.Scope()
    main, startup = paddle.static.Program(), paddle.static.Program()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with (
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(scope),
    ):
        x = paddle.static.data("x", [4, 8], "float32")
        hidden = functional.gelu(paddle.static.nn.fc(x, 16))
        loss = paddle.mean(paddle.square(paddle.static.nn.fc(hidden, 3)))
        paddle.optimizer.Adam(0.01).minimize(loss)
        executor.run(startup)
        weights = sorted((p.name for p in main.all_parameters()), key=_in_order)
        theirs = sorted(like.main_weights, key=_in_order)
        for name, other in zip(weights, theirs, strict=True):
            tensor = scope.find_var(name).get_tensor()
            tensor.set(like.main_weights[other], paddle.CPUPlace())
        feed = {"x": X}
        return [float(executor.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(steps)]


def _in_order(name: str) -> tuple[list[int], str]:
    """The numbers in a name: fc_9 comes before fc_10, which as text it does not."""
    return [int(number) for number in re.findall(r"\d+", name)], name


def test_half_throughout_follows_float32() -> None:
    pure = Trained("O2", dtype="float16", init_loss_scaling=256.0)
    assert pure.loss_dtype == np.float16
    assert pure.losses[-1] < 0.8 * pure.losses[0]
    expected = _losses_in_float32(pure)
    # Weights, activations and the loss have eleven bits each, and errors add up over the steps.
    np.testing.assert_allclose(pure.losses, expected, rtol=8e-3)
    assert pure.losses != expected


def test_float32_copies_take_updates_that_half_would_lose() -> None:
    """Adam's steps of 1e-6 are far below a place of weights of about 0.1."""
    trained = Trained("O2", rate=1e-6, steps=3, dtype="float16")
    for name, after in trained.weights().items():
        moved = np.abs(after - trained.main_weights[name])
        assert after.dtype == np.float32
        assert (moved > 0).mean() > 0.9, name
        assert moved.max() < 4e-6, name


@pytest.mark.skipif(WITH_PIR, reason="a PIR parameter is its own float32 copy")
def test_half_weights_follow_float32_copies() -> None:
    variables = Trained("O2", rate=1e-4, steps=3, dtype="float16").variables()
    masters = {n: a for n, a in variables.items() if n.endswith("_fp32_master_0")}
    assert len(masters) == 4
    for name, master in masters.items():
        half = variables[name.removesuffix("_fp32_master_0")]
        np.testing.assert_array_equal(half, master.astype(np.float16))
