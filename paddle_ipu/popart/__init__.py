"""A module with the names and the behaviour of Graphcore's `popart` 3.4, for the IPU Model.

Importing it imports nothing heavy: each public name is found in its module on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_ENUMS = """
    AccumulateOuterFragmentSchedule AdamMode AdaptiveMode AnchorReturnTypeId AutodiffStitchStrategy
    BatchSerializationBatchSchedule BatchSerializationMethod BatchSerializationTransformContext
    CollectiveOperator CommGroupType DataType DeviceConnectionType DeviceSelectionCriterion
    DeviceType ExchangeStrategy ExecutionPhaseIOSchedule ExecutionPhaseSchedule
    GradientTensorTrackingMethod InitType Instrumentation IrSerializationFormat
    MeanReductionStrategy MergeVarUpdateType PatternsLevel RecomputationType RecomputeType
    RecoveryAction ReductionType ReplicatedStreamMode ReplicatedTensorSharding
    SGDAccumulatorAndMomentum ScatterReduction SubgraphCopyingStrategy SyncPattern
    SyntheticDataMode TensorRemapType TensorStorage TileSet VariableRetrievalMode VirtualGraphMode
    WeightDecayMode
"""

_NAMES_BY_MODULE = {
    "paddle_ipu.errors": """
        OutOfMemoryException popart_exception popart_internal_exception popart_runtime_error
    """,
    "paddle_ipu.popart.builder": "Builder",
    "paddle_ipu.popart.dataflow": "AnchorReturnType DataFlow InputShapeInfo",
    "paddle_ipu.sessions.devices": "DeviceInfo DeviceManager",
    "paddle_ipu.popart.enums": _ENUMS,
    "paddle_ipu.popart.names": """
        defaultAiGraphcoreOpset defaultAiOnnxOpset getTensorInfo packageHash reservedAcclPrefix
        reservedAccl1Prefix reservedAccl2Prefix reservedAccl3Prefix reservedAccumPrefix
        reservedCounterPrefix reservedGradientPrefix reservedLossScalingPrefix
        reservedRandomSeedPrefix reservedRestoredPrefix reservedStashedPrefix reservedStepPrefix
        reservedUpdatedVarPrefix versionNumber versionString
    """,
    "paddle_ipu.popart.opsets": """
        AiGraphcoreOpset1 AiOnnxOpset10 AiOnnxOpset11 AiOnnxOpset6 AiOnnxOpset7 AiOnnxOpset8
        AiOnnxOpset9 AiPaddleIpuOpset1
    """,
    "paddle_ipu.popart.optimizer": """
        Adam Adaptive ClipNormSettings ConstSGD Optimizer OptimizerValue OptimizerValueMap SGD
    """,
    "paddle_ipu.popart.options": """
        AccumulateOuterFragmentSettings AutodiffSettings AutomaticLossScalingSettings
        BatchSerializationSettings CommGroup DeveloperSettings ExecutionPhaseSettings
        ExperimentalSettings InputSettings ReplicatedCollectivesSettings SessionOptions
        TensorLocation TensorLocationSettings
    """,
    "paddle_ipu.popart.paddle_optimizer": "PaddleOptimizer",
    "paddle_ipu.popart.patterns": "Patterns",
    "paddle_ipu.sessions.session": "InferenceSession TrainingSession",
    "paddle_ipu.popart.stepio": "PyStepIO PyStepIOCallback PyWeightsIO",
    "paddle_ipu.popart.supported": """
        OpDefinition OperatorIdentifier getSupportedOperations getSupportedOperationsDefinition
        getUnsupportedOperations
    """,
    "paddle_ipu.popart.tensorinfo": "TensorInfo",
}

_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
