"""A module with the names and the behaviour of Graphcore's `popart` 3.4, for the IPU Model.

Importing it imports nothing heavy: each public name is found in its module on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from paddle_ipu.errors import UnsupportedNameError
from paddle_ipu.popart.older_names import why_gone
from paddle_ipu.popart.onnx_ir_import import import_onnx_ir

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
    WeightDecayMode syncPatternFromString syncPatternToString
"""

_PREFIXES = [
    f"reserved{name}Prefix"
    for name in """
        Accl Accl1 Accl2 Accl3 AcclFinalOut AcclToReduce AcclToUpdate Accum AdamUpdater
        AutomaticLossScale Counter FinalReducedGrad Gradient LambR1Sq LambR2Sq LossScaling
        RandomSeed RemoteArg Restored SeedModifier Stashed Step UpdatedVar
    """.split()
] + [
    f"reserved{kind}{number}Prefix"
    for kind in ("Default", "Specific")
    for number in """
        AdamBeta1 AdamBeta2 AdamEps DampeningScaleFactor1 LearningRate LossScaling MaxWeightNorm
        ScaledLearningRate0 ScaledLearningRate1 ScaledMomentum1 ScaledWeightDecay1 Step WeightDecay
        WeightDecayScaleFactor0
    """.split()
]

_NAMES_BY_MODULE = {
    "paddle_ipu.errors": """
        OutOfMemoryError OutOfMemoryException poplar_application_runtime_error poplar_exception
        poplar_recoverable_runtime_error poplar_runtime_error poplar_system_runtime_error
        poplar_unknown_runtime_error poplar_unrecoverable_runtime_error poplibs_exception
        popart_exception popart_internal_exception popart_runtime_error
    """,
    "paddle_ipu.popart.builder": "Builder",
    "paddle_ipu.popart.contexts": (
        "AttributeContextManager KeyValueContextManager NameContextManager"
    ),
    "paddle_ipu.popart.dataflow": "AnchorReturnType DataFlow InputShapeInfo",
    "paddle_ipu.popart.debug_context": "DebugContext DebugInfo SourceLocation",
    "paddle_ipu.sessions.devices": "DeviceInfo DeviceManager",
    "paddle_ipu.popart.enums": _ENUMS,
    "paddle_ipu.popart.graph_transformer": "GraphTransformer",
    "paddle_ipu.popart.logger": "Logger getLogger",
    "paddle_ipu.popart.names": f"""
        defaultAiGraphcoreOpset defaultAiOnnxMlOpset defaultAiOnnxOpset getTensorInfo packageHash
        versionNumber versionString {" ".join(_PREFIXES)}
    """,
    "paddle_ipu.popart.numerics_report": "NumericsReport",
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
        ExperimentalSettings InputSettings NumIOTiles ReplicatedCollectivesSettings SessionOptions
        TensorLocation TensorLocationSettings
    """,
    "paddle_ipu.popart.paddle_optimizer": "PaddleOptimizer",
    "paddle_ipu.popart.patterns": "Patterns",
    "paddle_ipu.sessions.session": "InferenceSession TrainingSession",
    "paddle_ipu.popart.stepio": "IStepIO IWeightsIO PyStepIO PyStepIOCallback PyWeightsIO",
    "paddle_ipu.popart.supported": """
        OpDefinition OperatorIdentifier getSupportedOperations getSupportedOperationsDefinition
        getUnsupportedOperations
    """,
    "paddle_ipu.popart.tensorinfo": "TensorInfo",
    "paddle_ipu.popart.variable_settings": "VariableSettings",
}

NOT_HERE = {
    "initializePoplarDebugInfo": "no Poplar runs that would write its debug information",
    "closePoplarDebugInfo": "no Poplar runs that would write its debug information",
}
"""Public names of PopART's that mean nothing for an IPU Model, and why."""

_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if name in NOT_HERE:
        raise UnsupportedNameError(f"'{__name__}' does not have '{name}': {NOT_HERE[name]}.")
    if module is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'{why_gone(name)}")
    import_onnx_ir()
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
