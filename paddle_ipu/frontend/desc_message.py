"""The protobuf message of a ProgramDesc: from bytes, and what one of its variables holds."""

from __future__ import annotations

from typing import Any

from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.frontend.program_types import ProgramDesc, TensorDesc, VarDesc, VarType

_TENSOR_FIELD = 3


def parse(program: Any) -> ProgramDesc:
    """The ``framework_pb2.ProgramDesc`` of a program.

    Args:
        program: a program of Paddle, its message, or the bytes of one.

    Raises:
        InvalidProgramError: the bytes are no ProgramDesc.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from paddle.base.proto import framework_pb2

    desc: ProgramDesc = program
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


def tensor_of(var: VarDesc) -> TensorDesc | None:
    """The ``TensorDesc`` of a dense tensor, None where the variable has none."""
    return dense_tensor(var.type) if var.type.HasField(_dense_field(var.type)) else None


def dense_tensor(kind: VarType) -> TensorDesc:
    """The ``TensorDesc`` of a dense tensor's type."""
    tensor: TensorDesc = getattr(kind, _dense_field(kind)).tensor
    return tensor


def _dense_field(kind: VarType) -> str:
    # Paddle 2.6 calls the field lod_tensor, Paddle 3 dense_tensor.
    return kind.DESCRIPTOR.fields_by_number[_TENSOR_FIELD].name
