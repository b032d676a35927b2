"""Calls of to_static layers while a strategy is registered: they train, or infer, on the IPU.

With ``ipu_strategy.set_optimizer`` a call in training mode is forward, backward and update in one,
and a loop's own ``loss.backward()`` and ``optimizer.step()`` do nothing. Without it a call is
forward, and ``loss.backward()`` runs backward.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import paddle

from paddle_ipu.dygraph import autograd, host_writes, registration
from paddle_ipu.dygraph.autograd import differentiable_outputs, trained_outputs
from paddle_ipu.dygraph.gradient_program import ForwardProgram, GradientProgram, random_replay
from paddle_ipu.dygraph.layer_program import (
    LayerProgram,
    OptimizerState,
    arrays_of,
    compiled,
)
from paddle_ipu.dygraph.optimizer_step import add_optimizer_step
from paddle_ipu.dygraph.signature import Signature, signature
from paddle_ipu.dygraph.trace import trace
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.options.strategy import Strategy, StrategyValues
from paddle_ipu.runtime.fetches import axes_of

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.jit.dy2static.program_translator import StaticFunction
    from paddle.optimizer import Optimizer

Array = np.ndarray[Any, Any]
Results = Any
"""What a layer returns: tensors and other objects, alone or in lists, tuples and dicts."""

_CACHE = "_paddle_ipu_programs"
"""Attribute of Paddle's ``StaticFunction`` with its compiled calls."""

_functions: weakref.WeakSet[StaticFunction] = weakref.WeakSet()


def performing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``StaticFunction._perform_call`` on the IPU, while a strategy is registered."""

    @functools.wraps(original)
    def perform_call(self: StaticFunction, *args: Any, **kwargs: Any) -> Results:
        strategy = registration.current()
        if strategy is None:
            return original(self, *args, **kwargs)
        return _call(self, strategy, args, kwargs)

    return perform_call


def _call(
    function: StaticFunction, strategy: Strategy, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Results:
    optimizer = getattr(strategy, "_optimizer", None)
    if optimizer is not None and paddle.is_grad_enabled() and function._is_train_mode():
        return train(function, strategy, optimizer, args, kwargs)
    return evaluate(function, strategy, args, kwargs)


def train(
    function: StaticFunction,
    strategy: Strategy,
    optimizer: Optimizer,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Results:
    """Runs forward, backward and update of a to_static function.

    Args:
        function: the function.
        strategy: the registered one.
        optimizer: updates the parameters.
        args: of the call.
        kwargs: of the call.

    Returns:
        What the function returns.

    Raises:
        InvalidProgramError: the strategy does not train, or the function has no single loss.
    """
    if not strategy.is_training:
        raise InvalidProgramError(
            "there is an optimizer to train with, and the strategy's is_training is False. Call "
            "ipu_strategy.set_graph_config(is_training=True) to train; to infer call layer.eval() "
            "first, or call the layer within paddle.no_grad()."
        )
    called = signature(function, args, kwargs, bool(strategy.enable_fp16))
    program = _programs(function, strategy).find(
        (called.number, id(optimizer)), lambda: _TrainingCall(strategy, called, optimizer)
    )
    return program(called)


def evaluate(
    function: StaticFunction, strategy: Strategy, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Results:
    """Runs forward of a to_static function; ``backward()`` of its results runs on the IPU too.

    Args:
        function: the function.
        strategy: the registered one.
        args: of the call.
        kwargs: of the call.

    Returns:
        What the function returns.
    """
    called = signature(function, args, kwargs, bool(strategy.enable_fp16))
    program = _programs(function, strategy).find(
        (called.number, None), lambda: _ForwardCall(strategy, called)
    )
    return program(called)


class _CompiledCall(Protocol):
    """A call of a layer, compiled."""

    @property
    def trained(self) -> Iterable[str]:
        """Names of the parameters that it updates."""

    @property
    def held(self) -> Iterable[str]:
        """Names of the parameters and buffers that it reads."""

    def fits(self) -> bool:
        """Whether it can run: nothing that it was compiled for has changed."""

    def sync_to_host(self) -> None:
        """Writes what the device has newer into the tensors of dynamic mode."""

    def __call__(self, called: Signature) -> Results:
        """Runs it."""


class _Programs:
    """The compiled calls of one function, with the options of one strategy."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._generation = registration.generation(strategy)
        self._compiled: dict[tuple[int, int | None], _CompiledCall] = {}

    def fits(self, strategy: Strategy) -> bool:
        """Whether it was compiled with the strategy's options of now."""
        same = strategy is self._strategy
        return same and registration.generation(strategy) == self._generation

    def find(self, key: tuple[int, int | None], make: Callable[[], _CompiledCall]) -> _CompiledCall:
        """The compiled call of a key; `make` compiles it where there is none that fits."""
        call = self._compiled.get(key)
        if call is None or not call.fits():
            call = self._compiled[key] = make()
        return call

    def trained(self) -> Iterator[str]:
        """Names of the parameters that calls update."""
        for program in self._compiled.values():
            yield from program.trained

    def held(self) -> Iterator[str]:
        """Names of the parameters and buffers that calls read."""
        for program in self._compiled.values():
            yield from program.held

    def sync_to_host(self) -> None:
        """Writes what devices have newer into the tensors of dynamic mode."""
        for program in self._compiled.values():
            program.sync_to_host()


def _programs(function: StaticFunction, strategy: Strategy) -> _Programs:
    programs: _Programs | None = getattr(function, _CACHE, None)
    if programs is None or not programs.fits(strategy):
        if programs is not None:
            programs.sync_to_host()
        programs = _Programs(strategy)
        setattr(function, _CACHE, programs)
        _functions.add(function)
    return programs


def _sync_all_to_host() -> None:
    for function in list(_functions):
        getattr(function, _CACHE).sync_to_host()
        delattr(function, _CACHE)
    _functions.clear()
    autograd.note_optimizer_step()


registration.before_change(_sync_all_to_host)


def updated_by_calls() -> Iterator[str]:
    """Names of the parameters that compiled calls of layers update."""
    for function in list(_functions):
        yield from getattr(function, _CACHE).trained()


def held_by_layers() -> set[str]:
    """Names of the parameters and buffers of layers on the IPU."""
    return {name for function in list(_functions) for name in getattr(function, _CACHE).held()}


class _TrainingCall:
    """A layer with the optimizer's step in it: one call is forward, backward and update."""

    def __init__(self, strategy: Strategy, called: Signature, optimizer: Optimizer) -> None:
        values = strategy._ipu_strategy.snapshot()
        self._trace = trace(called.divided(_micro_batches(values)))
        # Before the optimizer adds variables.
        self._outputs = self._trace.outputs
        step = add_optimizer_step(self._trace, optimizer)
        self.trained = step.trained
        self._loss = step.loss
        parameters = [self._trace.tensors[name] for name in step.trained]
        self._optimizer = optimizer
        self._scheduled = _is_scheduled(optimizer)
        self._flags = _Flags(self._trace.tensors)
        names, feeds = list(self._outputs), list(called.feeds)
        self._fetches = list(dict.fromkeys([*names, step.loss]))
        self._program = LayerProgram(
            lambda scope: compiled(self._trace.program, scope, strategy, feeds, self._fetches),
            self._trace.tensors,
            list(self._trace.tensors),
            OptimizerState(optimizer, step, parameters),
        )

    @property
    def held(self) -> Iterable[str]:
        return self._trace.tensors.keys()

    def fits(self) -> bool:
        if _is_scheduled(self._optimizer) != self._scheduled:
            return False
        return self._program.is_alive and self._flags.unchanged()

    def sync_to_host(self) -> None:
        self._program.sync_to_host()

    def __call__(self, called: Signature) -> Results:
        arrays = self._program.run(arrays_of(called.feeds), self._fetches)
        outputs = {name: arrays[name] for name in self._outputs}
        results = trained_outputs(outputs, self._loss, self.trained)
        return self._trace.restore(results)


def _is_scheduled(optimizer: Optimizer) -> bool:
    return not isinstance(optimizer._learning_rate, float)


class _ForwardCall:
    """A layer alone; ``backward()`` compiles and computes its gradients."""

    trained = ()

    def __init__(self, strategy: Strategy, called: Signature) -> None:
        self._strategy = strategy
        self._key = called.key
        self._trace = trace(called.key)
        self._flags = _Flags(self._trace.tensors)
        self._feeds = list(called.feeds)
        self._gradients: GradientProgram | None = None
        tensors = self._trace.tensors
        self._trainable = [tensor for tensor in tensors.values() if not tensor.stop_gradient]
        self._forward = ForwardProgram(strategy, self._trace, self._feeds, called.training)

    @property
    def held(self) -> Iterable[str]:
        return self._trace.tensors.keys()

    def fits(self) -> bool:
        return self._forward.is_alive and self._flags.unchanged()

    def sync_to_host(self) -> None:
        """Nothing on the device is newer than the layer's tensors."""

    def __call__(self, called: Signature) -> Results:
        learns = paddle.is_grad_enabled()
        fed = {
            name: tensor
            for name, tensor in called.feeds.items()
            if learns and not getattr(tensor, "stop_gradient", True)
        }
        inputs = [*fed.values(), *(self._trainable if learns else ())]
        feeds = arrays_of(called.feeds)
        with random_replay() as replay:
            arrays = self._forward.run(feeds)

        then, weights = host_writes.version(), [tensor.name for tensor in self._trainable]

        def gradients_of(gradients: Mapping[str, Array]) -> list[Array | None]:
            if host_writes.since(then, weights):
                raise InvalidProgramError(
                    "backward() came after the layer's parameters were written, so its gradients "
                    "would not be those of the call. Call backward() before optimizer.step()."
                )
            with replay():
                of_results = [gradients.get(name) for name in arrays]
                shapes = [array.shape for array in arrays.values()]
                return self._gradient_program(list(fed), shapes).run(feeds, of_results)

        results = differentiable_outputs(arrays, inputs, gradients_of)
        return self._trace.restore(results)

    def _gradient_program(
        self, fed: Sequence[str], shapes: Sequence[Sequence[int]]
    ) -> GradientProgram:
        if self._gradients is None or not self._gradients.is_alive:
            self._gradients = GradientProgram(self._strategy, self._key, self._feeds, fed, shapes)
        return self._gradients


class _Flags:
    """Which tensors of a layer are trained, and their types: a program is compiled for these."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = list(tensors.values())
        self._compiled = self._current()

    def _current(self) -> list[tuple[bool, object]]:
        return [(tensor.stop_gradient, tensor.dtype) for tensor in self._tensors]

    def unchanged(self) -> bool:
        """Whether they are as they were."""
        return self._current() == self._compiled


def _micro_batches(values: StrategyValues) -> int:
    return math.prod(axes_of(values).values())
