"""A small network of layers in PopART's interface, trained in several ways that give the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu import popart
from tests.unit.sessions.session_programs import builder, device, flow, options, run

Array = np.ndarray[Any, Any]
ROWS, WIDTH, LAYERS, TABLE = 256, 32, 4, 10


class Net:
    """Rows of a table through layers of norm, matmul, tanh, dropout and sigmoid, with residuals.

    Ids: ``rows``, the layers' results ``layers`` and the loss.

    Args:
        marks: layers' results are checkpoints (``checkpoint``), or what lies between them is marked
            as recomputed (``outputs``, ``scope``).
        ipus: the layers lie on so many IPUs, a pipeline stage each.
        logs: takes a logarithm of the fed ``scale`` in the middle.
    """

    def __init__(self, marks: str = "", ipus: int = 1, logs: bool = False) -> None:
        make = self.builder = builder()
        self.ipus, self._marks = ipus, marks
        ops, random = make.aiOnnxOpset11, np.random.default_rng(0)
        rows = make.addInputTensor("INT32", [ROWS], "rows")
        scale = make.addInputTensor("FLOAT", [1], "scale")
        table = self._weight("table", random.standard_normal((TABLE, WIDTH)))
        h = self._at(0, ops.mul([self._at(0, ops.gather([table, rows])), scale]))
        self.layers = []
        for number in range(LAYERS):
            w = self._weight(f"w{number}", 0.2 * random.standard_normal((WIDTH, WIDTH)))
            ones = self._weight(f"scale{number}", np.ones(WIDTH))
            zeros = self._weight(f"shift{number}", np.zeros(WIDTH))
            stage = number * ipus // LAYERS
            if marks == "scope":
                with make.recomputeOutput(popart.RecomputeType.Recompute):
                    branch = self._branch(stage, h, w, ones, zeros)
            else:
                branch = self._branch(stage, h, w, ones, zeros)
            if logs and number == LAYERS // 2:
                branch = self._at(stage, ops.mul([branch, self._at(stage, ops.log([scale]))]))
            h = self._at(stage, ops.add([h, branch]))
            if marks == "checkpoint":
                (h,) = make.checkpointOutput([h])
                self._at(stage, h)
            self.layers.append(h)
        squares = self._at(ipus - 1, ops.mul([h, h]))
        self.loss = self._at(ipus - 1, make.aiGraphcore.l1loss([squares], 0.1))

    def _weight(self, name: str, array: Array) -> str:
        return self.builder.addInitializedInputTensor(array.astype(np.float32), name)

    def _branch(self, stage: int, h: str, w: str, ones: str, zeros: str) -> str:
        make, ops = self.builder, self.builder.aiOnnxOpset11
        normal = make.aiGraphcore.groupnormalization([h, ones, zeros], 1)
        if self._marks == "outputs":
            make.recomputeOutputInBackwardPass(set(normal))
        if self.ipus > 1:
            make.virtualGraph(set(normal), stage)
            make.pipelineStage(set(normal), stage)
        h = normal[0]
        h = self._mark(stage, ops.tanh([self._mark(stage, ops.matmul([h, w]))]))
        h = self._mark(stage, ops.dropout([h], 1, 0.25)[0])
        return self._mark(stage, ops.sigmoid([h]))

    def _mark(self, stage: int, output: str) -> str:
        if self._marks == "outputs":
            self.builder.recomputeOutputInBackwardPass(output)
        return self._at(stage, output)

    def _at(self, stage: int, output: str) -> str:
        if self.ipus > 1:
            self.builder.virtualGraph(output, stage)
            self.builder.pipelineStage(output, stage)
        return output


@dataclass
class Trained:
    """What two runs gave, the memory of a step, and how many of its parts are called."""

    outputs: Mapping[str, Array]
    weights: Mapping[str, Array]
    megabytes: float
    called: int


FEED = {
    "rows": np.random.default_rng(1).integers(0, TABLE, ROWS).astype(np.int32),
    "scale": np.ones(1, np.float32),
}


def train(
    net: Net, kind: str = "NoRecompute", *, anchors: Any = (), micro: int = 1,
    replicas: int = 1, feed: Mapping[str, Array] = FEED, **settings: Any,
) -> Trained:  # fmt: skip
    if replicas > 1:
        settings |= {"enableReplicatedGraphs": True, "replicatedGraphCount": replicas}
    chosen = options(micro, autoRecomputation=getattr(popart.RecomputationType, kind), **settings)
    session = popart.TrainingSession(
        net.builder.model, flow(1, dict.fromkeys([net.loss, *anchors], "All")), net.loss,
        popart.ConstSGD(0.05), device(net.ipus * replicas), userOptions=chosen,
    )  # fmt: skip
    session.prepareDevice()
    session.setRandomSeed(7)
    session.weightsFromHost()
    fed = dict(feed)
    for times in (replicas, micro):
        if times > 1:
            fed = {name: np.stack([array] * times) for name, array in fed.items()}
    outputs: Mapping[str, Array] = {}
    for _ in range(2):
        outputs = run(session, fed)
    arrays = {name: np.array(array) for name, array in session._executable.weights.items()}
    called = sum(part.called for part in session._executable._step.segments)
    return Trained(outputs, arrays, session._executable.temporary_bytes / 1e6, called)


def check_same(got: Trained, expected: Trained) -> None:
    for name, array in expected.weights.items():
        distance = float(np.linalg.norm(got.weights[name] - array))
        assert distance <= 1e-6 * float(np.linalg.norm(array)) + 1e-9, name
    for name, array in expected.outputs.items():
        np.testing.assert_allclose(got.outputs[name], array, rtol=1e-5, atol=1e-7)
