"""Custom operators that the user wrote as functions on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import dtypes

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering
from paddle_ipu.xla.precision import half, integers

UserFunction = Callable[..., Any]
"""Of arrays, with attributes by keyword; it gives one array or several."""

Kind = tuple[tuple[int, ...], ir.DataType]


def register_function(
    domain: str, op_type: str, forward: UserFunction, backward: UserFunction | None
) -> None:
    """Makes a user's function the lowering of a custom operator."""

    @lowering(domain, op_type)
    def custom(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        plain = _plain(attributes)
        arrays = [None if item is None else jnp.asarray(item) for item in inputs]
        own = _without_doubles(forward) if context.in_64_bits else forward
        if backward is not None:
            return _with_derivative(context, own, backward, plain)(*arrays)
        if context.training:
            return _with_jax_derivative(context, own, plain)(*arrays)
        return own(*arrays, **plain)


def _without_doubles(forward: UserFunction) -> UserFunction:
    """A function beside integers of 64 bits, where JAX's floats would have as many."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        return jax.tree.map(_in_float32, forward(*inputs, **attributes))

    return run


def _in_float32(result: Any) -> Any:
    return result.astype(np.float32) if getattr(result, "dtype", None) == np.float64 else result


def result_kinds(
    name: str,
    forward: UserFunction,
    kinds: Sequence[Kind | None],
    attributes: Mapping[str, Any],
) -> list[Kind]:
    """(shape, dtype) of each result of a user's function.

    Raises:
        LoweringError: the function failed, or gave something else than arrays.
    """
    specs = [None if kind is None else _spec(*kind) for kind in kinds]
    in_64_bits = any(kind is not None and kind[1] is ir.DataType.INT64 for kind in kinds)
    try:
        with integers.allowed_if(in_64_bits):
            function = _without_doubles(forward)
            returned = jax.eval_shape(
                lambda *inputs: function(*inputs, **_plain(attributes)), *specs
            )
    except Exception as error:
        operands = ", ".join("None" if s is None else f"{s.dtype}{list(s.shape)}" for s in specs)
        raise LoweringError(
            f"custom operator {name}: the function given to register_custom_op failed for inputs "
            f"({operands}) and attributes {_plain(attributes)}: {error}"
        ) from error
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for number, result in enumerate(results):
        if not hasattr(result, "dtype"):
            raise LoweringError(
                f"custom operator {name}: result {number} of the function given to "
                f"register_custom_op is {result!r}, expected an array."
            )
    narrow = next((k[1] for k in kinds if k is not None and k[1] in half.NARROW), None)
    return [
        (
            tuple(result.shape),
            narrow
            if narrow and result.dtype == np.float32
            else ir.DataType.from_numpy(result.dtype),
        )
        for result in results
    ]


def _spec(shape: tuple[int, ...], dtype: ir.DataType) -> jax.ShapeDtypeStruct:
    in_float32 = dtype in half.NARROW or dtype is ir.DataType.DOUBLE
    return jax.ShapeDtypeStruct(shape, np.float32 if in_float32 else dtype.numpy())  # type: ignore[no-untyped-call]


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not name.startswith("__")}


def _with_derivative(
    context: LoweringContext,
    forward: UserFunction,
    backward: UserFunction,
    attributes: Mapping[str, Any],
) -> UserFunction:
    @jax.custom_vjp
    def run(*inputs: Any) -> Any:
        return forward(*inputs, **attributes)

    def with_residuals(*inputs: Any) -> Any:
        outputs = run(*inputs)
        return outputs, (inputs, outputs)

    def derivative(residuals: Any, gradients: Any) -> Any:
        inputs, outputs = residuals
        many = isinstance(outputs, (tuple, list))
        try:
            returned = backward(
                inputs,
                tuple(outputs) if many else (outputs,),
                tuple(gradients) if many else (gradients,),
                **attributes,
            )
        except Exception as error:
            raise LoweringError(
                f"custom operator {context.domain}.{context.op_type}: backward failed; it is "
                f"called as backward(inputs, outputs, gradients, **{attributes}): {error}"
            ) from error
        if returned is None:
            returned = []
        each = returned if isinstance(returned, (tuple, list)) else [returned]
        if len(each) != len(inputs):
            raise LoweringError(
                f"custom operator {context.domain}.{context.op_type}: backward gave {len(each)} "
                f"gradient(s) for {len(inputs)} input(s); give one for each, None for an input "
                "that has none."
            )
        return tuple(
            _gradient_of(context, number, item, array)
            for number, (item, array) in enumerate(zip(each, inputs, strict=True))
        )

    run.defvjp(with_residuals, derivative)
    return run


def _gradient_of(context: LoweringContext, number: int, gradient: Any, array: Any) -> Any:
    if array is None:
        return None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return np.zeros(array.shape, dtypes.float0)
    if gradient is None:
        return jnp.zeros_like(array)
    if np.shape(gradient) != array.shape:
        raise LoweringError(
            f"custom operator {context.domain}.{context.op_type}: the gradient that backward gave "
            f"for input {number} has shape {list(np.shape(gradient))}, expected that of the input, "
            f"{list(array.shape)}."
        )
    return jnp.asarray(gradient, array.dtype)


def _with_jax_derivative(
    context: LoweringContext, forward: UserFunction, attributes: Mapping[str, Any]
) -> UserFunction:
    """A user's function that says whose it is where JAX has no derivative and one is needed."""
    failed: list[Exception] = []

    @jax.custom_vjp
    def run(*inputs: Any) -> Any:
        return forward(*inputs, **attributes)

    def with_pullback(*inputs: Any) -> Any:
        try:
            return jax.vjp(lambda *operands: forward(*operands, **attributes), *inputs)
        except Exception as error:
            # What is only fetched needs none.
            failed.append(error)
            return run(*inputs), None

    def derivative(pullback: Any, gradients: Any) -> Any:
        if pullback is None:
            raise LoweringError(
                f"custom operator {context.domain}.{context.op_type}: JAX cannot differentiate the "
                f"function given to register_custom_op. Give it a backward: {failed[-1]}"
            ) from failed[-1]
        return pullback(gradients)

    run.defvjp(with_pullback, derivative)
    return run
