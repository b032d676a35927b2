"""The table of layers: every class of ``paddle.nn``, by family."""

from __future__ import annotations

import paddle
from paddle import nn

from tests.unit.dygraph.cases.activation import ACTIVATIONS
from tests.unit.dygraph.cases.common import ARRANGEMENTS, PRODUCTS
from tests.unit.dygraph.cases.container import CONTAINERS
from tests.unit.dygraph.cases.convolution import CONVOLUTIONS
from tests.unit.dygraph.cases.loss import ASSERTING, LOSSES
from tests.unit.dygraph.cases.normalization import NORMALIZATIONS
from tests.unit.dygraph.cases.pooling import POOLINGS
from tests.unit.dygraph.cases.recurrent import RECURRENT
from tests.unit.dygraph.cases.transformer import TRANSFORMERS
from tests.unit.dygraph.layer_case import LayerCase

_ALL = {
    "activations": ACTIVATIONS,
    "products": PRODUCTS,
    "arrangements": ARRANGEMENTS,
    "containers": CONTAINERS,
    "convolutions": CONVOLUTIONS,
    "losses": LOSSES,
    "losses that assert": ASSERTING,
    "normalizations": NORMALIZATIONS,
    "poolings": POOLINGS,
    "recurrent": RECURRENT,
    "transformers": TRANSFORMERS,
}

NOT_LAYERS = {
    "BeamSearchDecoder": "a class that dynamic_decode calls",
    "ClipGradByGlobalNorm": "in the table of optimizers",
    "ClipGradByNorm": "in the table of optimizers",
    "ClipGradByValue": "in the table of optimizers",
    "Parameter": "a parameter",
    "dynamic_decode": "a function",
}
"""What ``paddle.nn`` exports beside layers."""

FAMILIES: dict[str, tuple[LayerCase, ...]] = {
    family: tuple(
        case
        for case in cases
        if hasattr(nn, case.kind) and (case.since is None or case.since.holds(paddle.__version__))
    )
    for family, cases in _ALL.items()
}
"""Rows that are compiled together; those of layers that this Paddle has."""

KINDS = frozenset(case.kind for cases in _ALL.values() for case in cases)
"""Names of all layers with a row."""
