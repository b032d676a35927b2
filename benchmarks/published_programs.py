"""The programs of published results, with their strategies where the sources have them.

Each is a Paddle program of the examples, as the IPU Model reads it; no weight gets a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import paddle

from examples.bert.model import (
    MASKED_OUT,
    Bert,
    Hints,
    Placement,
    pretraining_feeds,
    pretraining_network,
)
from examples.bert.stages import networks
from examples.bert.stages.presets import PRESETS
from examples.bert.stages.settings import Settings
from examples.bert.stages.strategy import ipu_strategy
from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.cost_model.placement import Cuts, place
from paddle_ipu.cost_model.program import Program, Tensor


class PackedBert(Bert):
    """BERT over packs: a word sees those of its own sequence, so that the mask is a matrix a row.

    Args:
        sequences: int32 ``[rows, sequence]``, the number of each word's sequence in its pack.
    """

    def __init__(self, sequences: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sequences = sequences

    def visible_slots(self, masked_count: Any, used_end: Any) -> Any:
        """The numbers themselves: each IPU compares them, as it does published masks."""
        return self._sequences

    def _attention_bias(self, visible: Any) -> Any:
        length = self.config.sequence_length
        of_word = paddle.reshape(visible, [-1, 1, length, 1])
        same = paddle.equal(of_word, paddle.reshape(visible, [-1, 1, 1, length]))
        return (paddle.cast(same, "float32") - 1.0) * MASKED_OUT


def bert(placement: Placement | None = None, packed: bool = False, **changes: object) -> Program:
    """BERT pretraining with the published phase 1 strategy, where nothing else is said.

    Args:
        packed: a row is a pack of sequences.
    """
    settings = Settings(**(PRESETS["pod16-phase1"] | changes))
    settings.check()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        hints = Hints(settings.available_mem_proportion, settings.serialize_factor)
        config, rows = networks.config_of(settings, squad=False), settings.micro_batch_size
        feeds = pretraining_feeds(config, rows)
        arguments = (config, placement or Placement(settings.num_ipus), True, hints)
        if packed:
            shape = [rows, config.sequence_length]
            feeds["sequences"] = paddle.static.data("sequences", shape, "int32")
            network = pretraining_network(PackedBert(feeds["sequences"], *arguments), feeds)
            del feeds["mask_tokens_mask_idx"], feeds["sequence_mask_idx"]
        else:
            network = pretraining_network(Bert(*arguments), feeds)
        paddle.optimizer.Lamb(learning_rate=settings.learning_rate).minimize(network.loss)
    fetches = [network.mlm_accuracy, network.mlm_loss, network.nsp_accuracy, network.nsp_loss]
    strategy = ipu_strategy(settings, 1, None, squad=False)
    return _checkpointed(predicted_program(main, strategy, list(feeds), fetches))


def _checkpointed(program: Program) -> Program:
    """A recomputation checkpoint after each layer, as published, without compiling its operator."""
    ends = "feed_forward.norm.scale"
    operators = tuple(
        replace(op, checkpoint=any(t.name.endswith(ends) for t in op.read))
        for op in program.operators
    )
    return replace(program, operators=operators)


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}


def layers_on(program: Program, layers: tuple[int, ...]) -> Program:
    """BERT with so many encoder layers on each IPU, embeddings and heads on the first."""
    ends = [at + 1 for at, operator in enumerate(program.operators) if operator.checkpoint]
    firsts = [ends[sum(layers[:ipu]) - 1] for ipu in range(1, len(layers))]
    starts = (0, *firsts, ends[sum(layers) - 1])
    return place(program, Cuts(starts, (*range(len(layers)), 0)))


def large_phase_1() -> Program:
    """BERT-Large, phase 1, with the strategy that Graphcore's public examples have for a Pod16.

    ``pretrain_large_128`` of nlp/bert/pytorch/configs_pretraining.yml; the accumulation is that
    which makes the published batch.
    """
    program = bert(
        packed=True, **LARGE, micro_batch_size=8, grad_acc_factor=1712,
        available_mem_proportion=0.25,
    )  # fmt: skip
    return layers_on(program, (3, 7, 7, 7))


ATTENTION_IPUS = (1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 7, 7, 7, 7)
FEED_FORWARD_IPUS = (1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 0)
"""The IPU of the attention and of the feed-forward layers of MLPerf's BERT on 16 IPUs.

``attn_ipu_index`` and ``ff_ipu_index`` in mlcommons/training_results_v2.0, bert.py of
Graphcore/benchmarks/bert/implementations/paddlepaddle.
"""


@dataclass(frozen=True)
class MlperfPlacement(Placement):
    """Encoder layers where MLPerf's submission has their attention."""

    def encoder_ipu(self, layer: int, layers: int) -> int:
        return ATTENTION_IPUS[layer]


def mlperf_network(placement: Placement | None = None) -> Program:
    """BERT-Large of MLPerf Training v2.0: packs of up to 512 words, all-reduces merged."""
    program = bert(
        placement, True, **LARGE, seq_len=512, max_predictions_per_seq=76, micro_batch_size=3,
        num_ipus=8, num_replica=2, grad_acc_factor=256, max_position_embeddings=512,
        available_mem_proportion=0.3,
    )  # fmt: skip
    return program.with_settings(merged_sums=True)


def mlperf() -> Program:
    """The same with the published strategy, in which the feed-forward part of a layer may be on the
    IPU behind that of its attention."""
    program = mlperf_network(MlperfPlacement(8))
    operators, layer, is_forward = [], 0, False
    for operator in program.operators:
        if is_forward and FEED_FORWARD_IPUS[layer] != operator.ipu:
            ipu = FEED_FORWARD_IPUS[layer]
            # The last one is in the last stage, which is the first IPU's.
            operator = replace(operator, ipu=ipu, stage=ipu or 8)
        operators.append(operator)
        is_forward |= any(t.name.endswith("attention.norm.scale") for t in operator.read)
        if operator.checkpoint:
            layer, is_forward = layer + 1, False
    return replace(program, operators=tuple(operators))


def resnet(micro: int = 16, accumulation: int = 16) -> Program:
    """ResNet-50 at 224 x 224 in half on 16 IPUs, a replica each; images are of 8 bits.

    So are they in ``vision/cnns/pytorch/train/configs.yml`` of Graphcore's public examples
    (``eight_bit_io``), which normalises them on the IPU.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        image = paddle.static.data("image", [micro, 3, 224, 224], "uint8")
        label = paddle.static.data("label", [micro, 1], "int64")
        seen = paddle.cast(image, "float32") * (1 / 127.5) - 1.0
        logits = paddle.vision.models.resnet50()(seen)
        loss = paddle.nn.functional.cross_entropy(logits, label)
        paddle.optimizer.Momentum(0.1, 0.9, weight_decay=1e-4).minimize(loss)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=16, is_training=True, micro_batch_size=micro)
    strategy.set_pipelining_config(
        enable_gradient_accumulation=True, accumulation_factor=accumulation
    )
    strategy.set_precision_config(enable_fp16=True)
    strategy.set_options({
        "enable_replicated_graphs": True,
        "replicated_graph_count": 16,
        "enable_half_partial": True,
        "convolution_options": {"partialsType": "half", "availableMemoryProportion": "0.16"},
        "loss_scaling": 128.0,
    })  # fmt: skip
    return _normalised_in_half(predicted_program(main, strategy, ["image", "label"], [loss]))


LARS_ENDS = (1, 3, 4, 6, 8, 11)
"""The blocks of ResNet-50 behind which the published strategy with LARS cuts its stages."""


def resnet_lars() -> Program:
    """ResNet-50 with the strategy of the public TensorFlow 1 example: 16 replicas, micro-batch 22.

    ``resnet50_mlperf_pod16_lars`` of vision/cnns/tensorflow1/training/configs.yml, as of SDK 3.0.
    Its seven stages are on one IPU, one after another; each but the last is computed again from
    what it reads, as of a pipeline. The optimizer's state is half, whole on each chip. Its
    statistics of batches are of two IPUs each: left out.
    """
    program = resnet(22, 10)
    relus = [at for at, op in enumerate(program.operators) if op.op_type == "Relu"]
    # One behind the first convolution, and three of each block.
    ends = {relus[3 * block] for block in LARS_ENDS}
    operators = tuple(
        replace(op, checkpoint=at in ends, memory_proportion=0.15)
        for at, op in enumerate(program.operators)
    )
    state = {name: size // 2 for name, size in program.state.items()}
    program = replace(program, operators=operators, rule="lars_momentum", state=state)
    return program.with_settings(
        recomputation="Pipeline", pipelined=True, state_on_chip=True, state_sharded=False
    )


def resnet_inference() -> Program:
    """ResNet-50 for one image in float, as the sample of Paddle-Inference-Demo runs it."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        image = paddle.static.data("image", [1, 3, 224, 224], "float32")
        network = paddle.vision.models.resnet50()
        network.eval()
        scores = network(image)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    return predicted_program(main, strategy, ["image"], [scores])


def _normalised_in_half(program: Program) -> Program:
    """Batch normalisation on half operands, without the casts around Paddle's, which is in float.

    So is it in the published programs, which are not Paddle's: ``precision: "16.16"`` in
    vision/cnns/pytorch/train/configs.yml of Graphcore's public examples.
    """
    norms = [op for op in program.operators if op.op_type == "BatchNormalization"]
    normalised = {tensor.name for op in norms for tensor in (op.read[0], op.outputs[0])}
    same: dict[str, Tensor] = {}
    operators = []
    for operator in program.operators:
        inputs = tuple(None if t is None else same.get(t.name, t) for t in operator.inputs)
        outputs = operator.outputs
        if operator.op_type == "Cast" and {operator.read[0].name, outputs[0].name} & normalised:
            same[outputs[0].name] = same.get(operator.read[0].name, operator.read[0])
            continue
        if operator.op_type == "BatchNormalization":
            half = replace(outputs[0], dtype="float16", item=2)
            same[half.name], outputs = half, (half, *outputs[1:])
        operators.append(replace(operator, inputs=inputs, outputs=outputs))
    return replace(program, operators=tuple(operators))


def resnet_in_public() -> Program:
    """ResNet-50 with the strategy of the public PyTorch example: 16 replicas, micro-batch 18.

    It computes most activations again. Its ``sgd_combined`` has one tensor for accumulator and
    momentum, so that there is no state beside the accumulators.
    """
    program = resnet(18, 57).with_settings(recomputation="Standard")
    return replace(program, state=dict.fromkeys(program.state, 0))
