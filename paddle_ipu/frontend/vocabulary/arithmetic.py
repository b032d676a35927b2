"""Rows of operators that compute element by element, of matrix products and reductions."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    attribute,
    dtype,
    full,
    full_int_array,
    list_slot,
    row,
)

# One operand and no attributes.
for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "erf", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "logical_not", "logsigmoid",
    "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh",
    "softsign", "sqrt", "square", "squared_l2_norm", "tan", "tanh", "tanh_shrink",
):  # fmt: skip
    row(_name, {"x": "X"})
row("assign", {"x": "X"})
row("share_data", {"x": "X"}, phi="share_data_")
row("assign_out_", {"x": "X", "output": "Out"})
row("isfinite_v2", {"x": "X"}, phi="isfinite")
row("isinf_v2", {"x": "X"}, phi="isinf")
row("isnan_v2", {"x": "X"}, phi="isnan")
row("mean", {"x": "X"}, phi="mean_all")
row("round", {"x": "X"}, attributes={"decimals": 0})
row("size", {"x": "Input"}, {"size": "Out"}, phi="numel")
row("shape", {"input": "Input"})
row("trunc", {"input": "X"})

# Activations with attributes.
row("brelu", {"x": "X"}, attributes={"t_max": 24.0, "t_min": 0.0}, phi="hardtanh")
row("celu", {"x": "X"}, attributes={"alpha": 1.0})
row("elu", {"x": "X"}, attributes={"alpha": 1.0})
row("gelu", {"x": "X"}, attributes={"approximate": False})
row("hard_shrink", {"x": "X"}, attributes={"threshold": 0.5}, phi="hardshrink")
row("hard_sigmoid", {"x": "X"}, attributes={"offset": 0.5, "slope": 0.2}, phi="hardsigmoid")
row(
    "hard_swish", {"x": "X"}, fixed={"offset": 3.0, "scale": 6.0, "threshold": 6.0}, phi="hardswish"
)
row("leaky_relu", {"x": "X"}, attributes={"negative_slope": attribute("alpha", 0.02)})
row("log_softmax", {"x": "X"}, attributes={"axis": -1})
row("mish", {"x": "X"}, attributes={"lambda": attribute("threshold", 20.0)})
row("prelu", {"x": "X", "alpha": "Alpha"}, attributes={"data_format": "NCHW", "mode": "all"})
row("relu6", {"x": "X"}, fixed={"threshold": 6.0})
row("selu", {"x": "X"}, attributes={"alpha": 1.6732632423543772, "scale": 1.0507009873554805})
row("softmax", {"x": "X"}, attributes={"axis": -1})
row("softplus", {"x": "X"}, attributes={"beta": 1.0, "threshold": 20.0})
row("softshrink", {"x": "X"}, attributes={"threshold": attribute("lambda", 0.5)})
row("stanh", {"x": "X"}, attributes={"scale_a": 0.67, "scale_b": 1.7159})
row("swish", {"x": "X"}, fixed={"beta": 1.0})
row("thresholded_relu", {"x": "X"}, attributes={"threshold": 1.0, "value": 0.0})

# Two operands, broadcast. `legacy_forms` takes ``axis`` away.
for _name, _phi in (
    ("add", "add"),
    ("div", "divide"),
    ("floordiv", "floor_divide"),
    ("fmax", "fmax"),
    ("fmin", "fmin"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("mod", "remainder"),
    ("mul", "multiply"),
    ("pow", "elementwise_pow"),
    ("sub", "subtract"),
):
    row(f"elementwise_{_name}", {"x": "X", "y": "Y"}, phi=_phi)
for _name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bmm", "dot", "equal", "greater_equal",
    "greater_than", "less_equal", "less_than", "logical_and", "logical_or", "logical_xor",
    "not_equal",
):  # fmt: skip
    row(_name, {"x": "X", "y": "Y"})
row("atan2", {"x": "X1", "y": "X2"})
row(
    "clip",
    {"x": "X", "min": ("Min", full("min", "float32")), "max": ("Max", full("max", "float32"))},
)
row("clip_by_norm", {"x": "X"}, attributes={"max_norm": REQUIRED})
for _name in ("increment", "increment_"):
    row(_name, {"x": "X"}, attributes={"value": attribute("step", 1.0)})
row("lerp", {"x": "X", "y": "Y", "weight": "Weight"})
row("pow", {"x": "X"}, attributes={"y": attribute("factor", 1.0)})
row(
    "scale",
    {"x": "X", "scale": ("ScaleTensor", full("scale", "float32", 1.0))},
    attributes={"bias": 0.0, "bias_after_scale": True},
)
row("sum", {"inputs": list_slot("X")}, phi="add_n")
row("where", {"condition": "Condition", "x": "X", "y": "Y"})

# Matrix products.
row(
    "addmm",
    {"input": "Input", "x": "X", "y": "Y"},
    attributes={"alpha": attribute("Alpha", 1.0), "beta": attribute("Beta", 1.0)},
)
row(
    "matmul_v2",
    {"x": "X", "y": "Y"},
    attributes={"transpose_x": attribute("trans_x", False),
                "transpose_y": attribute("trans_y", False)},
    phi="matmul",
)  # fmt: skip
row(
    "matmul",
    {"x": "X", "y": "Y"},
    attributes={"transpose_x": attribute("transpose_X", False),
                "transpose_y": attribute("transpose_Y", False)},
    fixed={"head_number": 1},
)  # fmt: skip
row("mul", {"x": "X", "y": "Y"}, phi="matmul")
row("mv", {"x": "X", "vec": "Vec"})

# Reductions. `legacy_forms` takes ``reduce_all`` away.
for _name in ("all", "any", "amax", "amin"):
    row(
        f"reduce_{_name}",
        {"x": "X"},
        attributes={"axis": attribute("dim", [0]), "keepdim": attribute("keep_dim", False)},
        phi=_name,
    )
for _name in ("max", "mean", "min"):
    row(
        f"reduce_{_name}",
        {"x": "X", "axis": full_int_array("dim", [0])},
        attributes={"keepdim": attribute("keep_dim", False)},
        phi=_name,
    )
row(
    "frobenius_norm",
    {"x": "X", "axis": full_int_array("dim", [0])},
    attributes={"keep_dim": False, "reduce_all": False},
)
row(
    "reduce_prod",
    {"x": "X", "axis": full_int_array("dim", [0])},
    attributes={"keepdim": attribute("keep_dim", False), "reduce_all": False},
    phi="prod",
)
row(
    "reduce_sum",
    {"x": "X", "axis": full_int_array("dim", [0])},
    attributes={"dtype": dtype("out_dtype", "undefined"), "keepdim": attribute("keep_dim", False)},
    phi="sum",
)
for _name in ("max", "min"):
    row(
        f"arg_{_name}",
        {"x": "X", "axis": full("axis", "int64")},
        attributes={"dtype": dtype("dtype", "int64"), "flatten": False, "keepdims": False},
        phi=f"arg{_name}",
    )
row(
    "cumsum",
    {"x": "X", "axis": full("axis", "int32", -1)},
    attributes={"exclusive": False, "flatten": False, "reverse": False},
)
row("logsumexp", {"x": "X"}, attributes={"axis": [0], "keepdim": False, "reduce_all": False})
row(
    "p_norm",
    {"x": "X"},
    attributes={"asvector": False, "axis": -1, "epsilon": 1e-12, "keepdim": False, "porder": 2.0},
)
