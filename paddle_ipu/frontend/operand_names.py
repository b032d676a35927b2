"""The operand names of phi's operators in PIR's order, for programs read without Paddle's PIR.

A saved PIR program has operands by position only. Paddle 3.3 tells their names where it is
installed; Paddle 2.6 knows other operators. They are those of the vocabulary's rows, and here those
of operators that only PIR has. The names are Paddle 3.3's, whose files of version 1 to 3 (Paddle
3.0 to 3.2) differ in ``rms_norm`` and a few attention kernels for GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddle_ipu.frontend.vocabulary import table  # noqa: F401 - fills the next
from paddle_ipu.frontend.vocabulary.row import TABLE

_OF_PIR_ONLY: Mapping[str, tuple[str, ...]] = {
    "add_n_array": ("inputs",),
    "array_pop": ("array",),
    "asgd_": ("param", "grad", "learning_rate", "d", "y", "n", "master_param"),
    "create_array": (),
    "create_array_like": ("input",),
    "data": (),
    "empty_like": ("x",),
    "fc": ("input", "w", "bias"),
    "fetch": ("x",),
    "full_": ("output",),
    "full_int_array": (),
    "fused_gemm_epilogue": ("x", "y", "bias"),
    "masked_fill": ("x", "mask", "value"),
    "matmul_with_flatten": ("x", "y"),
    "merged_adam_": (
        "param", "grad", "learning_rate", "moment1", "moment2", "moment2_max", "beta1_pow",
        "beta2_pow", "master_param", "beta1", "beta2", "epsilon",
    ),
    "nadam_": (
        "param", "grad", "learning_rate", "momentum_decay_pow", "beta2_pow", "mu_product",
        "moment1", "moment2", "master_param",
    ),
    "radam_": (
        "param", "grad", "learning_rate", "beta1_pow", "beta2_pow", "rho", "moment1", "moment2",
        "master_param",
    ),
    "range_v2": ("start", "end", "step"),
    "rnn": ("x", "pre_state", "weight_list", "sequence_length", "dropout_state_in"),
    "rprop_": (
        "param", "grad", "prev", "learning_rate", "master_param", "learning_rate_range", "etas",
    ),
    "shape64": ("input",),
    "trans_layout": ("x",),
}  # fmt: skip

OPERAND_NAMES: Mapping[str, tuple[str, ...]] = {
    **{row.op: tuple(operand.name for operand in row.inputs) for row in TABLE.values()},
    **_OF_PIR_ONLY,
}
"""Operator -> the names of its operands; a list operand has one name."""


def operand_names(op_type: str) -> tuple[str, ...] | None:
    """The names of an operator's operands, None where it is not known.

    An operator and its in-place form (``relu_``) have the same, unless both are known.
    """
    for name in (op_type, op_type.removesuffix("_"), f"{op_type}_"):
        if name in OPERAND_NAMES:
            return OPERAND_NAMES[name]
    return None
