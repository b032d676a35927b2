"""Rows of operators that compute element by element, of matrix products and reductions."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# One operand and nothing else.
for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "erf", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "logical_not", "logsigmoid",
    "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh",
    "softsign", "sqrt", "square", "squared_l2_norm", "tan", "tanh", "tanh_shrink",
):  # fmt: skip
    row(_name, _name, "x=X")
row("assign", "assign", "x=X")
row("share_data", "share_data_", "x=X")
row("assign_out_", "assign_out_", "x=X output=Out")
row("isfinite_v2", "isfinite", "x=X")
row("isinf_v2", "isinf", "x=X")
row("isnan_v2", "isnan", "x=X")
row("mean", "mean_all", "x=X")
row("round", "round", "x=X", attributes="decimals?0")
row("size", "numel", "x=Input", "size=Out")
row("shape", "shape", "input=Input")
row("trunc", "trunc", "input=X")

# Activations with settings.
row("brelu", "hardtanh", "x=X", attributes="t_max?24.0 t_min?0.0")
row("celu", "celu", "x=X", attributes="alpha?1.0")
row("elu", "elu", "x=X", attributes="alpha?1.0")
row("gelu", "gelu", "x=X", attributes="approximate?false")
row("hard_shrink", "hardshrink", "x=X", attributes="threshold?0.5")
row("hard_sigmoid", "hardsigmoid", "x=X", attributes="offset?0.5 slope?0.2")
row("hard_swish", "hardswish", "x=X", fixed={"offset": 3.0, "scale": 6.0, "threshold": 6.0})
row("leaky_relu", "leaky_relu", "x=X", attributes="negative_slope=alpha?0.02")
row("log_softmax", "log_softmax", "x=X", attributes="axis?-1")
row("mish", "mish", "x=X", attributes="lambda=threshold?20.0")
row("prelu", "prelu", "x=X alpha=Alpha", attributes='data_format?"NCHW" mode?"all"')
row("relu6", "relu6", "x=X", fixed={"threshold": 6.0})
row(
    "selu",
    "selu",
    "x=X",
    attributes="alpha?1.6732632423543772 scale?1.0507009873554805",
)
row("softmax", "softmax", "x=X", attributes="axis?-1")
row("softplus", "softplus", "x=X", attributes="beta?1.0 threshold?20.0")
row("softshrink", "softshrink", "x=X", attributes="threshold=lambda?0.5")
row("stanh", "stanh", "x=X", attributes="scale_a?0.67 scale_b?1.7159")
row("swish", "swish", "x=X", fixed={"beta": 1.0})
row("thresholded_relu", "thresholded_relu", "x=X", attributes="threshold?1.0 value?0.0")

# Two operands, broadcast. `legacy_forms` has seen to `axis`.
for _name, _phi in (
    ("elementwise_add", "add"),
    ("elementwise_div", "divide"),
    ("elementwise_floordiv", "floor_divide"),
    ("elementwise_fmax", "fmax"),
    ("elementwise_fmin", "fmin"),
    ("elementwise_max", "maximum"),
    ("elementwise_min", "minimum"),
    ("elementwise_mod", "remainder"),
    ("elementwise_mul", "multiply"),
    ("elementwise_pow", "elementwise_pow"),
    ("elementwise_sub", "subtract"),
    ("bitwise_and", "bitwise_and"),
    ("bitwise_or", "bitwise_or"),
    ("bitwise_xor", "bitwise_xor"),
    ("bmm", "bmm"),
    ("dot", "dot"),
    ("equal", "equal"),
    ("greater_equal", "greater_equal"),
    ("greater_than", "greater_than"),
    ("less_equal", "less_equal"),
    ("less_than", "less_than"),
    ("logical_and", "logical_and"),
    ("logical_or", "logical_or"),
    ("logical_xor", "logical_xor"),
    ("not_equal", "not_equal"),
):
    row(_name, _phi, "x=X y=Y")
row("atan2", "atan2", "x=X1 y=X2")
row("clip", "clip", "x=X min=Min|@min:float32 max=Max|@max:float32")
row("clip_by_norm", "clip_by_norm", "x=X", attributes="max_norm")
for _name in ("increment", "increment_"):
    row(_name, _name, "x=X", attributes="value=step?1.0")
row("lerp", "lerp", "x=X y=Y weight=Weight")
row("pow", "pow", "x=X", attributes="y=factor?1.0")
row(
    "scale",
    "scale",
    "x=X scale=ScaleTensor|@scale:float32?1.0",
    attributes="bias?0.0 bias_after_scale?true",
)
row("sum", "add_n", "inputs=X*")
row("where", "where", "condition=Condition x=X y=Y")

# Matrix products.
row("addmm", "addmm", "input=Input x=X y=Y", attributes="alpha=Alpha?1.0 beta=Beta?1.0")
row(
    "matmul_v2",
    "matmul",
    "x=X y=Y",
    attributes="transpose_x=trans_x?false transpose_y=trans_y?false",
)
row(
    "matmul",
    "matmul",
    "x=X y=Y",
    attributes="transpose_x=transpose_X?false transpose_y=transpose_Y?false",
    fixed={"head_number": 1},
)
row("mul", "matmul", "x=X y=Y")
row("mv", "mv", "x=X vec=Vec")

# Reductions. `legacy_forms` has seen to `reduce_all`.
for _name in ("all", "any", "amax", "amin"):
    row(f"reduce_{_name}", _name, "x=X", attributes="axis=dim?[0] keepdim=keep_dim?false")
for _name in ("max", "mean", "min"):
    row(f"reduce_{_name}", _name, "x=X axis=@dim?[0]", attributes="keepdim=keep_dim?false")
row(
    "frobenius_norm",
    "frobenius_norm",
    "x=X axis=@dim?[0]",
    attributes="keep_dim?false reduce_all?false",
)
row(
    "reduce_prod",
    "prod",
    "x=X axis=@dim?[0]",
    attributes="keepdim=keep_dim?false reduce_all?false",
)
row(
    "reduce_sum",
    "sum",
    "x=X axis=@dim?[0]",
    attributes="dtype=out_dtype:dtype?-1 keepdim=keep_dim?false",
)
for _name in ("max", "min"):
    row(
        f"arg_{_name}",
        f"arg{_name}",
        "x=X axis=@axis:int64",
        attributes="dtype:dtype?3 flatten?false keepdims?false",
    )
row(
    "cumsum",
    "cumsum",
    "x=X axis=@axis:int32?-1",
    attributes="exclusive?false flatten?false reverse?false",
)
row("logsumexp", "logsumexp", "x=X", attributes="axis?[0] keepdim?false reduce_all?false")
row(
    "p_norm",
    "p_norm",
    "x=X",
    attributes="asvector?false axis?-1 epsilon?1e-12 keepdim?false porder?2.0",
)
