"""Training programs that are compared, between versions of Paddle or between checkouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import paddle

from tests.journeys.training import tiny_bert
from tests.journeys.training.side_by_side import Built, mlp

if TYPE_CHECKING:
    from tools.program_forms.named_program import NamedProgram

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


def _bert(name: str) -> Built:
    return tiny_bert.pretraining(tiny_bert.OPTIMIZERS[name]).built


def _squad() -> Built:
    return tiny_bert.squad(lambda: paddle.optimizer.AdamW(1e-3))[0]


def _scheduled() -> Built:
    return mlp(paddle.optimizer.SGD, scheduler=lambda: paddle.optimizer.lr.NoamDecay(64, 4, 2.0))


BUILDERS: Mapping[str, Callable[[], Built]] = {
    **{f"tiny BERT, {name}": partial(_bert, name) for name in tiny_bert.OPTIMIZERS},
    **{f"MLP, {name}": partial(mlp, optimizer) for name, optimizer in VARIANTS.items()},
    "SQuAD head, adamw": _squad,
    "MLP, scheduled": _scheduled,
}
"""Name -> what builds the program with the Paddle that runs, by public names only."""


def _named(build: Callable[[], Built]) -> NamedProgram:
    from tools.program_forms.named_program import NamedProgram

    built = build()
    return NamedProgram(built.main, built.feeds, built.fetches, training=True)


PROGRAMS: Mapping[str, Callable[[], NamedProgram]] = {
    name: partial(_named, build) for name, build in BUILDERS.items()
}
"""The same for ``tools.program_forms``."""
