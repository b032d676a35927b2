"""Session options that PopART's sessions refuse, by themselves or with others."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import (
    Linear,
    builder,
    device,
    flow,
    infer,
    options,
    train,
)

MODES = popart.VirtualGraphMode


def _negated() -> tuple[popart.Builder, str]:
    make = builder()
    return make, str(make.aiOnnx.neg([make.addInputTensor("FLOAT", [2], "x")]))


def _session(
    settings: dict[str, Any], ipus: int = 1, kept: Any = "All", tiles: int = 4, **nested: Any
) -> popart.InferenceSession:
    """Of a program of two operators, each on a virtual graph of its own, the second on the last.

    Args:
        settings: session options.
        ipus: of the device.
        kept: how often the anchor comes back.
        tiles: of an IPU.
        nested: settings in others, ``group__name``.
    """
    make = builder()
    with make.virtualGraph(0):
        h = make.aiOnnx.neg([make.addInputTensor("FLOAT", [2], "x")])
    with make.virtualGraph(max(0, ipus - 1)):
        y = make.aiOnnx.sqrt([h])
    session_options = options(**settings)
    for path, value in nested.items():
        group, name = path.split("__")
        setattr(getattr(session_options, group), name, value)
    return popart.InferenceSession(
        make.getModelProto(),
        flow(2, {y: kept}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus, "tilesPerIPU": tiles}),
        userOptions=session_options,
    )


PIPELINE: dict[str, Any] = {"enablePipelining": True, "virtualGraphMode": MODES.Manual}
EXPLICIT: dict[str, Any] = {"useHostCopyOps": True, "enableExplicitMainLoops": True}
AGAIN: dict[str, Any] = {"autoRecomputation": popart.RecomputationType.Pipeline}
RATIOS = "virtualGraphSplitRatios"


@pytest.mark.parametrize(
    ("settings", "ipus", "told"),
    [
        ({"aliasZeroCopy": True, **PIPELINE}, 2, "^Alias zero copy is not supported with implicit"),
        (
            {"aliasZeroCopy": True},
            1,
            "^Alias zero copy is currently not supported with implicit recomputation. Set",
        ),
        ({"aliasZeroCopy": True, "explicitRecomputation": True}, 1, None),
        ({"enableExplicitMainLoops": True}, 1, "^enableExplicitMainLoops requires useHostCopyOps"),
        (EXPLICIT, 1, None),
        (
            {**PIPELINE, **EXPLICIT},
            2,
            r"^\[Pipeline::addDynamicStashOps\] Explicit pipelining requires explicit recomputation"
            " to be enabled. enableExplicitIR sets",
        ),
        ({**PIPELINE, **EXPLICIT, "explicitRecomputation": True, "aliasZeroCopy": True}, 2, None),
        (
            {"kahnTieBreaker": "lifo"},
            1,
            '^Unrecognised KahnTieBreaker, lifo. Should be one of "fifo", "greedy", and "random".$',
        ),
        ({"kahnTieBreaker": "FIFO"}, 1, None),
        (
            AGAIN,
            1,
            "^Invalid RecomputationType::Pipeline in autoAnnotate when using implicit pipelining. "
            "enablePipelining is False, explicitRecomputation False; set",
        ),
        ({**AGAIN, **PIPELINE, "explicitRecomputation": True}, 2, "^Invalid RecomputationType::Pi"),
        ({**AGAIN, **PIPELINE}, 2, None),
        ({**AGAIN, **PIPELINE, **EXPLICIT, "explicitRecomputation": True}, 2, None),
        (PIPELINE, 1, r"^Pipelining requires more than 1 IPU \(currently 1\)"),
        (
            {"gclOptions": {"maxBytesPerTile": "1", "maxBytes": "1"}},
            1,
            "^'maxBytes' is not a valid gcl option. Valid options are maxBytesPerTile, useSyncl",
        ),
        ({"gclOptions": {"maxBytesPerTile": "1"}}, 1, None),
        (
            {"dotChecks": {"Final"}, "firstDotOp": 3, "finalDotOp": 3},
            1,
            r"^Invalid dot range \(3, 3\), as no Ops will be exported to the .dot file. Set first",
        ),
        ({"dotChecks": {"Final"}, "firstDotOp": -1}, 1, None),
        ({"firstDotOp": 3, "finalDotOp": 3}, 1, None),
        (
            {"virtualGraphMode": MODES.Auto, RATIOS: [0.5, 0.25, 0.25]},
            2,
            "^The size of virtualGraphSplitRatios must be equal to num_ipus. It has 3 for 2 IPUs",
        ),
        (
            {"virtualGraphMode": MODES.Auto, RATIOS: [1.0, 0.5]},
            2,
            r"^virtualGraphSplitRatios\[i\] must be in the rage \(0, 1\). Got 1$",
        ),
        (
            {"virtualGraphMode": MODES.Auto, RATIOS: [0.5, 0.25]},
            2,
            r"^Sum of virtualGraphSplitRatios\[i\] must be equal to 1.0, but found 0.75.$",
        ),
        ({"virtualGraphMode": MODES.Auto, RATIOS: [0.25, 0.75]}, 2, None),
        ({"virtualGraphMode": MODES.Auto, RATIOS: [2.0]}, 1, None),
        ({"virtualGraphMode": MODES.Manual, RATIOS: [2.0]}, 2, None),
    ],
)
def test_options_of_a_session(settings: dict[str, Any], ipus: int, told: str | None) -> None:
    if told is None:
        _session(settings, ipus)
        return
    with pytest.raises(popart_exception, match=told):
        _session(settings, ipus)


def test_execution_phases_need_their_mode() -> None:
    phases = {"executionPhaseSettings__phases": 2}
    told = (
        "^> 1 execution phases requires VirtualGraphMode::ExecutionPhases. virtualGraphMode is "
        "Off, executionPhaseSettings.phases 2$"
    )
    with pytest.raises(popart_exception, match=told):
        _session({}, **phases)
    _session({"virtualGraphMode": MODES.ExecutionPhases}, **phases)


def test_operators_are_in_phases_that_there_are() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    with make.executionPhase(1):
        y = make.aiOnnx.neg([x])
    settings = options()
    infer(make.getModelProto(), {y: "All"}, settings=settings)
    settings.virtualGraphMode = MODES.ExecutionPhases
    settings.executionPhaseSettings.phases = 2
    infer(make.getModelProto(), {y: "All"}, settings=settings)
    with make.executionPhase(2):
        z = make.aiOnnx.neg([y])
    told = r"^\[StreamingMemory\] Maximum phase is 1, but op Op\(.*Neg:0/1\]\) has phase 2.$"
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {z: "All"}, settings=settings)


def test_merged_collectives_are_no_serial_schedule() -> None:
    merged = {"replicatedCollectivesSettings__prepareScheduleForMergingCollectives": True}
    told = "^Incompatible accumulateOuterFragmentSchedule used with session option: options.repl"
    with pytest.raises(popart_exception, match=told):
        _session({}, **merged)
    schedule = popart.AccumulateOuterFragmentSchedule.Scheduler
    _session({}, **merged, accumulateOuterFragmentSettings__schedule=schedule)


def test_explicit_loops_do_not_count() -> None:
    told = (
        r'^\[MainLoops\] AnchorReturnType::EveryN for Tensor "Sqrt:0" is unsupported when explicit '
        "main loops are enabled. Supported anchor return types are AnchorReturnTypeId::All and"
    )
    with pytest.raises(popart_exception, match=told):
        _session(EXPLICIT, kept=("EveryN", 2))
    _session({}, kept=("EveryN", 2))
    for kept in ("All", "Sum", "Final"):
        _session(EXPLICIT, kept=kept)


def test_how_large_merged_updates_are() -> None:
    net = Linear()
    settings = options(
        mergeVarUpdate=popart.MergeVarUpdateType.AutoTight, mergeVarUpdateMemThreshold=-1
    )
    infer(net.builder.getModelProto(), {net.out: "All"}, settings=settings)
    told = "^Negative memory -1 threshold detected in MergeAuto. The option mergeVarUpdateMemThresh"
    with pytest.raises(popart_exception, match=told):
        train(net, popart.ConstSGD(0.1), settings=settings)
    settings.mergeVarUpdate = popart.MergeVarUpdateType.All
    train(net, popart.ConstSGD(0.1), settings=settings)


@pytest.mark.parametrize(
    ("asked", "tiles", "told"),
    [
        (16, 1472, "^16 is an invalid number of IO tiles. Number of IO tiles must be an even numb"),
        (33, 1472, "^33 is an invalid number of IO tiles"),
        (32, 32, "^Tiles per IPU 32 should exceed number of IO tiles 32. The device's option"),
        (32, 34, None),
        (0, 4, None),
    ],
)
def test_tiles_for_input_and_output(asked: int, tiles: int, told: str | None) -> None:
    settings = {"numIOTiles": asked, "virtualGraphMode": MODES.Manual}
    session = _session(settings, 2, tiles=tiles)
    if told is None:
        session.prepareDevice()
    else:
        with pytest.raises(popart_exception, match=told):
            session.prepareDevice()
    # Without virtual graphs none are set aside.
    _session({"numIOTiles": asked}, tiles=tiles).prepareDevice()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"defaultBufferingDepth": 0},
            r"^Unable .* of 0 for tensor x \(minimum buffering depth is",
        ),
        ({"defaultBufferingDepth": 0, "bufferingDepthMap": {"x": 2}}, None),
        ({"bufferingDepthMap": {"x": 0}}, "^Unable to support a buffering depth of 0 for tensor x"),
        (
            {"bufferingDepthMap": {"Neg:0": 2}},
            "^Unable to support a buffering depth >1 for tensor Neg:0 because the stream is set to "
            r"rearrange on the host \(.*\). bufferingDepthMap has 2; take 1, or switch",
        ),
        ({"bufferingDepthMap": {"Neg:0": 2}, "rearrangeAnchorsOnHost": False}, None),
        ({"bufferingDepthMap": {"x": 2}, "rearrangeStreamsOnHost": True}, "depth >1 for tensor x"),
        ({"defaultBufferingDepth": 3, "rearrangeStreamsOnHost": True}, None),
        (
            {
                "defaultBufferingDepth": 0,
                "syntheticDataMode": popart.SyntheticDataMode.Zeros,
            },
            None,
        ),
        ({"updatableNamedBuffers": ["x", "Accl1___w"]}, None),
        (
            {"updatableNamedBuffers": ["y"]},
            "^Invalid named buffer in updatableNamedBuffers!\nNo Ir::Tensor with TensorId 'y'",
        ),
    ],
)
def test_what_is_streamed(settings: dict[str, Any], told: str | None) -> None:
    make, y = _negated()

    def prepare() -> None:
        popart.InferenceSession(
            make.getModelProto(), flow(1, {y: "All"}), device(1), userOptions=options(**settings)
        ).prepareDevice()

    if told is None:
        prepare()
        return
    with pytest.raises(popart_exception, match=told):
        prepare()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"globalReplicationFactor": 0},
            "^Invalid globalReplicationFactor value: 0, must be greater or equal than 1. It is",
        ),
        (
            {"globalReplicationFactor": 2, "globalReplicaOffset": -1},
            "^Invalid globalReplicaOffset value: -1, must be greater or equal than 0: popdist",
        ),
        (
            {"globalReplicationFactor": 2, "globalReplicaOffset": 3},
            "^Global replica offset: 3, is larger than global replication factor: 2",
        ),
        (
            {"enableReplicatedGraphs": True},
            "^Local replicated graphs enabled but replication factor is 1. Set enableReplicatedGr",
        ),
        (
            {"enableReplicatedGraphs": True, "replicatedGraphCount": 2},
            "^Invalid local replication factor: 2, larger than global replication factor: 1. repl",
        ),
        ({}, None),
    ],
)
def test_replicas_of_several_processes(settings: dict[str, Any], told: str | None) -> None:
    make, y = _negated()
    given = {"enableDistributedReplicatedGraphs": True, **settings}
    ipus = int(settings.get("replicatedGraphCount", 1))

    def session() -> None:
        popart.InferenceSession(
            make.getModelProto(), flow(1, {y: "All"}), device(ipus), userOptions=options(**given)
        )

    if told is None:
        session()
        return
    with pytest.raises(popart_exception, match=told):
        session()


def test_changed_tensors_are_not_looked_for_in_replicas() -> None:
    make, y = _negated()
    settings = options(enableReplicatedGraphs=True, replicatedGraphCount=2, opxModifyChecking=True)
    session = popart.InferenceSession(
        make.getModelProto(), flow(1, {y: "All"}), device(2), userOptions=settings
    )
    with pytest.raises(popart_exception, match="^Can not do opx modify checking when using repl"):
        session.prepareDevice()
    popart.InferenceSession(
        make.getModelProto(), flow(1, {y: "All"}), device(1),
        userOptions=options(opxModifyChecking=True),
    ).prepareDevice()  # fmt: skip
