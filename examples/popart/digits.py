"""A convolutional network on handwritten digits: trained, saved as ONNX, run forward."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.mnist.data import CLASSES, SIDE, Images, read_mnist, split
from examples.popart.modules import import_popart, parser_of

DESCRIPTION = """\
Train a small CNN on MNIST's digits and run it forward on others, as a program for popart does:
a TrainingSession writes its weights to an ONNX file, from which an InferenceSession takes them.
"""

Array = np.ndarray[Any, Any]


@dataclass
class Network:
    """A graph under construction; its weights have the same ids in every graph.

    Attributes:
        popart: the module.
        rows: images of a micro-batch.
        seed: of the first weights.
    """

    popart: Any
    rows: int
    seed: int = 0

    def __post_init__(self) -> None:
        self.builder = self.popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx = self.builder.aiOnnxOpset11
        self._rng = np.random.default_rng(self.seed)
        self.image = self.builder.addInputTensor("FLOAT", [self.rows, 1, SIDE, SIDE], "image")
        self.chances = self._chances()

    def _weight(self, name: str, *shape: int) -> str:
        spread = np.sqrt(2 / np.prod(shape[1:]))
        values = self._rng.standard_normal(shape) * spread
        return str(self.builder.addInitializedInputTensor(values.astype(np.float32), name))

    def _convolution(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """3x3, ReLU, 2x2 max pooling: half the height and the width."""
        weight = self._weight(f"{name}_weight", outputs, inputs, 3, 3)
        y = self.onnx.relu([self.onnx.conv([x, weight], pads=[1, 1, 1, 1])])
        return str(self.onnx.maxpool([y], 1, kernel_shape=[2, 2], strides=[2, 2])[0])

    def _chances(self) -> str:
        """The chance of each digit, ``[rows, 10]``."""
        y = self._convolution(self.image, "first", 1, 16)
        y = self._convolution(y, "second", 16, 32)
        y = self.onnx.flatten([y], 1)
        weight = self._weight("output_weight", CLASSES, 32 * (SIDE // 4) ** 2)
        bias = self.builder.addInitializedInputTensor(np.zeros(CLASSES, np.float32), "output_bias")
        return str(self.onnx.softmax([self.onnx.gemm([y, weight, bias], transB=1)], 1))


def train(popart: Any, images: Images, rows: int, file: Path) -> float:
    """Trains once over the images and writes the weights; the mean loss of the last batches.

    Args:
        popart: the module.
        images: as many as fill micro-batches of ``rows``.
        rows: images of a micro-batch.
        file: for the ONNX model.
    """
    network = Network(popart, rows)
    label = network.builder.addInputTensor("INT32", [rows], "label")
    loss = network.builder.aiGraphcore.nllloss([network.chances, label])
    batches = len(images) // rows
    session = popart.TrainingSession(
        fnModel=network.builder.getModelProto(),
        loss=loss,
        optimizer=popart.SGD(
            {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}
        ),
        dataFlow=popart.DataFlow(batches, {loss: popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(1),
        userOptions=popart.SessionOptions(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    feeds = {network.image: images.pixels, label: images.labels[:, 0].astype(np.int32)}
    session.run(popart.PyStepIO(feeds, anchors))
    session.weightsToHost()
    session.modelToHost(str(file))
    return float(anchors[loss][-max(batches // 4, 1) :].mean())


def classify(popart: Any, images: Images, rows: int, file: Path) -> Array:
    """The digits that a saved network takes images for, int64 ``[images]``."""
    network = Network(popart, rows, seed=1)
    options = popart.SessionOptions()
    # They are constants of the program otherwise.
    options.constantWeights = False
    session = popart.InferenceSession(
        fnModel=network.builder.getModelProto(),
        dataFlow=popart.DataFlow(
            len(images) // rows, {network.chances: popart.AnchorReturnType("All")}
        ),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(1),
        userOptions=options,
    )
    session.prepareDevice()
    # The file also has the momentum of each weight, which nothing here takes.
    session.resetHostWeights(str(file), ignoreWeightsInModelWithoutCorrespondingHostWeight=True)
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({network.image: images.pixels}, anchors))
    digits: Array = np.argmax(anchors[network.chances].reshape(-1, CLASSES), axis=1)
    return digits


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    parser = parser_of("examples.popart.digits", DESCRIPTION)
    parser.add_argument("--smoke", action="store_true", help="200 images, to see that it runs")
    options = parser.parse_args(arguments)
    popart = import_popart(parser, options.module)
    training, test = split(read_mnist(), 0.2, seed=0)
    rows = 50
    if options.smoke:
        training, test = training[:100], test[:100]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "digits.onnx"
        loss = train(popart, training, rows, file)
        sys.stdout.write(f"trained on {len(training)} images, loss {loss:.3f} at the end\n")
        digits = classify(popart, test, rows, file)
    right = float(np.mean(digits == test.labels[:, 0]))
    sys.stdout.write(f"{right:.1%} of {len(test)} other images are right\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
