"""Names that scripts for PopART 2.0 to 3.3 use and that PopART 3.4 does not have any more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Older:
    """A name that is gone.

    Attributes:
        last: the last release that had it.
        instead: what to write in its place.
    """

    last: str
    instead: str


_ON_HOST = "replicas reduce their gradients on the device; leave it out"
_AS_TEXT = "patterns are named by texts, as in Patterns(['PostNRepl'])"

OLDER: dict[str, Older] = {
    "DotCheck": Older("2.3", "SessionOptions.dotChecks takes texts, such as 'Fwd0'"),
    "PreAliasPatternType": Older("2.2", _AS_TEXT),
    "hostReduceGradCopyPrefix": Older("2.2", _ON_HOST),
    "hostReduceVarCopyPrefix": Older("2.2", _ON_HOST),
    "SessionOptions.accumulationReductionType": Older(
        "2.0", "accumulationAndReplicationReductionType"
    ),
    "SessionOptions.enableGroupedMatmuls": Older(
        "2.1", "it grouped products for speed and changed no number; leave it out"
    ),
    "SessionOptions.explicitPipelining": Older("2.2", "enablePipelining with enableExplicitIR"),
    "SessionOptions.hostAllReduce": Older("2.2", _ON_HOST),
    "SessionOptions.hostAllReduceRemoteBuffer": Older("2.2", _ON_HOST),
    "SessionOptions.hostWeightUpdate": Older("2.2", "the device updates the weights; leave it out"),
    "MeanReductionStrategy.PostAndLoss": Older("2.3", "MeanReductionStrategy.Post"),
    "TensorStorage.Undefined": Older("2.0", "TensorStorage.OnChip"),
    "OutOfMemoryException.getGraphReport": Older("2.0", "getProfilePath"),
    "TrainingSession.getGraphReport": Older("2.1", "getReport, or the engine option autoReport"),
    "TrainingSession.getExecutionReport": Older(
        "2.1", "getReport, or the engine option autoReport"
    ),
    "TrainingSession.getTensorTileMap": Older("2.0", "autoReport.outputGraphProfile"),
    "TrainingSession.getHostReduceStreamIds": Older("2.2", _ON_HOST),
}
"""By the name, after its class where it has one. Facts: the bindings of each release."""


def why_gone(name: str) -> str:
    """What an error adds about a name, empty where no release had it."""
    older = OLDER.get(name)
    return "" if older is None else f". PopART had it up to {older.last}; now: {older.instead}"
