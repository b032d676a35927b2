"""The protobuf message of a ProgramDesc: from bytes, and what one of its variables holds."""

from __future__ import annotations

from typing import Any

from paddle_ipu.errors import InvalidProgramError

_TENSOR_FIELD = 3


def parse(program: Any) -> Any:
    """The ``framework_pb2.ProgramDesc`` of a program.

    Args:
        program: a program of Paddle, its message, or the bytes of one.

    Raises:
        InvalidProgramError: the bytes are no ProgramDesc.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from paddle.base.proto import framework_pb2

    desc = program
    if not isinstance(program, framework_pb2.ProgramDesc):
        data = program if isinstance(program, bytes) else program.desc.serialize_to_string()
        try:
            desc = framework_pb2.ProgramDesc.FromString(data)
        except DecodeError as error:
            raise InvalidProgramError(
                f"the {len(data)} bytes are no complete ProgramDesc ({error}): the file is "
                "damaged, cut off, or of another format."
            ) from error
    if not desc.blocks:
        raise InvalidProgramError(
            "the ProgramDesc has no block, expected at least one: the file is damaged, cut off, or "
            "of another format."
        )
    return desc


def tensor_of(var: Any) -> Any:
    """The TensorDesc of a variable: its ``data_type`` and ``dims``; None where it has none."""
    # Paddle 2.6 calls the field lod_tensor, Paddle 3 dense_tensor.
    name = var.type.DESCRIPTOR.fields_by_number[_TENSOR_FIELD].name
    return getattr(var.type, name).tensor if var.type.HasField(name) else None
