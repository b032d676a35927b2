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


def test_conformers_strategy_has_its_encoder_layers_and_global_batch(static_mode: None) -> None:
    found = predicted(BY_NAME["conformer_globalbs_16128_pod16"], "POD16")
    program = found.program
    encoder = [
        sum(layer.startswith("encoder.") for layer in layers_of(program, ipu)) for ipu in range(4)
    ]
    assert encoder == [2, 4, 5, 1]
    assert {ipu for ipu in range(4) if "decoder.0" in layers_of(program, ipu)} == {3}
    assert program.samples == 16128
    # PopTorch keeps what stages read, and no script asks for more.
    assert not any(op.checkpoint for op in program.operators)
    assert found.memory.fits
    assert found.cycles.critical == 2
