"""Saves the models in ``sound``; run once by Paddle 2.6.2 and once by Paddle 3.3.1.

    python -m tests.differential.files.paddle_seeds

They have control flow, lists and operators that the models of the journeys lack.
"""

from __future__ import annotations

import os
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["PADDLE_IPU_AUTOLOAD"] = "0"

import paddle
import paddle.nn.functional as F  # noqa: N812 - the name Paddle's own documentation gives it

from tests.journeys.saved_models.make_fixtures import drop_callstacks

Model = tuple[list[Any], list[Any]]


SOUND = Path(__file__).parent / "sound"


def _branches() -> Model:
    x = paddle.static.data("x", [2, 3], "float32")
    y = paddle.static.nn.cond(paddle.mean(x) > 0, lambda: x * 2, lambda: F.relu(x) - 1)
    count = paddle.full([1], 0, "int64")
    _, z = paddle.static.nn.while_loop(lambda i, v: i < 3, lambda i, v: [i + 1, v + x], [count, y])
    return [x], [z]


def _shapes() -> Model:
    x = paddle.static.data("x", [-1, 6], "float32")
    i = paddle.static.data("i", [-1, 2], "int64")
    parts = paddle.split(paddle.reshape(x, [-1, 2, 3]), [1, 2], axis=2)
    a = paddle.tile(parts[0], [1, 1, 2])[:, :, ::-1]
    b = paddle.concat([a, parts[1]], axis=-1).transpose([0, 2, 1])
    c = paddle.stack([b.mean([1, 2]), b.max([1, 2])], axis=1)
    d = paddle.gather_nd(b, paddle.stack([i[:, 0], i[:, 1]], axis=1))
    e = paddle.expand(paddle.unsqueeze(d.cumsum(-1)[:, 0], [0, 2]), [2, -1, 3]).squeeze()
    top, at = paddle.topk(b.flatten(1), 3)
    return [x, i], [c, paddle.einsum("ijk->jk", e), top, paddle.cumsum(at, 1)]


def _layers() -> Model:
    x = paddle.static.data("x", [2, 4, 6], "float32")
    out, _ = paddle.nn.LSTM(6, 5)(x)
    y = F.interpolate(out.unsqueeze(1), scale_factor=2, mode="bilinear")
    y = paddle.nn.Conv2DTranspose(1, 2, 3)(y)
    y = F.avg_pool2d(paddle.nn.GroupNorm(1, 2)(y), 2)
    return [x], [F.pad(y, [1, 0, 0, 2]), paddle.linalg.norm(y, axis=-1), F.one_hot(
        paddle.argmax(y, -1), 6)]  # fmt: skip


_MODELS: Sequence[Callable[[], Model]] = (_branches, _shapes, _layers)


def _save(build: Callable[[], Model], to: Path) -> None:
    paddle.seed(1)
    program, startup = paddle.static.Program(), paddle.static.Program()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with (
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.static.program_guard(program, startup),
        paddle.base.unique_name.guard(),
    ):
        feeds, fetches = build()
        executor.run(startup)
        path = to / build.__name__.strip("_")
        paddle.static.save_inference_model(str(path), feeds, fetches, executor, program=program)
    if (desc := path.with_suffix(".pdmodel")).exists():
        drop_callstacks(desc)


if __name__ == "__main__":
    paddle.enable_static()
    for each in _MODELS:
        _save(each, SOUND / f"paddle_{'_'.join(paddle.__version__.split('.')[:2])}")
