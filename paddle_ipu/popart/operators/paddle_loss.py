"""Rows of ai.paddle_ipu: losses that PopART lacks."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    READS_EVERYTHING,
    UNPRICED,
    float_,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import loss

paddle_ipu_row(
    "Rnnt", 4, loss.rnnt, (FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [int_("blank", 0), float_("fastemit_lambda", 0.0)],
)  # fmt: skip
paddle_ipu_row("Cvm", 2, loss.cvm, FLOATS, UNPRICED, READS_EVERYTHING, [int_("use_cvm", 1)])
