"""A program with another micro-batch or fewer rows, without building it again."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from paddle_ipu.cost_model.program import Operator, Program, Tensor


def with_rows(program: Program, rows: int) -> Program:
    """The same program with micro-batches of `rows` rows.

    What depends on the inputs is scaled in its first dimension that is a multiple of the rows; a
    tensor without one stays as it is. Good for estimates: reshapes to fixed sizes are not seen.
    """
    old = program.rows
    if rows == old:
        return program
    scaled: dict[str, Tensor] = {}

    def resized(tensor: Tensor) -> Tensor:
        known = scaled.get(tensor.name)
        if known is not None:
            return known
        dims = list(tensor.dims)
        for at, dim in enumerate(dims):
            if dim and dim % old == 0:
                dims[at] = dim // old * rows
                break
        scaled[tensor.name] = replace(tensor, dims=tuple(dims), elements=prod(dims))
        return scaled[tensor.name]

    inputs = tuple(resized(tensor) for tensor in program.inputs)
    operators: list[Operator] = []
    for operator in program.operators:
        depends = any(tensor.name in scaled for tensor in operator.read)
        outputs = operator.outputs
        if depends:
            outputs = tuple(resized(t) for t in outputs)
        read = tuple(None if t is None else scaled.get(t.name, t) for t in operator.inputs)
        operators.append(replace(operator, inputs=read, outputs=outputs))
    return replace(program, operators=tuple(operators), inputs=inputs, rows=rows)
