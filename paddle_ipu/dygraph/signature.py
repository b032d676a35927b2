"""A call of a to_static layer: its feeds, and the key of the program that computes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.jit.dy2static.program_translator import CacheKey
from paddle.static import InputSpec

from paddle_ipu.errors import FeedError

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.jit.dy2static.program_translator import StaticFunction

Array = np.ndarray[Any, Any]

Leaf = Any
"""An argument that is no container: a tensor, an array, an input spec, or any other object."""
Nested = Any
"""Leaves in lists, tuples and dicts."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One call.

    Attributes:
        key: Paddle's cache key, its input specs with the shapes of this call.
        feeds: feed name -> the tensor, or array, of this call.
        training: the layer is in training mode.
        number: a hash of what a program depends on: inputs, modes and training flags.
    """

    key: CacheKey
    feeds: Mapping[str, Tensor | Array]
    training: bool
    number: int

    def divided(self, micro_batches: int) -> CacheKey:
        """Paddle's cache key for one of so many micro-batches.

        Raises:
            FeedError: an input has a number of rows that cannot be divided.
        """
        if micro_batches == 1:
            return self.key
        key = copy.copy(self.key)
        key.input_args_with_spec = _divided_all(self.key.input_args_with_spec, micro_batches)
        key.input_kwargs_with_spec = _divided_all(self.key.input_kwargs_with_spec, micro_batches)
        return key


def signature(
    function: StaticFunction, args: Sequence[Any], kwargs: Mapping[str, Any], half: bool
) -> Signature:
    """The signature of a call of Paddle's ``StaticFunction``.

    Args:
        function: the to_static function, or a layer's method.
        args: without ``self``.
        half: the strategy converts to half, so half inputs of a layer in float32 are fine.
    """
    spec = function._function_spec
    args, kwargs = spec.unified_args_and_kwargs(args, kwargs)
    arg_specs, kwarg_specs = spec.args_to_input_spec(args, kwargs)
    feeds: dict[str, Tensor | Array] = {}

    def bound(specs: Nested, values: Nested) -> Nested:
        pairs = zip(paddle.utils.flatten(specs), paddle.utils.flatten(values), strict=True)
        return paddle.utils.pack_sequence_as(specs, [_bound(*pair, feeds, half) for pair in pairs])

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


def _bound(spec: Leaf, value: Leaf, feeds: dict[str, Tensor | Array], half: bool) -> Leaf:
    """An input spec with the shape of this call's tensor."""
    if not isinstance(spec, InputSpec):
        return spec
    bound = copy.copy(spec)
    bound.shape = tuple(int(dim) for dim in value.shape)
    if half and str(bound.dtype).rpartition(".")[2].upper() in ("FLOAT16", "FP16"):
        # PIR builds nothing in half on the CPU; the strategy converts the program.
        bound.dtype = InputSpec((), "float32").dtype
    # An array has none.
    bound.stop_gradient = bool(getattr(value, "stop_gradient", True))
    feeds[str(bound.name)] = value
    return bound


def _divided_all(specs: Nested, micro_batches: int) -> Nested:
    return paddle.utils.pack_sequence_as(
        specs, [_divided(spec, micro_batches) for spec in paddle.utils.flatten(specs)]
    )


def _divided(spec: Leaf, micro_batches: int) -> Leaf:
    if not isinstance(spec, InputSpec):
        return spec
    if not spec.shape or spec.shape[0] % micro_batches:
        raise FeedError(
            f"input {spec.name!r} has the shape {list(spec.shape)}, whose rows do not divide into "
            f"{micro_batches} micro-batches. A call takes the rows of a whole step: pass a "
            "multiple of batches_per_step x accumulation_factor x replicated_graph_count."
        )
    divided = copy.copy(spec)
    divided.shape = (spec.shape[0] // micro_batches, *spec.shape[1:])
    return divided
