"""Small PopART programs for the predictor's tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.enums import RecomputationType, VirtualGraphMode
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions


def chain(
    layers: int = 2,
    rows: int = 8,
    width: int = 64,
    *,
    stages: int = 1,
    accumulation: int = 1,
    dtype: str = "float16",
    recompute: bool = False,
    training: bool = True,
    replicas: int = 1,
    pipelined: bool = True,
) -> Program:
    """Layers of x @ w and tanh on `rows` rows; each stage has as many, on an IPU of its own."""
    builder = Builder()
    kind = {"float16": "FLOAT16", "float32": "FLOAT"}[dtype]
    x = builder.addInputTensor(kind, [rows, width])
    for layer in range(layers):
        stage = layer * stages // layers
        weight = builder.addInitializedInputTensor(np.zeros((width, width), dtype), f"w{layer}")
        with builder.virtualGraph(stage), builder.pipelineStage(stage):
            x = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, weight])])
    with builder.virtualGraph(stages - 1), builder.pipelineStage(stages - 1):
        loss = builder.aiGraphcore.l1loss([x], 0.1)
    options = SessionOptions()
    if stages > 1:
        options.virtualGraphMode = VirtualGraphMode.Manual
        options.enablePipelining = pipelined
    if accumulation > 1:
        options.enableGradientAccumulation = True
        options.accumulationFactor = accumulation
    if replicas > 1:
        options.enableReplicatedGraphs = True
        options.replicatedGraphCount = replicas
    if recompute:
        options.autoRecomputation = RecomputationType.Pipeline
    flow = DataFlow(1, {loss: AnchorReturnType("All")})
    optimizer: Any = SGD({"defaultLearningRate": (0.1, False)}) if training else None
    return read_program(
        builder.model,
        flow,
        options,
        optimizer,
        loss=loss if training else None,
        ipus=stages * replicas,
    )
