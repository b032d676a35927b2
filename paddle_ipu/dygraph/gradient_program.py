"""A layer that is called in training mode without an optimizer: forward, and then backward.

Forward is compiled as a training program that updates nothing, since dropout drops in training
only. Other programs may have run before the backward of a call, so backward computes forward again
with the same random numbers. Its loss is the sum of the results times their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base import core

from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.dygraph.layer_program import LayerProgram, compiled, for_one_run
from paddle_ipu.dygraph.optimizer_step import building
from paddle_ipu.dygraph.trace import Trace, is_float, trace

if TYPE_CHECKING:
    from paddle.jit.dy2static.program_translator import CacheKey

    from paddle_ipu.options.strategy import Strategy

Array = np.ndarray[Any, Any]

_GRADIENT = "@given"
_LOSS_PREFIX = "of_given."
"""Prefix of the names of the variables between the results and their loss."""


class ForwardProgram:
    """Computes the results of a layer.

    Args:
        strategy: the registered one.
        traced: the layer.
        feeds: names of its inputs.
        training: whether the layer is in training mode, where dropout drops.
    """

    def __init__(
        self, strategy: Strategy, traced: Trace, feeds: Sequence[str], training: bool
    ) -> None:
        from paddle_ipu.passes.ask_for_gradients import AskForGradients

        self._fetches = list(traced.outputs)
        floats = [variable for variable in traced.outputs.values() if is_float(variable)]
        passes = []
        if training and floats:
            with building(traced):
                loss = name_of(floats[0].sum())
            passes = [AskForGradients(loss, [], [])]
        single = for_one_run(strategy, {"is_training": bool(passes)})
        self._program = LayerProgram(
            lambda scope: compiled(traced.program, scope, single, feeds, self._fetches, passes),
            traced.tensors,
            [name for name, tensor in traced.tensors.items() if tensor.stop_gradient],
        )

    @property
    def is_alive(self) -> bool:
        """False once the backend was reset."""
        return self._program.is_alive

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The results by name."""
        return self._program.run(feeds, self._fetches)


class GradientProgram:
    """Computes the gradients of a layer's inputs and parameters.

    Args:
        strategy: the registered one.
        key: Paddle's cache key of the call.
        feeds: names of the layer's inputs.
        fed: those whose gradients are wanted.
        shapes: of the results of a call.
    """

    def __init__(
        self,
        strategy: Strategy,
        key: CacheKey,
        feeds: Sequence[str],
        fed: Sequence[str],
        shapes: Sequence[Sequence[int]],
    ) -> None:
        from paddle_ipu.passes.ask_for_gradients import (
            AskForGradients,
            fetch_of_feed,
            fetch_of_weight,
        )

        traced = trace(key)
        self._result_gradients = {
            number: name_of(variable) + _GRADIENT
            for number, variable in enumerate(traced.outputs.values())
            if is_float(variable) and not variable.stop_gradient
        }
        # Of some results Paddle 2.6 knows the rank only.
        self._shapes = [
            [*variable.shape[:1], *shape[1:]]
            for variable, shape in zip(traced.outputs.values(), shapes, strict=True)
        ]
        loss = self._add_loss(traced)
        trainable = [name for name, tensor in traced.tensors.items() if not tensor.stop_gradient]
        self._names = [*map(fetch_of_feed, fed), *map(fetch_of_weight, trainable)]
        # A run that evaluates changes no weights.
        single = for_one_run(strategy, {"is_training": True, "runtime_options.enable_eval": True})
        asks = AskForGradients(loss, trainable, fed)
        gradients = list(self._result_gradients.values())
        self._program = LayerProgram(
            lambda scope: compiled(
                traced.program, scope, single, [*feeds, *gradients], self._names, [asks]
            ),
            traced.tensors,
            [],
        )
        # The results depend on none of the others.
        self._fetches = [name for name in self._names if name in self._program.program.fetches]

    @property
    def is_alive(self) -> bool:
        """False once the backend was reset."""
        return self._program.is_alive

    def _add_loss(self, traced: Trace) -> str:
        # Paddle 2.6 counts names in a process, and may have used these in the program it traced.
        with building(traced), paddle.utils.unique_name.guard(_LOSS_PREFIX):
            parts = []
            outputs = list(traced.outputs.values())
            for number, name in self._result_gradients.items():
                variable = outputs[number]
                gradient = paddle.static.data(name, self._shapes[number], variable.dtype)
                parts.append(paddle.sum(variable * gradient))
            return name_of(paddle.add_n(parts))

    def run(
        self, feeds: Mapping[str, Array], gradients: Sequence[Array | None]
    ) -> list[Array | None]:
        """The gradients of the inputs that are wanted, and then of the parameters.

        Args:
            feeds: the layer's inputs.
            gradients: those of the results, None where there is none.
        """
        fed = dict(feeds)
        for number, name in self._result_gradients.items():
            array = gradients[number]
            fed[name] = np.zeros(self._shapes[number], np.float32) if array is None else array
        results = self._program.run(fed, self._fetches)
        return [results.get(name) for name in self._names]


@contextmanager
def random_replay() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Yields a context that draws the random numbers of this block again, and hides that."""
    generator = core.default_cpu_generator()
    start = generator.get_state()

    @contextmanager
    def replay() -> Iterator[None]:
        current = generator.get_state()
        generator.set_state(start)
        try:
            yield
        finally:
            generator.set_state(current)

    yield replay
