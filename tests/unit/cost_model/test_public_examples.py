"""Graphcore's public strategies for models of the zoo are placed as they say, and fit."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("name", "first_layers"),
    [
        ("pytorch_efficientnet_b0_train_real_pod16", ["", "blocks.3.0.expand"]),
        (
            "mobilenet-v3-large-pod16",
            ["", *(f"blocks.{block}.expand_conv.0" for block in (2, 7, 11))],
        ),
        (
            "tf2_unet_train_real_pod4",
            ["", "encoder.2.first", "decoder.0.first", "decoder.2.first"],
        ),
    ],
)
def test_stages_begin_with_the_layers_that_the_strategy_names(
    name: str, first_layers: list[str], static_mode: None
) -> None:
    program = BY_NAME[name].program()
    stages = [[op for op in program.operators if op.stage == at] for at in program.stages]
    begun = [next(op.origin.layer for op in operators if not op.is_view) for operators in stages]
    assert begun == first_layers
    # The concatenation that a decoder's level begins with is a view.
    first = ["Concat" in {op.op_type for op in ops[:1]} for ops in stages]
    assert first == [name.startswith("tf2_unet") and "decoder" in layer for layer in first_layers]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [example.name for example in EXAMPLES if example.splits and example.replicas < 9]
)
def test_what_is_trained_in_public_fits(name: str, static_mode: None) -> None:
    example = BY_NAME[name]
    assert predicted(example, "POD16" if example.replicas > 1 else "POD4").memory.fits


@pytest.mark.long
def test_kept_is_what_the_strategy_says_and_each_ipu_has_its_share(static_mode: None) -> None:
    four = BY_NAME["pytorch_efficientnet_b4_g16_train_real_pod16"].program()
    kept = [op.outputs[0].dims for op in four.operators if op.checkpoint]
    assert kept == [(4, 24, 190, 190), (4, 32, 95, 95)]
    unet = BY_NAME["tf2_unet_train_real_pod4"].program()
    shares = {op.ipu: op.memory_proportion for op in unet.operators}
    assert shares == {0: 0.7, 1: 0.3, 2: 0.45, 3: 0.7}


def test_a_layer_that_is_not_there_is_named(static_mode: None) -> None:
    example = replace(BY_NAME["tf2_unet_train_real_pod4"], splits=("encoder.9",))
    with pytest.raises(
        ValueError, match=r"^tf2_unet_train_real_pod4: unet has no layer 'encoder\.9' to split at$"
    ):
        example.program()
