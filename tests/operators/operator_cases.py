"""The operator case table: every translator has a row here, most have several."""

from __future__ import annotations

from collections.abc import Mapping

from tests.operators.cases import (
    activation,
    arrangement,
    attention,
    attribute_values,
    batch_norm,
    bounds,
    composite_loss,
    control_flow,
    convolution,
    creation,
    decoding,
    detection,
    effects,
    element_types,
    elementwise,
    empty_axes,
    fused,
    fused_norm,
    fused_product,
    fused_transformer,
    graph_message,
    indexing,
    interpolation,
    linear_algebra,
    loss,
    masked_attention,
    network,
    normalization,
    ordering,
    pooling,
    products,
    quantization,
    random,
    random_layers,
    ranking,
    recurrent,
    reduce,
    rotary,
    sampling,
    scatter,
    shape,
    shape_bounds,
    special,
    state,
    statistics,
    tensor_array,
    unchecked_operands,
    vector_norm,
    wide_integers,
)
from tests.operators.operator_case import OperatorCase, RefusedCase

_TABLES = (
    activation.TABLE,
    shape_bounds.TABLE,
    bounds.TABLE,
    scatter.TABLE,
    graph_message.TABLE,
    indexing.TABLE,
    creation.TABLE,
    elementwise.TABLE,
    reduce.TABLE,
    shape.TABLE,
    arrangement.TABLE,
    network.TABLE,
    convolution.TABLE,
    control_flow.TABLE,
    pooling.TABLE,
    batch_norm.TABLE,
    state.TABLE,
    masked_attention.TABLE,
    attention.TABLE,
    fused.TABLE,
    fused_norm.TABLE,
    fused_product.TABLE,
    fused_transformer.TABLE,
    rotary.TABLE,
    recurrent.TABLE,
    random.TABLE,
    random_layers.TABLE,
    ranking.TABLE,
    loss.TABLE,
    effects.TABLE,
    composite_loss.TABLE,
    decoding.TABLE,
    quantization.TABLE,
    special.TABLE,
    statistics.TABLE,
    tensor_array.TABLE,
    unchecked_operands.TABLE,
    vector_norm.TABLE,
    wide_integers.TABLE,
    products.TABLE,
    ordering.TABLE,
    linear_algebra.TABLE,
    normalization.TABLE,
    interpolation.TABLE,
    sampling.TABLE,
    detection.TABLE,
    attribute_values.TABLE,
    element_types.TABLE,
    empty_axes.TABLE,
)

CASES: tuple[OperatorCase, ...] = tuple(row for table in _TABLES for row in table.rows)
"""Uses that must give Paddle's numbers."""

REFUSED: tuple[RefusedCase, ...] = tuple(row for table in _TABLES for row in table.refused)
"""Uses that compile must refuse."""


def cases_by_operator() -> Mapping[str, list[OperatorCase]]:
    """phi name -> its rows."""
    found: dict[str, list[OperatorCase]] = {}
    for case in CASES:
        found.setdefault(case.op, []).append(case)
    return found
