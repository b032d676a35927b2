"""What the passes of an inference program work on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import onnx_ir as ir

from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.rewrites.weight_layouts import WeightLayouts


@dataclass(slots=True)
class InferenceGraph:
    """A PopART graph on its way to a step; no run changes its weights.

    Attributes:
        graph: passes rewrite it in place, or put another one in its place.
        weights: names of its weights.
        anchors: tensors that are fetched.
        checks_floats: floating-point checks look at every operator's result.
        is_replicated: JAX runs several replicas in one program, which a custom call cannot join.
        precision: how half is summed, and whether softmax takes exponentials without subtracting
            the maximum first, as the kernels do not.
        layouts: how weights are on the device.
    """

    graph: ir.Graph
    weights: Collection[str]
    anchors: Collection[str]
    checks_floats: bool = False
    is_replicated: bool = False
    precision: Precision = Precision()
    layouts: WeightLayouts = field(default_factory=WeightLayouts)

    @property
    def allows_kernels(self) -> bool:
        """Whether custom calls may do operators together."""
        return not self.checks_floats and not self.is_replicated

    @property
    def free_weights(self) -> set[str]:
        """Weights that are not fetched, which may have any layout and type on the device."""
        return {*self.weights} - {*self.anchors}
