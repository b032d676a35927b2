"""How results of the IPU take part in dynamic mode's backward."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.autograd import PyLayer

from paddle_ipu.errors import InvalidProgramError

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.autograd import PyLayerContext

Array = np.ndarray[Any, Any]

_unstepped: set[str] = set()
"""Parameters whose calls had ``backward()`` since ``optimizer.step()`` of their optimizer."""


def tensor_of(array: Array) -> Tensor:
    """A result as a tensor of dynamic mode."""
    if array.dtype == np.uint16:
        return paddle.to_tensor(array).view("bfloat16")
    return paddle.to_tensor(array, place=paddle.CPUPlace())


def note_optimizer_step() -> None:
    """Notes an ``optimizer.step()``, after which gradients are accumulated from zero."""
    _unstepped.clear()


def trained_outputs(
    arrays: Mapping[str, Array], loss: str, trained: Collection[str]
) -> dict[str, Tensor]:
    """Tensors of a call that has trained the layer already.

    ``backward()`` of the loss does nothing. It raises for anything else than the loss, since the
    layer was updated by the gradient of the loss itself, and where it would add to the gradients of
    an earlier call.

    Args:
        arrays: name -> result.
        loss: name of the one that is the loss.
        trained: the parameters that the call updated.
    """
    token = paddle.zeros([1], "float32")
    token.stop_gradient = False

    def backward(gradients: Mapping[str, Array]) -> list[Tensor]:
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
    inputs: Sequence[Tensor],
    gradients_of: Callable[[Mapping[str, Array]], Sequence[Array | None]],
) -> dict[str, Tensor]:
    """Tensors of a call whose gradients are computed by ``backward()``.

    Args:
        arrays: name -> result.
        inputs: the tensors that gradients flow to.
        gradients_of: computes the gradient of each input from those of the results, by name.
    """

    def backward(gradients: Mapping[str, Array]) -> list[Tensor | None]:
        return [None if a is None else tensor_of(a) for a in gradients_of(gradients)]

    return _attached(arrays, inputs, backward)


def _attached(
    arrays: Mapping[str, Array],
    inputs: Sequence[Tensor],
    backward: Callable[[Mapping[str, Array]], Sequence[Tensor | None]],
) -> dict[str, Tensor]:
    tensors = {name: tensor_of(array) for name, array in arrays.items()}
    floats = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    if floats and inputs:
        attached = IpuResults.apply(*inputs, results=floats, act=backward)
        tensors.update(zip(floats, attached, strict=True))
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


class IpuResults(PyLayer):  # type: ignore[misc]
    """The node of Paddle's autograd graph that has results of the IPU as outputs."""

    @staticmethod
    def forward(
        ctx: PyLayerContext,
        *inputs: Tensor,
        results: Mapping[str, Tensor],
        act: Callable[[Mapping[str, Array]], Sequence[Tensor | None]],
    ) -> tuple[Tensor, ...]:
        """Returns the results; ``act`` computes the gradients of the inputs."""
        ctx.set_materialize_grads(False)
        ctx.names, ctx.act = list(results), act
        return tuple(results.values())

    @staticmethod
    def backward(
        ctx: PyLayerContext, *gradients: Tensor | None
    ) -> Tensor | tuple[Tensor | None, ...] | None:
        """The gradients of the inputs from those of the results."""
        of_results = {
            name: gradient.numpy()
            for name, gradient in zip(ctx.names, gradients, strict=True)
            if gradient is not None
        }
        of_inputs = tuple(ctx.act(of_results))
        return of_inputs if len(of_inputs) > 1 else of_inputs[0]
