"""Graphcore's public strategies for models of the zoo are placed as they say, and fit."""

from __future__ import annotations

import pytest

from benchmarks.public_examples import EXAMPLES, predicted
from paddle_ipu.cost_model.program import Program

BY_NAME = {example.name: example for example in EXAMPLES}


def layers_of(program: Program, ipu: int) -> set[str]:
    names = {t.name for op in program.operators if op.ipu == ipu for t in op.read}
    return {
        ".".join(name.split(".")[:2]) for name in names if name.endswith("attention.output.weight")
    }


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_gpt2_small_train_gen_pod16",
        "pytorch_vit_pretrain_gen_pod16",
    ],
)
def test_a_public_strategy_has_its_layers_on_its_ipus_and_fits(
    name: str, static_mode: None
) -> None:
    example = BY_NAME[name]
    found = predicted(example, "POD16")
    program = found.program
    assert [len(layers_of(program, ipu)) for ipu in range(len(example.layers))] == [*example.layers]
    assert program.settings.ipus == 16
    assert len(program.stages) == len(example.layers) + example.folds
    assert found.memory.fits
