"""What the parts of the popart stand-in share: errors, enumerations, checked and recorded calls."""

# The names are PopART's, and enumerations are made at run time.
# ruff: noqa: N801, N818

from __future__ import annotations

import enum
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np


class popart_exception(Exception):
    """PopART's base exception."""


class popart_runtime_error(popart_exception):
    """PopART's error at run time."""


class Call(NamedTuple):
    """One recorded call."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Calls = list[Call]

# -- enumerations: pybind's members are no numbers and equal only themselves ----------------------

_ENUMS = {
    "AccumulateOuterFragmentSchedule": (
        "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized"
    ),
    "AdamMode": "Adam AdamNoBias AdaMax Lamb LambNoBias",
    "AdaptiveMode": "AdaGrad RMSProp CenteredRMSProp AdaDelta",
    "AnchorReturnTypeId": "Final EveryN All Sum",
    "BatchSerializationBatchSchedule": "Scheduler Isomorphic OverlapOnIo OverlapOnCompute",
    "BatchSerializationMethod": "UnrollDynamic UnrollStatic Loop",
    "CommGroupType": "All Consecutive Orthogonal Ungrouped",
    "DataType": (
        "UINT8 INT8 FLOAT8_143 FLOAT8_152 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT "
        "FLOAT16 BFLOAT16 DOUBLE COMPLEX64 COMPLEX128 STRING UNDEFINED"
    ),
    "DeviceConnectionType": "Always OnDemand Never",
    "DeviceSelectionCriterion": "First Random",
    "DeviceType": "IpuModel Cpu Ipu OfflineIpu Sim",
    "ExchangeStrategy": "JustInTime OverlapInnerLoop OverlapLoops OverlapStep",
    "ExecutionPhaseIOSchedule": "Preload OnDemand",
    "ExecutionPhaseSchedule": "Interleaving Batch BatchClusteredIO",
    "Instrumentation": "Outer Inner",
    "MeanReductionStrategy": "Running Post",
    "MergeVarUpdateType": "Off All AutoLoose AutoTight",
    "PatternsLevel": "NoPatterns Minimal Default All",
    "RecomputationType": "NoRecompute Standard NormOnly Pipeline RecomputeAll",
    "RecomputeType": "Undefined Checkpoint Recompute Recomputed",
    "ReductionType": "Sum Mean NoReduction",
    "ScatterReduction": "Sum Max Min Mul NoReduction",
    "ReplicatedStreamMode": "Broadcast Replicate",
    "ReplicatedTensorSharding": "Off On",
    "SGDAccumulatorAndMomentum": "Combined Separate",
    "SubgraphCopyingStrategy": "OnEnterAndExit JustInTime",
    "SyncPattern": "Full SinglePipeline ReplicaAndLadder",
    "SyntheticDataMode": "Off Zeros RandomNormal RandomUniform",
    "TensorStorage": "OnChip OffChip",
    "TileSet": "Compute IO",
    "VariableRetrievalMode": "OnePerGroup AllReduceReplicas AllReplicas",
    "VirtualGraphMode": "Off Manual Auto ExecutionPhases",
    "WeightDecayMode": "Decay L2Regularization",
}
ENUMS: dict[str, Any] = {
    name: enum.Enum(name, members.split(), start=0, module=__name__)
    for name, members in _ENUMS.items()
}

# -- checked and recorded functions ---------------------------------------------------------------


def fits(value: Any, kind: Any) -> bool:
    """Whether pybind would take `value` for an argument of type `kind`."""
    if kind is Any:
        return True
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(fits(v, inner[0]) for v in value)
    if origin is set:
        return isinstance(value, (set, frozenset)) and all(fits(v, inner[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items()
        )
    if inner:
        return any(fits(value, option) for option in inner)
    if kind is float:
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, (int, np.integer))
    if kind is type(None):
        return value is None
    return isinstance(value, kind)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Binds arguments as pybind does, checks their types and records the call."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = function.__qualname__.replace(".__init__", "")
        hints = typing.get_type_hints(function, function.__globals__, dict(ENUMS))
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): incompatible function arguments. {error}") from None
        for parameter, value in list(bound.arguments.items())[1:]:
            if not fits(value, hints[parameter]):
                raise TypeError(
                    f"{name}(): incompatible function arguments. '{parameter}' takes "
                    f"{hints[parameter]}, got {value!r}"
                )
        self._calls.append(Call(name, args, kwargs))
        return function(self, *args, **kwargs)

    return call


def record_methods(cls: type) -> type:
    """Checks and records every public method and constructor of a class."""
    for name, value in list(vars(cls).items()):
        plain = inspect.isfunction(value) and value.__qualname__.startswith(cls.__name__)
        if plain and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, checked(value))
    return cls


class Recorded:
    """Base of the stand-in's classes; `make_popart` derives from them with a list of its own."""

    _calls: Calls = []
