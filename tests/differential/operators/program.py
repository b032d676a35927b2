"""Writes cases into Paddle programs, one or hundreds into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import paddle

from tests.differential.operators.signature import (
    pir,
    pir_signature,
    results_with_meaning,
)
from tests.differential.operators.use import Array, Case, DType, Operand, Result, Tensor, Use
from tests.operators.built_case import static_mode

RATE = np.asarray(0.5, np.float32)
_TRAINED = ("float32", "float64")
LARGEST_RESULT = 20_000


class TooLarge(Exception):  # noqa: N818 - no error of the code under test
    """A case's results have too many elements to be worth their time."""


@dataclass(slots=True)
class Written:
    """Cases in a program.

    Attributes:
        program: the program.
        feed: name -> value.
        parameters: name -> value.
        fetches: (index of the case, what it is) -> variable.
    """

    program: Any
    feed: dict[str, Array] = field(default_factory=dict)
    parameters: dict[str, Array] = field(default_factory=dict)
    fetches: dict[tuple[int, str], Any] = field(default_factory=dict)

    def set_parameters(self, scope: Any, values: Mapping[str, Array]) -> None:
        """Writes the parameters into a scope, those of `values` with the value they have there."""
        for name, array in self.parameters.items():
            value = values.get(name, array)
            scope.var(name).get_tensor().set(value, paddle.CPUPlace())


def dtype_name(dtype: Any) -> str:
    """``float32`` of whatever Paddle has for it."""
    name = str(dtype).rpartition(".")[2].lower()
    return {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16"}.get(
        name, name
    )


def write(cases: Sequence[Case]) -> Written:
    """A new program with some cases in it, all of them of one kind, forward or training.

    Raises:
        TooLarge: a result has too many elements.
        Exception: Paddle's own, for a case that it refuses.
    """
    program, startup = paddle.static.Program(), paddle.static.Program()
    written = Written(program)
    with (
        static_mode(),
        paddle.static.program_guard(program, startup),
        paddle.utils.unique_name.guard(),
    ):
        terms: list[Any] = []
        for at, case in enumerate(cases):
            _Writer(written, at, case, terms).write()
        if cases[0].training:
            loss = terms[0] if len(terms) == 1 else paddle.add_n(terms)
            pairs = paddle.optimizer.SGD(RATE.item()).minimize(loss)[1]
            written.parameters["learning_rate_0"] = RATE
            if len(cases) == 1 and all(gradient is None for _, gradient in pairs):
                raise ValueError("no operand has a gradient")
            for parameter, gradient in pairs:
                if gradient is not None:
                    at, _, name = parameter.name.removeprefix("case").partition("_")
                    written.fetches[int(at), f"gradient of {name}"] = gradient
    return written


def values(at: int, case: Case) -> Iterator[tuple[str, Array]]:
    """The name and value of what case `at` of a program feeds or trains."""
    for step, use in enumerate(case.steps):
        for slot, operands in use.operands.items():
            for index, operand in enumerate(
                operands if isinstance(operands, tuple) else [operands]
            ):
                if isinstance(operand, Tensor) and not operand.constant:
                    name = _name(at, step, slot, index if isinstance(operands, tuple) else None)
                    yield name, _fed(operand)


def read(array: Any, variable: Any) -> Array:
    """What an executor returns for a variable, as numbers of its dtype."""
    made = np.array(array)
    return made.view(ml_dtypes.bfloat16) if dtype_name(variable.dtype) == "bfloat16" else made


def _fed(tensor: Tensor) -> Array:
    """What an executor takes for a tensor: of bfloat16 the bits."""
    if tensor.dtype != "bfloat16":
        return tensor.array
    return tensor.array.astype(ml_dtypes.bfloat16).view(np.uint16)


def _name(at: int, step: int, slot: str, index: int | None) -> str:
    return f"case{at}_{step}_{slot}" if index is None else f"case{at}_{step}_{slot}_{index}"


class _Writer:
    def __init__(self, written: Written, at: int, case: Case, terms: list[Any]) -> None:
        self._written = written
        self._at = at
        self._case = case
        self._terms = terms
        self._results: list[list[Any]] = []

    def write(self) -> None:
        *first, last = self._case.steps
        for use in first:
            self._results.append(self._step(use))
        operands = self._operands(last)
        append = self._in_block if self._case.block else _append
        results = append(last, operands)
        for result in results:
            if int(np.prod(list(result.shape))) > LARGEST_RESULT:
                raise TooLarge
        for output, result in enumerate(results):
            self._written.fetches[self._at, f"output {output}"] = result
        if self._case.training:
            self._add_terms(results)

    def _step(self, use: Use) -> list[Any]:
        return _append(use, self._operands(use))

    def _operands(self, use: Use) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for slot, operands in use.operands.items():
            if operands is None:
                variables[slot] = None
            elif isinstance(operands, tuple):
                variables[slot] = [
                    self._variable(operand, slot, index) for index, operand in enumerate(operands)
                ]
            else:
                variables[slot] = self._variable(operands, slot)
        return variables

    def _variable(self, operand: Operand, slot: str, index: int | None = None) -> Any:
        if isinstance(operand, Result):
            return self._results[operand.step][operand.output]
        name = _name(self._at, len(self._results), slot, index)
        shape = list(operand.array.shape)
        if operand.constant:
            value = paddle.assign(operand.array)
            return value if operand.dtype != "bfloat16" else paddle.cast(value, "bfloat16")
        if self._case.training and operand.dtype in _TRAINED:
            self._written.parameters[name] = operand.array
            return paddle.create_parameter(shape, operand.dtype, name=name)
        self._written.feed[name] = _fed(operand)
        return paddle.static.data(name, shape, operand.dtype)

    def _in_block(self, use: Use, operands: Mapping[str, Any]) -> list[Any]:
        """The operator in a branch that is taken, or in a loop that runs it twice."""
        name = f"case{self._at}_block"
        probe = _append(use, operands)
        shapes = [(list(result.shape), dtype_name(result.dtype)) for result in probe]
        if self._case.block == "if":
            self._written.feed[name] = np.asarray([True])
            taken = paddle.static.nn.cond(
                paddle.static.data(name, [1], "bool"),
                lambda: [paddle.assign(result) for result in _append(use, operands)],
                lambda: [paddle.zeros(shape, dtype) for shape, dtype in shapes],
            )
        else:
            self._written.feed[name] = np.asarray([0], np.int64)
            taken = paddle.static.nn.while_loop(
                lambda i, *_: paddle.less_than(i, paddle.full([1], 2, "int64")),
                lambda i, *_: [
                    i + 1,
                    *(paddle.assign(result) for result in _append(use, operands)),
                ],
                [
                    paddle.static.data(name, [1], "int64"),
                    *(paddle.zeros(shape, dtype) for shape, dtype in shapes),
                ],
            )[1:]
        return list(taken) if isinstance(taken, (list, tuple)) else [taken]

    def _add_terms(self, results: Sequence[Any]) -> None:
        random = np.random.default_rng(7)
        added = False
        for output, result in enumerate(results):
            dtype = dtype_name(result.dtype)
            if dtype in _TRAINED and not result.stop_gradient:
                name = f"case{self._at}_cotangent_{output}"
                shape = list(result.shape)
                array = np.asarray(random.uniform(0.5, 2.0, shape), np.float32).astype(dtype)
                self._written.feed[name] = array
                weight = paddle.static.data(name, shape, dtype)
                term = paddle.sum(result * weight)
                self._terms.append(term if dtype == "float32" else paddle.cast(term, "float32"))
                added = True
        if not added:
            raise ValueError("no result has a gradient")


def _append(use: Use, operands: Mapping[str, Any]) -> list[Any]:
    return _append_pir(use, operands) if pir() else _append_desc(use, operands)


def _append_pir(use: Use, operands: Mapping[str, Any]) -> list[Any]:
    block = paddle.static.default_main_program().current_block()
    signature = pir_signature(use.op)
    names = [parameter.name for parameter in signature or ()]
    names += [name for name in (*use.operands, *use.attributes) if name not in names]
    arguments = []
    for name in names:
        if name in operands:
            arguments.append(operands[name])
        elif name in use.attributes:
            arguments.append(_paddle_value(use.attributes[name]))
        elif name == "place":
            arguments.append(paddle.base.core.Place())
        else:
            arguments.append(None)
    results = getattr(paddle._C_ops, use.op)(*arguments)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    flat: list[Any] = []
    for result in results:
        flat.extend(result if isinstance(result, (list, tuple)) else [result])
    if any(isinstance(result, bool) for result in flat):
        # Paddle gives True for a result it takes for optional.
        flat = list(block.ops[-1].results())
    return [
        value
        for value in flat
        if value is not None
        and value.initialized()
        and value.is_dense_tensor_type()
        and (_is_of_list(value) or str(value.index()) in use.outputs)
    ]


def _is_of_list(value: Any) -> bool:
    """Whether a value is one of a result that is a list."""
    return str(value.get_defining_op().name()) == "builtin.split"


def _paddle_value(value: Any) -> Any:
    if isinstance(value, DType):
        if value.name in ("undefined", "all"):
            return paddle.base.core.DataType.UNDEFINED
        return getattr(paddle, "bool" if value.name == "bool" else value.name)
    return value


def _append_desc(use: Use, operands: Mapping[str, Any]) -> list[Any]:
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(use.op)
    given = {slot: value for slot, value in operands.items() if value is not None}
    first = next((value[0] for value in given.values() if value), None)
    outputs: dict[str, list[Any]] = {}
    for slot, written in use.outputs.items():
        if isinstance(written, str):
            outputs[slot] = list(operands[written])
        else:
            outputs[slot] = [
                helper.create_variable_for_type_inference(dtype or first.dtype) for dtype in written
            ]
    helper.append_op(type=use.op, inputs=given, outputs=outputs, attrs=dict(use.attributes))
    meant = results_with_meaning(use.op)
    return [
        variable
        for slot, variables in outputs.items()
        if slot in meant and not isinstance(use.outputs[slot], str)
        for variable in variables
    ]
