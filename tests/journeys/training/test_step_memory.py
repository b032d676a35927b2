"""What a training step keeps in memory: few gradients at a time, little of each layer's forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

F = paddle.nn.functional
FLOAT = 4


def temporary_bytes(feeds: dict[str, tuple[list[int], str]], loss_of: Callable[..., Any]) -> int:
    """What a step of Adam needs beside weights, state, feeds and fetches; one step is run."""
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        fed = [paddle.static.data(name, *kind) for name, kind in feeds.items()]
        loss = loss_of(*fed)
        paddle.optimizer.Adam(0.001).minimize(loss)
    scope = paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    program = paddle.static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(
        list(feeds), [loss]
    )
    batch = {name: np.ones(shape, dtype) for name, (shape, dtype) in feeds.items()}
    assert np.isfinite(executor.run(program, batch, [loss])[0]).all()
    needed: int = program.report().temporary_bytes
    return needed


@pytest.mark.parametrize("indexed", [True, False], ids=["labels", "numbers"])
def test_gradients_are_not_all_kept_until_the_last(static_mode: None, indexed: bool) -> None:
    """With indices, which may be out of range, a step must be able to change nothing."""
    rows, width, layers = 2, 256, 8

    def loss_of(x: Any, labels: Any) -> Any:
        for _ in range(layers):
            x = paddle.tanh(paddle.nn.Linear(width, width)(x))
        return F.cross_entropy(x, labels) if indexed else ((x - labels) ** 2).mean()

    other = ([rows, 1], "int64") if indexed else ([rows, width], "float32")
    needed = temporary_bytes({"x": ([rows, width], "float32"), "labels": other}, loss_of)
    assert needed < 2 * width * width * FLOAT


def test_a_tied_embedding_has_one_gradient(static_mode: None) -> None:
    words, width, rows = 4096, 64, 8

    def loss_of(ids: Any, labels: Any) -> Any:
        table = paddle.create_parameter([words, width], "float32")
        return F.cross_entropy(paddle.matmul(F.embedding(ids, table), table, transpose_y=True),
                               labels)  # fmt: skip

    needed = temporary_bytes({"ids": ([rows], "int64"), "labels": ([rows, 1], "int64")}, loss_of)
    assert needed < 2.1 * words * width * FLOAT


def test_a_layer_keeps_the_arguments_of_its_norm_and_its_gelu(static_mode: None) -> None:
    rows, width = 1024, 32

    def needed(layers: int) -> int:
        def loss_of(x: Any) -> Any:
            for _ in range(layers):
                normal = paddle.nn.LayerNorm(width)(x)
                wide = F.gelu(paddle.nn.Linear(width, 4 * width)(normal))
                x = x + paddle.nn.Linear(4 * width, width)(wide)
            return (x * x).mean()

        return temporary_bytes({"x": ([rows, width], "float32")}, loss_of)

    of_a_layer = (needed(5) - needed(2)) / 3
    assert of_a_layer < (1 + 4) * rows * width * FLOAT * 1.1
