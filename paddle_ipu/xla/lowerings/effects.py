"""Lowerings of operators with an effect: print, stop the program, write a variable."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.xla.lowerings.arrays import Constant, Inputs
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering

ABORTED = "Abort Program"
"""What the error of a stopped run says."""

_FIXED, _SCIENTIFIC, _NO_FLOATS = 1, 2, 3


@lowering("ai.graphcore", "Abort", effect=True)
def abort(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> tuple[()]:
    """Stops the run: always, or where the condition is true."""
    jax.debug.callback(_stop, jnp.asarray(inputs[0] if inputs else True))
    return ()


def _stop(condition: Constant) -> None:
    if condition.any():
        raise popart_runtime_error(ABORTED)


def _element(attributes: Attributes, values: Constant) -> Callable[[Constant], str]:
    """How one element is written: ``digits`` significant ones, in the ``floatFormat`` chosen."""
    if values.dtype.kind != "f":
        return str
    digits, form = int(attributes.get("digits", 8)), int(attributes.get("floatFormat", 0))
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    wide = finite.size > 0 and (finite.max() >= 10**digits or finite.min() < 1e-4)
    if form == _SCIENTIFIC or (form != _FIXED and form != _NO_FLOATS and wide):
        return lambda value: f"{value:.{digits - 1}e}"
    return lambda value: f"{value:.{0 if form == _NO_FLOATS else digits - 1}f}"


def text_of(values: Constant, attributes: Attributes) -> str:
    """An array in brackets, one row a line, long axes cut to their edges."""
    separator = str(attributes.get("separator", " "))
    brackets = (str(attributes.get("openBracket", "[")), str(attributes.get("closeBracket", "]")))
    threshold = int(attributes.get("summariseThreshold", 1000))
    edge = int(attributes.get("edgeItems", 3)) if values.size > threshold else values.size
    write = _element(attributes, values)
    shown = [slice(0, size) for size in values.shape]
    width = max((len(write(value)) for value in values[tuple(shown)].reshape(-1)), default=0)

    def lines(part: Constant, depth: int) -> str:
        if part.ndim == 0:
            return write(part[()]).rjust(width)
        size = len(part)
        rows: list[int | None] = list(range(size))
        if size > 2 * edge:
            rows = [*rows[:edge], None, *rows[-edge:]]
        written = ["..." if row is None else lines(part[row], depth + 1) for row in rows]
        between = separator if part.ndim == 1 else separator.rstrip(" ") + "\n" + " " * (depth + 1)
        return brackets[0] + between.join(written) + brackets[1]

    return lines(values, 0).strip()


def _print(title: str, attributes: Attributes, values: Array) -> None:
    sys.stderr.write(f"{title}: {text_of(np.asarray(values), attributes)}\n")
    sys.stderr.flush()


@lowering("ai.graphcore", "PrintTensor", effect=True)
def print_tensor(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor itself, written to the standard error; its gradient too in training.

    A line is ``title: values``. Without ``title`` it is the tensor's id, that of the gradient with
    ``Gradient___`` before it; the gradient under a title is ``title_gradient``.
    """
    title, source = str(attributes.get("title", "")), str(context.input_ids[0])
    of_value = title or source
    of_gradient = f"{title}_gradient" if title else f"Gradient___{source}"
    show = functools.partial(_print, of_value, attributes)
    show_gradient = functools.partial(_print, of_gradient, attributes)
    x = jnp.asarray(inputs[0])
    jax.debug.callback(show, x)
    if not context.training or not attributes.get("print_gradient", 1):
        return x

    @jax.custom_vjp
    def shown(value: jax.Array) -> jax.Array:
        return value

    def backward(_: None, gradient: jax.Array) -> tuple[jax.Array]:
        jax.debug.callback(show_gradient, gradient)
        return (gradient,)

    shown.defvjp(lambda value: (value, None), backward)
    printed: jax.Array = shown(x)
    return printed


@lowering("ai.graphcore", "CopyVarUpdate")
def copy_var_update(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
    """The updater, which the step keeps as the variable's value (``LoweredGraph.writes``)."""
    return lax.stop_gradient(inputs[1])
