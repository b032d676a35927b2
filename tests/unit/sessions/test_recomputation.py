"""Recomputation through PopART's interface: less memory, the same numbers, the same errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import IndexRangeError, NumericalError, popart_exception
from tests.unit.sessions.layered_net import (
    FEED,
    ROWS,
    TABLE,
    WIDTH,
    Net,
    Trained,
    check_same,
    train,
)
from tests.unit.sessions.session_programs import builder, device, flow, options, run


@pytest.fixture(scope="module")
def kept() -> Trained:
    """The program without recomputation."""
    return train(Net())


@pytest.mark.parametrize(
    ("kind", "marks", "limit"),
    [
        ("Standard", "", 0.42),
        ("RecomputeAll", "checkpoint", 0.42),
        # No step keeps what a norm gives, so hardly anything is left to compute again.
        ("NormOnly", "", 0.705),
        ("NoRecompute", "outputs", 0.45),
        ("NoRecompute", "scope", 0.45),
        ("NoRecompute", "checkpoint", 0.71),
    ],
)
def test_less_memory_and_the_same_numbers(
    kept: Trained, kind: str, marks: str, limit: float
) -> None:
    """Dropout's masks are those of forward, too: without them no weight would be the same.

    Limits are megabytes: a share of the step without recomputation would be worth less for each
    byte that step saves.
    """
    assert kept.megabytes < 0.71
    found = train(Net(marks), kind)
    assert found.megabytes < limit
    check_same(found, kept)


def test_stages_of_a_pipeline_are_computed_again() -> None:
    settings = {
        "virtualGraphMode": popart.VirtualGraphMode.Manual, "enablePipelining": True, "micro": 5,
    }  # fmt: skip
    kept = train(Net(ipus=3), **settings)
    found = train(Net(ipus=3), "Pipeline", **settings)
    assert kept.megabytes > 0.7
    assert found.megabytes < 0.5
    check_same(found, kept)
    finer = train(Net("checkpoint", ipus=3), "Pipeline", **settings)
    assert finer.megabytes < 0.5
    check_same(finer, kept)


def test_memory_does_not_grow_with_accumulation() -> None:
    few, many = (train(Net(), "Standard", micro=micro).megabytes for micro in (2, 32))
    assert many == pytest.approx(few, rel=0.01)


def test_gradients_inside_a_segment_can_be_anchored(kept: Trained) -> None:
    net = Net()
    anchors = [net.layers[2], f"Gradient___{net.layers[2]}", "Gradient___w1"]
    check_same(train(net, "Standard", anchors=anchors), train(Net(), anchors=anchors))


def test_errors_name_the_operator_and_the_index() -> None:
    wrong = {**FEED, "rows": FEED["rows"].copy()}
    wrong["rows"][3] = TABLE
    negative = {**FEED, "scale": np.full(1, -1.0, np.float32)}
    with pytest.raises(
        IndexRangeError, match=r"operator Gather .*got index 10, expected -?\d+ to 9"
    ):
        train(Net(), "Standard", feed=wrong)
    with pytest.raises(NumericalError, match="operator Log .* in micro-batch 0"):
        train(Net(logs=True), "Standard", feed=negative, enableFloatingPointChecks=True)


def test_where_things_lie_changes_no_number(kept: Trained) -> None:
    """Off-chip state, replicated tensor sharding and IO tiles are for the hardware alone."""
    location = popart.TensorLocation(
        popart.TensorStorage.OffChip, popart.TileSet.IO, popart.TileSet.IO,
        popart.ReplicatedTensorSharding.On,
    )  # fmt: skip
    settings = popart.TensorLocationSettings(location, 0, 0)
    found = train(
        Net(),
        numIOTiles=32,
        weightTensorLocationSettings=settings,
        optimizerStateTensorLocationSettings=settings,
        activationTensorLocationSettings=settings,
        accumulatorTensorLocationSettings=settings,
    )
    for name, array in kept.weights.items():
        np.testing.assert_array_equal(found.weights[name], array)


def test_marks_beside_what_chooses_itself_are_refused() -> None:
    with pytest.raises(
        popart_exception,
        match=r"^A mixture of auto and manual recomputation is not supported\nautoRecomputation is",
    ):
        train(Net("outputs"), "Standard")
    with pytest.raises(
        popart_exception,
        match="When pipelining is enabled, user annotation for recomputation is not allowed",
    ):
        train(
            Net("scope", ipus=3), micro=4, enablePipelining=True,
            virtualGraphMode=popart.VirtualGraphMode.Manual,
        )  # fmt: skip


def test_what_acts_on_the_host_runs_once(capfd: pytest.CaptureFixture[str]) -> None:
    make = builder()
    ops = make.aiOnnxOpset11
    x = make.addInputTensor("FLOAT", [ROWS, WIDTH], "x")
    h = x
    for number in range(4):
        w = make.addInitializedInputTensor(np.eye(WIDTH, dtype=np.float32), f"w{number}")
        h = ops.tanh([ops.matmul([h, w])])
        if number == 1:
            h = make.aiGraphcore.printtensor([h], 0, title="seen")
    loss = make.aiGraphcore.l1loss([h], 0.1)
    session = popart.TrainingSession(
        make.model, flow(1, {loss: "All"}), loss, popart.ConstSGD(0.05), device(),
        userOptions=options(autoRecomputation=popart.RecomputationType.Standard),
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    run(session, {"x": np.zeros((ROWS, WIDTH), np.float32)})
    segments = session._executable._step.segments
    assert [part.recomputed for part in segments].count(True) >= 2
    printed = capfd.readouterr()
    assert (printed.out + printed.err).count("seen") == 1


# Not getrusage: what it gives begins with the peak of the process that started this one.
_CHILD = """
from pathlib import Path
import numpy as np
from paddle_ipu import popart
from tests.unit.sessions import layered_net as small

small.ROWS, small.WIDTH, small.LAYERS = 8192, 256, 12
small.FEED = {
    "rows": np.zeros(small.ROWS, np.int32), "scale": np.ones(1, np.float32),
}
found = small.train(small.Net(), KIND, feed=small.FEED)
status = Path("/proc/self/status").read_text().splitlines()
(peak,) = [line.split()[1] for line in status if line.startswith("VmHWM:")]
print(int(peak) * 1024 / 1e6, found.megabytes)
"""


@pytest.mark.thorough
def test_a_process_needs_less_memory(run_python: Any) -> None:
    """Resident memory falls by what XLA says that the step needs less."""
    peaks = {}
    for kind in ("NoRecompute", "Standard"):
        child = run_python(_CHILD.replace("KIND", repr(kind)))
        peaks[kind] = [float(word) for word in child.stdout.split()[-2:]]
    resident = peaks["NoRecompute"][0] - peaks["Standard"][0]
    temporary = peaks["NoRecompute"][1] - peaks["Standard"][1]
    assert temporary > 300
    assert resident == pytest.approx(temporary, rel=0.25)
