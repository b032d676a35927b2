"""The sizes and hyper-parameters that ``--preset`` of ``make bert`` chooses from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from examples.bert.stages.presets import PRESETS as PUBLISHED
from examples.bert.stages.settings import Settings


@dataclass(frozen=True)
class Preset:
    """One complete setting of the pretraining.

    Attributes:
        about: what it is for, for ``--help``.
        settings: of the training.
        passes: training files to prepare, each a pass over the text with pairs and masks of its
            own.
        text_share: share of the articles that are used.
        held_out_share: share of these that are in no training file.
    """

    about: str
    settings: Settings
    passes: int
    text_share: float = 1.0
    held_out_share: float = 0.06


# Float32 throughout, and Adam and Lamb with their bias correction.
_COMMON: dict[str, Any] = {
    "ignore_index": 0,
    "weight_decay": 0.01,
    "decay_biases": False,
    "use_no_bias_optimizer": False,
    "num_ipus": 1,
    "enable_grad_acc": True,
    "auto_recomputation": 0,
    "seed": 1984,
    "num_workers": 2,
    "save_steps": 1000,
    "keep_checkpoints": 1_000_000,  # all
}

PRESETS: dict[str, Preset] = {
    "smoke": Preset(
        about="a few steps of a toy network on a few articles; finishes in seconds, learns little",
        settings=Settings(
            **_COMMON,
            vocab_size=400,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            seq_len=32,
            max_predictions_per_seq=5,
            max_position_embeddings=32,
            hidden_dropout_prob=0.0,
            micro_batch_size=8,
            max_steps=12,
            warmup_steps=4,
            learning_rate=2e-3,
            optimizer="adamw",
        ),
        passes=1,
        text_share=0.1,
        held_out_share=0.1,
    ),
    "small": Preset(
        about="the default: learns words from their context within minutes on two cores",
        settings=Settings(
            **_COMMON,
            vocab_size=4000,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            seq_len=64,
            max_predictions_per_seq=10,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            micro_batch_size=32,
            max_steps=2500,
            warmup_steps=150,
            learning_rate=1.5e-3,
            optimizer="adamw",
            initial_weights="neighbours",
        ),
        passes=6,
    ),
    "small-lamb": Preset(
        about="a small network with phase 1's shape, optimizer, dropout and initial weights",
        settings=Settings(
            **_COMMON,
            vocab_size=4000,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            seq_len=128,
            max_predictions_per_seq=20,
            hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.1,
            micro_batch_size=32,
            grad_acc_factor=8,
            max_steps=400,
            warmup_steps=100,
            learning_rate=0.006,
            optimizer="lamb",
        ),
        passes=6,
    ),
    "base-phase1": Preset(
        about="BERT-Base, phase 1 as published for 4 IPUs: 65536 sequences an update; in float32",
        settings=replace(
            Settings(**PUBLISHED["pod4-phase1"]),
            **_COMMON
            | {
                "num_ipus": 4,
                "ipu_enable_fp16": False,
                "scale_loss": 1.0,
                "available_mem_proportion": 0.0,
                "serialize_factor": 1,
                "checkpoint_outputs": False,
                "enable_engine_caching": False,
            },
        ),
        passes=10,
    ),
}
