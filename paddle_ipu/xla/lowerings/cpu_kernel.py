"""Lowering of operators that run on Paddle's CPU kernels: a call of the host within the step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.operators.paddle_kernel import result_kind
from paddle_ipu.xla.lowerings.arrays import Constant, Inputs, Results
from paddle_ipu.xla.lowerings.node_values import is_float
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


@lowering("ai.paddle_ipu", "CpuKernel")
def cpu_kernel(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Results:
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

    def on_host(*operands: Array) -> tuple[Constant, ...]:
        results = kernel.forward(*operands)
        return tuple(_fitted(array, spec) for array, spec in zip(results, specs, strict=True))

    @jax.custom_vjp
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        results: tuple[jax.Array, ...] = jax.pure_callback(on_host, specs, *operands)
        return results

    def forward(
        *operands: jax.Array,
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        kernel.gradient_program()
        return run(*operands), operands

    def backward(
        operands: tuple[jax.Array, ...], gradients: tuple[jax.Array, ...]
    ) -> tuple[Array, ...]:
        floating = [operand for operand in operands if is_float(operand)]
        of_floats = [g for g, spec in zip(gradients, specs, strict=True) if is_float(spec)]
        results = iter(
            jax.pure_callback(
                kernel.backward,
                tuple(_spec(str(x.dtype), x.shape) for x in floating),
                list(operands),
                of_floats,
            )
        )
        return tuple(
            next(results) if is_float(operand) else np.zeros(operand.shape, dtypes.float0)
            for operand in operands
        )

    run.defvjp(forward, backward)
    results: tuple[jax.Array, ...] = run(*(jnp.asarray(item) for item in inputs))
    return results


def _spec(dtype: str, shape: tuple[int, ...], in_64_bits: bool = False) -> jax.ShapeDtypeStruct:
    # Half results are float32 until they are rounded.
    stored = "float32" if dtype in ("float16", "bfloat16") else dtype
    if stored == "int64" and not in_64_bits:
        stored = "int32"
    return jax.ShapeDtypeStruct(shape, np.dtype(stored))  # type: ignore[no-untyped-call]


def _fitted(array: Constant, spec: jax.ShapeDtypeStruct) -> Constant:
    """A result in the step's dtype; int64 saturates as int32, as indices do."""
    if array.dtype == np.int64 and spec.dtype == np.int32:
        limits = np.iinfo(np.int32)
        array = np.clip(array, limits.min, limits.max)
    return array.astype(spec.dtype, copy=False)
