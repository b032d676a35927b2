"""PopART's graph-rewriting patterns: which are on. None changes results beyond rounding.

Where one that is off leaves something that PopART has no code for, ``pattern_effects.py`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import PatternsLevel

MANDATORY = frozenset(
    """
    AllReduceToIdentity Atan2Arg0GradOp Atan2Arg1GradOp ConvDataGrad ConvFlipWeightsGradOp
    ConvTranspose CosGradOp CoshOp DivArg0GradOp DivArg1GradOp AbsGradOp SinGradOp ExpGradOp
    Expm1GradOp FmodArg0GradOp RandomNormalLikeOpPattern RandomUniformLikeOpPattern
    ZerosLikeOpPattern Log1pGradOp LogGradOp LoopScanOut MatMulOp MatMulLhsGradOp MatMulRhsGradOp
    MulArgGradOp PowArg0GradOp PowArg1GradOp ReciprocalGradOp ScanToLoop SqrtGradOp
    SubtractArg1GradOp
    """.split()
)
DEFAULT_ON = frozenset(
    """
    ConvFlipWeightsDoubleFlip DecomposeBinaryConstScalar ExpandCast InitAccumulate
    LambSerialisedWeight NegativeOneScale NlllWithSoftmaxGradDirect OpToIdentity PackedDataBlock
    PadSum PostNRepl PreUniRepl RemoveUnnecessaryLossGradCast SoftmaxGradDirect SplitGradOpToConcat
    SplitOp SumToAdd TransposeToIdentityOrReshapePattern UpsampleToResize
    """.split()
)
DEFAULT_OFF = frozenset(
    "LSTMOp Slice2SliceSubsample SplitGather TiedGather TiedGatherAccumulate".split()
)
ALL_NAMES = MANDATORY | DEFAULT_ON | DEFAULT_OFF

_IN_PLACE = "InPlace"
_PRIORITIES = "UpdateInplacePrioritiesForIpu"
EXCLUDABLE = (
    ALL_NAMES
    | {_IN_PLACE, _PRIORITIES}
    | set(
        """
        AdamDecompose AdaptiveDecompose ContiguateIpuCopyIndicesPattern SGD0Decompose SGD1Decompose
        SGD2Decompose ViewSimplifyPattern
        """.split()
    )
)
"""What ``Builder.excludePatterns`` may name: also patterns that nobody turns on or off."""
# Python properties whose name differs from the pattern's.
_PROPERTIES = {
    "SoftMaxGradDirect": "SoftmaxGradDirect",
    "NlllWithSoftMaxGradDirect": "NlllWithSoftmaxGradDirect",
}


class Patterns:
    """``Patterns()``, ``Patterns(level)`` or ``Patterns([names])`` for only those."""

    def __init__(
        self,
        level: PatternsLevel | Sequence[str] = PatternsLevel.Default,
        *,
        patterns: Sequence[str] | None = None,
    ) -> None:
        level = level if patterns is None else patterns
        self._asserts = True
        self._in_place = False
        self._priorities = False
        self._enabled: set[str]
        if isinstance(level, PatternsLevel):
            self._enabled = {
                PatternsLevel.NoPatterns: set(),
                PatternsLevel.Minimal: set(MANDATORY),
                PatternsLevel.Default: set(MANDATORY | DEFAULT_ON),
                PatternsLevel.All: set(ALL_NAMES),
            }[level]
            self._in_place = level in (PatternsLevel.Default, PatternsLevel.All)
            return
        if isinstance(level, str) or not isinstance(level, Sequence):
            raise TypeError(f"Patterns takes a PatternsLevel or a list of names, got {level!r}")
        self._enabled = set()
        for name in level:
            if name == _IN_PLACE:
                self._in_place = True
            elif name == _PRIORITIES:
                self._priorities = True
            elif name == "Inplace":
                raise popart_exception(f"Unknown pattern {name}, did you mean InPlace?")
            else:
                self._enabled.add(self._known(name))

    @staticmethod
    def _known(name: str) -> str:
        if name not in ALL_NAMES:
            raise popart_exception(f"Unknown pattern {name}")
        return name

    def isPatternEnabled(self, name: str) -> bool:
        """Whether a pattern is on."""
        if name == _IN_PLACE:
            return self._in_place
        if name == _PRIORITIES:
            return self._priorities
        return self._known(name) in self._enabled

    def enablePattern(self, name: str, value: bool) -> Patterns:
        """Turns a pattern on or off and returns itself.

        Raises:
            popart_exception: no such pattern, or a mandatory one is to be off.
        """
        if name == _IN_PLACE:
            self._in_place = bool(value)
        elif name == _PRIORITIES:
            self._priorities = bool(value)
        elif value:
            self._enabled.add(self._known(name))
        else:
            if self._known(name) in MANDATORY:
                raise popart_exception(f"Pattern '{name}' is mandatory and cannot be disabled")
            self._enabled.discard(name)
        return self

    def enableRuntimeAsserts(self, value: bool) -> Patterns:
        """Whether leaving out a mandatory pattern is an error; on by default."""
        self._asserts = bool(value)
        return self

    def check(self) -> None:
        """Raises when a mandatory pattern is off and runtime asserts are on."""
        missing = sorted(MANDATORY - self._enabled)
        if missing and self._asserts:
            raise popart_exception(f"Pattern '{missing[0]}' must be enabled")

    def __repr__(self) -> str:
        names = sorted(self._enabled) + [_IN_PLACE] * self._in_place
        return f"Patterns({names})"


def _property(pattern: str) -> property:
    def get(self: Patterns) -> bool:
        return self.isPatternEnabled(pattern)

    def set_(self: Patterns, value: bool) -> None:
        self.enablePattern(pattern, value)

    return property(get, set_, doc=f"Whether {pattern} is on.")


for _name in (
    "PreUniRepl PostNRepl SoftMaxGradDirect NlllWithSoftMaxGradDirect OpToIdentity "
    "SubtractArg1GradOp MulArgGradOp MatMulOp MatMulLhsGradOp MatMulRhsGradOp InPlace"
).split():
    setattr(Patterns, _name, _property(_PROPERTIES.get(_name, _name)))
