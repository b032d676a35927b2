"""The sizes and hyper-parameters ``--preset`` chooses from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from examples.bert.model import BertConfig
from examples.bert.weights import Start

OptimizerName = Literal["lamb", "adamw", "adam"]


@dataclass(frozen=True)
class Preset:
    """One complete setting of the pretraining.

    ``passes`` is the number of training files to prepare, each a pass over the text with pairs and
    masks of its own. ``text_share`` is the share of the articles that are used. Rows of a weight
    update are ``micro_batch * accumulation``.
    """

    about: str
    model: BertConfig
    passes: int
    micro_batch: int
    steps: int
    warmup: int
    learning_rate: float
    optimizer: OptimizerName
    accumulation: int = 1
    weight_decay: float = 0.01
    beta2: float = 0.999
    epsilon: float = 1e-6
    num_ipus: int = 1
    start: Start = "published"
    text_share: float = 1.0
    held_out_share: float = 0.06
    save_steps: int = 1000
    seed: int = 1984

    @property
    def batch_size(self) -> int:
        """Sequences a weight update sees."""
        return self.micro_batch * self.accumulation


PRESETS: dict[str, Preset] = {
    "smoke": Preset(
        about="a few steps of a toy network on a few articles; finishes in seconds, learns little",
        model=BertConfig(
            vocabulary_rows=400,
            hidden=32,
            layers=1,
            heads=2,
            sequence_length=32,
            max_predictions=5,
            max_positions=32,
            dropout=0.0,
        ),
        passes=1,
        micro_batch=8,
        steps=12,
        warmup=4,
        learning_rate=2e-3,
        optimizer="adamw",
        text_share=0.1,
        held_out_share=0.1,
    ),
    "small": Preset(
        about="the default: learns words from their context within minutes on two cores",
        model=BertConfig(
            vocabulary_rows=4000,
            hidden=128,
            layers=2,
            heads=2,
            sequence_length=64,
            max_predictions=10,
            max_positions=64,
            dropout=0.0,
        ),
        passes=6,
        micro_batch=32,
        steps=2500,
        warmup=150,
        learning_rate=1.5e-3,
        optimizer="adamw",
        start="neighbours",
    ),
    "small-lamb": Preset(
        about="a small network with phase 1's shape, optimizer, dropout and start",
        model=BertConfig(
            vocabulary_rows=4000,
            hidden=128,
            layers=2,
            heads=2,
            sequence_length=128,
            max_predictions=20,
        ),
        passes=6,
        micro_batch=32,
        accumulation=8,
        steps=400,
        warmup=100,
        learning_rate=0.006,
        optimizer="lamb",
    ),
    "base-phase1": Preset(
        about="BERT-Base, phase 1 as published for 4 IPUs: 65536 sequences an update",
        model=BertConfig(
            vocabulary_rows=30400,
            hidden=768,
            layers=12,
            heads=12,
            sequence_length=128,
            max_predictions=20,
        ),
        passes=10,
        micro_batch=32,
        accumulation=2048,
        steps=7038,
        warmup=2000,
        learning_rate=0.006,
        optimizer="lamb",
        num_ipus=4,
    ),
}
