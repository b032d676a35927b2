"""``paddle.Model`` on the IPU, while a strategy is registered.

A training batch is one program: network, losses, backward and update. Paddle's own method then
runs with a network and a loss that return these results, and computes the metrics.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import paddle
from paddle.jit.dy2static.convert_call_func import convert_call

from paddle_ipu.dygraph import dispatch, registration
from paddle_ipu.errors import NotSupported

if TYPE_CHECKING:
    import numpy.typing as npt
    from paddle import Model, Tensor
    from paddle.hapi.model import DynamicGraphAdapter
    from paddle.jit.dy2static.program_translator import StaticFunction
    from paddle.nn import Layer

    Data: TypeAlias = Tensor | npt.ArrayLike
    Loss: TypeAlias = Callable[..., Tensor | Sequence[Tensor]]


def training(original: Callable[..., Any]) -> Callable[..., Any]:
    """``DynamicGraphAdapter.train_batch`` with one call of a program."""

    @functools.wraps(original)
    def train_batch(
        self: DynamicGraphAdapter,
        inputs: Data | Sequence[Data],
        labels: Data | Sequence[Data] | None = None,
        update: bool = True,
    ) -> object:
        strategy, model = registration.current(), self.model
        if strategy is None or not model._optimizer:
            return original(self, inputs, labels, update)
        _check(self, update)
        model.network.train()
        function = _steps(model).of_training
        args = [_tensors(inputs), _tensors(labels)]
        outputs, losses, _ = dispatch.train(function, strategy, model._optimizer, args, {})
        with _computed(model, outputs, losses):
            return original(self, inputs, labels, update)

    return train_batch


def evaluating(original: Callable[..., Any]) -> Callable[..., Any]:
    """``eval_batch`` or ``predict_batch`` of ``DynamicGraphAdapter``, the network on the IPU."""

    @functools.wraps(original)
    def batch(
        self: DynamicGraphAdapter, inputs: Data | Sequence[Data], *labels: Any, **keywords: Any
    ) -> object:
        strategy, model = registration.current(), self.model
        if strategy is None:
            return original(self, inputs, *labels, **keywords)
        model.network.eval()
        with paddle.no_grad():
            function = _steps(model).of_network
            outputs = dispatch.evaluate(function, strategy, [_tensors(inputs)], {})
        with _computed(model, outputs, None):
            return original(self, inputs, *labels, **keywords)

    return batch


def unwrapping(original: Callable[..., Any]) -> Callable[..., Any]:
    """``extract_args``, by which ``paddle.Model`` looks at a network, for a converted one."""

    @functools.wraps(original)
    def extract_args(func: Callable[..., Any]) -> list[str]:
        function = getattr(func, "dygraph_function", func)
        # Paddle 3.0 binds the method of a converted layer by an object without arguments.
        return list(original(getattr(function, "__func__", function)))

    return extract_args


def _check(adapter: DynamicGraphAdapter, update: bool) -> None:
    if adapter._amp_level != "O0":
        raise NotSupported(
            "paddle.Model.prepare(amp_configs=...) has no effect on the IPU. Leave it out; "
            "ipu_strategy.set_precision_config(enable_fp16=True) computes in half."
        )
    if not update:
        raise NotSupported(
            "a batch on the IPU is forward, backward and update in one, so "
            "accumulate_grad_batches and train_batch(update=False) are not supported. Set the "
            "strategy's enable_gradient_accumulation and accumulation_factor, and feed as many "
            "micro-batches at once."
        )


def _tensors(data: Data | Sequence[Data] | None) -> list[Tensor]:
    if data is None:
        return []
    items = _listed(data)
    return [item if isinstance(item, paddle.Tensor) else paddle.to_tensor(item) for item in items]


def _listed(items: Any) -> list[Any]:
    return list(items) if isinstance(items, (list, tuple)) else [items]


class _Steps:
    """A network, alone and with its losses, as to_static functions."""

    def __init__(self, network: Layer, loss: Loss) -> None:
        self.network, self.loss = weakref.ref(network), loss
        # The functions hold the network, and are dropped with the Model.
        self.of_network = _function(_network_layer(network), "outputs")
        self.of_training = _function(_network_layer(network, loss), "step")


def _steps(model: Model) -> _Steps:
    steps: _Steps | None = getattr(model, "_paddle_ipu_steps", None)
    if steps is None or steps.network() is not model.network or steps.loss is not model._loss:
        steps = model._paddle_ipu_steps = _Steps(model.network, model._loss)
    return steps


def _network_layer(network: Layer, loss: Loss | None = None) -> Layer:
    """A layer around the network of a Model, and around its loss."""

    class NetworkOfModel(paddle.nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            if isinstance(loss, paddle.nn.Layer):
                self.loss = loss

        def outputs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
            return _outputs(self.network, inputs)

        def step(
            self, inputs: Sequence[Tensor], labels: Sequence[Tensor]
        ) -> tuple[list[Tensor], list[Tensor], Tensor]:
            outputs = _outputs(self.network, inputs)
            losses = _listed(convert_call(loss)(*outputs, *labels))
            # Paddle differentiates one loss of one element.
            total = paddle.add_n([paddle.sum(part) for part in losses])
            return outputs, losses, paddle.incubate.identity_loss(total, "none")

    for method in (NetworkOfModel.outputs, NetworkOfModel.step):
        # They have no control flow that Paddle would rewrite.
        paddle.jit.not_to_static(method)
    return NetworkOfModel()


def _outputs(network: Layer, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Traces a call of a network, and restores its ``forward``.

    Paddle 2.6 replaces it by the converted one, which `paddle.jit.save` would bind once more.
    """
    own = vars(network).get("forward")
    try:
        return _listed(convert_call(network)(*inputs))
    finally:
        vars(network).pop("forward", None)
        if own is not None:
            vars(network)["forward"] = own


def _function(layer: Layer, method: str) -> StaticFunction:
    function = paddle.jit.to_static(getattr(layer, method), full_graph=True)
    function._paddle_ipu_layer = layer
    return function


@contextmanager
def _computed(
    model: Model, outputs: Sequence[Tensor], losses: Sequence[Tensor] | None
) -> Iterator[None]:
    """Within, the network of a Model returns `outputs`, and its loss `losses`."""
    network, loss = model.network, model._loss
    model.network = _ComputedNetwork(network, outputs)
    if losses is not None:
        model._loss = lambda *_: [part.detach() for part in losses]
    try:
        yield
    finally:
        model.network, model._loss = network, loss


class _ComputedNetwork:
    """A network whose outputs are computed already."""

    def __init__(self, network: Layer, outputs: Sequence[Tensor]) -> None:
        self._network = network
        self._outputs = [output.detach() for output in outputs]

    def __call__(self, *inputs: Tensor) -> Tensor | list[Tensor]:
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)
