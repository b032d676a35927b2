"""Rows of ai.graphcore: connectionist temporal classification."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    NO_GRADIENT,
    READS_EVERYTHING,
    UNPRICED,
    Attribute,
    graphcore_row,
    int_,
    reduction,
)
from paddle_ipu.popart.shape_inference import loss

graphcore_row(
    "Ctc", 4, loss.ctc, (FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [
        reduction(), int_("blank", 0), ("outDataType", Attribute("string", "UNDEFINED")),
        ("zeroInfinity", Attribute("bool", False)),
    ], name="ctcloss",
)  # fmt: skip
graphcore_row(
    "CtcBeamSearchDecoder", 2, loss.ctc_beam_search, (FLOATS, INTS), UNPRICED, NO_GRADIENT,
    [int_("blank", 0), int_("beam_width", 100), int_("top_paths", 1)], outputs=3,
)  # fmt: skip
