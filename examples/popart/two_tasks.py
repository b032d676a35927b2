"""A pipelined transformer on two tasks: replicas share its layers, each group has its own head."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from examples.popart.modules import at_least_one, import_popart, parser_of

DESCRIPTION = """\
Train a small transformer on two tasks at once: half of the replicas read digits and learn to
reverse them, the others to sort them. The layers are shared, so their gradients are averaged over
all replicas; the head is a grouped weight, one for each task. A replica is a pipeline of two IPUs.
"""

DIGITS = 10
TASKS = ("reverse", "sort")
STAGES = 2

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """What is trained.

    Attributes:
        length: digits of a sequence.
        hidden: features of a digit.
        heads: of an attention.
        rows: sequences of a micro-batch.
        accumulation: micro-batches of a weight update, in each replica.
        batches: weight updates of a run.
        replicas: a multiple of the tasks.
    """

    length: int = 8
    hidden: int = 64
    heads: int = 4
    rows: int = 16
    accumulation: int = 4
    batches: int = 10
    replicas: int = 2


class Transformer:
    """The graph: embedding and one layer on the first IPU, another, the head, the loss beyond."""

    def __init__(self, popart: Any, sizes: Sizes) -> None:
        self.popart, self.sizes = popart, sizes
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnxOpset11, self.builder.aiGraphcoreOpset1
        self._rng = np.random.default_rng(0)
        shape = [sizes.rows, sizes.length]
        self.digits = self.builder.addInputTensor("INT32", shape, "digits")
        self.answers = self.builder.addInputTensor("INT32", shape, "answers")
        with self.builder.virtualGraph(0), self.builder.pipelineStage(0):
            x = self._layer(self._embedded(), "first")
        with self.builder.virtualGraph(1), self.builder.pipelineStage(1):
            self.chances = self._head(self._layer(x, "second"))
            flat = self.onnx.reshape([self.answers, self._shape(-1)])
            self.loss = self.graphcore.nllloss([self.chances, flat])

    def _weight(self, name: str, *shape: int) -> str:
        return str(self.builder.addInitializedInputTensor(self._values(*shape), name))

    def _values(self, *shape: int) -> Array:
        spread = np.sqrt(1 / shape[-2])
        return (self._rng.standard_normal(shape) * spread).astype(np.float32)

    def _shape(self, *dims: int) -> str:
        return str(self.onnx.constant(np.array(dims, np.int64)))

    def _embedded(self) -> str:
        """Features of each digit and of its place, ``[rows * length, hidden]``."""
        sizes = self.sizes
        words = self._weight("digit_embedding", DIGITS, sizes.hidden)
        places = self._weight("place_embedding", sizes.length, sizes.hidden)
        x = self.onnx.add([self.onnx.gather([words, self.digits]), places])
        return str(self.onnx.reshape([x, self._shape(-1, sizes.hidden)]))

    def _normalized(self, x: str, name: str) -> str:
        scale, bias = (
            self.builder.addInitializedInputTensor(
                np.full(self.sizes.hidden, value, np.float32), f"{name}_{what}"
            )
            for what, value in (("scale", 1), ("bias", 0))
        )
        return str(self.graphcore.groupnormalization([x, scale, bias], 1)[0])

    def _split_heads(self, x: str, perm: list[int]) -> str:
        sizes = self.sizes
        shape = self._shape(sizes.rows, sizes.length, sizes.heads, sizes.hidden // sizes.heads)
        return str(self.onnx.transpose([self.onnx.reshape([x, shape])], perm))

    def _attention(self, x: str, name: str) -> str:
        hidden = self.sizes.hidden
        query, key, value = (
            self.onnx.matmul([x, self._weight(f"{name}_{what}", hidden, hidden)])
            for what in ("query", "key", "value")
        )
        scores = self.onnx.matmul(
            [self._split_heads(query, [0, 2, 1, 3]), self._split_heads(key, [0, 2, 3, 1])]
        )
        scale = self.onnx.constant(np.float32((hidden / self.sizes.heads) ** -0.5).reshape(1))
        weights = self.onnx.softmax([self.onnx.mul([scores, scale])], 3)
        mixed = self.onnx.matmul([weights, self._split_heads(value, [0, 2, 1, 3])])
        mixed = self.onnx.transpose([mixed], [0, 2, 1, 3])
        mixed = self.onnx.reshape([mixed, self._shape(-1, hidden)])
        return str(self.onnx.matmul([mixed, self._weight(f"{name}_mix", hidden, hidden)]))

    def _layer(self, x: str, name: str) -> str:
        """Attention and two products, each added to what it read: ``[rows * length, hidden]``."""
        hidden = self.sizes.hidden
        normalized = self._normalized(x, f"{name}_attention_norm")
        x = self.onnx.add([x, self._attention(normalized, name)])
        y = self._normalized(x, f"{name}_norm")
        y = self.onnx.matmul([y, self._weight(f"{name}_up", hidden, 4 * hidden)])
        y = self.graphcore.gelu([y])
        y = self.onnx.matmul([y, self._weight(f"{name}_down", 4 * hidden, hidden)])
        return str(self.onnx.add([x, y]))

    def _head(self, x: str) -> str:
        """The chance of each digit at each place, ``[rows * length, 10]``, by the group's head."""
        popart = self.popart
        group = popart.CommGroup(
            popart.CommGroupType.Consecutive, self.sizes.replicas // len(TASKS)
        )
        first = np.stack([self._values(self.sizes.hidden, DIGITS) for _ in TASKS])
        self.head = self.builder.addInitializedInputTensor(
            first, popart.VariableSettings(group), "head"
        )
        logits = self.onnx.matmul([self._normalized(x, "last"), self.head])
        return str(self.onnx.softmax([logits], 1))


def session_of(popart: Any, model: Transformer) -> Any:
    """A training session with Adam, prepared, its weights on the device."""
    sizes = model.sizes
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enablePipelining = True
    options.enableGradientAccumulation = True
    options.accumulationFactor = sizes.accumulation
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = sizes.replicas
    everything = popart.AnchorReturnType("All")
    session = popart.TrainingSession(
        fnModel=model.builder.getModelProto(),
        loss=model.loss,
        optimizer=popart.Adam({"defaultLearningRate": (3e-3, False)}),
        dataFlow=popart.DataFlow(
            sizes.batches, {model.loss: everything, model.chances: everything}
        ),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(STAGES * sizes.replicas),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def batches_of(sizes: Sizes, runs: int) -> Iterator[tuple[Array, Array]]:
    """(digits, answers) of each run, int32 ``[batches, accumulation, replicas, rows, length]``."""
    rng = np.random.default_rng(1)
    shape = (sizes.batches, sizes.accumulation, sizes.replicas, sizes.rows, sizes.length)
    half = sizes.replicas // len(TASKS)
    for _ in range(runs):
        digits = rng.integers(DIGITS, size=shape, dtype=np.int32)
        answers = np.sort(digits, axis=-1)
        answers[:, :, :half] = digits[:, :, :half, :, ::-1]
        yield digits, answers


def train(popart: Any, sizes: Sizes, runs: int) -> tuple[Array, Array]:
    """(right, heads): the share of right digits by run and task, and each task's head."""
    model = Transformer(popart, sizes)
    session = session_of(popart, model)
    anchors = session.initAnchorArrays()
    shares = []
    for number, (digits, answers) in enumerate(batches_of(sizes, runs), start=1):
        feeds = {model.digits: digits, model.answers: answers}
        session.run(popart.PyStepIO(feeds, anchors))
        chances = anchors[model.chances].reshape(*digits.shape, DIGITS)
        right = (np.argmax(chances, axis=-1) == answers).mean(axis=(0, 1, 3, 4))
        shares.append(right.reshape(len(TASKS), -1).mean(axis=1))
        told = ", ".join(
            f"{task} {share:.1%}" for task, share in zip(TASKS, shares[-1], strict=True)
        )
        sys.stdout.write(
            f"run {number}: loss {anchors[model.loss].mean():.3f}, right digits: {told}\n"
        )
    heads = {model.head: np.empty((len(TASKS), sizes.hidden, DIGITS), np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(heads))
    return np.array(shares), heads[model.head]


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    parser = parser_of("examples.popart.two_tasks", DESCRIPTION)
    parser.add_argument(
        "--runs", type=at_least_one, default=20, help="of 10 weight updates (default: 20)"
    )
    parser.add_argument(
        "--replicas", type=int, choices=(2, 4), default=2, help="of two IPUs each (default: 2)"
    )
    options = parser.parse_args(arguments)
    popart = import_popart(parser, options.module)
    train(popart, Sizes(replicas=options.replicas), options.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
