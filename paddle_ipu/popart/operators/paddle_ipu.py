"""Rows of ai.paddle_ipu: losses, indexing, decoding and ranking that PopART lacks."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FLOATS,
    INTS,
    NO_GRADIENT,
    READS_EVERYTHING,
    UNPRICED,
    Attribute,
    OpCost,
    float_,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import decoding, elementwise, indexing, loss, shaping

paddle_ipu_row("LogicalXor", 2, elementwise.comparison, BOOLS, OpCost("map", 4, 4), NO_GRADIENT)
paddle_ipu_row(
    "LogNll", 2, loss.log_nll, (FLOATS, ANY), UNPRICED, READS_EVERYTHING,
    [int_("ignore_index", -100)],
)  # fmt: skip
paddle_ipu_row("GatherNd", 2, shaping.gather_nd, (ANY, INTS), UNPRICED, READS_EVERYTHING)
paddle_ipu_row(
    "TakeAlongAxis", 2, indexing.take_along_axis, (ANY, INTS), UNPRICED, READS_EVERYTHING,
    [int_("axis", required=True)],
)  # fmt: skip
paddle_ipu_row(
    "PutAlongAxis", 3, indexing.put_along_axis, (ANY, INTS, ANY), UNPRICED, READS_EVERYTHING,
    [
        int_("axis", required=True), ("reduce", Attribute("string", "assign")),
        int_("include_self", 1), int_("rounds_down", 0),
    ],
)  # fmt: skip
paddle_ipu_row(
    "Rnnt", 4, loss.rnnt, (FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [int_("blank", 0), float_("fastemit_lambda", 0.0)],
)  # fmt: skip
paddle_ipu_row("Cvm", 2, loss.cvm, FLOATS, UNPRICED, READS_EVERYTHING, [int_("use_cvm", 1)])
paddle_ipu_row(
    "ViterbiDecode", 3, decoding.viterbi, (FLOATS, FLOATS, INTS), UNPRICED, NO_GRADIENT,
    [int_("include_bos_eos_tag", 0)], outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "CrfDecode", 3, decoding.viterbi, (FLOATS, FLOATS, INTS), UNPRICED, NO_GRADIENT, outputs=2
)
paddle_ipu_row("EditDistance", 4, decoding.edit_distance, INTS, UNPRICED, NO_GRADIENT)
paddle_ipu_row(
    "CtcAlign", 2, decoding.ctc_align, INTS, UNPRICED, NO_GRADIENT,
    [int_("blank", 0), int_("merge_repeated", 1), int_("padding_value", 0)], outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "Auc", 4, decoding.auc, (FLOATS, INTS), UNPRICED, NO_GRADIENT,
    [int_("num_thresholds", required=True), int_("slide_steps", 0)], outputs=3,
)  # fmt: skip
paddle_ipu_row("DequantGather", 2, decoding.dequant_gather, (FLOATS, INTS), UNPRICED, NO_GRADIENT)
paddle_ipu_row(
    "BipartiteMatch", 1, decoding.bipartite_match, FLOATS, UNPRICED, NO_GRADIENT,
    [int_("per_prediction", 0), float_("dist_threshold", 0.5)], outputs=2,
)  # fmt: skip
