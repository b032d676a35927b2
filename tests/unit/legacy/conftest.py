"""A small program for the tests of the old API."""

from __future__ import annotations

from types import SimpleNamespace

import paddle
import pytest


@pytest.fixture
def trained(static_mode: None) -> SimpleNamespace:
    """A network with normalisation and dropout, trained by AdamW with a schedule and clipping."""
    with paddle.utils.unique_name.guard():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [4, 8], "float32")
            linear = paddle.nn.Linear(8, 6)
            hidden = paddle.static.nn.batch_norm(linear(x))
            dropped = paddle.nn.functional.dropout(hidden, 0.5)
            loss = paddle.mean(dropped * dropped) * 2.0
            before = main.clone(for_test=True)
            paddle.optimizer.AdamW(
                paddle.optimizer.lr.NoamDecay(8, 10),
                parameters=None,
                grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
            ).minimize(loss)
    return SimpleNamespace(
        main=main,
        startup=startup,
        before=before,
        x=x,
        weight=linear.weight,
        hidden=hidden,
        dropped=dropped,
        loss=loss,
    )
