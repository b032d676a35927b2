"""Small PopART programs for the session tests, and a way to run them in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddle_ipu import popart

Array = np.ndarray[Any, Any]

X = np.array([[0.5, -1.0], [1.5, 2.0], [-0.5, 1.0]], np.float32)
"""A micro-batch of three samples."""
W = np.array([[1.0, -0.5], [0.25, 0.75]], np.float32)
B = np.array([0.5, -1.0], np.float32)
"""Initial weights of :class:`Linear`."""


def builder() -> popart.Builder:
    return popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})


class Linear:
    """``loss = mean or sum of (x w + b)^2 / 2`` with x [3, 2], and its gradients in NumPy.

    Ids: x, w, b, ``out`` (x w + b), ``loss``.

    Args:
        dtype: of x, w and b.
        reduction: of the loss.
        w: initial weight.
        b: initial bias.
        settings: VariableSettings of w and of b, None for the default's.
    """

    def __init__(
        self,
        dtype: Any = np.float32,
        reduction: str = "Sum",
        w: Array = W,
        b: Array = B,
        settings: tuple[Any, Any] = (None, None),
    ) -> None:
        self.builder = builder()
        make = self.builder
        self.x = make.addInputTensor(popart.TensorInfo(dtype, [3, 2]), "x")
        given = [() if each is None else (each,) for each in settings]
        self.w = make.addInitializedInputTensor(w.astype(dtype), *given[0], "w")
        self.b = make.addInitializedInputTensor(b.astype(dtype), *given[1], "b")
        product = make.aiOnnxOpset11.matmul([self.x, self.w])
        self.out = make.aiOnnxOpset11.add([product, self.b])
        square = make.aiOnnxOpset11.mul([self.out, self.out])
        half = make.aiGraphcore.scale([square], 0.5)
        self.loss = make.aiGraphcore.identityloss([half], getattr(popart.ReductionType, reduction))

    @staticmethod
    def loss_of(x: Array, w: Array, b: Array) -> float:
        """The loss, summed."""
        return float(((x @ w + b) ** 2).sum() / 2)

    @staticmethod
    def gradients(x: Array, w: Array, b: Array) -> dict[str, Array]:
        """Gradients of the summed loss: of w, b and out."""
        out = x.astype(np.float64) @ w + b
        return {"w": x.T @ out, "b": out.sum(0), "out": out}


def micro_batches(count: int) -> Array:
    """[count, 3, 2], each micro-batch another."""
    turn = np.arange(count, dtype=np.float32)[:, None, None]
    return np.ascontiguousarray(X * (1 + 0.25 * turn) - 0.125 * turn)


def options(accumulation: int = 1, **settings: Any) -> popart.SessionOptions:
    """Session options; keywords are set as they are."""
    session_options = popart.SessionOptions()
    if accumulation > 1:
        session_options.enableGradientAccumulation = True
        session_options.accumulationFactor = accumulation
    for name, value in settings.items():
        setattr(session_options, name, value)
    return session_options


def device(ipus: int = 1) -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus})


def ipus_for(settings: popart.SessionOptions | None) -> int:
    """An IPU for each replica."""
    return 1 if settings is None else settings.getGlobalReplicationFactor()


def flow(batches: int, anchors: Mapping[str, str | tuple[str, int]]) -> popart.DataFlow:
    """Anchors by id: ``All``, ``Final``, ``Sum`` or ``("EveryN", n)``."""
    kinds = {
        name: popart.AnchorReturnType(*((kind,) if isinstance(kind, str) else kind))
        for name, kind in anchors.items()
    }
    return popart.DataFlow(batches, kinds)


def train(
    program: Any,
    optimizer: Any,
    anchors: Mapping[str, str | tuple[str, int]] | None = None,
    *,
    batches: int = 1,
    settings: popart.SessionOptions | None = None,
    model: Any = None,
    start: bool = True,
) -> popart.TrainingSession:
    """A training session of a program with ``builder`` and ``loss``, ready to run."""
    session = popart.TrainingSession(
        model or program.builder.model,
        flow(batches, anchors or {}),
        program.loss,
        optimizer,
        device(ipus_for(settings)),
        userOptions=settings or options(),
    )
    if start:
        session.prepareDevice()
        session.weightsFromHost()
    return session


def infer(
    model: Any,
    anchors: Mapping[str, str | tuple[str, int]],
    *,
    batches: int = 1,
    settings: popart.SessionOptions | None = None,
) -> popart.InferenceSession:
    """An inference session, compiled."""
    session = popart.InferenceSession(
        model, flow(batches, anchors), device(ipus_for(settings)), userOptions=settings or options()
    )
    session.prepareDevice()
    return session


def run(session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """One run; the anchors' arrays."""
    outputs: dict[str, Array] = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(inputs), outputs))
    return outputs


def weights(session: Any, *names: str) -> list[Array]:
    """What the device holds of weights and state."""
    session.weightsToHost()
    arrays = {name: np.empty(_shape(session, name), _dtype(session, name)) for name in names}
    session.readWeights(popart.PyWeightsIO(arrays))
    return [arrays[name] for name in names]


def _shape(session: Any, name: str) -> list[int]:
    if name.startswith("Step___"):
        return []
    shape: list[int] = session.getInfo(name.rpartition("___")[2]).shape()
    return shape


def _dtype(session: Any, name: str) -> str:
    if "___" in name:
        return "float32"
    dtype: str = session.getInfo(name).data_type_lcase()
    return dtype


MOMENTUM = {"defaultLearningRate": (0.05, True), "defaultMomentum": (0.9, True)}


def sgd() -> popart.SGD:
    """Momentum, whose state a session has to keep."""
    return popart.SGD(MOMENTUM)


def after(runs: int) -> Array:
    """The weight after some runs of an unbroken session."""
    session = train(Linear(), sgd())
    for _ in range(runs):
        run(session, {"x": X})
    return weights(session, "w")[0]
