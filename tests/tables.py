"""Changes to the package's tables of operators, for the time of a test."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.compiler import custom_ops
from paddle_ipu.ops import families as _translators  # noqa: F401 - fills the table of translators
from paddle_ipu.ops import registry
from paddle_ipu.popart import op_schema
from paddle_ipu.popart import schema as _schemas  # noqa: F401 - fills the table of schema rows
from paddle_ipu.xla import lowerings as _lowerings  # noqa: F401 - fills the table of lowerings
from paddle_ipu.xla.lowerings import registry as lowering_registry
from paddle_ipu.xla.lowerings.registry import Lowering


def remove_translators(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Makes Paddle's operators some that have no translator, whatever the table has by now."""
    for name in names:
        patch.delitem(registry._TRANSLATORS, name)


def lower_otherwise(
    patch: pytest.MonkeyPatch, op_type: str, rule: Lowering, domain: str = "ai.onnx"
) -> None:
    """Puts another lowering in the place of a PopART operator's, or a first one."""
    patch.setitem(lowering_registry._LOWERINGS, (domain, op_type), rule)


def keep_registrations(patch: pytest.MonkeyPatch) -> None:
    """What a test registers, translators, schemas and lowerings of its own, is gone after it."""
    tables: tuple[tuple[Any, str], ...] = (
        (custom_ops, "_REGISTERED"),
        (op_schema, "_ROWS"),
        (op_schema, "_BY_BUILDER_NAME"),
        (registry, "_CUSTOM"),
        (lowering_registry, "_LOWERINGS"),
    )
    for owner, name in tables:
        patch.setattr(owner, name, dict(getattr(owner, name)))
