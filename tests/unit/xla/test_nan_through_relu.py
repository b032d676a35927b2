"""A ReLU makes 0 of NaN, as Paddle's CPU kernel does, whichever kernel it is part of."""

from __future__ import annotations

from typing import Any

import pytest

SNIPPET = """
import warnings; warnings.simplefilter('ignore')
import numpy as np, paddle, paddle_ipu
from paddle import nn
paddle.enable_static()
paddle.seed(0)
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data('x', [1, 16, 8, 8])
    rows = paddle.static.data('rows', [8, 32])
    norm = nn.BatchNorm2D(16)
    norm.eval()
    winograd = nn.functional.relu(norm(nn.Conv2D(16, 16, 3, padding=1)(x)))
    stride = nn.functional.relu(nn.Conv2D(16, 24, 3, 2, 1)(x))
    point = nn.functional.relu(nn.Conv2D(16, 16, 1)(x) + x)
    product = nn.functional.relu(nn.Linear(32, 24)(rows))
    fetches = [winograd, stride, point, product, nn.functional.relu(x)]
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(startup)
random = np.random.default_rng(0)
feed = {'x': random.standard_normal((1, 16, 8, 8), np.float32),
        'rows': random.standard_normal((8, 32), np.float32)}
feed['x'][0, 3, 2, 5] = feed['rows'][1, 4] = np.nan
expected = executor.run(main, feed=feed, fetch_list=fetches)
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=1)
compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
    list(feed), fetches)
found = compiled.run(feed, fetches)
for one, other in zip(found, expected):
    assert not np.isnan(other).any()
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
print('same')
"""


@pytest.mark.parametrize(
    "environment",
    [{}, {"PADDLE_IPU_ONEDNN": "0"}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}],
    ids=lambda environment: ",".join(f"{k}={v}" for k, v in environment.items()) or "as_it_is",
)
def test_it_is_zero_as_on_paddles_cpu(run_python: Any, environment: dict[str, str]) -> None:
    assert run_python(SNIPPET, **environment).stdout.splitlines()[-1] == "same"
