"""Training programs whose PopART programs are compared between versions of Paddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle

from paddle_ipu.compiler.write_program_forms import NamedProgram
from tests.training import tiny_bert
from tests.training.side_by_side import Built, mlp

_L2 = paddle.regularizer.L2Decay
VARIANTS: dict[str, Callable[[Any], Any]] = {
    "sgd with L2": lambda lr: paddle.optimizer.SGD(lr, weight_decay=_L2(0.05)),
    "momentum with Nesterov and decay": lambda lr: paddle.optimizer.Momentum(
        lr, 0.9, use_nesterov=True, weight_decay=0.05
    ),
    "adam with L2": lambda lr: paddle.optimizer.Adam(lr, weight_decay=_L2(0.05)),
    "adamw on some parameters": lambda lr: paddle.optimizer.AdamW(
        lr, weight_decay=0.1, apply_decay_param_fun=lambda name: ".w_" in name
    ),
    "lamb without decay on some": lambda lr: paddle.optimizer.Lamb(
        lr, lamb_weight_decay=0.1, exclude_from_weight_decay_fn=lambda p: ".b_" in p.name
    ),
    "adamax": lambda lr: paddle.optimizer.Adamax(lr),
    "adagrad": lambda lr: paddle.optimizer.Adagrad(lr),
    "adadelta": lambda lr: paddle.optimizer.Adadelta(lr),
    "rmsprop": lambda lr: paddle.optimizer.RMSProp(lr, momentum=0.3, centered=True),
    "global norm, then L2": lambda lr: paddle.optimizer.Momentum(
        lr, 0.9, weight_decay=_L2(0.05), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.2)
    ),
    "clip by norm": lambda lr: paddle.optimizer.SGD(lr, grad_clip=paddle.nn.ClipGradByNorm(0.1)),
}


def _named(built: Built) -> NamedProgram:
    return NamedProgram(built.main, built.feeds, built.fetches, training=True)


def _bert(name: str) -> NamedProgram:
    return _named(tiny_bert.pretraining(tiny_bert.OPTIMIZERS[name]).built)


def _mlp(name: str) -> NamedProgram:
    return _named(mlp(VARIANTS[name]))


def _squad() -> NamedProgram:
    return _named(tiny_bert.squad(lambda: paddle.optimizer.AdamW(1e-3))[0])


def _scheduled() -> NamedProgram:
    return _named(
        mlp(paddle.optimizer.SGD, scheduler=lambda: paddle.optimizer.lr.NoamDecay(64, 4, 2.0))
    )


PROGRAMS: dict[str, Callable[[], NamedProgram]] = {
    **{f"tiny BERT, {name}": lambda n=name: _bert(n) for name in tiny_bert.OPTIMIZERS},
    **{f"MLP, {name}": lambda n=name: _mlp(n) for name in VARIANTS},
    "SQuAD head, adamw": _squad,
    "MLP, scheduled": _scheduled,
}
"""Name -> what builds the program with the Paddle that runs."""
