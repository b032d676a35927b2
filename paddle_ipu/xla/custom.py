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
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering

Kind = tuple[tuple[int, ...], ir.DataType]

_WIDE = {ir.DataType.FLOAT16: np.float32, ir.DataType.BFLOAT16: np.float32,
         ir.DataType.DOUBLE: np.float32, ir.DataType.INT64: np.int32}  # fmt: skip


def register_function(
    domain: str, op_type: str, forward: Callable[..., Any], backward: Callable[..., Any] | None
) -> None:
    """Makes a user's function the lowering of a custom operator."""

    @lowering(domain, op_type)
    def custom(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        plain = _plain(attributes)
        arrays = [None if item is None else jnp.asarray(item) for item in inputs]
        if backward is None:
            return forward(*arrays, **plain)
        return _with_derivative(context, forward, backward, plain)(*arrays)


def result_kinds(
    name: str,
    forward: Callable[..., Any],
    kinds: Sequence[Kind | None],
    attributes: Mapping[str, Any],
) -> list[Kind]:
    """(shape, dtype) of each result of a user's function.

    Raises:
        LoweringError: the function failed.
    """
    specs = [None if kind is None else _spec(*kind) for kind in kinds]
    try:
        found = jax.eval_shape(lambda *inputs: forward(*inputs, **_plain(attributes)), *specs)
    except Exception as error:
        given = ", ".join(str(spec) for spec in specs)
        raise LoweringError(
            f"custom operator {name}: the function given to register_custom_op failed for inputs "
            f"({given}) and attributes {_plain(attributes)}: {error}"
        ) from error
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    half = next((k[1] for k in kinds if k is not None and k[1] in _HALF), None)
    return [
        (
            tuple(result.shape),
            half if half and result.dtype == np.float32 else ir.DataType.from_numpy(result.dtype),
        )
        for result in results
    ]


def _spec(shape: tuple[int, ...], dtype: ir.DataType) -> jax.ShapeDtypeStruct:
    on_device = _WIDE.get(dtype, dtype.numpy())
    return jax.ShapeDtypeStruct(shape, on_device)  # type: ignore[no-untyped-call]


_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not name.startswith("__")}


def _with_derivative(
    context: LoweringContext,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    attributes: Mapping[str, Any],
) -> Callable[..., Any]:
    @jax.custom_vjp
    def run(*inputs: Any) -> Any:
        return forward(*inputs, **attributes)

    def with_residuals(*inputs: Any) -> Any:
        outputs = run(*inputs)
        return outputs, (inputs, outputs)

    def derivative(residuals: Any, gradients: Any) -> Any:
        inputs, outputs = residuals
        many = isinstance(outputs, (tuple, list))
        found = backward(
            inputs,
            tuple(outputs) if many else (outputs,),
            tuple(gradients) if many else (gradients,),
            **attributes,
        )
        given = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(given) != len(inputs):
            raise LoweringError(
                f"custom operator {context.domain}.{context.op_type} ({context.name}): backward "
                f"gave {len(given)} gradient(s) for {len(inputs)} input(s); give one for each, "
                "None for an input that has none."
            )
        return tuple(_gradient_of(item, array) for item, array in zip(given, inputs, strict=True))

    run.defvjp(with_residuals, derivative)
    return run


def _gradient_of(gradient: Any, array: Any) -> Any:
    if array is None:
        return None
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return np.zeros(array.shape, dtypes.float0)
    return jnp.zeros_like(array) if gradient is None else gradient
