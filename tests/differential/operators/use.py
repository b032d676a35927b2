"""A use of an operator as plain data, and a case made of uses: what is drawn, run and shrunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand that is fed, or that is a parameter.

    Attributes:
        array: its value, in a dtype that NumPy has.
        dtype: Paddle's name of its dtype; ``bfloat16`` has its value as float32.
        constant: the program holds the value itself.
    """

    array: Array
    dtype: str
    constant: bool = False

    def __str__(self) -> str:
        kind = "constant " if self.constant else ""
        return f"{kind}{self.dtype}{list(self.array.shape)} {_short(self.array)}"


@dataclass(frozen=True, slots=True)
class Result:
    """An operand that an earlier operator of the case gives.

    Attributes:
        step: index of that operator.
        output: index of its result.
    """

    step: int
    output: int

    def __str__(self) -> str:
        return f"result {self.output} of operator {self.step}"


Operand = Tensor | Result
Operands = Operand | tuple[Operand, ...] | None


@dataclass(frozen=True, slots=True)
class Use:
    """An operator with its operands and attributes.

    Attributes:
        op: its name, in PIR or in a ProgramDesc.
        operands: name -> operand, a tuple for a list of them, None for one left out.
        attributes: name -> Python value; a dtype is :class:`DType`.
        outputs: of a PIR operator, the indices of the results that programs read; of a ProgramDesc
            operator, each slot that is written -> the dtypes of its
            variables, "" for that of the first operand; or the operand slot that it writes.
    """

    op: str
    operands: Mapping[str, Operands]
    attributes: Mapping[str, Any]
    outputs: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)

    def tensors(self) -> Iterator[tuple[str, int, Tensor]]:
        """Operand, index in its list (0 for one that is no list), and tensor of each fed one."""
        for name, operands in self.operands.items():
            for at, operand in enumerate(operands if isinstance(operands, tuple) else (operands,)):
                if isinstance(operand, Tensor):
                    yield name, at, operand

    def with_operand(self, name: str, at: int, operand: Operand) -> Use:
        """The same use with one operand in the place of another."""
        old = self.operands[name]
        new = (*old[:at], operand, *old[at + 1 :]) if isinstance(old, tuple) else operand
        return replace(self, operands={**self.operands, name: new})

    def __str__(self) -> str:
        lines = [self.op]
        for name, operands in self.operands.items():
            for operand in operands if isinstance(operands, tuple) else (operands,):
                if operand is not None:
                    lines.append(f"    {name}: {operand}")
            if operands == ():
                lines.append(f"    {name}: []")
        lines += [f"    {name} = {value!r}" for name, value in self.attributes.items()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype that is an attribute's value."""

    name: str


@dataclass(frozen=True, slots=True)
class Case:
    """Operators, of which later ones may take results of earlier ones.

    Attributes:
        steps: the operators.
        training: the float operands become parameters, and their gradients are compared too.
        block: "" for operators in the program itself; ``if`` and ``while`` for a last operator
            that is in a branch, or in a loop.
    """

    steps: tuple[Use, ...]
    training: bool = False
    block: str = ""

    def __str__(self) -> str:
        kinds = [word for word in ("training" if self.training else "", self.block) if word]
        return "\n".join([*kinds, *(f"{at}: {step}" for at, step in enumerate(self.steps))])

    @property
    def subject(self) -> str:
        """The operator that the case is about: the last."""
        return self.steps[-1].op

    @property
    def form(self) -> str:
        """The same for cases that differ in the values of what is fed or trained alone."""
        constants = []
        steps = []
        for use in self.steps:
            for name, at, tensor in list(use.tensors()):
                if tensor.constant:
                    constants.append(tensor.array.tobytes())
                else:
                    zeros = replace(tensor, array=np.zeros_like(tensor.array))
                    use = use.with_operand(name, at, zeros)
            steps.append(use)
        return f"{replace(self, steps=tuple(steps))} {[use.outputs for use in steps]} {constants}"

    @property
    def size(self) -> int:
        """How much there is in it, for shrinking: operators, dimensions, elements, attributes."""
        tensors = [tensor for step in self.steps for _, _, tensor in step.tensors()]
        elements = sum(int(tensor.array.size) for tensor in tensors)
        ranks = sum(tensor.array.ndim for tensor in tensors)
        return 1000 * len(self.steps) + 20 * ranks + elements + 500 * bool(self.block)


def _short(array: Array) -> str:
    text = np.array2string(array, separator=", ", threshold=64, max_line_width=10**6)
    return " ".join(text.split())
