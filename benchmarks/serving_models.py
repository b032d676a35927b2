"""The models of the serving benchmark, as inference programs compiled for a micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]

WORDS, CONTEXT = 2073, 4


class Served:
    """A program, its weights, and what it is asked.

    Attributes:
        requests: distinct requests of one row each.
    """

    def __init__(self, output: paddle.static.Variable, main: paddle.static.Program,
                 startup: paddle.static.Program, requests: list[Feed]) -> None:  # fmt: skip
        self._main, self._output, self.requests = main, output, requests
        self._scope = paddle.static.Scope()
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(self._scope):
            self._executor.run(startup)

    def compiled(self, micro_batch: int) -> tuple[Any, str]:
        """The program for the IPU, and the name of its output."""
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=micro_batch)
        compiler = paddle.static.IpuCompiledProgram(self._main, self._scope, strategy)
        program = compiler.compile(list(self.requests[0]), [self._output])
        return program, next(iter(program.fetches))

    def on_cpu(self) -> Array:
        """What Paddle's CPU executor answers to all requests, a row each."""
        together = {
            name: np.concatenate([request[name] for request in self.requests])
            for name in self.requests[0]
        }
        with paddle.static.scope_guard(self._scope):
            results = self._executor.run(self._main, feed=together, fetch_list=[self._output])
        array: Array = results[0]
        return array


def word2vec(number: int) -> Served:
    """The next word of four, int64 [rows, 1] each: embedding 32, hidden 256, softmax 2073.

    Args:
        number: distinct requests.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        embedding = nn.Embedding(WORDS, 32)
        words = [paddle.static.data(f"word{n}", [-1, 1], "int64") for n in range(CONTEXT)]
        context = paddle.concat([paddle.reshape(embedding(w), [-1, 32]) for w in words], 1)
        hidden = functional.sigmoid(nn.Linear(32 * CONTEXT, 256)(context))
        answer = functional.softmax(nn.Linear(256, WORDS)(hidden))
    ids = np.random.default_rng(1).integers(0, WORDS, (number, CONTEXT, 1, 1))
    requests = [{f"word{n}": row[n] for n in range(CONTEXT)} for row in ids]
    return Served(answer, main, startup, requests)


def bert(layers: int, hidden: int, sequence: int, number: int) -> Served:
    """BERT's encoder, int64 [rows, sequence] to the pooled vector [rows, hidden].

    Args:
        layers: encoder layers.
        hidden: width; heads are 64 wide.
        sequence: tokens of a row.
        number: distinct requests.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        tokens = paddle.static.data("tokens", [-1, sequence], "int64")
        position = paddle.create_parameter([sequence, hidden], "float32")
        x = nn.LayerNorm(hidden)(nn.Embedding(30522, hidden)(tokens) + position)
        for _ in range(layers):
            x = nn.TransformerEncoderLayer(
                hidden, hidden // 64, 4 * hidden, dropout=0.0, activation="gelu"
            )(x)
        answer = paddle.tanh(nn.Linear(hidden, hidden)(x[:, 0]))
    ids = np.random.default_rng(2).integers(0, 30522, (number, 1, sequence))
    return Served(answer, main, startup, [{"tokens": row} for row in ids])
