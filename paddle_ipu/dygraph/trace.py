"""A to_static layer as a static program, traced by Paddle, with its inputs, outputs and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base import framework
from paddle.jit.dy2static.program_translator import ConcreteProgram, use_pir_api

from paddle_ipu.dialect.value_names import name_of

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.jit.dy2static.program_translator import CacheKey
    from paddle.static import Program, Variable

Nested = Any
"""Tensors, variables and other objects, alone or in lists, tuples and dicts."""

_NO_VALUE = np.float32(1.77113e27)
"""What Paddle returns for a branch that returns nothing."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced layer.

    Attributes:
        program: a PIR program or, of Paddle 2.6, a ProgramDesc.
        startup: the program that would initialise what is added to it.
        structure: what the layer returned, with variables in place of tensors.
        tensors: name -> parameter or buffer of the layer that the program reads.
        variables: name -> the same ones in the program.
    """

    program: Program
    startup: Program
    structure: Nested
    tensors: Mapping[str, Tensor]
    variables: Mapping[str, Variable]

    @property
    def outputs(self) -> dict[str, Variable]:
        """Name -> variable of each tensor that the layer returns."""
        leaves = paddle.utils.flatten(self.structure)
        return {name_of(leaf): leaf for leaf in leaves if _is_variable(leaf)}

    def restore(self, tensors: Mapping[str, Tensor]) -> Nested:
        """What the layer returns.

        Args:
            tensors: those of :attr:`outputs`, by name.
        """
        leaves = [
            tensors[name_of(item)] if _is_variable(item) else item
            for item in paddle.utils.flatten(self.structure)
        ]
        result = paddle.utils.pack_sequence_as(self.structure, leaves)
        if result is not None and len(result) == 1:
            result = result[0]
        return _without_missing(result)


def trace(key: CacheKey) -> Trace:
    """Traces the call that a cache key of Paddle's describes."""
    read = ConcreteProgram.pir_from_func_spec if use_pir_api() else ConcreteProgram.from_func_spec
    # A program that is traced while gradients are off never has any.
    with paddle.set_grad_enabled(True):
        concrete = read(
            func_spec=key.function_spec,
            input_spec=key.input_args_with_spec,
            input_kwargs_spec=key.input_kwargs_with_spec,
            class_instance=key.class_instance,
            **key.kwargs,
        )
    program = concrete.main_program
    if use_pir_api():
        tensors, values = concrete.parameters
        variables = {t.name: v for t, v in zip(tensors, values, strict=True)}
    else:
        tensors = concrete.parameters
        block = program.global_block()
        variables = {t.name: block.var(t.name) for t in tensors}
    return Trace(
        program,
        concrete.startup_program,
        concrete.outputs,
        {tensor.name: tensor for tensor in tensors},
        variables,
    )


def _is_variable(item: object) -> bool:
    return isinstance(item, (framework.Variable, paddle.pir.Value))


def is_float(variable: Variable) -> bool:
    """Whether a variable of a program holds floating-point numbers."""
    kind = str(variable.dtype).rpartition(".")[2].upper()
    return kind.startswith(("FP", "FLOAT", "BF"))


def _without_missing(result: Nested) -> Nested:
    """What a layer returns, without the numbers that stand for a branch that returned nothing."""
    if not isinstance(result, (list, tuple)):
        return None if _is_missing(result) else result
    kept = [item for item in result if not _is_missing(item)]
    if len(kept) == len(result):
        return result
    if not kept:
        return None
    return kept[0] if len(kept) == 1 else type(result)(kept)


def _is_missing(item: object) -> bool:
    if not isinstance(item, paddle.Tensor) or list(item.shape) != [1]:
        return False
    return bool(item.numpy()[0] == _NO_VALUE)
