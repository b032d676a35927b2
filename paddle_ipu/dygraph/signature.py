"""What a call of a to_static layer is: its feeds, and the key of the program that answers it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paddle_ipu.errors import FeedError


@dataclass(frozen=True, slots=True)
class Signature:
    """One call.

    Attributes:
        key: Paddle's cache key, its input specs with the shapes of this call.
        feeds: feed name -> the tensor, or array, of this call.
        training: the layer is in training mode.
        number: of programs with other inputs, modes or training flags; equal where one program
            answers both calls.
    """

    key: Any
    feeds: Mapping[str, Any]
    training: bool
    number: int

    def divided(self, micro_batches: int) -> Any:
        """Paddle's cache key for one of so many micro-batches.

        Raises:
            FeedError: an input has a number of rows that cannot be divided.
        """
        if micro_batches == 1:
            return self.key
        key = copy.copy(self.key)
        key.input_args_with_spec = _map(self.key.input_args_with_spec, micro_batches)
        key.input_kwargs_with_spec = _map(self.key.input_kwargs_with_spec, micro_batches)
        return key


def signature(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], half: bool
) -> Signature:
    """The signature of a call of Paddle's ``StaticFunction``.

    Args:
        function: the to_static function, or a layer's method.
        args: without ``self``.
        half: the strategy converts to half, so half inputs of a layer in float32 are fine.
    """
    import paddle
    from paddle.jit.dy2static.program_translator import CacheKey

    spec = function._function_spec
    args, kwargs = spec.unified_args_and_kwargs(args, kwargs)
    arg_specs, kwarg_specs = spec.args_to_input_spec(args, kwargs)
    feeds: dict[str, Any] = {}

    def bound(specs: Any, values: Any) -> Any:
        found = paddle.utils.flatten(specs)
        given = paddle.utils.flatten(values)
        return paddle.utils.pack_sequence_as(
            specs, [_bound(s, v, feeds, half) for s, v in zip(found, given, strict=True)]
        )

    arg_specs, kwarg_specs = bound(arg_specs, args), bound(kwarg_specs, dict(kwargs))
    # Paddle 2.6 keeps the layer itself there.
    layer = getattr(function, "class_instance", function._class_instance)
    training = function._is_train_mode()
    key = CacheKey(
        spec, arg_specs, kwarg_specs, layer, **function._kwargs, with_hook=False, is_train=training
    )
    modes: tuple[bool, ...] = ()
    if isinstance(layer, paddle.nn.Layer):
        modes = tuple(part.training for part in layer.sublayers(include_self=True))
    return Signature(key, feeds, training, hash((hash(key), modes)))


def _bound(spec: Any, value: Any, feeds: dict[str, Any], half: bool) -> Any:
    """An input spec with the shape of this call's tensor."""
    from paddle.static import InputSpec

    if not isinstance(spec, InputSpec):
        return spec
    found = copy.copy(spec)
    found.shape = tuple(int(dim) for dim in value.shape)
    if half and str(found.dtype).rpartition(".")[2].upper() in ("FLOAT16", "FP16"):
        # PIR builds nothing in half on the CPU; the strategy converts the program.
        found.dtype = InputSpec((), "float32").dtype
    # An array has none.
    found.stop_gradient = bool(getattr(value, "stop_gradient", True))
    feeds[str(found.name)] = value
    return found


def _map(specs: Any, micro_batches: int) -> Any:
    import paddle

    return paddle.utils.pack_sequence_as(
        specs, [_divided(spec, micro_batches) for spec in paddle.utils.flatten(specs)]
    )


def _divided(spec: Any, micro_batches: int) -> Any:
    from paddle.static import InputSpec

    if not isinstance(spec, InputSpec):
        return spec
    if not spec.shape or spec.shape[0] % micro_batches:
        raise FeedError(
            f"input {spec.name!r} has the shape {list(spec.shape)}, whose rows do not divide into "
            f"{micro_batches} micro-batches. A call takes the rows of a whole step: pass a "
            "multiple of batches_per_step x accumulation_factor x replicated_graph_count."
        )
    found = copy.copy(spec)
    found.shape = (spec.shape[0] // micro_batches, *spec.shape[1:])
    return found
