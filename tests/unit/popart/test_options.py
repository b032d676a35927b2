"""SessionOptions and the records in it: defaults, types, unknown names, derived answers."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import Any

import pytest

from paddle_ipu.popart.enums import (
    CommGroupType,
    ExchangeStrategy,
    Instrumentation,
    MeanReductionStrategy,
    RecomputationType,
    ReductionType,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    TensorStorage,
    TileSet,
    VirtualGraphMode,
)
from paddle_ipu.popart.options import (
    CPP_ONLY_FIELDS,
    AccumulateOuterFragmentSettings,
    BatchSerializationSettings,
    CommGroup,
    InputSettings,
    SessionOptions,
    TensorLocation,
    TensorLocationSettings,
)


@pytest.fixture(autouse=True)
def no_cache_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POPART_CACHE_DIR", "POPXL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    options = SessionOptions()
    expected = {
        "enablePipelining": False,
        "enableOutlining": True,
        "accumulationFactor": 1,
        "replicatedGraphCount": 1,
        "virtualGraphMode": VirtualGraphMode.Off,
        "autoRecomputation": RecomputationType.NoRecompute,
        "accumulationAndReplicationReductionType": ReductionType.Sum,
        "meanAccumulationAndReplicationReductionStrategy": MeanReductionStrategy.Post,
        "constantWeights": True,
        "cachePath": "session_cache",
        "enableEngineCaching": False,
        "timeLimitScheduler": 1e9,
        "partialsTypeMatMuls": "",
        "kahnTieBreaker": "greedy",
        "hardwareInstrumentations": {Instrumentation.Outer},
        "finalDotOp": 10000,
        "enableSupportedDataTypeCasting": True,
        "delayVarUpdates": True,
    }
    assert {name: getattr(options, name) for name in expected} == expected
    assert options.weightTensorLocationSettings.minElementsForReplicatedTensorSharding == 8192
    assert options.executionPhaseSettings.stages == 2
    assert options.automaticLossScalingSettings.thresholdUpperCountProportion == 1e-7


def test_settings_are_not_shared() -> None:
    first, second = SessionOptions(), SessionOptions()
    first.engineOptions["a"] = "1"
    first.batchSerializationSettings.factor = 4
    first.hardwareInstrumentations.add(Instrumentation.Inner)
    assert second == SessionOptions()
    assert first != second


def test_unknown_names() -> None:
    options = SessionOptions()
    with pytest.raises(
        AttributeError,
        match="'SessionOptions' object has no attribute 'enablePipelinin'. Did you mean enableP",
    ):
        options.enablePipelinin = True
    with pytest.raises(AttributeError, match="no attribute 'qqqq'$"):
        options.executionPhaseSettings.qqqq = 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enablePipelining", 1),
        ("accumulationFactor", 1.5),
        ("accumulationFactor", VirtualGraphMode.Manual),
        ("outlineThreshold", "1"),
        ("virtualGraphMode", 1),
        ("virtualGraphMode", ReductionType.Sum),
        ("cachePath", 3),
        ("engineOptions", "a"),
        ("customCodelets", "a.cpp"),
        ("executionPhaseSettings", 3),
        ("dotChecks", 3),
    ],
)
def test_wrong_types(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^SessionOptions.{name} takes .*, got "):
        setattr(SessionOptions(), name, value)


def test_every_field_takes_its_own_default_again() -> None:
    options = SessionOptions()
    for field in fields(options):
        setattr(options, field.name, getattr(options, field.name))
    assert options == SessionOptions()
    assert {field.name for field in fields(options)} >= CPP_ONLY_FIELDS


def test_conversions() -> None:
    options = SessionOptions()
    options.outlineThreshold = 3
    options.engineOptions = {"debug": True}  # type: ignore[assignment]
    options.engineOptions["depth"] = 4
    options.engineOptions.update(x=1)
    options.dotChecks = ["ALL"]  # type: ignore[assignment]
    assert type(options.outlineThreshold) is float
    assert options.engineOptions == {"debug": "True", "depth": "4", "x": "1"}
    assert options.dotChecks == {"ALL"}


def test_explicit_ir_and_pipelining() -> None:
    options = SessionOptions()
    options.enablePipelining = True
    assert options.implicitPipeliningEnabled()
    options.enableExplicitIR(True)
    assert (
        options.useHostCopyOps,
        options.enableExplicitMainLoops,
        options.explicitRecomputation,
    ) == (True, True, True)
    assert options.explicitPipeliningEnabled()
    assert not options.implicitPipeliningEnabled()


def test_the_global_replication_factor() -> None:
    options = SessionOptions()
    options.replicatedGraphCount = 2
    assert options.getGlobalReplicationFactor() == 1
    options.enableReplicatedGraphs = True
    assert options.getGlobalReplicationFactor() == 2
    options.globalReplicationFactor = 8
    options.enableDistributedReplicatedGraphs = True
    assert options.getGlobalReplicationFactor() == 8


def test_deprecated_names(caplog: pytest.LogCaptureFixture) -> None:
    options = SessionOptions()
    with caplog.at_level(logging.WARNING):
        options.defaultPrefetchBufferingDepth = 3
        options.prefetchBufferingDepthMap = {"x": 2}
    assert [record.getMessage().split("'")[1] for record in caplog.records] == [
        "defaultPrefetchBufferingDepth",
        "prefetchBufferingDepthMap",
    ]
    assert (options.defaultBufferingDepth, options.defaultPrefetchBufferingDepth) == (3, 3)
    assert options.bufferingDepthMap == options.prefetchBufferingDepthMap == {"x": 2}
    options.serializedPoprithmsAnnealGraphsDir = "d"
    assert options.serializedPoprithmsShiftGraphsDir == "d"
    assert options.serializedPoprithmsAnnealGraphsDir == "d"


def test_cache_paths_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POPART_CACHE_DIR", "one")
    options = SessionOptions()
    assert (options.enableEngineCaching, options.cachePath) == (True, "one")
    monkeypatch.setenv("POPXL_CACHE_DIR", "two")
    assert SessionOptions().cachePath == "two"
    assert "The value of POPART_CACHE_DIR will be ignored" in caplog.text


def test_tensor_locations() -> None:
    assert TensorLocation().serialize() == [0, 0, 0, 0, 0, 0]
    group = CommGroup(CommGroupType.Consecutive, 4)
    sharded = TensorLocation(TensorStorage.OffChip, ReplicatedTensorSharding.On, group)
    assert sharded.serialize() == [1, 0, 0, 1, 1, 4]
    full = TensorLocation(
        TensorStorage.OnChip, TileSet.IO, TileSet.Compute, ReplicatedTensorSharding.Off
    )
    assert full.serialize() == [0, 1, 0, 0, 0, 0]
    assert TensorLocation(storage=TensorStorage.OffChip) == TensorLocation(TensorStorage.OffChip)
    for args in ((TensorStorage.OnChip, 3), (3,)):
        with pytest.raises(TypeError, match=r"TensorLocation\.\w+ takes"):
            TensorLocation(*args)
    with pytest.raises(TypeError, match="takes at most 5 arguments"):
        TensorLocation(TensorStorage.OnChip, TileSet.IO, TileSet.IO, *[group] * 3)
    with pytest.raises(TypeError, match="does not take 'storage' here"):
        TensorLocation(TensorStorage.OnChip, storage=TensorStorage.OnChip)
    settings = TensorLocationSettings(TensorStorage.OffChip, 4)
    assert settings.location == TensorLocation(TensorStorage.OffChip)
    assert settings.minElementsForOffChip == 4


def test_input_settings() -> None:
    settings = InputSettings(TileSet.IO, ExchangeStrategy.OverlapLoops)
    assert settings.tileSet() is TileSet.IO
    assert settings.exchangeStrategy() is ExchangeStrategy.OverlapLoops
    assert settings.replicatedStreamMode() is ReplicatedStreamMode.Replicate
    # The numbers that models keep.
    assert int(ReplicatedStreamMode.Replicate) == 1
    broadcast = InputSettings(ReplicatedStreamMode.Broadcast)
    assert broadcast.replicatedStreamMode() is ReplicatedStreamMode.Broadcast
    assert broadcast.tileSet() is TileSet.Compute
    with pytest.raises(TypeError, match="InputSettings takes a TileSet, got 3"):
        InputSettings(3)
    with pytest.raises(TypeError, match="InputSettings does not take"):
        InputSettings(colour=3)


def test_records_take_their_fields() -> None:
    settings = BatchSerializationSettings(2, False, True, True)
    assert (settings.factor, settings.concatOnVirtualGraphChange) == (2, False)
    with pytest.raises(TypeError, match=r"AccumulateOuterFragmentSettings.schedule takes"):
        AccumulateOuterFragmentSettings(3)  # type: ignore[arg-type]
