"""Attributes that the IPU reads from any operator of a Paddle program, and their types."""

from __future__ import annotations

ANNOTATIONS: dict[str, type] = {
    "ipu_index": int,
    "ipu_stage": int,
    "serialize_factor": int,
    "serialize_mode": str,
    "__available_memory": float,
    "recompute_checkpoint": int,
}
"""Name -> type. Scripts write them with ``op._set_attr``, shard guards write the first two."""

CHECKPOINT = "recompute_checkpoint"
"""Where it is 1, an operator's results are kept for backward, which computes the rest again.

The custom operator ``checkpointoutput`` says the same where programs must run on IPUs of Paddle's
own build, too, which does not read it.
"""

FLOATS_AS_TEXT = frozenset(name for name, kind in ANNOTATIONS.items() if kind is float)
"""Those that a PIR operator holds as text: Python cannot write a float attribute there."""

AMP = "paddle_ipu.amp"
"""Attribute of a PIR operator: the dtype that automatic mixed precision computes it in."""
