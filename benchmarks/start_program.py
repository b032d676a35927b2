"""One process of ``start.py``: a training program built, compiled and run once."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

Feeds = dict[str, np.ndarray[Any, Any]]

ROWS = 32
TOKENS = (8, 32)
WIDTH, VOCABULARY = 128, 1000


def _mlp() -> tuple[Feeds, Any]:
    x = paddle.static.data("x", [ROWS, 784])
    label = paddle.static.data("label", [ROWS, 1], "int64")
    for width, given in ((256, 784), (256, 256)):
        x = functional.relu(nn.Linear(given, width)(x))
    loss = functional.cross_entropy(nn.Linear(256, 10)(x), label)
    return {"x": np.ones([ROWS, 784], np.float32), "label": np.zeros([ROWS, 1], np.int64)}, loss


def _transformer() -> tuple[Feeds, Any]:
    tokens = paddle.static.data("tokens", TOKENS, "int64")
    label = paddle.static.data("label", TOKENS, "int64")
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0)
    x = nn.TransformerEncoder(layer, 2)(nn.Embedding(VOCABULARY, WIDTH)(tokens))
    loss = functional.cross_entropy(nn.Linear(WIDTH, VOCABULARY)(x), label)
    return {"tokens": np.zeros(TOKENS, np.int64), "label": np.ones(TOKENS, np.int64)}, loss


def _bert() -> tuple[Feeds, Any]:
    from bert_config import Config, make_batch
    from bert_program import make_loss

    feeds = make_batch(Config())
    given = {n: paddle.static.data(n, array.shape, array.dtype.name) for n, array in feeds.items()}
    return feeds, make_loss(Config(), given)


MODELS: dict[str, Callable[[], tuple[Feeds, Any]]] = {
    "mlp": _mlp,
    "transformer": _transformer,
    "bert": _bert,
}


def _measure(model: str) -> dict[str, float]:
    """Seconds of ``compile`` and of the first step, and the step's loss."""
    import paddle_ipu  # noqa: F401  (activates it where the installation has not)

    paddle.enable_static()
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        feeds, loss = MODELS[model]()
        paddle.optimizer.Adam(1e-3).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    before = time.perf_counter()
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
        list(feeds), [loss]
    )
    compiled = time.perf_counter()
    (value,) = executor.run(program, feed=feeds, fetch_list=[loss])
    ran = time.perf_counter()
    return {"compile": compiled - before, "step": ran - compiled, "loss": float(value)}


def _import_jax() -> dict[str, float]:
    """Seconds that JAX's import takes in a process that has Paddle."""
    before = time.perf_counter()
    import jax  # noqa: F401

    return {"import": time.perf_counter() - before}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*MODELS, "jax"])
    chosen = parser.parse_args().what
    answer = _import_jax() if chosen == "jax" else _measure(chosen)
    # Paddle and XLA print, too.
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
