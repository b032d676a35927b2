"""Patterns: levels, names and the mandatory ones."""

from __future__ import annotations

import pytest

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import PatternsLevel
from paddle_ipu.popart.patterns import ALL_NAMES, DEFAULT_OFF, DEFAULT_ON, MANDATORY, Patterns


def test_levels() -> None:
    for level, names, in_place in (
        (PatternsLevel.NoPatterns, set(), False),
        (PatternsLevel.Minimal, MANDATORY, False),
        (PatternsLevel.Default, MANDATORY | DEFAULT_ON, True),
        (PatternsLevel.All, ALL_NAMES, True),
    ):
        patterns = Patterns(level)
        assert {name for name in ALL_NAMES if patterns.isPatternEnabled(name)} == names
        assert patterns.InPlace == in_place  # type: ignore[attr-defined]
    assert repr(Patterns()) == repr(Patterns(PatternsLevel.Default))


def test_the_groups_do_not_overlap() -> None:
    assert len(ALL_NAMES) == len(MANDATORY) + len(DEFAULT_ON) + len(DEFAULT_OFF)


def test_switching() -> None:
    patterns = Patterns()
    assert patterns.enablePattern("PostNRepl", False).enablePattern("TiedGather", True) is patterns
    assert not patterns.PostNRepl  # type: ignore[attr-defined]
    assert patterns.isPatternEnabled("TiedGather")
    patterns.InPlace = False  # type: ignore[attr-defined]
    assert not patterns.isPatternEnabled("InPlace")
    patterns.SoftMaxGradDirect = False  # type: ignore[attr-defined]
    assert not patterns.isPatternEnabled("SoftmaxGradDirect")
    patterns.enablePattern("UpdateInplacePrioritiesForIpu", True)
    assert patterns.isPatternEnabled("UpdateInplacePrioritiesForIpu")


def test_mandatory_patterns() -> None:
    patterns = Patterns()
    for asserts in (True, False):
        with pytest.raises(
            popart_exception, match=r"^Pattern 'MatMulOp' is mandatory and cannot be disabled$"
        ):
            patterns.enableRuntimeAsserts(asserts).enablePattern("MatMulOp", False)
    patterns = Patterns(sorted(ALL_NAMES - {"MatMulOp"})).enableRuntimeAsserts(False)
    patterns.check()
    patterns.enableRuntimeAsserts(True)
    with pytest.raises(popart_exception, match=r"^Pattern 'MatMulOp' must be enabled$"):
        patterns.check()
    Patterns(PatternsLevel.Minimal).check()


def test_lists_of_names() -> None:
    patterns = Patterns(["PostNRepl", "InPlace", "UpdateInplacePrioritiesForIpu"])
    assert patterns.isPatternEnabled("PostNRepl")
    assert patterns.isPatternEnabled("InPlace")
    assert not patterns.isPatternEnabled("PreUniRepl")
    with pytest.raises(popart_exception, match="Unknown pattern Inplace, did you mean InPlace?"):
        Patterns(["Inplace"])
    with pytest.raises(popart_exception, match="^Unknown pattern Nothing$"):
        Patterns(["Nothing"])
    with pytest.raises(TypeError, match="Patterns takes a PatternsLevel or a list of names"):
        Patterns("PostNRepl")
