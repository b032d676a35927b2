"""Small PopART programs in half, run on the IPU Model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from paddle_ipu import popart

Array = np.ndarray[Any, Any]


def run(
    feeds: Mapping[str, Array],
    make: Callable[..., Mapping[str, str]],
    dtype: str = "FLOAT16",
    seed: int = 0,
    runs: int = 1,
    **options: Any,
) -> dict[str, Array]:
    """Runs what `make(builder, *tensors)` builds forward; it gives name -> tensor to return.

    Of several runs the results are those of all, in front. `options` are session options.
    """
    forward = compiled(feeds, make, dtype, seed, **options)
    found = [forward(feeds) for _ in range(runs)]
    if runs == 1:
        return found[0]
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def compiled(
    feeds: Mapping[str, Array],
    make: Callable[..., Mapping[str, str]],
    dtype: str = "FLOAT16",
    seed: int = 0,
    **options: Any,
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """The program of :func:`run`, for any feeds of the same shapes."""
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    tensors = [
        builder.addInputTensor(dtype, list(feed.shape), name) for name, feed in feeds.items()
    ]
    wanted = make(builder, *tensors)
    anchors = {tensor: popart.AnchorReturnType("All") for tensor in wanted.values()}
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, anchors),
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=session_options(options),
    )
    session.prepareDevice()
    session.setRandomSeed(seed)

    def forward(feeds: Mapping[str, Array]) -> dict[str, Array]:
        outputs = session.initAnchorArrays()
        session.run(popart.PyStepIO(dict(zip(tensors, feeds.values(), strict=True)), outputs))
        return {name: outputs[tensor] for name, tensor in wanted.items()}

    return forward


def session_options(values: Mapping[str, Any]) -> Any:
    """Session options with these fields set."""
    options = popart.SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def train(
    feed: Array,
    weights: Sequence[Array],
    make: Callable[..., str],
    gradients_of: Callable[..., Mapping[str, str]] = lambda *tensors: {},
    rate: float = 0.1,
    accumulation: int = 1,
    seed: int = 0,
    **values: Any,
) -> tuple[dict[str, Array], list[Array]]:
    """One step of SGD on the loss that `make(builder, x, *weights)` gives.

    Returns:
        Gradients by the names of `gradients_of(x, *weights)`, and the new weights.
    """
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    shape = [len(feed) // accumulation, *feed.shape[1:]]
    x = builder.addInputTensor("FLOAT16", shape, "x")
    tensors = [builder.addInitializedInputTensor(weight) for weight in weights]
    loss = make(builder, x, *tensors)
    wanted = {name: f"Gradient___{t}" for name, t in gradients_of(x, *tensors).items()}
    options = session_options(values)
    options.enableGradientAccumulation = accumulation > 1
    options.accumulationFactor = accumulation
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {tensor: popart.AnchorReturnType("All") for tensor in wanted.values()}),
        loss,
        popart.SGD({"defaultLearningRate": (rate, False)}),
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )
    session.prepareDevice()
    session.setRandomSeed(seed)
    session.weightsFromHost()
    outputs = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: feed}, outputs))
    session.weightsToHost()
    after = [np.empty_like(weight) for weight in weights]
    session.readWeights(popart.PyWeightsIO(dict(zip(tensors, after, strict=True))))
    return {name: outputs[tensor] for name, tensor in wanted.items()}, after
