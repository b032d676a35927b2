"""``paddle-ipu plan --rate`` and ``paddle_ipu.smallest_pod``: how large a Pod has to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.cli.main import main
from paddle_ipu.compiler.pod_plans import PodPlans
from paddle_ipu.cost_model.machines import MACHINES, machine_named, pods_like
from paddle_ipu.errors import OptionError
from tests.journeys.saved_models import models

MODEL = str(models.prefix("paddle_2_6/mlp"))
FEW = ["--candidates", "8"]


@pytest.fixture(scope="module")
def rates() -> list[float]:
    """The rates of GC200 Pods by their own plans, the smallest first."""
    plans = (paddle_ipu.plan(MODEL, machine=f"pod{n}", candidates=8) for n in (4, 8, 16, 32))
    found = [plan.best.throughput for plan in plans if plan.best is not None]
    assert len(found) == 4 and found == sorted(found)
    return found


def test_the_smallest_pod_that_reaches_a_rate_and_the_next(rates: list[float]) -> None:
    for wanted, smallest in ((rates[0] / 2, 0), (rates[0], 0), (rates[0] * 1.01, 1), (rates[2], 2)):
        found = paddle_ipu.smallest_pod(MODEL, rate=wanted, candidates=8)
        assert found.smallest is found.pods[smallest]
        assert found.following is found.pods[smallest + 1]
        assert len(found.pods) == smallest + 2
        assert [pod.throughput for pod in found.pods] == pytest.approx(rates[: smallest + 2])


def test_the_command_prints_sizes_rates_and_the_gain(
    rates: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = str(rates[0] * 1.01)
    assert main(["plan", *FEW, "--rate", wanted, MODEL]) == 0
    answer, head, *rows, last, checked = capsys.readouterr().out.splitlines()
    assert answer.startswith("the smallest Pod for ") and answer.endswith(
        f"rows/s: POD8 gives {rates[1]:,.0f} rows/s; POD16 gives {rates[2]:,.0f} rows/s, "
        f"{rates[2] / rates[1]:.2f} times as many"
    )
    assert head.split()[:2] == ["machine", "rows/s"]
    expected = [["POD4", rates[0]], ["POD8", rates[1]], ["POD16", rates[2]]]
    assert [row.split()[:2] for row in rows] == [[name, f"{rate:,.0f}"] for name, rate in expected]
    assert last == "--machine POD8 instead of --rate shows how"
    assert main(["plan", *FEW, "--rate", wanted, "--json", MODEL]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["smallest"], record["next"], record["rate"]) == ("POD8", "POD16", float(wanted))
    assert [pod["ipus"] for pod in record["pods"]] == [4, 8, 16]
    assert checked == f"predictions were checked {record['checked']}"
    assert record["pods"][1]["best"]["throughput"] == pytest.approx(rates[1])
    assert record == paddle_ipu.smallest_pod(MODEL, rate=float(wanted), candidates=8).to_dict()


def test_a_rate_that_no_pod_reaches(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--candidates", "1", "--rate", "1e9", "--machine", "bow-pod16", MODEL]
    assert main(words) == 1
    answer, _, *rows, checked = capsys.readouterr().out.splitlines()
    assert checked.startswith("predictions were checked on published rates")
    assert answer.startswith("no Pod reaches 1,000,000,000 rows/s: Bow-Pod256 gives ")
    assert answer.endswith(" rows/s at most")
    names = [row.split()[0] for row in rows]
    assert names == [f"Bow-Pod{n}" for n in (4, 8, 16, 32, 64, 128, 256)]


def test_the_largest_pod_has_none_behind_it() -> None:
    every = paddle_ipu.smallest_pod(MODEL, rate=1e9, candidates=1)
    largest = PodPlans(every.pods[-1].throughput, every.pods, every.training)
    assert largest.smallest is every.pods[-1] and largest.following is None
    assert repr(largest).endswith(" rows/s; there is none larger")
    assert (
        repr(every.pods[-1]) == f"<PodPlan: POD256 gives {every.pods[-1].throughput:,.0f} rows/s>"
    )


def test_a_program_that_fits_nowhere(static_mode: None) -> None:
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        x = paddle.static.data("x", [-1, 2048], "float32")
        y = paddle.tanh(paddle.nn.Linear(2048, 2048)(x))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"tiles_per_ipu": 1})
    found = paddle_ipu.smallest_pod(
        program, ["x"], [y], rate=1, ipu_strategy=strategy, candidates=4
    )
    assert found.smallest is None and found.following is None
    lines = str(found).splitlines()
    assert lines[0] == "no Pod reaches 1 rows/s: no strategy fits any of them"
    assert all("no strategy fits; the closest lacks " in line for line in lines[2:])
    assert {pod["best"] for pod in found.to_dict()["pods"]} == {None}


@pytest.mark.parametrize("kind", ["POD", "Bow-Pod"])
def test_pods_have_the_machine_s_ipus(kind: str) -> None:
    sizes = [4, 8, 16, 32, 64, 128, 256]
    for name in ({"POD": "M2000", "Bow-Pod": "Bow-2000"}[kind], f"{kind}64"):
        machine = machine_named(name)
        assert pods_like(machine) == [MACHINES[f"{kind}{n}"] for n in sizes]
        few = pods_like(machine.with_tiles(16))
        assert {pod.processor for pod in few} == {machine.with_tiles(16).processor}


def test_a_machine_of_which_there_are_no_pods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "c600", "--rate", "5", MODEL]) == 2
    assert (
        "--rate: there are no Pods of machine 'C600', whose processor is a C600: name a Pod, as "
        "pod4 or bow-pod4"
    ) in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-5", "nan", "inf", "fast"])
def test_no_rate_at_all(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", f"--rate={rate}", MODEL])
    told = f"--rate: got '{rate}', expected a number above 0"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), True, "5"])
def test_no_rate_in_python(rate: Any) -> None:
    with pytest.raises(
        OptionError, match="^smallest_pod: rate is .*, expected rows a second, above"
    ):
        paddle_ipu.smallest_pod(MODEL, rate=rate)


def test_a_model_of_the_zoo_is_asked_about() -> None:
    found = paddle_ipu.smallest_pod(
        model="resnet18", rate=np.float32(1), batch=np.int64(8), candidates=np.int32(1)
    )
    assert found.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert found.subject.startswith("training of resnet18 with Momentum: convolutional, 18 layers")
    assert str(found).startswith(found.subject + "\n") and found.training


def test_pods_have_the_plans_of_their_machines(static_mode: None, tmp_path: Path) -> None:
    """Pipelines for inference, of which Pods share cuts and translations."""
    main_program = paddle.static.Program()
    with paddle.static.program_guard(main_program, paddle.static.Program()):
        x = given = paddle.static.data("x", [-1, 1024], "float32")
        for _ in range(8):
            x = paddle.tanh(paddle.nn.Linear(1024, 1024)(x))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)

    def machine(base: str) -> str:
        path = tmp_path / f"{base}.json"
        path.write_text(json.dumps({"base": base, "processor": {"tiles": 20}}))
        return f"ipu:{path}"

    arguments = (main_program, [given], [x])
    options: dict[str, Any] = {"ipu_strategy": strategy, "candidates": 30}
    found = paddle_ipu.smallest_pod(*arguments, rate=1e12, machine=machine("POD4"), **options)
    for base, pod in zip(("POD4", "POD8", "POD16"), found.pods, strict=False):
        alone = paddle_ipu.plan(*arguments, machine=machine(base), **options).best
        assert pod.best is not None and alone is not None
        assert pod.throughput == alone.throughput
        settings = pod.best.candidate.prediction.program.settings
        assert settings.pipelined
        assert settings == alone.candidate.prediction.program.settings
