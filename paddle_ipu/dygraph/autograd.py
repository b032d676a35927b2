"""How results of the IPU take part in dynamic mode's backward."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from paddle_ipu.errors import InvalidProgramError

Array = np.ndarray[Any, Any]

_unstepped: set[str] = set()
"""Parameters whose calls had ``backward()`` since ``optimizer.step()`` of their optimizer."""


def tensor_of(array: Array) -> Any:
    """A result as a tensor of dynamic mode."""
    import paddle

    if array.dtype == np.uint16:
        return paddle.to_tensor(array).view("bfloat16")
    return paddle.to_tensor(array, place=paddle.CPUPlace())


def stepped() -> None:
    """Takes notice of ``optimizer.step()``, after which gradients begin anew."""
    _unstepped.clear()


def trained_outputs(
    arrays: Mapping[str, Array], loss: str, trained: Collection[str]
) -> dict[str, Any]:
    """Tensors of a call that has trained the layer already.

    ``backward()`` of the loss finds nothing left to do; of anything else it raises, as the layer
    was updated by the gradient of the loss itself, and where it would add to the gradients of a
    call before.

    Args:
        arrays: name -> result.
        loss: name of the one that is the loss.
        trained: the parameters that the call updated.
    """
    import paddle

    token = paddle.zeros([1], "float32")
    token.stop_gradient = False

    def backward(gradients: Mapping[str, Array]) -> list[Any]:
        for name, array in gradients.items():
            if not np.all(array == (1.0 if name == loss else 0.0)):
                _refuse(name == loss, array)
        if not _unstepped.isdisjoint(trained):
            raise InvalidProgramError(
                "backward() adds to the gradients of an earlier call, with no optimizer.step() "
                "between them, and each call has updated the layer already, as "
                "ipu_strategy.set_optimizer asks for. To accumulate, call ipu_strategy."
                "set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=...) "
                "and give a call the rows of all, or leave out set_optimizer."
            )
        _unstepped.update(trained)
        return [paddle.zeros([1], "float32")]

    return _attached(arrays, [token], backward)


def differentiable_outputs(
    arrays: Mapping[str, Array],
    inputs: Sequence[Any],
    gradients_of: Callable[[Mapping[str, Array]], Sequence[Array | None]],
) -> dict[str, Any]:
    """Tensors of a call whose backward runs when it is asked for.

    Args:
        arrays: name -> result.
        inputs: the tensors that gradients flow to.
        gradients_of: gives those of each input for those of the results, by name.
    """

    def backward(gradients: Mapping[str, Array]) -> list[Any]:
        return [None if a is None else tensor_of(a) for a in gradients_of(gradients)]

    return _attached(arrays, inputs, backward)


def _attached(
    arrays: Mapping[str, Array],
    inputs: Sequence[Any],
    backward: Callable[[Mapping[str, Array]], list[Any]],
) -> dict[str, Any]:
    tensors = {name: tensor_of(array) for name, array in arrays.items()}
    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    if floats and inputs:
        found = _node_class().apply(*inputs, results=floats, act=backward)
        tensors.update(zip(floats, found, strict=True))
    return tensors


def _refuse(is_loss: bool, array: Array) -> None:
    what = (
        f"backward() of the layer's loss has {float(array.reshape(-1)[0])!r} as the gradient of "
        "the loss, which was multiplied by it"
        if is_loss
        else "backward() reached an output of the layer other than its loss"
    )
    raise InvalidProgramError(
        f"{what}, and the call has already updated the layer with the gradient of the loss itself, "
        "as ipu_strategy.set_optimizer asks for. Compute what is to be differentiated in the "
        "layer, or leave out set_optimizer: then backward() and optimizer.step() do the work."
    )


@functools.cache
def _node_class() -> Any:
    """The node in Paddle's graph; Paddle's base class cannot be had before Paddle."""
    from paddle.autograd import PyLayer

    class ResultsOfIpu(PyLayer):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *inputs: Any, results: dict[str, Any], act: Any) -> Any:
            ctx.set_materialize_grads(False)
            ctx.names, ctx.act = list(results), act
            ctx.wanted = [not tensor.stop_gradient for tensor in inputs]
            return tuple(results.values())

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            given = {
                name: gradient.numpy()
                for name, gradient in zip(ctx.names, gradients, strict=True)
                if gradient is not None
            }
            found = ctx.act(given)
            return tuple(found) if len(found) > 1 else found[0]

    return ResultsOfIpu
