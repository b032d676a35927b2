"""The examples on the way to hardware: Graphcore's module takes every call."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import paddle
import pytest

from tests.popart_stand_in import StandIn

pytestmark = [
    pytest.mark.long,
    # Paddle's own batch norm says so in each program.
    pytest.mark.filterwarnings("ignore:When training, we now always track global mean"),
]

PROGRAMS = {
    "mnist.train": ("--smoke",),
    "resnet50.train": ("--smoke",),
    "ernie.infer": ("--smoke",),
    "text_generation.generate": ("--smoke",),
    "bert.pretrain": ("--preset", "smoke"),
    "inference.word2vec": (),
    "inference.resnet50": (),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_trains_and_infers_there(
    name: str, graphcores: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = paddle.static.IpuStrategy

    def with_poparts_rule() -> Any:
        strategy = made()
        strategy.set_options({"optimizer_rule": "popart"})
        return strategy

    # Paddle's own update rule is not portable.
    monkeypatch.setattr(paddle.static, "IpuStrategy", with_poparts_rule)
    program = importlib.import_module(f"examples.{name}")
    # The stand-in gives zeros: what compares them with Paddle's executor ends with 1.
    assert program.main([*PROGRAMS[name], "--output", str(tmp_path)]) in (0, 1)
    assert graphcores.named("_Session.run")
    assert graphcores.named("InferenceSession")
    if "inference" not in name:
        assert graphcores.named("TrainingSession")
        assert graphcores.named("_Session.readWeights")
