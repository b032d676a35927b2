"""Strategies of Graphcore's public examples for models of the zoo: do they fit, and how fast.

    python -m benchmarks.public_examples    memory and predicted rates; nothing is run

The strategies are those of graphcore/examples (``benchmarks.yml`` and ``configs.yml`` of
``nlp/gpt2/pytorch``, ``vision/vit/pytorch`` and ``vision/cnns/pytorch/train``, the arguments'
defaults of ``vision/unet_medical/tensorflow2``, ``speech/conformer/pytorch``), that of TensorFlow 1
as of SDK 3.0 (``vision/cnns/tensorflow1``). Nothing was fitted to any row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import paddle

import paddle_ipu
from paddle_ipu.compiler.prediction_target import target_of_zoo
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.placement import Cuts, place
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Operator, Program
from paddle_ipu.cost_model.uncertainty import rate_interval
from paddle_ipu.zoo.models import MODELS


@dataclass(frozen=True)
class Example:
    """A public strategy.

    Attributes:
        name: of the benchmark.
        model: of the zoo.
        layers: of each IPU of a replica; none where `splits` say what an IPU has.
        proportion: share of a tile's memory for products, of each IPU's or the lowest of them.
        steps: weight updates of a run.
        sequence: tokens of a row; the model's own where 0.
        published: rows a second of its README or of Graphcore's performance pages, on IPUs of a
            GC200 and of a Bow; 0 where there is none.
        sharded: optimizer state is divided among the replicas.
        off_chip: optimizer state is in streaming memory.
        serial: parts of the product with the words.
        splits: layers that the stages behind the first begin with, each on an IPU of its own.
        kept: layers whose ends are kept where activations are computed again, beside what stages
            read; where None, those that the network says.
        io_tiles: tiles set aside for the host.
        network: fields of the model's network that are not the zoo's.
    """

    name: str
    model: str
    layers: tuple[int, ...]
    replicas: int
    rows: int
    accumulation: int
    proportion: float | tuple[float, ...]
    steps: int = 1
    sequence: int = 0
    sharded: bool = True
    off_chip: bool = True
    serial: int = 1
    published: tuple[float, float] = (0, 0)
    splits: tuple[str, ...] = ()
    kept: tuple[str, ...] | None = None
    io_tiles: int = 0
    network: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ipus(self) -> int:
        """Of a replica."""
        return len(self.layers) or len(self.splits) + 1

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
            }
        )
        model = MODELS[self.model]
        network: Any = model.network
        model = replace(model, network=replace(network, **self.network))
        built = target_of_zoo(model, strategy, sequence=self.sequence).program
        placed = place(built, self._split(built) if self.splits else self._cuts(built))
        operators = []
        layer = ""
        for operator in placed.operators:
            if any(tensor.role == "weight" for tensor in operator.read):
                layer = operator.origin.layer
            operators.append(self._as_set(operator, layer))
        return replace(placed, operators=tuple(operators)).with_settings(
            ipus=self.ipus * self.replicas, replicas=self.replicas,
            accumulation=self.accumulation, batches_per_step=self.steps,
            recomputation="Pipeline", state_on_chip=not self.off_chip,
            state_sharded=self.sharded, io_tiles=self.io_tiles,
        )  # fmt: skip

    def _as_set(self, operator: Operator, layer: str) -> Operator:
        """A placed operator with what the strategy sets of it.

        Args:
            layer: the last one up to here that has weights.
        """
        shares = self.proportion
        share = shares if isinstance(shares, float) else shares[operator.ipu]
        serial = operator.serial
        if operator.op_type == "MatMul" and any(t.name == "embeddings.word" for t in operator.read):
            serial = self.serial
        checkpoint = operator.checkpoint
        if self.kept is not None:
            checkpoint = checkpoint and any(_is_in(layer, kept) for kept in self.kept)
        return replace(operator, memory_proportion=share, serial=serial, checkpoint=checkpoint)

    def _split(self, program: Program) -> Cuts:
        """Stages that begin with each layer of `splits`, and the views that it reads.

        Raises:
            ValueError: the model has no such layer.
        """
        operators = program.operators
        starts = [0]
        for layer in self.splits:
            start = next((n for n, op in enumerate(operators) if _is_in(op.origin.layer, layer)), 0)
            if not start:
                raise ValueError(f"{self.name}: {self.model} has no layer '{layer}' to split at")
            while operators[start - 1].is_view:
                start -= 1
            starts.append(start)
        return Cuts(tuple(starts), tuple(range(len(starts))))

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


def _is_in(layer: str, other: str) -> bool:
    """Whether a layer is another one, or in it."""
    return f"{layer}.".startswith(f"{other}.")


GPT2_LARGE = (0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 2)
DROPPED = {"attention_dropout": 0.1}
B4_KEPT = ("blocks.0.1", "blocks.1.1")
POPLIBS_SHARE = 0.6
"""Where a strategy says none."""
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
            off_chip=False, published=(0, 7319)),
    Example("pytorch_vit_pretrain_gen_pod16", "vit-b", (3, 3, 3, 3), 4, 8, 128, 0.3,
            off_chip=False, network=DROPPED),
    Example("pytorch_vit_lamb_pretrain_gen_pod16", "vit-b", (3, 3, 3, 3), 4, 8, 2048, 0.3,
            off_chip=False, network=DROPPED, published=(0, 7615)),
    Example("pytorch_vit_lamb_pretrain_gen_pod64", "vit-b", (3, 3, 3, 3), 16, 8, 512, 0.3,
            sharded=False, off_chip=False, network=DROPPED, published=(0, 27868)),
    *(
        Example(f"conformer_globalbs_16128_pod{4 * replicas}", "conformer", (2, 4, 5, 1), replicas,
                4, 4032 // replicas, 0.3, sharded=False, off_chip=False, kept=(),
                published=published)
        for replicas, published in ((1, (819, 1126)), (4, (3163, 4302)), (16, (11689, 15815)))
    ),
    Example("pytorch_efficientnet_b0_train_real_pod16", "efficientnet-b0-g16", (), 8, 20, 5, 0.15,
            sharded=False, off_chip=False, splits=("blocks.3.0.expand",), kept=()),
    Example("pytorch_efficientnet_b4_g16_train_real_pod16", "efficientnet-b4-g16", (), 8, 4, 64,
            0.1, 4, off_chip=False, splits=("blocks.3.0.spatial.norm",), kept=B4_KEPT),
    Example("efficientnet-b4-g16-gn-pod64", "efficientnet-b4-g16", (), 32, 4, 16, 0.1, 4,
            off_chip=False, splits=("blocks.3.0.spatial.norm",), kept=B4_KEPT),
    Example("tf1_efficientnet_b4_g16_train_real_pod16", "efficientnet-b4-g16", (), 8, 3, 256, 0.4,
            sharded=False, off_chip=False, splits=("blocks.3.0.expand",), kept=(), io_tiles=32,
            published=(0, 9000)),
    Example("mobilenet-v3-large-pod16", "mobilenet-v3-large", (), 4, 32, 8, POPLIBS_SHARE,
            sharded=False, off_chip=False, kept=(),
            splits=("blocks.2.expand_conv", "blocks.7.expand_conv", "blocks.11.expand_conv")),
    Example("tf2_unet_train_real_pod4", "unet", (), 1, 1, 24, (0.7, 0.3, 0.45, 0.7), 10,
            sharded=False, off_chip=False, kept=(), published=(0, 151),
            splits=("encoder.2", "decoder.0.first", "decoder.2.first")),
)  # fmt: skip


def predicted(example: Example, machine: str) -> Prediction:
    """The prediction of an example; needs static mode."""
    return predict(example.program(), machine_named(machine))


def main(words: Sequence[str] | None = None) -> int:
    """Prints the table."""
    argparse.ArgumentParser(description="public strategies for models of the zoo").parse_args(words)
    paddle.enable_static()
    paddle_ipu.activate()
    width = max(len(example.name) for example in EXAMPLES)
    print(
        f"{'':<{width}} {'machine':<10} {'memory':>6}  {'predicted':>9} {'80 % interval':<16} "
        f"{'published':>9} {'error':>7}"
    )
    for example in EXAMPLES:
        ipus = example.ipus * example.replicas
        for kind, machine in enumerate((f"POD{ipus}", f"Bow-Pod{ipus}")):
            found = predicted(example, machine)
            interval = rate_interval(found, livenesses(found.program))
            worst = found.memory.worst
            rate = found.cycles.throughput
            share = worst.per_tile / worst.tile_capacity
            line = (
                f"{example.name:<{width}} {machine:<10} {share:>6.0%}  "
                f"{rate:>9,.0f} {f'{interval.low:,.0f} to {interval.high:,.0f}':<16}"
            )
            published = example.published[kind]
            if published:
                line += f" {published:>9,.0f} {rate / published - 1:>+7.1%}"
            print(line.rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
