"""Draws cases: an operator, its operands' shapes, dtypes and numbers, its attributes.

Half of the uses are near one of the case table, as operators of many operands that belong together
(an LSTM, a convolution) have few valid uses; the other half are drawn freely. Paddle's shape
inference says which are valid. What a draw may be is said by the signature, by the values that an
attribute has anywhere in the case table, and by the tables in `domains`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.differential.operators import examples, values
from tests.differential.operators.choice import Choice
from tests.differential.operators.domains import ATTRIBUTES, KEPT, OPERANDS
from tests.differential.operators.signature import legacy_signature, pir, pir_signature
from tests.differential.operators.use import Case, DType, Operands, Result, Tensor, Use

TRIES = 10
_SIZES = np.asarray([0, 1, 2, 3, 4, 5, 7, 8])
_SIZE_WEIGHTS = np.asarray([0.05, 0.2, 0.25, 0.2, 0.15, 0.08, 0.04, 0.03])
_MOST = 1500
_AXES = ("axis", "dim", "axes", "perm", "dims", "axis1", "axis2", "dim1", "dim2", "begin_norm_axis")

_LEGACY_DTYPES = (0, 1, 2, 3, 5, 6, 20, 21)
"""bool, int16, int32, int64, float32, float64, uint8, int8, as ProgramDescs number them."""

Random = np.random.Generator


@dataclass(frozen=True)
class Drawing:
    """What cases are drawn from.

    Attributes:
        operators: those that are drawn.
        uses: operator -> valid uses of it.
        random: operators whose results are random.
        known: (operator, attribute) -> values that it has in the case table.
    """

    operators: Choice[str]
    uses: Mapping[str, Choice[Use]]
    random: frozenset[str]
    known: Mapping[tuple[str, str], Choice[Any]]

    @classmethod
    def from_case_table(cls) -> Drawing:
        """From the operator case table, for the kind of program that Paddle makes."""
        uses, random = examples.examples()
        known: dict[tuple[str, str], dict[str, Any]] = {}
        for op, those in uses.items():
            for use in those:
                for name, value in use.attributes.items():
                    known.setdefault((op, name), {}).setdefault(repr(value), value)
        return cls(
            Choice(uses, uses),
            {op: Choice(those, map(examples.form, those)) for op, those in uses.items()},
            random,
            {key: Choice(those.values(), those) for key, those in known.items()},
        )

    @property
    def subjects(self) -> tuple[str, ...]:
        """The operators that are drawn."""
        return tuple(self.uses)

    def draw(self, seed: int, number: int) -> Iterator[Case]:
        """The case of a seed and a number: the first of these that Paddle runs."""
        random = np.random.default_rng([seed, number])
        subject = self.operators.draw(random)
        training = bool(random.random() < 0.35)
        block = str(random.choice(["", "if", "while"], p=[0.94, 0.04, 0.02]))
        length = int(random.choice([1, 2, 3], p=[0.85, 0.1, 0.05]))
        for at in range(TRIES):
            use = self._use(random, subject, near=at % 2 == 1 or random.random() < 0.4, at=at)
            if training and at >= TRIES // 2:
                training = False
            if at >= TRIES // 2:
                block, length = "", 1
            steps = [use]
            while len(steps) < length:
                chained = self._chained(random, len(steps))
                if chained is not None:
                    steps.append(chained)
            yield Case(tuple(steps), training, "" if training and block == "while" else block)

    def _use(self, random: Random, op: str, *, near: bool, at: int = 0) -> Use:
        use = self.uses[op].draw(random)
        if near:
            changes = int(random.choice([0, 1, 2, 3], p=[0.15, 0.45, 0.25, 0.15]))
            if at >= TRIES - 2:
                changes = 0
            for _ in range(changes):
                change = random.choice(len(_CHANGES), p=_CHANGE_WEIGHTS)
                use = _CHANGES[change](self, random, use)
        else:
            use = self._free(random, use)
        return _within_domains(random, _with_new_numbers(random, use))

    def _chained(self, random: Random, steps: int) -> Use | None:
        """An operator of few operands whose first is a result of the one before."""
        subject = self.operators.draw(random)
        use = self._use(random, subject, near=True)
        tensors = list(use.tensors())
        if not tensors or len(tensors) > 3:
            return None
        name, at, _ = tensors[0]
        use = use.with_operand(name, at, Result(steps - 1, 0))
        return use

    # Attributes

    def _attribute(self, random: Random, use: Use, name: str, value: Any) -> Any:
        rank = max((tensor.array.ndim for _, _, tensor in use.tensors()), default=2)
        known = self.known.get((use.op, name))
        if (use.op, name) in ATTRIBUTES:
            choices = ATTRIBUTES[use.op, name]
            return choices[int(random.integers(len(choices)))]
        if isinstance(value, str | DType) or random.random() < 0.3:
            return value if known is None else known.draw(random)
        if isinstance(value, bool):
            return bool(random.random() < 0.5)
        if isinstance(value, int) and name.endswith("dtype"):
            return int(random.choice(_LEGACY_DTYPES))
        if isinstance(value, int):
            return _integer(random, name, value, rank)
        if isinstance(value, float):
            pool = (value, 0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, -0.0, 1e6, 3.7, float("inf"), value * 2)
            return float(pool[int(random.integers(len(pool)))])
        if isinstance(value, list):
            return self._list(random, name, value, rank)
        return value

    def _list(self, random: Random, name: str, value: list[Any], rank: int) -> list[Any]:
        if any(not isinstance(item, int) or isinstance(item, bool) for item in value):
            return value
        if name == "perm" or (
            name == "axis" and sorted(value) == list(range(len(value))) and value
        ):
            order = [int(axis) for axis in random.permutation(rank)]
            return [axis - rank if random.random() < 0.2 else axis for axis in order]
        kept = random.random() < 0.6
        length = len(value) if kept else int(random.integers(0, rank + 2))
        if name in _AXES:
            if random.random() < 0.8 and length <= rank:
                chosen = random.permutation(rank)[:length]
                return [int(a) - rank * int(random.random() < 0.3) for a in chosen]
            return [int(random.integers(-rank - 1, rank + 1)) for _ in range(length)]
        old = [*value, *([1] * length)][:length]
        return [
            item if random.random() < 0.5 else _integer(random, name, item, rank) for item in old
        ]

    def _with_attributes(self, random: Random, use: Use, share: float) -> Use:
        changed = {
            name: self._attribute(random, use, name, value) if random.random() < share else value
            for name, value in use.attributes.items()
        }
        return replace(use, attributes=changed)

    # Free draws

    def _free(self, random: Random, use: Use) -> Use:
        rank = int(random.choice(7, p=[0.08, 0.17, 0.22, 0.22, 0.17, 0.08, 0.06]))
        base = _shape(random, rank)
        dtypes: dict[str, str] = {}
        operands: dict[str, Operands] = {}

        def drawn(tensor: Tensor) -> Tensor:
            if tensor.dtype not in dtypes:
                changed = random.random() < 0.5
                dtypes[tensor.dtype] = values.dtype(random) if changed else tensor.dtype
            how = random.random()
            if how < 0.55:
                shape = list(base)
            elif how < 0.8:
                shape = [1 if random.random() < 0.3 else size for size in base]
                shape = (
                    shape[int(random.integers(0, len(shape) + 1)) :]
                    if random.random() < 0.5
                    else shape
                )
            elif how < 0.9:
                shape = list(tensor.array.shape)
            else:
                shape = _shape(random, int(random.integers(0, 4)))
            return _cast(tensor, shape, dtypes[tensor.dtype])

        for name, given in use.operands.items():
            if isinstance(given, tuple):
                count = len(given) if random.random() < 0.7 else int(random.integers(1, 4))
                kept = [item for item in (given * 4)[:count] if isinstance(item, Tensor)]
                operands[name] = tuple(drawn(item) for item in kept)
            elif isinstance(given, Tensor):
                operands[name] = drawn(given)
            else:
                operands[name] = given
        return self._with_attributes(random, replace(use, operands=operands), 0.6)


def _integer(random: Random, name: str, value: int, rank: int) -> int:
    if name in _AXES:
        return int(random.integers(-rank - 1, rank + 1))
    pool = (value, value + 1, value - 1, 0, 1, 2, 3, -1, -value)
    return int(pool[int(random.integers(len(pool)))])


def _shape(random: Random, rank: int) -> list[int]:
    shape = [int(size) for size in random.choice(_SIZES, rank, p=_SIZE_WEIGHTS)]
    while int(np.prod(shape)) > _MOST:
        shape[int(np.argmax(shape))] = 2
    return shape


def _cast(tensor: Tensor, shape: Sequence[int], dtype: str) -> Tensor:
    """A tensor of another shape and dtype; its numbers are drawn later, like these."""
    name = "float32" if dtype == "bfloat16" else dtype
    if list(shape) == list(tensor.array.shape) and dtype == tensor.dtype:
        return tensor
    if tensor.array.size and int(np.prod(shape)):
        with np.errstate(all="ignore"):
            array = np.resize(tensor.array, shape).astype(name)
    else:
        array = np.zeros(shape, name)
    return Tensor(array, dtype, tensor.constant)


def _with_new_numbers(random: Random, use: Use) -> Use:
    if random.random() < 0.05:
        return use
    for name, at, tensor in list(use.tensors()):
        if (use.op, name) in KEPT:
            continue
        array = values.numbers(random, tensor.array.shape, tensor.dtype, tensor.array)
        use = use.with_operand(name, at, replace(tensor, array=array))
    return use


def _within_domains(random: Random, use: Use) -> Use:
    """The same with numbers that the operator takes, where a row of `OPERANDS` says which."""
    for name, at, tensor in list(use.tensors()):
        if (use.op, name) in OPERANDS:
            array = OPERANDS[use.op, name](random, tensor.array, use)
            use = use.with_operand(name, at, replace(tensor, array=array))
    return use


def with_other_values(case: Case, *seed: int) -> Case:
    """The case with other numbers in what is fed; constants of the program stay."""
    random = np.random.default_rng(seed)

    def changed(use: Use) -> Use:
        other = _within_domains(random, _with_new_numbers(random, use))
        for name, at, tensor in use.tensors():
            if tensor.constant:
                other = other.with_operand(name, at, tensor)
        return other

    return replace(case, steps=tuple(map(changed, case.steps)))


# Changes of a valid use


def _resize(drawing: Drawing, random: Random, use: Use) -> Use:
    """Another size wherever a size occurs, in shapes and at times in attributes."""
    sizes = sorted({size for _, _, tensor in use.tensors() for size in tensor.array.shape})
    if not sizes:
        return use
    old = int(random.choice(sizes))
    new = int(random.choice(_SIZES, p=_SIZE_WEIGHTS))
    for name, at, tensor in list(use.tensors()):
        shape = [new if size == old else size for size in tensor.array.shape]
        if int(np.prod(shape)) <= 4 * _MOST:
            use = use.with_operand(name, at, _cast(tensor, shape, tensor.dtype))
    if random.random() < 0.5:
        attributes = {
            name: [new if item == old and type(item) is int else item for item in value]
            if isinstance(value, list)
            else value
            for name, value in use.attributes.items()
        }
        use = replace(use, attributes=attributes)
    return use


def _rerank(drawing: Drawing, random: Random, use: Use) -> Use:
    """One axis more or less, at the front or the back of all operands of the largest rank."""
    ranks = [tensor.array.ndim for _, _, tensor in use.tensors()]
    if not ranks:
        return use
    rank = max(ranks)
    size = int(random.choice(_SIZES, p=_SIZE_WEIGHTS))
    front, more = random.random() < 0.6, random.random() < 0.6 and rank < 6
    for name, at, tensor in list(use.tensors()):
        shape = list(tensor.array.shape)
        if len(shape) != rank:
            continue
        if more:
            shape = [size, *shape] if front else [*shape, size]
        elif shape:
            shape = shape[1:] if front else shape[:-1]
        if int(np.prod(shape)) <= 4 * _MOST:
            use = use.with_operand(name, at, _cast(tensor, shape, tensor.dtype))
    return use


def _reshape_one(drawing: Drawing, random: Random, use: Use) -> Use:
    """One operand with a size of 1, or without its first axis, or with another size."""
    tensors = list(use.tensors())
    if not tensors:
        return use
    name, at, tensor = tensors[int(random.integers(len(tensors)))]
    shape = list(tensor.array.shape)
    if not shape:
        shape = [1]
    elif random.random() < 0.3:
        shape = shape[1:]
    else:
        index = int(random.integers(len(shape)))
        shape[index] = 1 if random.random() < 0.6 else int(random.choice(_SIZES))
    return use.with_operand(name, at, _cast(tensor, shape, tensor.dtype))


def _retype(drawing: Drawing, random: Random, use: Use) -> Use:
    """Another dtype for all operands of one dtype."""
    dtypes = sorted({tensor.dtype for _, _, tensor in use.tensors()})
    if not dtypes:
        return use
    old, new = str(random.choice(dtypes)), values.dtype(random)
    for name, at, tensor in list(use.tensors()):
        if tensor.dtype == old:
            use = use.with_operand(name, at, _cast(tensor, tensor.array.shape, new))
    return use


def _reattribute(drawing: Drawing, random: Random, use: Use) -> Use:
    """Other attributes."""
    return drawing._with_attributes(random, use, 0.4)


def _drop(drawing: Drawing, random: Random, use: Use) -> Use:
    """Without an operand that may be left out."""
    signature = pir_signature(use.op) if pir() else legacy_signature(use.op)
    optional = [p.name for p in signature or () if p.type == "optional"]
    present = [name for name in optional if use.operands.get(name) is not None]
    if not present:
        return use
    name = str(random.choice(present))
    return replace(use, operands={**use.operands, name: None})


_CHANGES = (_resize, _rerank, _reshape_one, _retype, _reattribute, _drop)
_CHANGE_WEIGHTS = np.asarray([0.25, 0.12, 0.13, 0.12, 0.33, 0.05])
