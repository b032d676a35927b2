"""The ways to train that `training_modes.py` times, and what each feeds to a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from bert_config import Array, Config, make_batch


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to train.

    Attributes:
        accumulation: micro-batches of an update, of each replica.
        ipus: IPUs of a replica. The encoder layers are dealt out to them; the first also owns
            the stages of the embedding and of the heads, which share a weight.
        replicas: copies of the model.
        recompute: backward computes each encoder layer again.
        precision: ``fp32``, ``fp16`` or ``bf16``.
    """

    accumulation: int = 1
    ipus: int = 1
    replicas: int = 1
    recompute: bool = False
    precision: str = "fp32"

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a step."""
        return self.accumulation * self.replicas


GROUPS: Mapping[str, Mapping[str, Mode]] = {
    "accumulation": {f"accumulation {k}": Mode(accumulation=k) for k in (1, 8, 64)},
    # On 4 IPUs there are 9 stages with those of backward, which as many micro-batches must fill.
    "pipeline": {f"{k} IPUs, accumulation 16": Mode(accumulation=16, ipus=k) for k in (1, 2, 4)},
    "replicas": {f"{k} replicas": Mode(replicas=k) for k in (1, 2, 4)},
    "recomputation": {
        "activations kept": Mode(accumulation=2),
        "layers computed again": Mode(accumulation=2, recompute=True),
    },
    "precision": {name: Mode(precision=name) for name in ("fp32", "fp16", "bf16")},
}
"""What is timed side by side, in one run."""


def fed_step(config: Config, mode: Mode) -> dict[str, Array]:
    """The batch of `config` once for each micro-batch, laid out along the first axis."""
    return {
        name: np.concatenate([array] * mode.micro_batches)
        for name, array in make_batch(config).items()
    }


def as_one_batch(config: Config, mode: Mode) -> tuple[Config, dict[str, Array]]:
    """The same rows as one batch, for an engine without micro-batches, and its model's shape."""
    feeds = fed_step(config, mode)
    rows = config.batch * config.sequence
    copies = np.repeat(np.arange(mode.micro_batches), config.batch * config.predictions)
    feeds["masked"] = (feeds["masked"] + copies * rows).astype(np.int32)
    return replace(config, batch=config.batch * mode.micro_batches), feeds
