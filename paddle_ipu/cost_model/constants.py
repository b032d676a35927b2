"""What the predictor takes for granted beside the figures of machines, and how sure it is of it.

Three constants were fitted to published rates (``python -m benchmarks.fit``): two together to those
of BERT and ResNet-50, the host's part of a run to ResNet-50's inference. The two of memory were set
so that the published strategies of BERT-Base and ResNet-50 fit; nobody published what their tiles
held. Passes of norms and softmax are counted from poplibs' sources, and so are a gather's cycles.
The others are assumptions: counted from what the operators compute, or taken from what such
hardware takes elsewhere, as no source was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants; :data:`TABLE` says what each is.

    Attributes:
        exchange_efficiency: share of the exchange's bandwidth that tensors laid out for something
            else get.
        vertex_overhead: instructions of an elementwise vertex for each one that poplibs' inner
            loops count.
        code_bytes_per_set: bytes of a tile for each distinct compute set: code, vertices, their
            state, exchange code.
        tile_imbalance: what the fullest tile holds, over the mean of the tiles.
        norm_forward, norm_backward: passes of a normalisation of rows over its operand; that of a
            batch has two thirds of them forward, and one third with known statistics.
        softmax_forward, softmax_backward: likewise of a softmax, beside the exponential.
        turning: cycles of the bytes of a product's operand or result that is turned, over those of
            poplibs' regression for the largest piece that its rows are multiples of.
        cycles_an_index: a tile's cycles for each index of a gather or scatter.
        gates_forward, gates_backward: passes of a recurrent layer over its gates, beside their
            activations.
        update_cycles: vector operations of an update rule for an element, over those of
            :data:`RULE_CYCLES`.
        run_seconds: of a run, what the host needs beside the transfers: the call, the streams'
            callbacks, the wait for the device's sync.
        hop_seconds: from an IPU to the next one, by an IPU-Link.
        gateway_seconds: of a step between link domains, from gateway to gateway and onto the IPU.
    """

    exchange_efficiency: float = 0.75
    vertex_overhead: float = 1.35
    code_bytes_per_set: float = 190.0
    tile_imbalance: float = 1.1
    norm_forward: float = 6.0
    norm_backward: float = 14.0
    softmax_forward: float = 4.0
    softmax_backward: float = 4.0
    turning: float = 1.0
    cycles_an_index: float = 8.0
    gates_forward: float = 2.0
    gates_backward: float = 4.0
    update_cycles: float = 1.0
    run_seconds: float = 0.0016
    hop_seconds: float = 0.3e-6
    gateway_seconds: float = 5e-6


CONSTANTS = Constants()
"""Those of all predictions."""

RULE_CYCLES: Mapping[str, float] = {
    "sgd": 4, "momentum": 8, "lars_momentum": 20, "adam": 40, "adamw": 44, "lamb": 60,
}  # fmt: skip
"""Vector operations of an update rule for an element: reads, multiplies, adds, roots, writes;
assumed."""

OTHER_RULE = 40.0
"""Those of a rule that the table does not have."""

NORMS: Mapping[str, int] = {"lamb": 2, "lars_momentum": 2}
"""Norms of each weight that a rule needs, which replicas that share a weight's state sum."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a constant comes from, and between which factors of it 80 % of the belief lies.

    Attributes:
        kind: ``fitted``, to published results, ``counted``, from a source, or ``assumed``.
        why: to what it was fitted, where and how it was counted, or what it was taken from.
        low, high: factors of the constant.
    """

    kind: str
    why: str
    low: float
    high: float


TABLE: Mapping[str, Provenance] = {
    "exchange_efficiency": Provenance(
        "fitted", "the published throughputs of BERT and ResNet-50", 0.85, 1.15
    ),
    "vertex_overhead": Provenance(
        "fitted", "the published throughputs of BERT and ResNet-50", 0.75, 1.35
    ),
    "code_bytes_per_set": Provenance(
        "fitted", "that the published strategies of BERT-Base and ResNet-50 fit", 0.7, 1.4
    ),
    "tile_imbalance": Provenance(
        "fitted", "that the published strategies of BERT-Base and ResNet-50 fit", 0.95, 1.1
    ),
    "norm_forward": Provenance(
        "counted",
        "poplibs' groupNormalise: sum, sum of squares, subtract, scale, scale, shift",
        0.8,
        1.3,
    ),
    "norm_backward": Provenance(
        "counted",
        "PopART's GroupNormGradOpx: whiten (2), both parameters' gradients (3), the operand's (9)",
        0.8,
        1.3,
    ),
    "softmax_forward": Provenance(
        "counted", "poplibs' softmax: maximum, subtract, sum, scale", 0.8, 1.4
    ),
    "softmax_backward": Provenance(
        "counted", "poplibs' softmaxInputGradient: multiply, sum, multiply, subtract", 0.8, 1.4
    ),
    "turning": Provenance(
        "assumed",
        "rates of poplibs' regression; its planner counts a row of odd length as filled up, and "
        "0.6 to 0.8 cycles a byte by default",
        0.15,
        1.2,
    ),
    "cycles_an_index": Provenance(
        "counted", "poplibs' estimator of MultiSlice: an index that is not the tile's", 0.5, 2
    ),
    "gates_forward": Provenance("assumed", "multiply and add of the state", 0.7, 1.4),
    "gates_backward": Provenance("assumed", "twice the forward passes", 0.7, 1.4),
    "update_cycles": Provenance("assumed", "operations of the rule, none of them fused", 0.5, 1.5),
    "run_seconds": Provenance(
        "fitted", "the 2.204 ms that a run of ResNet-50 takes in Paddle-Inference-Demo", 0.3, 1.5
    ),
    "hop_seconds": Provenance(
        "assumed", "some hundred cycles of a link and its router; none is published", 0.3, 3
    ),
    "gateway_seconds": Provenance(
        "assumed",
        "two gateways with their memory, and a switch of 100 Gb/s Ethernet; none is published",
        0.4,
        2.5,
    ),
}
"""Field of :class:`Constants` -> its provenance."""
