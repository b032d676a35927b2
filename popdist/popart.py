"""PopART's session options and device of one instance."""

from __future__ import annotations

from paddle_ipu.distributed.popdist_popart import configureSessionOptions, getDevice

__all__ = ["configureSessionOptions", "getDevice"]
