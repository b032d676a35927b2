"""Inference sessions of programs that tests build, all of whose results are fetched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from paddle_ipu import popart
from paddle_ipu.xla.lowerings.registry import REWRITTEN

Array = np.ndarray[Any, Any]

XLAS_OWN: tuple[dict[str, Any], ...] = (
    {"enableFloatingPointChecks": True},
    {"enableNonStableSoftmax": True},
    {"replicas": 2, "enableReplicatedGraphs": True, "replicatedGraphCount": 2},
)
"""Options of sessions that leave softmax and attention to XLA."""


def session_of(
    builder: Any,
    results: Sequence[str],
    weights: Collection[str] = (),
    replicas: int = 1,
    **options: Any,
) -> Any:
    """A session, not prepared.

    Args:
        builder: has the program.
        results: tensors to fetch.
        weights: those among them that are weights, which cannot be outputs of the graph.
        options: of ``SessionOptions``.
    """
    for name in results:
        if name not in weights:
            builder.addOutputTensor(name)
    own = popart.SessionOptions()
    for name, value in options.items():
        setattr(own, name, value)
    return popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in results}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
        userOptions=own,
    )


def run(session: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a prepared session fetches."""
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(feeds), anchors))
    return {name: array.copy() for name, array in anchors.items()}


class Made:
    """A program that a case has built, as a session, not prepared.

    Attributes:
        feeds: what it is fed.
        names: its results, in the case's order.
    """

    def __init__(
        self, builder: Any, feeds: Mapping[str, Array], names: Sequence[str], **options: Any
    ) -> None:
        self.feeds, self.names = feeds, names
        self.session = session_of(builder, names, **options)

    @property
    def graph(self) -> Any:
        """As it was rewritten."""
        return self.session._executable.program.graph

    def count(self, op_type: str) -> int:
        """How many operators of a type rewrites have made."""
        return sum((node.domain, node.op_type) == (REWRITTEN, op_type) for node in self.graph)

    def run(self) -> list[Array]:
        """The results."""
        self.session.prepareDevice()
        self.session.weightsFromHost()
        found = run(self.session, self.feeds)
        return [found[name] for name in self.names]


def chosen(builder: Any, is_first: bool, first: Any, second: Any) -> str:
    """An If of a constant whose branches are made by these functions of an opset's builder."""
    branches = []
    for make in (second, first):
        branch = builder.createSubgraphBuilder()
        branch.addOutputTensor(make(branch.aiOnnx))
        branches.append(branch)
    onnx = builder.aiOnnx
    return str(onnx.logical_if([onnx.constant(np.array(is_first))], 1, *branches)[0])
