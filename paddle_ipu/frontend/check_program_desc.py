"""Checks a saved ProgramDesc before anything else reads it.

Paddle's C++ trusts what it is given: a block number out of range or a variable that is not there
can end the process. So every reference in a file is followed once, here, in Python.
"""

from __future__ import annotations

from collections.abc import Iterator

from paddle_ipu.errors import InvalidProgramError, ModelFileError, NotSupported
from paddle_ipu.frontend.control_flow import MOST_NESTED
from paddle_ipu.frontend.desc_message import parse, tensor_of
from paddle_ipu.frontend.op_versions import check_versions
from paddle_ipu.frontend.program_types import BlockDesc, OpDesc, ProgramDesc

NEWEST_VERSION = 3_003_999
"""The newest version of a saved program: major * 1000000 + minor * 1000 + patch; 0 is none."""

_BLOCK, _BLOCKS = 8, 10
_WHOLE = (0, 9)
_EMPTY = "@EMPTY@"
_DENSE = 7
_ELEMENTS = frozenset({*range(7), *range(19, 25), 32, 33})

_AXES = frozenset({"axis", "axes", "dim", "start_axis", "stop_axis", "begin_norm_axis"})
_MAX_AXIS = 64

WITHOUT_FILE = frozenset({9, 10, 15, 17})
"""Feed lists, fetch lists, readers and raw variables: persistable, and nothing of them is saved."""


def read_checked(content: bytes, where: str) -> ProgramDesc:
    """The ``framework_pb2.ProgramDesc`` of a saved inference program.

    Args:
        content: the bytes of a ``.pdmodel`` or ``__model__`` file.
        where: what messages call the file.

    Raises:
        ModelFileError: they are no complete ProgramDesc, a newer one, one with an operator of an
            unknown version, one that contradicts itself, or one without fetches.
    """
    try:
        desc = parse(content)
    except InvalidProgramError as error:
        raise ModelFileError(
            f"{where}: no program: {error} Copy the file anew or save the model again."
        ) from error
    if not desc.IsInitialized():
        missing = ", ".join(desc.FindInitializationErrors()[:5])
        raise ModelFileError(
            f"{where}: the program lacks {missing}. The file is damaged; copy it anew or save the "
            "model again."
        )
    version = desc.version.version
    if version > NEWEST_VERSION:
        raise ModelFileError(
            f"{where}: saved by Paddle {_spoken(version)}; paddle_ipu knows programs up to Paddle "
            f"{_spoken(NEWEST_VERSION)[:3]}. Save the model with that version or an older one, or "
            "install a newer paddle_ipu."
        )
    wrong = next(_contradictions(desc), None)
    if wrong is not None:
        raise ModelFileError(
            f"{where}: {wrong}. The file is damaged or was not written by Paddle; copy it anew or "
            "save the model again."
        )
    _check_signature(desc, where)
    try:
        check_versions(desc)
    except NotSupported as error:
        raise ModelFileError(f"{where}: {error}") from error
    return desc


def _spoken(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"


def _contradictions(desc: ProgramDesc) -> Iterator[str]:
    visible: list[set[str]] = []
    depths = {0: 0}
    for number, block in enumerate(desc.blocks):
        # protobuf hands out bytes where a string is not UTF-8.
        if not all(isinstance(text, str) for text in _texts(block)):
            yield f"block {number} has names or strings that are no text"
            return
        if block.idx != number:
            yield f"block {number} says it is block {block.idx}"
        if not (block.parent_idx in range(number) or (number == 0 and block.parent_idx == -1)):
            yield f"block {number} lies in block {block.parent_idx}"
            return
        yield from _variables(number, block)
        outer = visible[block.parent_idx] if number else set()
        visible.append(outer | {var.name for var in block.vars})
        for at, op in enumerate(block.ops):
            place = f"operator {at} ({op.type}) of block {number}"
            yield from _operator(place, op, visible[number], number, len(desc.blocks))
            for inner in (each for _, found in _blocks_of(op) for each in found):
                # Read once for each operator, blocks of two would double with each level.
                if inner in depths:
                    yield f"{place} has the block {inner}, which another operator has"
                depths[inner] = depths.get(number, 0) + 1
                if depths[inner] > MOST_NESTED:
                    yield f"{place} is nested in more than {MOST_NESTED} blocks"


def _texts(block: BlockDesc) -> Iterator[object]:
    yield from (var.name for var in block.vars)
    for op in block.ops:
        yield op.type
        for slots in (op.inputs, op.outputs):
            for slot in slots:
                yield slot.parameter
                yield from slot.arguments
        for attribute in op.attrs:
            yield attribute.name
            yield attribute.s
            yield from attribute.strings


def _variables(number: int, block: BlockDesc) -> Iterator[str]:
    seen: set[str] = set()
    for var in block.vars:
        if not var.name or "\0" in var.name or var.name in seen:
            yield f"block {number} has the variable {var.name!r} twice or without a proper name"
        seen.add(var.name)
        if var.type.type == _DENSE:
            tensor = tensor_of(var)
            if tensor is None:
                yield f"variable {var.name!r} has no shape and no dtype"
            elif tensor.data_type not in _ELEMENTS:
                yield f"variable {var.name!r} has elements of type number {tensor.data_type}"
            elif any(dim < -1 for dim in tensor.dims):
                yield f"variable {var.name!r} has the shape {list(tensor.dims)}"
        elif var.persistable and var.type.type not in WITHOUT_FILE:
            yield f"variable {var.name!r} is persistable and no dense tensor"


def _operator(place: str, op: OpDesc, visible: set[str], number: int, blocks: int) -> Iterator[str]:
    if not op.type.isidentifier():
        yield f"{place} has the type {op.type!r}"
    for slots in (op.inputs, op.outputs):
        names = [slot.parameter for slot in slots]
        if len(set(names)) != len(names):
            yield f"{place} has a slot twice: {', '.join(names)}"
        for slot in slots:
            for name in slot.arguments:
                if name != _EMPTY and name not in visible:
                    yield f"{place} names variable {name!r} in {slot.parameter}, which is not there"
    for attribute in op.attrs:
        if attribute.name in _AXES:
            axes = [attribute.i, attribute.l, *attribute.ints, *attribute.longs]
            if any(abs(axis) > _MAX_AXIS for axis in axes):
                # Paddle's kernels count up to zero from a negative axis.
                yield f"{place} has {max(axes, key=abs)} in {attribute.name!r}"
    # A block is written after the one it lies in; one that named itself would never end.
    for name, inner in _blocks_of(op):
        if any(each not in range(number + 1, blocks) for each in inner):
            yield f"{place} has the blocks {inner} in {name!r}"


def _blocks_of(op: OpDesc) -> Iterator[tuple[str, list[int]]]:
    """(attribute, numbers of the blocks that it names) of an operator."""
    for attribute in op.attrs:
        if attribute.type == _BLOCK:
            yield attribute.name, [attribute.block_idx]
        elif attribute.type == _BLOCKS:
            yield attribute.name, list(attribute.blocks_idx)


def _check_signature(desc: ProgramDesc, where: str) -> None:
    feeds = [op for op in desc.blocks[0].ops if op.type == "feed"]
    fetches = [op for op in desc.blocks[0].ops if op.type == "fetch"]
    for op, slots in [(op, op.outputs) for op in feeds] + [(op, op.inputs) for op in fetches]:
        if not any(len(slot.arguments) == 1 for slot in slots):
            raise ModelFileError(
                f"{where}: operator {op.type} names no variable. The file is damaged; save the "
                "model again."
            )
        if any(each.name == "col" and each.type not in _WHOLE for each in op.attrs):
            raise ModelFileError(
                f"{where}: the attribute 'col' of operator {op.type} is no whole number. The file "
                "is damaged; save the model again."
            )
    if not fetches:
        raise ModelFileError(
            f"{where}: the program has no fetches, so it is no inference model; "
            "paddle.static.save writes such files, for training. Build the program and use "
            "paddle.static.load, or save it with paddle.static.save_inference_model."
        )
