"""Rows of ai.paddle_ipu: decoding of sequences, and measures that count."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, int_, paddle_ipu_row
from paddle_ipu.popart.shape_inference import decoding

paddle_ipu_row(
    "ViterbiDecode",
    3,
    decoding.viterbi,
    (FLOATS, FLOATS, INTS),
    [int_("include_bos_eos_tag", 0)],
    outputs=2,
    differentiable=False,
)
paddle_ipu_row(
    "CrfDecode",
    3,
    decoding.viterbi,
    (FLOATS, FLOATS, INTS),
    outputs=2,
    differentiable=False,
)
paddle_ipu_row("EditDistance", 4, decoding.edit_distance, INTS, differentiable=False)
paddle_ipu_row(
    "CtcAlign",
    2,
    decoding.ctc_align,
    INTS,
    [int_("blank", 0), int_("merge_repeated", 1), int_("padding_value", 0)],
    outputs=2,
    differentiable=False,
)
paddle_ipu_row(
    "Auc",
    4,
    decoding.auc,
    (FLOATS, INTS),
    [int_("num_thresholds", required=True), int_("slide_steps", 0)],
    outputs=3,
    differentiable=False,
)
