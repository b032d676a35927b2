"""The published settings, half precision and all, on a network of their shape with small sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("rich")

from examples.bert.layout import move_masked_to_front
from examples.bert.samples import make_pass
from examples.bert.stages import networks
from examples.bert.stages.device import DeviceProgram, Feeds
from examples.bert.stages.presets import PRESETS
from examples.bert.stages.settings import Settings
from examples.bert.stages.strategy import ipu_strategy

pytestmark = pytest.mark.usefixtures("static_mode")

PUBLISHED = [name for name in PRESETS if name.startswith("pod")]
# Phase 2 compiles to what phase 1 does, with other sizes.
COMPILED = ("pod4-phase1", "pod16-phase1", "pod4-squad", "pod16-validation")
LENGTH, WORDS = 32, 40


def shrunken(name: str, **changes: Any) -> Settings:
    """A layer for each of its stages; the accumulation is the least that such a pipeline takes."""
    preset = Settings(**PRESETS[name])
    small = replace(
        preset,
        vocab_size=WORDS,
        hidden_size=32,
        num_attention_heads=2,
        num_hidden_layers=preset.num_ipus - (preset.num_ipus > 2),
        seq_len=LENGTH,
        max_position_embeddings=LENGTH,
        max_predictions_per_seq=5,
        micro_batch_size=2,
        grad_acc_factor=10 if preset.enable_grad_acc else 1,
        enable_engine_caching=False,
        **changes,
    )
    small.check()
    return small


def feeds_for(settings: Settings, name: str) -> Feeds:
    """A run's rows: text of random words."""
    rng = np.random.default_rng(5)
    rows = settings.step_rows
    if name.endswith(("phase1", "phase2")):
        documents = [[rng.integers(5, 26, 7).tolist() for _ in range(12)] for _ in range(rows)]
        samples = make_pass(documents, LENGTH, 5, 26, seed=1)
        kept = {key: values[:rows] for key, values in samples.items()}
        return move_masked_to_front(kept, 5, LENGTH - 1)
    feeds: Feeds = {
        "indices": rng.integers(5, WORDS, (rows, LENGTH)).astype(np.int32),
        "segments": np.tile(np.arange(LENGTH, dtype=np.int32) // 16, (rows, 1)),
        "positions": np.tile(np.arange(LENGTH, dtype=np.int32), (rows, 1)),
        "input_mask": np.zeros((rows, 1, 1, LENGTH), np.float32),
    }
    if settings.is_training:
        for label in ("start_labels", "end_labels"):
            feeds[label] = rng.integers(0, LENGTH, rows).astype(np.int32)
    return feeds


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_preset_asks_the_ipu_for_what_was_published(name: str) -> None:
    settings = Settings(**PRESETS[name])
    squad = name.endswith(("squad", "validation"))
    strategy = ipu_strategy(settings, 1984, None, squad=squad)
    pod = 4 if name.startswith("pod4") else 16
    # SQuAD's pipeline of two IPUs fills a POD4 twice; a POD16 was used by half.
    assert strategy.num_ipus == (8 if squad and pod == 16 else pod)
    replicas = {"pod4": {False: 1, True: 2}, "pod16": {False: 4, True: 4}}[f"pod{pod}"][squad]
    assert strategy.get_option("replicated_graph_count") == replicas
    assert strategy.get_option("enable_fp16") is True
    assert strategy.get_option("enable_half_partial") is True
    assert strategy.get_option("enable_pipelining") is True
    assert strategy.get_option("available_memory_proportion") == pytest.approx(
        0.40 if squad else 0.28
    )
    if settings.is_training:
        scale = {"phase1": 512.0, "phase2": 128.0, "squad": 256.0}[name.partition("-")[2]]
        assert strategy.get_option("loss_scaling") == scale
        assert strategy.get_option("use_no_bias_optimizer") is True
        assert strategy.get_option("auto_recomputation") == 3
    else:
        assert strategy.get_option("enable_stochastic_rounding") is False


@pytest.mark.thorough
@pytest.mark.parametrize("name", COMPILED)
def test_a_published_preset_compiles_and_computes_in_half(name: str) -> None:
    """A step in half, pipelined and replicated, beside float32 on Paddle's CPU executor."""
    settings = shrunken(name, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    build = networks.pretraining if name.endswith(("phase1", "phase2")) else networks.squad
    results = {}
    for device in ("ipu", "cpu"):
        program = DeviceProgram(settings, build, device, 10)
        program.compile()
        got = [program.step(feeds_for(settings, name)) for _ in range(2)]
        results[device] = got[-1]
    for key, expected in results["cpu"].items():
        half = results["ipu"][key].astype(np.float64)
        if settings.is_training:
            assert half.mean() == pytest.approx(expected.mean(), rel=0.02, abs=0.01), key
        else:
            assert np.abs(half.ravel() - expected.ravel()).max() < 0.01 * np.abs(expected).max()
