"""A model of the table as a Paddle program; no weight is given a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.models import Model

if TYPE_CHECKING:
    import paddle

_LEARNING_RATE = 1e-4
"""Nothing that is predicted depends on it."""


@dataclass(frozen=True, slots=True)
class ModelProgram:
    """A model's program; feeds have an open first dimension, that of rows.

    Attributes:
        feeds: names.
        fetches: the loss, or what inference gives.
    """

    program: paddle.static.Program
    feeds: Sequence[str]
    fetches: Sequence[paddle.static.Variable]


def program_of_model(model: Model, *, training: bool, sequence: int = 0) -> ModelProgram:
    """Builds a model, in static mode. Its startup program is thrown away.

    Args:
        training: with its loss, gradients and optimizer.
        sequence: tokens of a row; the model's own where 0.

    Raises:
        OptionError: rows of the model cannot have so many.
    """
    import paddle

    size = model.row_size(sequence)
    program = paddle.static.Program()
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(program, paddle.static.Program()), names:
        builder = LayerBuilder(training)
        result = model.network.build(builder, size)
        if training:
            optimizer = getattr(paddle.optimizer, model.network.optimizer)
            optimizer(learning_rate=_LEARNING_RATE).minimize(result)
    return ModelProgram(program, builder.feeds, [result])
