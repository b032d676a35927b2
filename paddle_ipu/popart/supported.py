"""Which operators there are: ``popart.getSupportedOperations`` and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

import paddle_ipu.popart.schema  # noqa: F401 - fills the table
from paddle_ipu.popart.op_schema import (
    ONNX,
    OpSchema,
    all_schemas,
    schemas_of_opset,
)


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """A form of an operator: its domain, its type and the operator set that defined it."""

    domain: str
    type: str
    version: int


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """What an operator takes and gives.

    Attributes:
        inputs: the element types that each input may have, PopART's names of them; the last
            stands for those behind it.
        outputs: fewest and most outputs, None for no limit.
        attributes: names of the attributes.
    """

    inputs: tuple[frozenset[str], ...]
    outputs: tuple[int, int | None]
    attributes: tuple[str, ...]


def _identifier(schema: OpSchema) -> OperatorIdentifier:
    return OperatorIdentifier(schema.domain, schema.op_type, schema.version)


def _supported(internal: bool) -> list[OpSchema]:
    return [row for row in all_schemas() if row.implemented and (internal or row.portable)]


def getSupportedOperations(includeInternal: bool) -> list[OperatorIdentifier]:
    """Every form of every operator that a session runs.

    Args:
        includeInternal: those of ``ai.paddle_ipu`` too, which PopART itself does not have.
    """
    return [_identifier(row) for row in _supported(includeInternal)]


def getSupportedOperationsDefinition(
    includeInternal: bool,
) -> dict[OperatorIdentifier, OpDefinition]:
    """The same with what each takes and gives."""
    return {
        _identifier(row): OpDefinition(
            tuple(frozenset(dtype.name for dtype in allowed) for allowed in row.input_dtypes),
            row.outputs,
            tuple(row.attributes),
        )
        for row in _supported(includeInternal)
    }


def getUnsupportedOperations(opsetVersion: int) -> list[OperatorIdentifier]:
    """Operators of an ai.onnx operator set that a builder writes and no session runs."""
    return [_identifier(row) for row in schemas_of_opset(ONNX, opsetVersion) if not row.implemented]
