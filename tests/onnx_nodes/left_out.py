"""Which of ONNX's node tests cannot pass, by name, and why."""

from __future__ import annotations

import re

REASONS: tuple[tuple[str, str], ...] = ()


def reason_for(model: str) -> str | None:
    """Why a model is left out, or None."""
    for pattern, reason in REASONS:
        if re.fullmatch(f"test_(?:{pattern})", model):
            return reason
    return None
