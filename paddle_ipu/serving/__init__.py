"""Serving: concurrent requests of few rows, gathered into the micro-batches that a model takes.

docs/serving.md shows it.
"""

from __future__ import annotations

from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.model import FunctionModel, Model, TensorSpec
from paddle_ipu.serving.statistics import Statistics

__all__ = ["BatchingRunner", "FunctionModel", "Model", "Statistics", "TensorSpec"]
