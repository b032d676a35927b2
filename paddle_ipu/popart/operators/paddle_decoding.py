"""Rows of ai.paddle_ipu: decoding of sequences, and measures that count."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, NO_GRADIENT, UNPRICED, int_, paddle_ipu_row
from paddle_ipu.popart.shape_inference import decoding

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
