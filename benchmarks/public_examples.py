"""Strategies of Graphcore's public examples for models of the zoo: do they fit, and how fast.

    python -m benchmarks.public_examples    memory and predicted rates; nothing is run

The strategies are those of graphcore/examples (``nlp/gpt2/pytorch/benchmarks.yml``,
``vision/vit/pytorch/benchmarks.yml`` and ``configs.yml``, ``speech/conformer/pytorch``), which
gives rates for Conformer alone. Nothing was fitted to any row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import paddle

import paddle_ipu
from paddle_ipu.compiler.prediction_target import target_of_zoo
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.placement import Cuts, place
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.uncertainty import rate_interval
from paddle_ipu.zoo.models import MODELS


@dataclass(frozen=True)
class Example:
    """A public strategy.

    Attributes:
        name: of the benchmark.
        model: of the zoo.
        layers: of each IPU of a replica.
        proportion: share of a tile's memory for products, the lowest of the IPUs'.
        steps: weight updates of a run.
        sequence: tokens of a row; the model's own where 0.
        published: rows a second of its README, on IPUs of a GC200 and of a Bow.
        sharded: optimizer state is divided among the replicas.
        off_chip: optimizer state is in streaming memory.
        serial: parts of the product with the words.
        by_layer: layers' outputs are kept where activations are computed again; else those of
            stages are, as PopTorch has it where a script says nothing.
    """

    name: str
    model: str
    layers: tuple[int, ...]
    replicas: int
    rows: int
    accumulation: int
    proportion: float
    steps: int = 1
    sequence: int = 0
    sharded: bool = True
    off_chip: bool = True
    serial: int = 1
    by_layer: bool = True
    published: tuple[float, float] | None = None

    @property
    def folds(self) -> bool:
        """Whether the last stage is on the first IPU, which has the words."""
        return self.model.startswith("gpt2")

    def program(self) -> Program:
        """The model with this strategy, on its own replicas."""
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True, micro_batch_size=self.rows)
        strategy.set_precision_config(enable_fp16=True)
        strategy.set_options(
            {
                "enable_half_partial": True,
                "available_memory_proportion": self.proportion,
            }
        )
        built = target_of_zoo(MODELS[self.model], strategy, sequence=self.sequence).program
        operators = tuple(
            replace(op, serial=self.serial)
            if op.op_type == "MatMul" and any(t.name == "embeddings.word" for t in op.read)
            else op
            for op in built.operators
        )
        if not self.by_layer:
            operators = tuple(replace(op, checkpoint=False) for op in operators)
        placed = place(replace(built, operators=operators), self._cuts(built))
        return placed.with_settings(
            ipus=len(self.layers) * self.replicas, replicas=self.replicas,
            accumulation=self.accumulation, batches_per_step=self.steps,
            recomputation="Pipeline", state_on_chip=not self.off_chip,
            state_sharded=self.sharded,
        )  # fmt: skip

    def _cuts(self, program: Program) -> Cuts:
        """Stages of whole layers; what comes before and behind them is on the first and last."""
        ends = [at + 1 for at, op in enumerate(program.operators) if op.checkpoint]
        first = next(
            at
            for at, op in enumerate(program.operators)
            if any(t.name.split(".")[1:3] == ["0", "attention"] for t in op.read)
        )
        borders = [first, *ends]
        starts = [0, *(borders[sum(self.layers[:ipu])] for ipu in range(1, len(self.layers)))]
        ipus = list(range(len(self.layers)))
        if self.folds:
            starts.append(ends[-1])
            ipus.append(0)
        return Cuts(tuple(starts), tuple(ipus))


GPT2_LARGE = (0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 2)
EXAMPLES = (
    Example("pytorch_gpt2_small_train_gen_pod16", "gpt2", (0, 4, 4, 4), 4, 1, 2048, 0.15, 8,
            serial=4),
    Example("pytorch_gpt2_small_train_gen_pod64", "gpt2", (0, 4, 4, 4), 16, 1, 512, 0.15, 8,
            serial=4),
    Example("pytorch_gpt2_medium_train_gen_pod16", "gpt2-medium", (0, 3, 3, 3, 3, 4, 4, 4), 2, 1,
            4096, 0.15, 8, serial=4),
    Example("pytorch_gpt2_medium_train_gen_pod64", "gpt2-medium", (0, 3, 3, 3, 3, 4, 4, 4), 8, 1,
            1024, 0.15, 8, serial=4),
    Example("pytorch_gpt2_large_sl512_train_gen_pod16", "gpt2-large", (1, *[5] * 7), 2, 1, 4096,
            0.12, 8, 512, serial=8),
    Example("pytorch_gpt2_large_sl512_train_gen_pod64", "gpt2-large", (1, *[5] * 7), 8, 1, 1024,
            0.12, 8, 512, serial=8),
    Example("pytorch_gpt2_large_train_gen_pod16", "gpt2-large", GPT2_LARGE, 1, 1, 8192, 0.15, 8,
            sharded=False, serial=4),
    Example("pytorch_vit_finetune_gen_pod16", "vit-b", (3, 3, 3, 3), 4, 17, 30, 0.3, 8,
            off_chip=False),
    Example("pytorch_vit_pretrain_gen_pod16", "vit-b", (3, 3, 3, 3), 4, 8, 128, 0.3,
            off_chip=False),
    Example("pytorch_vit_lamb_pretrain_gen_pod16", "vit-b", (3, 3, 3, 3), 4, 8, 2048, 0.3,
            off_chip=False),
    Example("pytorch_vit_lamb_pretrain_gen_pod64", "vit-b", (3, 3, 3, 3), 16, 8, 512, 0.3,
            sharded=False, off_chip=False),
    *(
        Example(f"conformer_globalbs_16128_pod{4 * replicas}", "conformer", (2, 4, 5, 1), replicas,
                4, 4032 // replicas, 0.3, sharded=False, off_chip=False, by_layer=False,
                published=published)
        for replicas, published in ((1, (819, 1126)), (4, (3163, 4302)), (16, (11689, 15815)))
    ),
)  # fmt: skip


def predicted(example: Example, machine: str) -> Prediction:
    """The prediction of an example; needs static mode."""
    return predict(example.program(), machine_named(machine))


def main(words: Sequence[str] | None = None) -> int:
    """Prints the table."""
    argparse.ArgumentParser(description="public strategies for models of the zoo").parse_args(words)
    paddle.enable_static()
    paddle_ipu.activate()
    print(
        f"{'':<42} {'machine':<10} {'memory':>6}  {'predicted':>9} {'80 % interval':<16} "
        f"{'published':>9} {'error':>7}"
    )
    for example in EXAMPLES:
        ipus = len(example.layers) * example.replicas
        for kind, machine in enumerate((f"POD{ipus}", f"Bow-Pod{ipus}")):
            found = predicted(example, machine)
            interval = rate_interval(found, livenesses(found.program))
            worst = found.memory.worst
            rate = found.cycles.throughput
            line = (
                f"{example.name:<42} {machine:<10} {worst.per_tile / worst.tile_capacity:>6.0%}  "
                f"{rate:>9,.0f} {f'{interval.low:,.0f} to {interval.high:,.0f}':<16}"
            )
            if example.published:
                published = example.published[kind]
                line += f" {published:>9,.0f} {rate / published - 1:>+7.1%}"
            print(line.rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
