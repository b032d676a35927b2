"""Serving: concurrent requests of few rows, gathered into the micro-batches that a model takes.

Public names are resolved on first use; docs/serving.md shows them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddle_ipu.serving.batching_runner import BatchingRunner
    from paddle_ipu.serving.model import FunctionModel, Model, TensorSpec
    from paddle_ipu.serving.statistics import Statistics

__all__ = ["BatchingRunner", "FunctionModel", "Model", "Statistics", "TensorSpec"]

_PLACES = {
    "BatchingRunner": "batching_runner",
    "FunctionModel": "model",
    "Model": "model",
    "Statistics": "statistics",
    "TensorSpec": "model",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'paddle_ipu.serving' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"paddle_ipu.serving.{_PLACES[name]}"), name)
