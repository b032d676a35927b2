"""``paddle.Model`` on the IPU: what its batches of dynamic mode do while a strategy is registered.

A training batch is one program: network, losses, backward and update. Paddle's own method then
finds the results ready, and computes metrics and what it returns of them.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paddle_ipu.dygraph import dispatch, registration
from paddle_ipu.errors import NotSupported


def training(original: Callable[..., Any]) -> Callable[..., Any]:
    """``DynamicGraphAdapter.train_batch`` with one call of a program."""

    @functools.wraps(original)
    def train_batch(self: Any, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        strategy, model = registration.current(), self.model
        if strategy is None or not model._optimizer:
            return original(self, inputs, labels, update)
        _check(self, update)
        model.network.train()
        function = _steps(model).of_training
        given = [_tensors(inputs), _tensors(labels)]
        outputs, losses, _ = dispatch.train(function, strategy, model._optimizer, given, {})
        with _ready(model, outputs, losses):
            return original(self, inputs, labels, update)

    return train_batch


def evaluating(original: Callable[..., Any]) -> Callable[..., Any]:
    """``eval_batch`` or ``predict_batch`` of ``DynamicGraphAdapter``, the network on the IPU."""

    @functools.wraps(original)
    def batch(self: Any, inputs: Any, *labels: Any, **keywords: Any) -> Any:
        import paddle

        strategy, model = registration.current(), self.model
        if strategy is None:
            return original(self, inputs, *labels, **keywords)
        model.network.eval()
        with paddle.no_grad():
            function = _steps(model).of_network
            outputs = dispatch.evaluate(function, strategy, [_tensors(inputs)], {})
        with _ready(model, outputs, None):
            return original(self, inputs, *labels, **keywords)

    return batch


def unwrapping(original: Callable[..., Any]) -> Callable[..., Any]:
    """``extract_args``, by which ``paddle.Model`` looks at a network, for a converted one."""

    @functools.wraps(original)
    def extract_args(func: Any) -> Any:
        found = getattr(func, "dygraph_function", func)
        # Where Paddle 3.0 has converted a layer, its method is an object that says nothing of it.
        return original(getattr(found, "__func__", found))

    return extract_args


def _check(adapter: Any, update: bool) -> None:
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


def _tensors(given: Any) -> list[Any]:
    import paddle

    if given is None:
        return []
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    return [item if isinstance(item, paddle.Tensor) else paddle.to_tensor(item) for item in items]


def _listed(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


class _Steps:
    """A network, alone and with its losses, as to_static functions."""

    def __init__(self, network: Any, loss: Any) -> None:
        self.network, self.loss = weakref.ref(network), loss
        # The functions hold the network, and are dropped with the Model.
        self.of_network = _function(_network_layer(network), "outputs")
        self.of_training = _function(_network_layer(network, loss), "step")


def _steps(model: Any) -> _Steps:
    found = getattr(model, "_paddle_ipu_steps", None)
    if found is None or found.network() is not model.network or found.loss is not model._loss:
        found = model._paddle_ipu_steps = _Steps(model.network, model._loss)
    return found


def _network_layer(network: Any, loss: Any = None) -> Any:
    """A layer around the network of a Model, and around its loss."""
    import paddle
    from paddle.jit.dy2static.convert_call_func import convert_call

    class NetworkOfModel(paddle.nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            if isinstance(loss, paddle.nn.Layer):
                self.loss = loss

        def outputs(self, inputs: Sequence[Any]) -> list[Any]:
            return _outputs(self.network, inputs)

        def step(self, inputs: Sequence[Any], labels: Sequence[Any]) -> Any:
            outputs = _outputs(self.network, inputs)
            losses = _listed(convert_call(loss)(*outputs, *labels))
            # Paddle differentiates the sum, which has to be of one element each.
            total = paddle.add_n([paddle.sum(part) for part in losses])
            return outputs, losses, paddle.incubate.identity_loss(total, "none")

    for method in (NetworkOfModel.outputs, NetworkOfModel.step):
        # There is nothing in them that Paddle would have to rewrite.
        paddle.jit.not_to_static(method)
    return NetworkOfModel()


def _outputs(network: Any, inputs: Sequence[Any]) -> list[Any]:
    """Traces a call of a network, and leaves its ``forward`` as it was.

    Paddle 2.6 puts the converted one in its place, to which `paddle.jit.save` would bind it again.
    """
    from paddle.jit.dy2static.convert_call_func import convert_call

    own = vars(network).get("forward")
    try:
        return _listed(convert_call(network)(*inputs))
    finally:
        vars(network).pop("forward", None)
        if own is not None:
            vars(network)["forward"] = own


def _function(layer: Any, method: str) -> Any:
    import paddle

    function = paddle.jit.to_static(getattr(layer, method), full_graph=True)
    function._paddle_ipu_layer = layer
    return function


@contextmanager
def _ready(model: Any, outputs: Any, losses: Any) -> Iterator[None]:
    """Within, the network of a Model returns `outputs`, and its loss `losses`."""
    network, loss = model.network, model._loss
    model.network = _Ready(network, outputs)
    if losses is not None:
        model._loss = lambda *_: [part.detach() for part in losses]
    try:
        yield
    finally:
        model.network, model._loss = network, loss


class _Ready:
    """A network that has computed already."""

    def __init__(self, network: Any, outputs: Sequence[Any]) -> None:
        self._network = network
        self._outputs = [output.detach() for output in outputs]

    def __call__(self, *inputs: Any) -> Any:
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)
