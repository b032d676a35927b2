"""Lowering of operators that run on Paddle's CPU kernels: a call of the host within the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.operators.paddle_kernel import result_kind
from paddle_ipu.xla.lowerings.node_values import is_float
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@lowering("ai.paddle_ipu", "CpuKernel")
def cpu_kernel(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The results of the host's kernel; gradients come from the kernel's ``backward``.

    Raises:
        LoweringError: the program came from a file, which has no kernel.
    """
    kernel = context.kernel
    if kernel is None:
        raise LoweringError(
            f"{context.name}: operator {attributes['operator']} runs on a CPU kernel of the "
            "process that compiled the program; a program read from a file has none. Compile the "
            "Paddle program with cpu_fallback here."
        )
    kinds = [result_kind(text) for text in attributes["results"]]
    specs = tuple(_spec(dtype, shape, context.in_64_bits) for dtype, shape in kinds)

    def on_host(*operands: Any) -> tuple[np.ndarray[Any, Any], ...]:
        results = kernel.forward(*operands)
        return tuple(_fitted(array, spec) for array, spec in zip(results, specs, strict=True))

    @jax.custom_vjp
    def run(*operands: Any) -> Any:
        return jax.pure_callback(on_host, specs, *operands)

    def forward(*operands: Any) -> Any:
        kernel.gradient_program()
        return run(*operands), operands

    def backward(operands: Any, gradients: Any) -> Any:
        floating = [operand for operand in operands if is_float(operand)]
        given = [g for g, spec in zip(gradients, specs, strict=True) if is_float(spec)]
        found = iter(
            jax.pure_callback(
                kernel.backward,
                tuple(_spec(str(x.dtype), x.shape) for x in floating),
                list(operands),
                given,
            )
        )
        return tuple(
            next(found) if is_float(operand) else np.zeros(operand.shape, dtypes.float0)
            for operand in operands
        )

    run.defvjp(forward, backward)
    return run(*(jnp.asarray(item) for item in inputs))


def _spec(dtype: str, shape: tuple[int, ...], in_64_bits: bool = False) -> jax.ShapeDtypeStruct:
    # Half results are float32 until they are rounded.
    found = "float32" if dtype in ("float16", "bfloat16") else dtype
    if found == "int64" and not in_64_bits:
        found = "int32"
    return jax.ShapeDtypeStruct(shape, np.dtype(found))  # type: ignore[no-untyped-call]


def _fitted(array: np.ndarray[Any, Any], spec: Any) -> np.ndarray[Any, Any]:
    """A result in the step's dtype; int64 that only picks elements saturates, as indices do."""
    if array.dtype == np.int64 and spec.dtype == np.int32:
        limits = np.iinfo(np.int32)
        array = np.clip(array, limits.min, limits.max)
    return array.astype(spec.dtype, copy=False)
