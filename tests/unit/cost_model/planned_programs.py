"""Scripts for which `paddle-ipu plan` proposes strategies; STRATEGY stands where it is pasted."""

from __future__ import annotations

STRATEGY = "# the strategy"
_SCRIPT = """
import paddle
import paddle.nn.functional as F
paddle.enable_static()
paddle.seed(1)
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
{body}
paddle.static.Executor(paddle.CPUPlace()).run(startup)
strategy = paddle.static.IpuStrategy()
{strategy}
{marker}
feeds = {feeds}
compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(feeds, [fetch])
"""


def _script(body: str, strategy: str, *feeds: str) -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return _SCRIPT.format(body=lines, strategy=strategy.strip(), marker=STRATEGY, feeds=list(feeds))


_REGRESSION = """
x = paddle.static.data("x", [{rows}, 16])
y = paddle.static.data("y", [{rows}, 1])
h = F.relu(paddle.nn.Linear(16, 32)(x))
fetch = F.mse_loss(paddle.nn.Linear(32, 1)(h), y)
paddle.optimizer.Adam(0.01).minimize(fetch)
"""
_GUARDED = """
with paddle.static.ipu_shard_guard(index=0{first}):
    x = paddle.static.data("x", [-1, 16])
    h = paddle.tanh(paddle.nn.Linear(16, 16)(x) * 0.5)
with paddle.static.ipu_shard_guard(index=1{second}):
    fetch = (paddle.nn.Linear(16, 1)(h) * 0.5).mean()
paddle.optimizer.SGD(0.01).minimize(fetch)
"""
_TWO_IPUS = "strategy.set_graph_config(num_ipus=2, micro_batch_size=4, enable_manual_shard=True)\n"

SCRIPTS: dict[str, str] = {
    "mlp": _script(
        _REGRESSION.format(rows=-1), "strategy.set_graph_config(micro_batch_size=8)", "x", "y"
    ),
    "fixed batch": _script(_REGRESSION.format(rows=8), "strategy.set_graph_config()", "x", "y"),
    "fixed inside": _script(
        """
x = paddle.static.data("x", [-1, 16])
h = paddle.nn.Linear(16, 32)(x).reshape([4, 2, 16])
fetch = paddle.nn.Linear(16, 1)(h).mean()
paddle.optimizer.SGD(0.01).minimize(fetch)
""",
        "strategy.set_graph_config(micro_batch_size=4)",
        "x",
    ),
    "conv net": _script(
        """
x = paddle.static.data("x", [-1, 3, 8, 8])
y = paddle.static.data("y", [-1, 1], "int64")
h = F.relu(paddle.nn.BatchNorm2D(4)(paddle.nn.Conv2D(3, 4, 3, padding=1)(x)))
h = paddle.flatten(F.max_pool2d(h, 2), 1)
fetch = F.cross_entropy(paddle.nn.Linear(64, 5)(h), y)
paddle.optimizer.Momentum(0.01, 0.9).minimize(fetch)
""",
        "strategy.set_graph_config(micro_batch_size=4)\n"
        "strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=4)",
        "x",
        "y",
    ),
    "embedding and LSTM": _script(
        """
ids = paddle.static.data("ids", [-1, 6], "int64")
y = paddle.static.data("y", [-1, 1], "int64")
out, _ = paddle.nn.LSTM(8, 8)(paddle.nn.Embedding(20, 8)(ids))
fetch = F.cross_entropy(paddle.nn.Linear(8, 3)(out[:, -1]), y)
paddle.optimizer.Adam(0.01).minimize(fetch)
""",
        "strategy.set_graph_config(micro_batch_size=2)\n"
        "strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=8)",
        "ids",
        "y",
    ),
    "transformer": _script(
        """
x = paddle.static.data("x", [-1, 4, 8])
h = paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)(x)
fetch = paddle.nn.Linear(8, 1)(h).mean()
paddle.optimizer.AdamW(0.01).minimize(fetch)
""",
        "strategy.set_graph_config(micro_batch_size=2)\n"
        "strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=8)",
        "x",
    ),
    "guards": _script(_GUARDED.format(first="", second=""), _TWO_IPUS, "x"),
    "pipelined": _script(
        _GUARDED.format(first=", stage=0", second=", stage=1"),
        f"{_TWO_IPUS}strategy.set_pipelining_config(True, 1, True, 8)",
        "x",
    ),
    "half": _script(
        """
x = paddle.static.data("x", [-1, 16])
h = paddle.nn.LayerNorm(16)(paddle.tanh(paddle.nn.Linear(16, 16)(x)))
fetch = (h * h).mean()
paddle.optimizer.Adam(0.01).minimize(fetch)
""",
        "strategy.set_graph_config(micro_batch_size=4)\n"
        "strategy.set_precision_config(enable_fp16=True)\n"
        "strategy.set_options({'loss_scaling': 128.0, 'enable_half_partial': True})",
        "x",
    ),
    "inference": _script(
        """
x = paddle.static.data("x", [-1, 16])
h = F.relu(paddle.nn.Linear(16, 32)(x))
fetch = F.softmax(paddle.nn.Linear(32, 4)(h))
""",
        "strategy.set_graph_config(is_training=False)",
        "x",
    ),
}
"""By what is in them."""
