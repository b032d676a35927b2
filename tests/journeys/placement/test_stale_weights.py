"""A Paddle program in a pipeline without accumulation, beside PopART's schedule written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import popart_exception
from tests.journeys.placement.networks import compiled
from tests.journeys.training.side_by_side import Built, build, read

pytestmark = pytest.mark.usefixtures("static_mode")

WIDTH, BATCHES, RATE, DECAY = 4, 6, 0.5, 0.9


def _two_products(optimizer: Any, behind: bool = False) -> Built:
    """out = x a b with a in the first stage, b in the second; the loss is the mean of out.

    `behind` puts one more stage behind that of the loss, on the first IPU.
    """

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, WIDTH], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            a = paddle.create_parameter([WIDTH], "float32")
            hidden = x * a
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            b = paddle.create_parameter([WIDTH], "float32")
            out = hidden * b
            loss = paddle.mean(out)
        if behind:
            with paddle.static.ipu_shard_guard(index=0, stage=2):
                out = out * 1.0
        optimizer().minimize(loss)
        return ["x"], {"out": out, "a": a, "b": b}, None

    return build(make)


@pytest.mark.parametrize(
    ("momentum", "replicas", "how"),
    [(0.0, None, ""), (DECAY, None, ""), (0.0, 2, ""), (DECAY, 2, ""), (0.0, None, "behind"),
     (DECAY, None, "half")],
)  # fmt: skip
def test_weights_and_results_of_the_schedule(
    momentum: float, replicas: int | None, how: str
) -> None:
    # Half has eleven bits; a weight that is late or early is off by a tenth.
    tolerance = 4e-3 if how == "half" else 1e-5

    def optimizer() -> Any:
        return paddle.optimizer.Momentum(RATE, momentum) if momentum else paddle.optimizer.SGD(RATE)

    built = _two_products(optimizer, how == "behind")
    both = compiled(
        built, 2, accumulation=None, replicas=replicas, batches=BATCHES, pipelining=True, micro=1,
        options={"enable_fp16": how == "half"},
    )  # fmt: skip
    names = [built.values[name].name for name in "ab"]
    a, b = (read(both.ipu, name).astype(np.float64) for name in names)
    velocity = {"a": np.zeros(WIDTH), "b": np.zeros(WIDTH)}
    count = replicas or 1
    for run in range(2):
        x = np.random.default_rng(run).standard_normal((BATCHES, count, WIDTH)).astype(np.float32)
        out, *_ = both.on_ipu({"x": x})
        # Nothing is under way when a run begins. Stage 0 sees a weight two updates late.
        history = [a]
        for turn, fed in enumerate(x):
            hidden = fed * history[max(0, turn - 2)]
            np.testing.assert_allclose(
                out[turn].reshape(count, WIDTH), hidden * b, rtol=tolerance, atol=tolerance / 10
            )
            gradients = {"a": (fed * b).mean(0) / WIDTH, "b": hidden.mean(0) / WIDTH}
            for name, gradient in gradients.items():
                velocity[name] = momentum * velocity[name] + gradient
            a, b = a - RATE * velocity["a"], b - RATE * velocity["b"]
            history.append(a)
    both.weights_to_host()
    for name, expected in zip(names, (a, b), strict=True):
        np.testing.assert_allclose(
            read(both.ipu, name), expected, rtol=tolerance, atol=tolerance / 10
        )


def test_a_weight_read_behind_the_losss_stage_is_refused() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, WIDTH], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            a = paddle.create_parameter([WIDTH], "float32")
            hidden = x * a
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            loss = paddle.mean(hidden)
        with paddle.static.ipu_shard_guard(index=0, stage=2):
            out = hidden * a
        paddle.optimizer.SGD(RATE).minimize(loss)
        return ["x"], {"out": out}, None

    with pytest.raises(
        popart_exception,
        match=r"Mul \(.*\) in pipeline stage 2 reads the weight .*, which is updated in stage 2 "
        r"already\. Put what reads trained weights into the stage of the loss, 1, or an earlier",
    ):
        compiled(
            build(make), 2, accumulation=None, replicas=None, batches=BATCHES, pipelining=True,
            micro=1,
        )  # fmt: skip
