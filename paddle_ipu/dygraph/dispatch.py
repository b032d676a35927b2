"""What a to_static layer does while a strategy is registered: it trains, or infers, on the IPU.

With ``ipu_strategy.set_optimizer`` a call in training mode is forward, backward and update in one,
and a loop's own ``loss.backward()`` and ``optimizer.step()`` find nothing left to do. Without it a
call is forward, and backward follows when the loop asks for it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paddle_ipu.dygraph import autograd, host_writes, registration
from paddle_ipu.dygraph.autograd import differentiable_outputs, trained_outputs
from paddle_ipu.dygraph.gradient_program import ForwardProgram, GradientProgram, drawn_again
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
from paddle_ipu.runtime.fetches import axes_of

Array = np.ndarray[Any, Any]

_CACHE = "_paddle_ipu_programs"
"""Attribute of Paddle's ``StaticFunction`` with what was compiled of it."""

_functions: weakref.WeakSet[Any] = weakref.WeakSet()


def performing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``StaticFunction._perform_call`` on the IPU, while a strategy is registered."""

    @functools.wraps(original)
    def perform_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = registration.current()
        if strategy is None:
            return original(self, *args, **kwargs)
        return _call(self, strategy, args, kwargs)

    return perform_call


def _call(function: Any, strategy: Any, args: Any, kwargs: Any) -> Any:
    import paddle

    optimizer = getattr(strategy, "_optimizer", None)
    if optimizer is not None and paddle.is_grad_enabled() and function._is_train_mode():
        return train(function, strategy, optimizer, args, kwargs)
    return evaluate(function, strategy, args, kwargs)


def train(function: Any, strategy: Any, optimizer: Any, args: Any, kwargs: Any) -> Any:
    """Forward, backward and update of a to_static function; returns what the function returns.

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
    found = _programs(function, strategy).find(
        (called.number, id(optimizer)), lambda: _Trained(strategy, called, optimizer)
    )
    return found(called)


def evaluate(function: Any, strategy: Any, args: Any, kwargs: Any) -> Any:
    """Forward of a to_static function; its results know their backward."""
    import paddle

    called = signature(function, args, kwargs, bool(strategy.enable_fp16))
    found = _programs(function, strategy).find(called.number, lambda: _Evaluated(strategy, called))
    return found(called, paddle.is_grad_enabled())


class _Programs:
    """What was compiled of one function, with the options of one strategy."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self._generation = registration.generation(strategy)
        self._compiled: dict[Any, Any] = {}

    def fits(self, strategy: Any) -> bool:
        """Whether it was compiled with what the strategy says now."""
        same = strategy is self._strategy
        return same and registration.generation(strategy) == self._generation

    def find(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was compiled under a key, while nothing has changed that it depends on."""
        found = self._compiled.get(key)
        if found is None or not found.fits():
            found = self._compiled[key] = make()
        return found

    def trained(self) -> Iterator[str]:
        """Names of the parameters that calls update."""
        for program in self._compiled.values():
            yield from getattr(program, "trained", ())

    def held(self) -> Iterator[str]:
        """Names of the parameters and buffers that calls read."""
        for program in self._compiled.values():
            yield from program.held

    def sync_to_host(self) -> None:
        """Writes what devices have newer into the tensors of dynamic mode."""
        for program in self._compiled.values():
            program.sync_to_host()


def _programs(function: Any, strategy: Any) -> _Programs:
    found = getattr(function, _CACHE, None)
    if found is None or not found.fits(strategy):
        if found is not None:
            found.sync_to_host()
        found = _Programs(strategy)
        setattr(function, _CACHE, found)
        _functions.add(function)
    return found


def _everything_comes_home() -> None:
    for function in list(_functions):
        getattr(function, _CACHE).sync_to_host()
        delattr(function, _CACHE)
    _functions.clear()
    autograd.stepped()


registration.when_it_changes(_everything_comes_home)


def updated_by_calls() -> Iterator[str]:
    """Names of the parameters that calls of layers update, of all that are compiled."""
    for function in list(_functions):
        yield from getattr(function, _CACHE).trained()


def held_by_layers() -> set[str]:
    """Names of the parameters and buffers that layers on the IPU have, of all that are compiled."""
    return {name for function in list(_functions) for name in getattr(function, _CACHE).held()}


class _Trained:
    """A layer with the optimizer's step in it: one call is forward, backward and update."""

    def __init__(self, strategy: Any, called: Signature, optimizer: Any) -> None:
        values = strategy._ipu_strategy.snapshot()
        self._trace = trace(called.divided(_micro_batches(values)))
        # What the layer itself has of variables, before the optimizer's are added.
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
        return self._program.is_alive and self._flags.hold()

    def sync_to_host(self) -> None:
        self._program.sync_to_host()

    def __call__(self, called: Signature) -> Any:
        arrays = self._program.run(arrays_of(called.feeds), self._fetches)
        outputs = {name: arrays[name] for name in self._outputs}
        results = trained_outputs(outputs, self._loss, self.trained)
        return self._trace.restore(results)


def _is_scheduled(optimizer: Any) -> bool:
    return not isinstance(optimizer._learning_rate, float)


class _Evaluated:
    """A layer alone; its gradients are computed when somebody asks for them."""

    def __init__(self, strategy: Any, called: Signature) -> None:
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
        return self._forward.is_alive and self._flags.hold()

    def sync_to_host(self) -> None:
        """There is nothing on the device that the layer's tensors have not."""

    def __call__(self, called: Signature, learns: bool) -> Any:
        fed = {
            name: tensor
            for name, tensor in called.feeds.items()
            if learns and not getattr(tensor, "stop_gradient", True)
        }
        inputs = [*fed.values(), *(self._trainable if learns else ())]
        feeds = arrays_of(called.feeds)
        with drawn_again() as draw_again:
            arrays = self._forward.run(feeds)

        then, weights = host_writes.version(), [tensor.name for tensor in self._trainable]

        def gradients_of(given: Mapping[str, Array]) -> list[Array | None]:
            if host_writes.since(then, weights):
                raise InvalidProgramError(
                    "backward() came after the layer's parameters were written, so its gradients "
                    "would not be those of the call. Call backward() before optimizer.step()."
                )
            with draw_again():
                of_results = [given.get(name) for name in arrays]
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
    """Which tensors of a layer are trained, and of what type: another answer is another program."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = list(tensors.values())
        self._then = self._now()

    def _now(self) -> list[Any]:
        return [(tensor.stop_gradient, tensor.dtype) for tensor in self._tensors]

    def hold(self) -> bool:
        return self._now() == self._then


def _micro_batches(values: Any) -> int:
    return int(np.prod(list(axes_of(values).values()), dtype=np.int64))
