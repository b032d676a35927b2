"""One instance of a tiny distributed training; writes its weights. Run by test_instances."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import popdist
import popdist.popart
from paddle_ipu import popart
from paddle_ipu.xla.step.hlo_origins import origins

STEPS, MICRO, TOTAL, ROWS = 10, 2, 4, 3


def data() -> tuple[np.ndarray, np.ndarray]:
    """Feeds of all steps, [steps, micro-batches, replicas, rows, columns]."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(STEPS, MICRO, TOTAL, ROWS, 4)).astype(np.float32)
    return x, np.sin(x.sum(axis=-1, keepdims=True)).astype(np.float32)


def train(kind: str, options: popart.SessionOptions, device: object, weight_seed: int) -> dict:
    """Ten updates with this process's replicas; the weights, and the loss of each micro-batch."""
    first, local = options.globalReplicaOffset, options.replicatedGraphCount
    generator = np.random.default_rng(weight_seed)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, 4]))
    y = builder.addInputTensor(popart.TensorInfo("FLOAT", [ROWS, 1]))
    w = builder.addInitializedInputTensor(generator.normal(size=(4, 8)).astype(np.float32), "w")
    v = builder.addInitializedInputTensor(generator.normal(size=(8, 1)).astype(np.float32), "v")
    hidden = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])
    (hidden,) = builder.aiOnnx.dropout([hidden], 1, 0.25)
    difference = builder.aiOnnx.sub([builder.aiOnnx.matmul([hidden, v]), y])
    loss = builder.aiGraphcore.l1loss([difference], 0.5)
    mean = builder.aiGraphcore.replicatedallreduce([loss])
    options.enableGradientAccumulation = True
    options.accumulationFactor = MICRO
    optimizer = popart.SGD({"defaultLearningRate": (0.05, True)})
    if kind == "adam":
        optimizer = popart.Adam({"defaultLearningRate": (0.01, True)})
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(
            1, {loss: popart.AnchorReturnType("All"), mean: popart.AnchorReturnType("All")}
        ),
        loss,
        optimizer,
        device,
        userOptions=options,
    )
    session.prepareDevice()
    session.setRandomSeed(11)
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    losses = []
    for x_step, y_step in zip(*data(), strict=True):
        mine = slice(first, first + local)
        feeds = {x: x_step[:, mine].copy(), y: y_step[:, mine].copy()}
        session.run(popart.PyStepIO(feeds, anchors))
        losses.append(
            np.stack([anchors[loss].reshape(MICRO, local), anchors[mean].reshape(MICRO, local)])
        )
    found = {"w": np.empty((4, 8), np.float32), "v": np.empty((8, 1), np.float32)}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(found))
    session.runArrays(feeds, updating=False)
    executable = session._executable
    steps = (executable.compiled, executable._compiled_without_updates)
    modules = [origins(str(step.compiled.as_text()))[0] for step in steps]
    return {**found, "losses": np.stack(losses), "modules": np.asarray(modules)}


def main(folder: Path, kind: str) -> None:
    """Trains as this instance, with weights of its own at the start, and writes what came out."""
    rank = popdist.getInstanceIndex()
    options = popart.SessionOptions()
    popdist.popart.configureSessionOptions(options)
    # Instance 0's weights count: the others start elsewhere.
    results = {"train": train(kind, options, popdist.popart.getDevice(), weight_seed=rank)}
    results["popdist"] = {
        "sum": popdist.allReduce(np.float64(rank + 0.1), "sum"),
        "all": popdist.allGather(np.arange(3) + 10 * rank),
        "only": np.asarray(popdist.execute_on_instances({1}, lambda: "here") is not None),
        "joined": np.asarray(popdist.isBackendInitialized()),
        "device": np.asarray(popdist.getDeviceId()),
    }
    # It belongs to the caller.
    results["popdist"]["all"] += 0
    flat = {f"{kind}.{name}": a for kind, found in results.items() for name, a in found.items()}
    np.savez(folder / f"{rank}.npz", **flat)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
