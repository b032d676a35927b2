"""The strategy's recomputation on a Paddle program: half at random, running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.placement.networks import PLACES, batch_of_rows, compiled, staged
from tests.journeys.training.side_by_side import read

Array = np.ndarray[Any, Any]
F = paddle.nn.functional
ROWS, WIDE_ROWS = 32, 256
ELEMENTS = 8 * 8 * 8
"""Of a row."""
CHANNEL_VECTORS = 3 * 10
"""Those of all layers at most, each in 64 bytes."""
RECOMPUTATIONS = ("NoRecompute", "Standard", "NormOnly", "Pipeline", "RecomputeAll")


def trained(
    kind: int, half: bool, rows: int = ROWS, drops: bool = True
) -> tuple[list[float], dict[str, Array], int]:
    """(losses, variables afterwards, temporary bytes) of a convolutional network."""
    paddle.seed(1)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [rows, 8, 8, 8], "float32")
        if not drops:
            x = paddle.nn.Conv2D(8, 8, 3, padding=1)(x)
        for _ in range(3):
            own = paddle.nn.Conv2D(8, 8, 3, padding=1, bias_attr=False)(x)
            normed = paddle.nn.BatchNorm2D(8)(own)
            x = x + F.dropout(F.relu(normed), 0.25) if drops else F.relu(x + normed)
        loss = (x * x).mean()
        paddle.optimizer.Momentum(0.01, 0.9).minimize(loss)
    scope = paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=rows)
    strategy.set_precision_config(enable_fp16=half)
    options = {"auto_recomputation": kind, "random_seed": 5, "enable_stochastic_rounding": half}
    strategy.set_options(options)
    program = paddle.static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(
        ["x"], [loss]
    )
    feed = {"x": np.random.default_rng(0).standard_normal((rows, 8, 8, 8)).astype(np.float32)}
    losses = [float(executor.run(program, feed, [loss])[0]) for _ in range(2)]
    found = program._backend.session._executable.weights
    variables = {name: np.asarray(array, np.float32) for name, array in found.items()}
    return losses, variables, program.report().temporary_bytes


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
def test_masks_roundings_and_statistics_are_those_of_forward(static_mode: None, half: bool) -> None:
    losses, variables, kept = trained(0, half)
    again, same, needed = trained(1, half)
    # What two of the three layers convolved, and what their ReLUs gave, is not kept.
    assert kept - needed >= 2 * 2 * ROWS * ELEMENTS * (2 if half else 4)
    np.testing.assert_allclose(again, losses, rtol=1e-6)
    for name, array in variables.items():
        distance = float(np.linalg.norm(same[name] - array))
        assert distance <= 1e-6 * float(np.linalg.norm(array)) + 1e-9, name


@pytest.mark.filterwarnings("ignore:When training, we now always track")
def test_tensors_that_kernels_sum_are_not_kept_either(static_mode: None) -> None:
    _, _, kept = trained(0, False, WIDE_ROWS)
    _, _, needed = trained(1, False, WIDE_ROWS)
    # But for some vectors by channel.
    assert kept - needed + 64 * CHANNEL_VECTORS >= 2 * 2 * WIDE_ROWS * ELEMENTS * 4


MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "replicas": ("one", {"replicas": 2, "accumulation": 2}),
    "automatic loss scaling": (
        "two",
        {
            "accumulation": 3,
            "options": {
                "enable_fp16": True,
                "automatic_loss_scaling_settings.enabled": True,
                "loss_scaling": 16.0,
            },
        },
    ),
    "a pipeline without accumulation": ("two", {"batches": 5, "pipelining": True}),
}


@pytest.mark.parametrize(
    ("name", "again_kind"),
    [
        *((name, "RecomputeAll") for name in MODES),
        *(
            pytest.param(name, kind, marks=pytest.mark.thorough)
            for name in MODES
            for kind in ("Standard", "NormOnly")
        ),
        pytest.param("a pipeline without accumulation", "Pipeline", marks=pytest.mark.thorough),
    ],
)
def test_what_is_computed_again_is_the_same_in_every_mode(
    static_mode: None, name: str, again_kind: str
) -> None:
    stages, mode = MODES[name]
    found: list[tuple[list[Array], Any]] = []
    for kind in ("NoRecompute", again_kind):
        given = {"accumulation": None, "replicas": None, "batches": 1, "pipelining": False} | mode
        options = {**given.pop("options", {}), "auto_recomputation": RECOMPUTATIONS.index(kind)}
        both = compiled(
            staged(PLACES[stages], lambda: paddle.optimizer.Adam(0.01)), len(PLACES[stages]),
            options=options, **given,
        )  # fmt: skip
        rows = 2 * (given["accumulation"] or 1) * (given["replicas"] or 1) * given["batches"]
        for step in range(3):
            both.on_ipu(batch_of_rows(rows, step))
        both.weights_to_host()
        scale = both.program.loss_scale if "options" in mode else None
        found.append(([read(both.ipu, name) for name in both.built.parameters], scale))
        segments = both.program.backend.session._executable._step.segments
        if kind != "Standard" and kind != "Pipeline":
            assert any(segment.recomputed for segment in segments) is (kind == "RecomputeAll")
    (kept, scale), (again, scale_again) = found
    assert scale == scale_again != 16.0
    for array, expected in zip(again, kept, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.newest
def test_what_an_operator_marked_as_a_checkpoint_makes_is_kept(static_mode: None) -> None:
    """More is kept than without marks, less than where nothing is computed again."""
    losses, needed = [], []
    for kind, marked in (("NoRecompute", False), ("RecomputeAll", True), ("RecomputeAll", False)):
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
            paddle.seed(1)
            x = paddle.static.data("x", [512, 32], "float32")
            for _ in range(8):
                x = paddle.nn.Linear(32, 32)(F.tanh(F.tanh(F.tanh(x))))
                if marked:
                    x.block.ops[-1]._set_attr("recompute_checkpoint", 1)
            loss = (x * x).mean()
            paddle.optimizer.SGD(0.1).minimize(loss)
        scope = paddle.static.Scope()
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup, scope=scope)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=512)
        strategy.set_options({"auto_recomputation": RECOMPUTATIONS.index(kind)})
        program = paddle.static.IpuCompiledProgram(
            main, scope=scope, ipu_strategy=strategy
        ).compile(["x"], [loss])
        feed = {"x": np.random.default_rng(0).standard_normal((512, 32)).astype(np.float32)}
        losses.append([float(executor.run(program, feed, [loss])[0]) for _ in range(2)])
        needed.append(program.report().temporary_bytes)
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=1e-6)
    assert losses[0][1] < losses[0][0]
    assert needed[0] > needed[1] > needed[2]


@pytest.mark.filterwarnings("ignore:When training, we now always track")
def test_random_roundings_of_images_are_those_of_forward(static_mode: None) -> None:
    """They are drawn by place, whatever layout an image is in where it is computed again."""
    losses, variables, _ = trained(0, half=True, drops=False)
    again, same, _ = trained(1, half=True, drops=False)
    np.testing.assert_allclose(again, losses, rtol=1e-6)
    for name, array in variables.items():
        distance = float(np.linalg.norm(same[name] - array))
        assert distance <= 1e-6 * float(np.linalg.norm(array)) + 1e-9, name
