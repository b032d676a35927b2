"""Rows of special functions, statistics, order and linear algebra."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# Operators of Paddle 2.5 and later have phi's own names for their slots.
for _name in ("angle", "digamma", "erfinv", "lgamma"):
    row(_name, _name, "x=X")
for _name in ("gammaln", "i0", "i0e", "i1", "i1e", "rint"):
    row(_name, _name, "x=x", "out=out")
for _name in ("copysign", "gammaincc", "nextafter", "trunc_divide"):
    row(_name, _name, "x=x y=y", "out=out")
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    row(_name, _name, "x=x y=y", "out=out", "is_arithmetic?true")
for _name in ("allclose", "isclose"):
    row(
        _name,
        _name,
        'x=Input y=Other rtol=Rtol|@rtol:float64?"1e-5" atol=Atol|@atol:float64?"1e-8"',
        attributes="equal_nan?false",
    )
row("equal_all", "equal_all", "x=X y=Y")
row("dist", "dist", "x=X y=Y", attributes="p?2.0")
row("l1_norm", "l1_norm", "x=X")
row("norm", "norm", "x=X", "out=Out norm=Norm", "axis epsilon is_test")
row("renorm", "renorm", "x=X", attributes="p axis max_norm")
row("elementwise_heaviside", "heaviside", "x=X y=Y")
row("logit", "logit", "x=X", attributes="eps?1e-6")
row("polygamma", "polygamma", "x=x", "out=out", "n")

# Products.
row("baddbmm", "baddbmm", "input=Input x=X y=Y", attributes="alpha=Alpha?1.0 beta=Beta?1.0")
row("bilinear_tensor_product", "bilinear", "x=X y=Y weight=Weight bias=Bias")
row("cross", "cross", "x=X y=Y", attributes="axis=dim?9")
row(
    "einsum",
    "einsum",
    "x=Operands*",
    "out=Out inner_cache=InnerCache* xshape=XShape*",
    "equation",
)
row("kron", "kron", "x=X y=Y")
row(
    "linear_v2",
    "linear_v2",
    "input=input weight=weight bias=bias",
    "out=out",
    "transpose_weight?false",
)
row("multi_dot", "multi_dot", "x=X*")
row("reduce_as", "reduce_as", "x=x target=target", "out=out")
row("trace", "trace", "x=Input", attributes="axis1?0 axis2?1 offset?0")

# Linear algebra.
row("conj", "conj", "x=X")
row("cholesky", "cholesky", "x=X", attributes="upper?false")
row("cholesky_solve", "cholesky_solve", "x=X y=Y", attributes="upper?false")
row("determinant", "det", "x=Input")
row("eigh", "eigh", "x=X", "out_w=Eigenvalues out_v=Eigenvectors", 'UPLO?"L"')
row(
    "eigvalsh",
    "eigvalsh",
    "x=X",
    "eigenvalues=Eigenvalues eigenvectors=Eigenvectors",
    'uplo=UPLO?"L" is_test?false',
)
row("inverse", "inverse", "x=Input", "out=Output")
row(
    "lstsq",
    "lstsq",
    "x=X y=Y rcond=@rcond:float32?0.0",
    "solution=Solution residuals=Residuals rank=Rank singular_values=SingularValues",
    'driver?"gels"',
)
row("lu", "lu", "x=X", "out=Out pivots=Pivots infos=Infos", "pivot=pivots?true")
row("lu_solve", "lu_solve", "b=b lu=lu pivots=pivots", "out=out", "trans")
row(
    "lu_unpack",
    "lu_unpack",
    "x=X y=Pivots",
    "pmat=Pmat l=L u=U",
    "unpack_ludata?true unpack_pivots?true",
)
row("matrix_power", "matrix_power", "x=X", attributes="n")
row(
    "matrix_rank",
    "matrix_rank",
    "x=X",
    attributes="hermitian?false tol?0.0 use_default_tol?true",
)
row(
    "matrix_rank_tol",
    "matrix_rank_tol",
    "x=X atol_tensor=TolTensor",
    attributes="hermitian?false use_default_tol?true",
)
row(
    "matrix_rank_atol_rtol",
    "matrix_rank_atol_rtol",
    "x=x atol=atol rtol=rtol",
    "out=out",
    "hermitian?false",
)
row("qr", "qr", "x=X", "q=Q r=R", 'mode?"reduced"')
row("slogdeterminant", "slogdet", "x=Input")
row("slogdet_v2", "slogdet_v2", "x=x", "sign=sign logdet=logdet")
row("solve", "solve", "x=X y=Y")
row("svd", "svd", "x=X", "u=U s=S vh=VH", "full_matrices?false")
row("svdvals", "svdvals", "x=x", "s=s")
row(
    "triangular_solve",
    "triangular_solve",
    "x=X y=Y",
    attributes="transpose?false unitriangular?false upper?true",
)

# Order and statistics.
row("bincount", "bincount", "x=X weights=Weights minlength=@minlength:int32?0")
for _name in ("cummax", "cummin"):
    row(_name, _name, "x=x", "out=out indices=indices", "axis?-1 dtype:dtype?3")
row("cumprod", "cumprod", "x=X", attributes="dim exclusive?false reverse?false")
row(
    "histogram",
    "histogram",
    "input=X weight=Weight",
    attributes="bins?100 density?false max?0 min?0",
)
row("kthvalue", "kthvalue", "x=X", "out=Out indices=Indices", "axis?-1 k?1 keepdim?false")
row(
    "logcumsumexp",
    "logcumsumexp",
    "x=X",
    attributes="axis?-1 exclusive?false flatten?false reverse?false",
)
row(
    "median",
    "median",
    "x=x",
    "out=out medians=medians",
    'axis?[] keepdim?true mode?"avg"',
)
row("mode", "mode", "x=X", "out=Out indices=Indices", "axis?-1 keepdim?false")
row(
    "nanmedian",
    "nanmedian",
    "x=X",
    "out=Out medianindex=MedianIndex",
    'axis?[] keepdim?true mode?"avg"',
)
row(
    "nansum",
    "nansum",
    "x=x",
    "out=out",
    "axis?[] dtype:dtype?-1 keepdim?false",
)
row("number_count", "number_count", "numbers=numbers", attributes="upper_range")
row(
    "searchsorted",
    "searchsorted",
    "sorted_sequence=SortedSequence values=Values",
    attributes="out_int32?false right?false",
)
for _name in ("std", "var"):
    row(_name, _name, "x=x", "out=out", "axis?[] correction?1.0 keepdim?false unbiased?true")
row("variance", "variance", "x=x", "out=out", "axis?[] keepdim?false")
