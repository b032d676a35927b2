"""The versions of ProgramDesc's operators that the vocabulary was written against.

Paddle raises an operator's version when it changes what the operator means or takes, and saves the
versions with a program. The numbers are those of ``paddle.base.core.get_op_version_map()``, the
larger of 2.6.2's and 3.3.1's; an operator that is not here has version 0 in both.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend.program_types import ProgramDesc
from paddle_ipu.frontend.vocabulary import table

KNOWN: Mapping[str, int] = {
    "affine_grid": 1,
    "allclose": 2,
    "argsort": 1,
    "assign_value": 1,
    "auc": 1,
    "clip": 1,
    "conv2d": 1,
    "conv2d_transpose": 2,
    "conv3d": 1,
    "conv3d_transpose": 1,
    "cumprod": 1,
    "cumsum": 1,
    "data_norm": 1,
    "depthwise_conv2d": 1,
    "depthwise_conv2d_transpose": 1,
    "elementwise_add": 1,
    "elementwise_div": 1,
    "elementwise_mul": 1,
    "elementwise_pow": 1,
    "elementwise_sub": 1,
    "equal": 1,
    "fake_channel_wise_dequantize_max_abs": 2,
    "fake_channel_wise_quantize_abs_max": 1,
    "fill_constant": 2,
    "flip": 1,
    "gather": 1,
    "greater_equal": 1,
    "greater_than": 1,
    "grid_sampler": 1,
    "hard_shrink": 1,
    "histogram": 1,
    "instance_norm": 1,
    "kldiv_loss": 1,
    "lamb": 1,
    "leaky_relu": 1,
    "less_equal": 1,
    "less_than": 1,
    "linspace": 1,
    "lookup_table": 1,
    "lookup_table_v2": 1,
    "lstsq": 1,
    "matmul": 1,
    "matrix_nms": 1,
    "max_pool2d_with_index": 1,
    "max_pool3d_with_index": 1,
    "mish": 1,
    "momentum": 1,
    "moving_average_abs_max_scale": 2,
    "not_equal": 1,
    "p_norm": 1,
    "pixel_shuffle": 1,
    "print": 1,
    "rank_attention": 1,
    "roi_align": 3,
    "roi_pool": 2,
    "roll": 2,
    "round": 1,
    "set_value": 4,
    "softplus": 1,
    "thresholded_relu": 1,
    "trace": 1,
    "unique_consecutive": 1,
    "yolo_box": 1,
}


def check_versions(desc: ProgramDesc) -> None:
    """Refuses a program that uses an operator of a version that came later.

    Raises:
        NotSupported: it does. Operators outside the vocabulary are reported elsewhere.
    """
    used = {op.type for block in desc.blocks for op in block.ops}
    newer = []
    for pair in desc.op_version_map.pair:
        known = KNOWN.get(pair.op_name, 0)
        version = pair.op_version.version
        if pair.op_name in used and table.knows(pair.op_name) and version > known:
            newer.append(f"{pair.op_name} is version {version}, known is {known}")
    if newer:
        raise NotSupported(
            "the program was saved by a newer Paddle, whose operators mean something else: "
            + "; ".join(sorted(newer))
            + ". Save the model with Paddle 3.3 or older, or install a newer paddle_ipu."
        )
