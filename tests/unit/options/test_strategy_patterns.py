"""The strategy's graph patterns: PopART's defaults, unknown names, and what reaches PopART."""

from __future__ import annotations

import pytest

from paddle_ipu.errors import OptionError
from paddle_ipu.options.strategy import CoreIpuStrategy, record_patterns_on


def test_patterns_have_popart_defaults() -> None:
    core = CoreIpuStrategy()
    assert core.is_pattern_enabled("MatMulOp")
    assert core.is_pattern_enabled("InPlace")
    assert not core.is_pattern_enabled("LSTMOp")
    core.enable_pattern("LSTMOp")
    core.disable_pattern("InPlace")
    assert core.is_pattern_enabled("LSTMOp")
    assert not core.is_pattern_enabled("InPlace")


def test_a_mandatory_pattern_stays() -> None:
    with pytest.raises(OptionError, match="'MatMulOp' is mandatory and cannot be disabled"):
        CoreIpuStrategy().disable_pattern("MatMulOp")


def test_an_unknown_pattern_lists_close_matches() -> None:
    core = CoreIpuStrategy()
    for call in (core.enable_pattern, core.disable_pattern, core.is_pattern_enabled):
        with pytest.raises(OptionError, match="no graph pattern 'TiedGathr'.*Did you mean 'TiedG"):
            call("TiedGathr")


def test_patterns_reach_popart() -> None:
    core = CoreIpuStrategy()
    core.enable_pattern("LSTMOp")
    core.enable_pattern("TiedGatherPattern")
    core.disable_pattern("PadSum")
    values = core.snapshot()
    calls: dict[str, bool] = {}
    all_calls: dict[str, bool] = {}
    record_patterns_on(values, calls.__setitem__)
    record_patterns_on(values, all_calls.__setitem__, user=True)
    assert calls == {"LSTMOp": True, "PadSum": False}
    assert all_calls == {**calls, "TiedGatherPattern": True}
