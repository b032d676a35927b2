"""Operators by what they compute, which says how far rounding may go in them."""

from __future__ import annotations

CONVOLUTIONS = "(depthwise_|deformable_)?conv.*"

FACTORIZATIONS = (
    "inverse|det.*|slogdet.*|(triangular_)?solve|lu(_solve)?|qr|cholesky(_solve)?|svd.*|eigh.*"
)

PRODUCTS = "|".join(
    (
        *(CONVOLUTIONS, FACTORIZATIONS, "matmul.*", "mul", "bmm", "mv", "dot", "multi_dot"),
        *("linear_v2", "matrix_power", "einsum", "addmm", "baddbmm", "bilinear.*", "fc"),
        *("fused_gemm_epilogue", "fusion_.*", "gru_unit", "rnn", "bce_loss", "spectral_norm"),
        "self_dp_attention",
    )
)
"""Operators that add up products."""

SUMS = "|".join(
    (
        *(PRODUCTS, ".*norm.*", ".*softmax.*", ".*cross_entropy.*", "nll_loss", "kldiv_loss"),
        *("hsigmoid_loss", "warp.*", "(reduce_)?(sum|mean)", "mean_all"),
        *("nansum", "add_n", "(log)?cumsum(exp)?", "logsumexp", "var(iance)?", "std", "trace"),
        *("reduce_as", "segment_pool", ".*send_ue?_recv", "index_add", "scatter.*", "fold"),
        *("overlap_add", "(lp_)?pool[23]d", "psroi_pool", "roi_align", "affine_grid"),
        *("grid_sample.*", ".*_interp.*"),
    )
)
"""Operators that add up products or elements."""

SOLVERS = "|".join(
    (
        *("cholesky(_solve)?", "det(erminant)?", "slogdet(_v2|erminant)?", "inverse", "lstsq"),
        *("lu(_solve)?", "qr", "solve", "triangular_solve", "eigh", "eigvalsh", "svd(vals)?"),
    )
)
"""Operators that solve systems of equations."""

ORTHOGONAL = "qr|lstsq|svd(vals)?|eigh|eigvalsh"
"""Operators that transform columns by orthogonal matrices."""

BACKWARD_STABLE = f"{SUMS}|{SOLVERS}"
"""Operators whose results are exact ones of operands that differ in their last bits.

They are further from the exact ones of the operands themselves by the condition number, in any
order of computing (N. Higham, Accuracy and Stability of Numerical Algorithms, chapters 1, 3, 4).
"""
