"""Rows of special functions, statistics, order and linear algebra."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    attribute,
    dtype,
    full,
    list_slot,
    row,
    same_names,
)

# Operators of Paddle 2.5 and later have phi's own names for their slots.
for _name in ("angle", "digamma", "erfinv", "lgamma"):
    row(_name, {"x": "X"})
for _name in ("gammaln", "i0", "i0e", "i1", "i1e", "rint"):
    row(_name, {"x": "x"}, {"out": "out"})
for _name in ("copysign", "gammaincc", "nextafter", "trunc_divide"):
    row(_name, {"x": "x", "y": "y"}, {"out": "out"})
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    row(_name, {"x": "x", "y": "y"}, {"out": "out"}, {"is_arithmetic": True})
for _name in ("allclose", "isclose"):
    row(
        _name,
        {"x": "Input", "y": "Other", "rtol": ("Rtol", full("rtol", "float64", "1e-5")),
         "atol": ("Atol", full("atol", "float64", "1e-8"))},
        attributes={"equal_nan": False},
    )  # fmt: skip
row("equal_all", {"x": "X", "y": "Y"})
row("dist", {"x": "X", "y": "Y"}, attributes={"p": 2.0})
row("l1_norm", {"x": "X"})
row(
    "norm",
    {"x": "X"},
    {"out": "Out", "norm": "Norm"},
    {"axis": REQUIRED, "epsilon": REQUIRED, "is_test": REQUIRED},
)
row("renorm", {"x": "X"}, attributes={"p": REQUIRED, "axis": REQUIRED, "max_norm": REQUIRED})
row("elementwise_heaviside", {"x": "X", "y": "Y"}, phi="heaviside")
row("logit", {"x": "X"}, attributes={"eps": 1e-06})
row("polygamma", {"x": "x"}, {"out": "out"}, {"n": REQUIRED})

# Products.
row(
    "baddbmm",
    {"input": "Input", "x": "X", "y": "Y"},
    attributes={"alpha": attribute("Alpha", 1.0), "beta": attribute("Beta", 1.0)},
)
row(
    "bilinear_tensor_product",
    {"x": "X", "y": "Y", "weight": "Weight", "bias": "Bias"},
    phi="bilinear",
)
row("cross", {"x": "X", "y": "Y"}, attributes={"axis": attribute("dim", 9)})
row(
    "einsum",
    {"x": list_slot("Operands")},
    {"out": "Out", "inner_cache": list_slot("InnerCache"), "xshape": list_slot("XShape")},
    {"equation": REQUIRED},
)
row("kron", {"x": "X", "y": "Y"})
row("linear_v2", same_names("input", "weight", "bias"), {"out": "out"}, {"transpose_weight": False})
row("multi_dot", {"x": list_slot("X")})
row("reduce_as", {"x": "x", "target": "target"}, {"out": "out"})
row("trace", {"x": "Input"}, attributes={"axis1": 0, "axis2": 1, "offset": 0})

# Linear algebra.
row("conj", {"x": "X"})
row("cholesky", {"x": "X"}, attributes={"upper": False})
row("cholesky_solve", {"x": "X", "y": "Y"}, attributes={"upper": False})
row("determinant", {"x": "Input"}, phi="det")
row("eigh", {"x": "X"}, {"out_w": "Eigenvalues", "out_v": "Eigenvectors"}, {"UPLO": "L"})
row(
    "eigvalsh",
    {"x": "X"},
    {"eigenvalues": "Eigenvalues", "eigenvectors": "Eigenvectors"},
    {"uplo": attribute("UPLO", "L"), "is_test": False},
)
row("inverse", {"x": "Input"}, {"out": "Output"})
row(
    "lstsq",
    {"x": "X", "y": "Y", "rcond": full("rcond", "float32", 0.0)},
    {"solution": "Solution", "residuals": "Residuals", "rank": "Rank",
     "singular_values": "SingularValues"},
    {"driver": "gels"},
)  # fmt: skip
row(
    "lu",
    {"x": "X"},
    {"out": "Out", "pivots": "Pivots", "infos": "Infos"},
    {"pivot": attribute("pivots", True)},
)
row("lu_solve", same_names("b", "lu", "pivots"), {"out": "out"}, {"trans": REQUIRED})
row(
    "lu_unpack",
    {"x": "X", "y": "Pivots"},
    {"pmat": "Pmat", "l": "L", "u": "U"},
    {"unpack_ludata": True, "unpack_pivots": True},
)
row("matrix_power", {"x": "X"}, attributes={"n": REQUIRED})
row("matrix_rank", {"x": "X"}, attributes={"hermitian": False, "tol": 0.0, "use_default_tol": True})
row(
    "matrix_rank_tol",
    {"x": "X", "atol_tensor": "TolTensor"},
    attributes={"hermitian": False, "use_default_tol": True},
)
row("matrix_rank_atol_rtol", same_names("x", "atol", "rtol"), {"out": "out"}, {"hermitian": False})
row("qr", {"x": "X"}, {"q": "Q", "r": "R"}, {"mode": "reduced"})
row("slogdeterminant", {"x": "Input"}, phi="slogdet")
row("slogdet_v2", {"x": "x"}, {"sign": "sign", "logdet": "logdet"})
row("solve", {"x": "X", "y": "Y"})
row("svd", {"x": "X"}, {"u": "U", "s": "S", "vh": "VH"}, {"full_matrices": False})
row("svdvals", {"x": "x"}, {"s": "s"})
row(
    "triangular_solve",
    {"x": "X", "y": "Y"},
    attributes={"transpose": False, "unitriangular": False, "upper": True},
)

# Order and statistics.
row("bincount", {"x": "X", "weights": "Weights", "minlength": full("minlength", "int32", 0)})
for _name in ("cummax", "cummin"):
    row(
        _name,
        {"x": "x"},
        {"out": "out", "indices": "indices"},
        {"axis": -1, "dtype": dtype("dtype", "int64")},
    )
row("cumprod", {"x": "X"}, attributes={"dim": REQUIRED, "exclusive": False, "reverse": False})
row(
    "histogram",
    {"input": "X", "weight": "Weight"},
    attributes={"bins": 100, "density": False, "max": 0, "min": 0},
)
row(
    "kthvalue",
    {"x": "X"},
    {"out": "Out", "indices": "Indices"},
    {"axis": -1, "k": 1, "keepdim": False},
)
row(
    "logcumsumexp",
    {"x": "X"},
    attributes={"axis": -1, "exclusive": False, "flatten": False, "reverse": False},
)
row(
    "median",
    {"x": "x"},
    {"out": "out", "medians": "medians"},
    {"axis": [], "keepdim": True, "mode": "avg"},
)
row("mode", {"x": "X"}, {"out": "Out", "indices": "Indices"}, {"axis": -1, "keepdim": False})
row(
    "nanmedian",
    {"x": "X"},
    {"out": "Out", "medianindex": "MedianIndex"},
    {"axis": [], "keepdim": True, "mode": "avg"},
)
row(
    "nansum",
    {"x": "x"},
    {"out": "out"},
    {"axis": [], "dtype": dtype("dtype", "undefined"), "keepdim": False},
)
row("number_count", {"numbers": "numbers"}, attributes={"upper_range": REQUIRED})
row(
    "searchsorted",
    {"sorted_sequence": "SortedSequence", "values": "Values"},
    attributes={"out_int32": False, "right": False},
)
for _name in ("std", "var"):
    row(
        _name,
        {"x": "x"},
        {"out": "out"},
        {"axis": [], "correction": 1.0, "keepdim": False, "unbiased": True},
    )
row("variance", {"x": "x"}, {"out": "out"}, {"axis": [], "keepdim": False})
