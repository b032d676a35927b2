"""What the instructions of a compiled XLA program came from, read from the program's text.

XLA fuses operators. A fusion with a matrix product or a convolution is that operator's; else its
time is shared out by the elements that each operator computes in it. What XLA puts in without a
name is for the instruction that reads it, or from the one that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from paddle_ipu.xla.lowerings.scope_names import NOWHERE, Origin, origin_of

Kind = Literal["operator", "copy", "random", "collective", "container"]

_HEAD = re.compile(r"HloModule ([\w.\-]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CALLS = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_SHAPE = re.compile(r"\w+\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")

_FAR = 50
"""Instructions that are looked at for the origin of one that has none."""

_CONTAINERS = frozenset(("while", "conditional", "call"))
_COLLECTIVES = (
    "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-",
)  # fmt: skip
_PRODUCTS = frozenset(("dot", "convolution"))
_FREE = frozenset(
    ("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "opt-barrier", "reshape")
)
_MOVES = frozenset(
    ("copy", "transpose", "broadcast", "slice", "dynamic-slice", "dynamic-update-slice")
)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of an instruction's time; the parts of one sum to 1."""

    kind: Kind
    origin: Origin
    part: float


@dataclass(frozen=True, slots=True)
class _Instruction:
    opcode: str
    elements: int
    operands: tuple[str, ...]
    op_name: str
    calls: str


def origins(text: str) -> tuple[str, dict[str, tuple[Share, ...]]]:
    """(the module's name, instruction -> whose time it is) of a compiled program's text."""
    head = _HEAD.match(text)
    computations = _computations(text)
    for instructions in list(computations.values()):
        for instruction in instructions.values():
            if instruction.opcode == "call":
                _name_callees(computations, instruction.calls, instruction.op_name)
    by_name: dict[str, tuple[Share, ...]] = {}
    for instructions in computations.values():
        shares = {name: _shares(each, computations) for name, each in instructions.items()}
        readers: dict[str, list[str]] = {}
        for name, instruction in instructions.items():
            for operand in instruction.operands:
                readers.setdefault(operand, []).append(name)
        read = {name: list(each.operands) for name, each in instructions.items()}
        for name, own in shares.items():
            by_name[name] = own
            if len(own) == 1 and own[0].kind in ("operator", "copy") and own[0].origin == NOWHERE:
                near = _near(name, readers, shares) or _near(name, read, shares)
                if near is not None:
                    by_name[name] = (Share(own[0].kind, near, 1.0),)
    return ("" if head is None else head[1]), by_name


def _near(
    name: str, edges: Mapping[str, Sequence[str]], shares: Mapping[str, Sequence[Share]]
) -> Origin | None:
    """The origin of the first instruction on the way along `edges` that has one."""
    seen, line = {name}, [name]
    for at in line:
        for other in edges.get(at, ()):
            if other in seen or other not in shares:
                continue
            largest = max(shares[other], key=lambda share: share.part)
            if largest.kind != "container":
                if largest.origin != NOWHERE:
                    return largest.origin
                seen.add(other)
                line.append(other)
        if len(line) > _FAR:
            break
    return None


def _computations(text: str) -> dict[str, dict[str, _Instruction]]:
    computations: dict[str, dict[str, _Instruction]] = {}
    current: dict[str, _Instruction] = {}
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None:
            begin = _COMPUTATION.match(line)
            if begin is not None:
                current = computations.setdefault(begin[1], {})
            continue
        name, shape, opcode, rest = match.groups()
        calls, op_name = _CALLS.search(rest), _OP_NAME.search(rest)
        current[name] = _Instruction(
            opcode,
            _elements(shape),
            tuple(_OPERAND.findall(rest.partition(")")[0])),
            "" if op_name is None else op_name[1],
            "" if calls is None else calls[1],
        )
    return computations


def _name_callees(
    computations: dict[str, dict[str, _Instruction]], callee: str, caller: str
) -> None:
    """Puts the name of a call in front of those of what it calls, which JAX names from there on."""
    inner = computations.get(callee, {})
    for name, instruction in inner.items():
        inner[name] = replace(instruction, op_name=f"{caller}/{instruction.op_name}")
        if instruction.opcode == "fusion":
            _name_callees(computations, instruction.calls, caller)


def _elements(shape: str) -> int:
    sizes = (prod(int(dim) for dim in dims.split(",") if dim) for dims in _SHAPE.findall(shape))
    return max(sizes, default=0)


def _shares(
    instruction: _Instruction, computations: Mapping[str, Mapping[str, _Instruction]]
) -> tuple[Share, ...]:
    opcode = instruction.opcode
    if opcode in _CONTAINERS:
        return (Share("container", NOWHERE, 1.0),)
    if opcode.startswith(_COLLECTIVES):
        return (Share("collective", origin_of(instruction.op_name) or NOWHERE, 1.0),)
    if opcode != "fusion" or instruction.calls not in computations:
        return (Share(*_whose(instruction), 1.0),)
    inner = computations[instruction.calls]
    weights: dict[tuple[Kind, Origin], float] = {}
    for part, elements in _work(inner):
        key = _whose(part, instruction.op_name)
        weights[key] = weights.get(key, 0.0) + elements
    # What only moves elements beside operators that compute is part of them.
    computed = {key: size for key, size in weights.items() if key[0] != "copy"}
    weights = computed or weights
    total = sum(weights.values())
    if not total:
        return (Share(*_whose(instruction), 1.0),)
    return tuple(Share(*key, size / total) for key, size in weights.items())


def _work(inner: Mapping[str, _Instruction]) -> Iterator[tuple[_Instruction, float]]:
    """The instructions of a fusion that take its time, with the elements that each goes through."""
    products = [instruction for instruction in inner.values() if instruction.opcode in _PRODUCTS]
    if products:
        yield from ((instruction, 1.0) for instruction in products)
        return
    for instruction in inner.values():
        if instruction.opcode in _FREE:
            continue
        read = [inner[name].elements for name in instruction.operands if name in inner]
        reduces = instruction.opcode in ("reduce", "reduce-window")
        elements = max([instruction.elements, *read]) if reduces else instruction.elements
        yield instruction, float(elements)


def _whose(instruction: _Instruction, around: str = "") -> tuple[Kind, Origin]:
    op_name = instruction.op_name
    origin = origin_of(op_name) or origin_of(around)
    if instruction.opcode == "copy" or (origin is None and instruction.opcode in _MOVES):
        return "copy", origin or NOWHERE
    if origin is None and "threefry" in (op_name or around):
        return "random", NOWHERE
    return "operator", origin or NOWHERE
