"""Custom operators on the IPU Model, defined in Python.

A custom operator of Paddle has a C++ half for the CPU, and for hardware a C++ half for PopART. The
IPU Model takes a function on JAX arrays instead; the derivative is JAX's unless one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from paddle_ipu.errors import LoweringError, OptionError
from paddle_ipu.ops import families  # noqa: F401 - fills the table of translators
from paddle_ipu.ops.registry import find_translator
from paddle_ipu.options.strategy import CustomOp
from paddle_ipu.popart.op_schema import ANY, OpSchema, register
from paddle_ipu.popart.schema import schema_of
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo

Forward = Callable[..., Any]
Backward = Callable[..., Any]

_REGISTERED: dict[str, CustomOp] = {}


def register_custom_op(
    paddle_op: str,
    forward: Forward,
    *,
    backward: Backward | None = None,
    popart_op: str | None = None,
    domain: str = "custom.ops",
    version: int = 1,
) -> None:
    """Defines what a custom operator computes on the IPU Model.

    Args:
        paddle_op: the operator's name in Paddle programs.
        forward: ``forward(*inputs, **attributes) -> output or sequence of outputs`` on JAX arrays,
            a pure function that JAX can trace. Half inputs arrive as float32, 64-bit ones in 32.
        backward: ``backward(inputs, outputs, gradients, **attributes) -> gradients of the inputs``,
            None for one that has none; JAX differentiates `forward` where there is no `backward`.
            `outputs` and `gradients` are tuples; the gradient of a single input may stand alone.
        popart_op: the operator it is in the PopART program, as in ``IpuStrategy.add_custom_op``,
            for a program that the SDK may run too; `paddle_op` where None.
        domain: of `popart_op`.
        version: of `popart_op`.

    Raises:
        OptionError: an empty name, one that is registered already, or that of an operator of PopART
            or of this package; a function that cannot be called.
    """
    for what, name in (("paddle_op", paddle_op), ("popart_op", popart_op), ("domain", domain)):
        if not (isinstance(name, str) and name) and not (what == "popart_op" and name is None):
            raise OptionError(f"register_custom_op: {what} is a name, got {name!r}.")
    for what, function in (("forward", forward), ("backward", backward)):
        if not callable(function) and not (what == "backward" and function is None):
            raise OptionError(
                f"register_custom_op({paddle_op!r}): {what} is a function on JAX arrays, got "
                f"{function!r}."
            )
    if find_translator(paddle_op) is not None:
        raise OptionError(
            f"register_custom_op: {paddle_op!r} is an operator that this package has "
            "(docs/operators.md). Give the custom operator a name of its own."
        )
    custom = CustomOp(paddle_op, popart_op or paddle_op, domain, version)
    if paddle_op in _REGISTERED:
        raise OptionError(
            f"register_custom_op: {paddle_op!r} is registered already, as {_REGISTERED[paddle_op]}."
        )
    if schema_of(domain, custom.popart_op) is not None:
        raise OptionError(
            f"register_custom_op: {domain}.{custom.popart_op} is an operator that the IPU Model "
            f"has. To use it for {paddle_op!r}, map to it: "
            f"ipu_strategy.add_custom_op({paddle_op!r}, {custom.popart_op!r}, {domain!r})."
        )

    def infer(context: InferenceContext) -> list[TensorInfo]:
        kinds = [
            None if info is None else (tuple(info.dims), info.dtype) for info in context.inputs
        ]
        name = f"{domain}.{custom.popart_op}"
        found = _user_operators().result_kinds(name, forward, kinds, context.attributes)
        if len(found) != context.num_outputs:
            raise LoweringError(
                f"custom operator {name}: the function given to register_custom_op gave "
                f"{len(found)} result(s), and the operator has {context.num_outputs}."
            )
        return [TensorInfo(dtype, list(shape)) for shape, dtype in found]

    register(
        OpSchema(
            domain=domain,
            op_type=custom.popart_op,
            builder_name=custom.popart_op.lower(),
            min_inputs=0,
            max_inputs=None,
            outputs=(1, None),
            attributes=MappingProxyType({}),
            input_dtypes=(ANY,),
            constant_inputs=(),
            infer=infer,
            version=version,
        )
    )
    _user_operators().register_function(custom.domain, custom.popart_op, forward, backward)
    _REGISTERED[paddle_op] = custom


def _user_operators() -> ModuleType:
    # It imports JAX, which predictions do not need.
    from paddle_ipu.xla.step import user_operators

    return user_operators


def registered_custom_ops() -> Mapping[str, CustomOp]:
    """Paddle operator -> the PopART operator of its registered function."""
    return MappingProxyType(_REGISTERED)


def known_custom_ops(mapped: Mapping[str, CustomOp]) -> dict[str, CustomOp]:
    """The custom operators that the IPU Model can run.

    Args:
        mapped: a strategy's mappings, which take precedence over registered functions.
    """
    return {
        name: custom
        for name, custom in {**_REGISTERED, **mapped}.items()
        if schema_of(custom.domain, custom.popart_op) is not None
    }
