"""Training programs whose PopART programs are compared between versions of Paddle."""

from __future__ import annotations

from collections.abc import Callable

import paddle

from paddle_ipu.testing.write_program_forms import NamedProgram
from tests.training import test_numbers, tiny_bert
from tests.training.side_by_side import Built, mlp


def _named(built: Built) -> NamedProgram:
    return NamedProgram(built.main, built.feeds, built.fetches, training=True)


def _bert(name: str) -> NamedProgram:
    return _named(tiny_bert.pretraining(test_numbers.OPTIMIZERS[name]).built)


def _mlp(name: str) -> NamedProgram:
    return _named(mlp(test_numbers.VARIANTS[name]))


def _squad() -> NamedProgram:
    return _named(tiny_bert.squad(lambda: paddle.optimizer.AdamW(1e-3))[0])


def _scheduled() -> NamedProgram:
    return _named(mlp(paddle.optimizer.SGD, scheduler=test_numbers.SCHEDULERS["noam"]))


PROGRAMS: dict[str, Callable[[], NamedProgram]] = {
    **{f"tiny BERT, {name}": lambda n=name: _bert(n) for name in test_numbers.OPTIMIZERS},
    **{f"MLP, {name}": lambda n=name: _mlp(n) for name in test_numbers.VARIANTS},
    "SQuAD head, adamw": _squad,
    "MLP, scheduled": _scheduled,
}
"""Name -> what builds the program with the Paddle that runs."""
