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
