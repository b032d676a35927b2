"""The names of ``paddle.fluid``, which Paddle 2.5 removed: one table.

A name is an object of today's Paddle, or a function of this package on top of today's, or refused
with what to write instead. The modules and ``docs/old_api.md`` are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FluidName:
    """A name that a module of ``paddle.fluid`` offers.

    Attributes:
        module: ``paddle.fluid`` or a module below it.
        name: the name in it.
        source: ``module:name`` of the object.
        today: what to write in new code.
        note: where it differs from that.
    """

    module: str
    name: str
    source: str
    today: str
    note: str = ""


FLUID, LAYERS = "paddle.fluid", "paddle.fluid.layers"
_OURS = "paddle_ipu.legacy."


def _todays(module: str, rows: dict[str, str]) -> list[FluidName]:
    """Names that are objects of today's Paddle."""
    return [
        FluidName(module, name, today, today.replace(":", "."))
        for names, today in rows.items()
        for name in names.split()
    ]


def _family(
    module: str, file: str, rows: dict[str, str], names_here: dict[str, str] | None = None
) -> list[FluidName]:
    """Names that a file of this package has: name -> today's way, a note after a semicolon."""
    table = []
    for name, text in rows.items():
        today, _, note = text.partition("; ")
        here = (names_here or {}).get(name, name)
        table.append(FluidName(module, name, f"{_OURS}{file}:{here}", today, note))
    return table


def _same_name(names: str, home: str) -> dict[str, str]:
    """Each name -> `home` with its separator, and the name."""
    return {name: home + name for name in names.split()}


_F = "paddle.nn.functional"
_AXIS = "`axis` is where the smaller operand begins"

FLUID_NAMES: tuple[FluidName, ...] = (
    *_todays(
        FLUID,
        {
            **_same_name(
                "is_compiled_with_ipu is_compiled_with_cuda is_compiled_with_xpu "
                "is_compiled_with_rocm CPUPlace CUDAPlace CUDAPinnedPlace IPUPlace ParamAttr "
                "set_flags get_flags",
                "paddle:",
            ),
            **_same_name(
                "Program program_guard default_main_program default_startup_program Executor "
                "CompiledProgram BuildStrategy IpuCompiledProgram IpuStrategy ipu_shard_guard "
                "set_ipu_shard global_scope scope_guard name_scope device_guard cpu_places "
                "WeightNormParamAttr Variable append_backward gradients save load "
                "load_program_state set_program_state",
                "paddle.static:",
            ),
            "Scope": "paddle.base.core:Scope",
            "LoDTensor Tensor": "paddle.base.core:LoDTensor",
            **_same_name("DataFeeder create_lod_tensor", "paddle.base:"),
            "require_version": "paddle.utils:require_version",
        },
    ),
    *_family(FLUID, "layers.tensors", {"data": "paddle.static.data"}, {"data": "fluid_data"}),
    *(
        row
        for module in (FLUID, "paddle.fluid.input")
        for row in (
            *_family(
                module,
                "layers.tensors",
                {"one_hot": f"{_F}.one_hot"},
                {"one_hot": "input_one_hot"},
            ),
            *_family(
                module,
                "layers.networks",
                {"embedding": "paddle.static.nn.embedding"},
                {"embedding": "input_embedding"},
            ),
        )
    ),
    *_todays("paddle.fluid.core", {"LoDTensor": "paddle.base.core:LoDTensor"}),
    *_todays("paddle.fluid.param_attr", {"ParamAttr": "paddle:ParamAttr"}),
    # -- layers -----------------------------------------------------------------------------------
    *_family(
        LAYERS,
        "layers.activations",
        {
            **_same_name(
                "abs acos asin atan ceil cos cosh erf exp floor log reciprocal round rsqrt sign "
                "sin sinh sqrt square tan tanh",
                "paddle.",
            ),
            **_same_name("gelu relu sigmoid silu softmax softplus softsign elu", f"{_F}."),
            "brelu": "paddle.clip",
            "hard_sigmoid": f"{_F}.hardsigmoid; slope 0.2 by default",
            "hard_swish": f"{_F}.hardswish",
            "leaky_relu": f"{_F}.leaky_relu; slope 0.02 by default",
            "logsigmoid": f"{_F}.log_sigmoid",
            "relu6": f"{_F}.relu6; any threshold",
            "swish": f"{_F}.swish; with `beta`",
            "tanh_shrink": f"{_F}.tanhshrink",
        },
    ),
    *_family(
        LAYERS,
        "layers.arithmetic",
        {
            "elementwise_add": f"paddle.add; {_AXIS}",
            "elementwise_sub": f"paddle.subtract; {_AXIS}",
            "elementwise_mul": f"paddle.multiply; {_AXIS}",
            "elementwise_div": f"paddle.divide; {_AXIS}",
            "elementwise_max": f"paddle.maximum; {_AXIS}",
            "elementwise_min": f"paddle.minimum; {_AXIS}",
            "elementwise_pow": f"paddle.pow; {_AXIS}",
            "elementwise_mod": f"paddle.remainder; {_AXIS}",
            "elementwise_floordiv": f"paddle.floor_divide; {_AXIS}",
            **_same_name(
                "equal not_equal greater_than greater_equal less_than less_equal logical_and "
                "logical_or logical_xor logical_not mean pow scale clip matmul",
                "paddle.",
            ),
            "reduce_sum": "paddle.sum",
            "reduce_mean": "paddle.mean",
            "reduce_max": "paddle.max",
            "reduce_min": "paddle.min",
            "reduce_prod": "paddle.prod",
            "reduce_all": "paddle.all",
            "reduce_any": "paddle.any",
            "sum": "paddle.add_n; adds the variables of a list",
            "sums": "paddle.add_n",
            "cumsum": "paddle.cumsum; `exclusive`, `reverse`, and the last axis by default",
            "mul": "paddle.matmul; flattens both to matrices",
        },
    ),
    *_family(
        LAYERS,
        "layers.tensors",
        {
            "data": "paddle.static.data; adds a batch dimension",
            "fill_constant": "paddle.full",
            "range": "paddle.arange",
            "uniform_random": "paddle.uniform",
            "expand": "paddle.tile",
            "where": "paddle.nonzero",
            "flatten": "paddle.flatten; always gives a matrix",
            "split": "paddle.split; the last axis by default",
            "pad": f"{_F}.pad; two numbers for every dimension, from the first",
            "argsort": "paddle.sort, paddle.argsort; gives both",
            "argmax": "paddle.argmax; axis 0 by default",
            "argmin": "paddle.argmin; axis 0 by default",
            "one_hot": f"{_F}.one_hot; replaces a last dimension of size 1",
            **_same_name(
                "assign cast zeros ones zeros_like ones_like increment reshape squeeze unsqueeze "
                "transpose concat stack unstack slice strided_slice gather gather_nd topk",
                "paddle.",
            ),
        },
    ),
    *_family(
        LAYERS,
        "layers.losses",
        {
            "cross_entropy": f"{_F}.cross_entropy(…, use_softmax=False, reduction='none')",
            "softmax_with_cross_entropy": f"{_F}.cross_entropy(…, reduction='none')",
            **_same_name("square_error_cost mse_loss log_loss label_smooth", f"{_F}."),
            "sigmoid_cross_entropy_with_logits": f"{_F}.binary_cross_entropy_with_logits; "
            "`ignore_index`, element by element",
            "identity_loss": "paddle.incubate.identity_loss",
            "dropout": f"{_F}.dropout; scales in test mode by default",
            "l2_normalize": f"{_F}.normalize; epsilon is added to the sum of squares",
        },
    ),
    *_family(
        LAYERS,
        "layers.networks",
        {
            "fc": "paddle.static.nn.fc",
            "embedding": "paddle.static.nn.embedding; replaces a last dimension of size 1",
            "instance_norm": "paddle.static.nn.instance_norm; scale and shift by default",
            "pool2d": f"{_F}.max_pool2d, {_F}.avg_pool2d",
            "adaptive_pool2d": f"{_F}.adaptive_avg_pool2d, {_F}.adaptive_max_pool2d",
        },
    ),
    *_todays(
        LAYERS,
        {
            **_same_name(
                "conv2d conv3d conv2d_transpose conv3d_transpose batch_norm layer_norm group_norm "
                "prelu bilinear_tensor_product cond case switch_case while_loop py_func "
                "spectral_norm",
                "paddle.static.nn:",
            ),
            **_same_name("create_parameter accuracy auc Print", "paddle.static:"),
            **_same_name(
                "shape rank isfinite linspace eye diag triu scatter_nd scatter_nd_add unbind",
                "paddle:",
            ),
            **_same_name("pixel_shuffle mish", f"{_F}:"),
        },
    ),
    *_family(
        "paddle.fluid.nets",
        "layers.networks",
        {
            "simple_img_conv_pool": f"paddle.static.nn.conv2d, {_F}.max_pool2d",
            "glu": f"{_F}.glu",
            "scaled_dot_product_attention": f"{_F}.scaled_dot_product_attention; other layout",
        },
    ),
    # -- training ---------------------------------------------------------------------------------
    *(
        row
        for short in "SGD Momentum Adam Adamax Adagrad Adadelta RMSProp Lamb".split()
        for row in _family(
            "paddle.fluid.optimizer",
            "fluid_training",
            {short: f"paddle.optimizer.{short}", f"{short}Optimizer": f"paddle.optimizer.{short}"},
            {short: f"{short}Optimizer"},
        )
    ),
    *(
        row
        for kind in ("L1", "L2")
        for row in _family(
            "paddle.fluid.regularizer",
            "fluid_training",
            {
                f"{kind}Decay": f"paddle.regularizer.{kind}Decay",
                f"{kind}DecayRegularizer": f"paddle.regularizer.{kind}Decay",
            },
            {
                f"{kind}Decay": f"{kind.lower()}_decay",
                f"{kind}DecayRegularizer": f"{kind.lower()}_decay",
            },
        )
    ),
    *_todays(
        "paddle.fluid.clip",
        {
            "ClipGradByGlobalNorm GradientClipByGlobalNorm": "paddle.nn:ClipGradByGlobalNorm",
            "ClipGradByNorm GradientClipByNorm": "paddle.nn:ClipGradByNorm",
            "ClipGradByValue GradientClipByValue": "paddle.nn:ClipGradByValue",
        },
    ),
    *_todays(
        "paddle.fluid.initializer",
        {
            "Constant ConstantInitializer": "paddle.nn.initializer.constant:ConstantInitializer",
            "Uniform UniformInitializer": "paddle.nn.initializer.uniform:UniformInitializer",
            "Normal NormalInitializer": "paddle.nn.initializer.normal:NormalInitializer",
            "Xavier XavierInitializer": "paddle.nn.initializer.xavier:XavierInitializer",
            "MSRA MSRAInitializer": "paddle.nn.initializer.kaiming:MSRAInitializer",
            "NumpyArrayInitializer": "paddle.nn.initializer.assign:NumpyArrayInitializer",
            "Bilinear BilinearInitializer": "paddle.nn.initializer:Bilinear",
            "set_global_initializer": "paddle.nn.initializer:set_global_initializer",
        },
    ),
    *_family(
        "paddle.fluid.initializer",
        "fluid_training",
        dict.fromkeys(
            ("TruncatedNormal", "TruncatedNormalInitializer"),
            "paddle.nn.initializer.TruncatedNormal; cut off at two standard deviations",
        ),
        {"TruncatedNormal": "TruncatedNormalInitializer"},
    ),
    *_todays(
        "paddle.fluid.io",
        {
            **_same_name("save load load_program_state set_program_state", "paddle.static:"),
            "DataLoader": "paddle.io:DataLoader",
        },
    ),
)
"""Every name offered."""

DELEGATES: dict[str, str] = {
    f"{FLUID}.{name}": f"paddle.base.{name}"
    for name in (
        "backward compiler core data_feeder executor framework layer_helper param_attr unique_name"
    ).split()
}
"""Modules that today's Paddle has under another name; every public name of theirs is offered."""

LAYER_FILES = ("nn", "tensor", "ops", "loss", "control_flow", "io", "metric_op")
"""Modules of ``paddle.fluid.layers``: each has the names of the package."""

PACKAGES = frozenset({FLUID, LAYERS})
"""Those of the modules that have modules below them."""

MODULES = frozenset(
    {
        *(row.module for row in FLUID_NAMES),
        *DELEGATES,
        *(f"{LAYERS}.{name}" for name in LAYER_FILES),
    }
)
"""Every module."""

_STEP = "with scheduler.step() before each run: today's schedules do not count runs themselves"

INSTEAD: dict[str, str] = {
    f"{FLUID}.ExecutionStrategy": "nothing: no option of it has an effect on an IPU",
    f"{FLUID}.ParallelExecutor": "paddle.static.IpuCompiledProgram",
    f"{FLUID}.LoDTensorArray": "paddle.tensor.create_array",
    f"{FLUID}.dygraph": "paddle.nn.Layer classes, with paddle.disable_static() for its guard",
    f"{FLUID}.enable_dygraph": "paddle.disable_static()",
    f"{FLUID}.disable_dygraph": "paddle.enable_static()",
    f"{FLUID}.in_dygraph_mode": "paddle.in_dynamic_mode()",
    f"{FLUID}.metrics": "paddle.metric",
    f"{FLUID}.contrib": "paddle.incubate or paddle.static.amp",
    f"{FLUID}.profiler": "paddle.profiler",
    f"{FLUID}.install_check": "paddle.utils.run_check()",
    f"{FLUID}.dataset": "paddle.io.Dataset",
    f"{FLUID}.reader": "paddle.io.DataLoader",
    f"{FLUID}.io.save_inference_model": "paddle.static.save_inference_model(path_prefix, "
    "feed_vars, fetch_vars, executor)",
    f"{FLUID}.io.load_inference_model": "paddle.static.load_inference_model(path_prefix, executor)",
    f"{FLUID}.io.save_persistables": "paddle.static.save(program, path)",
    f"{FLUID}.io.load_persistables": "paddle.static.load(program, path, executor)",
    f"{FLUID}.io.save_params": "paddle.static.save(program, path)",
    f"{FLUID}.io.load_params": "paddle.static.load(program, path, executor)",
    f"{LAYERS}.create_global_var": "paddle.static.create_parameter(shape, dtype, "
    "default_initializer=paddle.nn.initializer.Constant(value))",
    f"{LAYERS}.gaussian_random": "paddle.normal(mean, std, shape)",
    f"{LAYERS}.where_index": "paddle.nonzero(x)",
    f"{LAYERS}.smooth_l1": f"{_F}.smooth_l1_loss",
    f"{LAYERS}.huber_loss": f"{_F}.smooth_l1_loss(input, label, reduction='none', delta=delta)",
    f"{LAYERS}.kldiv_loss": f"{_F}.kl_div",
    f"{LAYERS}.warpctc": f"{_F}.ctc_loss",
    f"{LAYERS}.expand_as": "paddle.expand_as",
    f"{LAYERS}.scatter": "paddle.scatter",
    f"{LAYERS}.reverse": "paddle.flip",
    f"{LAYERS}.image_resize": f"{_F}.interpolate",
    f"{LAYERS}.resize_bilinear": f"{_F}.interpolate(mode='bilinear')",
    f"{LAYERS}.resize_nearest": f"{_F}.interpolate(mode='nearest')",
    f"{LAYERS}.grid_sampler": f"{_F}.grid_sample",
    f"{LAYERS}.pad2d": f"{_F}.pad(x, [left, right, top, bottom])",
    f"{LAYERS}.hard_shrink": f"{_F}.hardshrink",
    f"{LAYERS}.has_inf": "paddle.any(paddle.isinf(x))",
    f"{LAYERS}.has_nan": "paddle.any(paddle.isnan(x))",
    f"{LAYERS}.While": "paddle.static.nn.while_loop",
    f"{LAYERS}.IfElse": "paddle.static.nn.cond",
    f"{LAYERS}.Switch": "paddle.static.nn.case",
    f"{LAYERS}.py_reader": "paddle.io.DataLoader",
    **{
        f"{LAYERS}.{name}": f"paddle.optimizer.lr.{today}, {_STEP}"
        for name, today in {
            "noam_decay": "NoamDecay",
            "exponential_decay": "ExponentialDecay",
            "natural_exp_decay": "NaturalExpDecay",
            "inverse_time_decay": "InverseTimeDecay",
            "polynomial_decay": "PolynomialDecay",
            "piecewise_decay": "PiecewiseDecay",
            "cosine_decay": "CosineAnnealingDecay",
            "linear_lr_warmup": "LinearWarmup",
        }.items()
    },
    f"{FLUID}.nets.img_conv_group": "paddle.static.nn.conv2d, batch_norm and "
    f"{_F}.max_pool2d in a loop",
    f"{FLUID}.optimizer.RecomputeOptimizer": "paddle.distributed.fleet.utils.recompute",
    f"{FLUID}.optimizer.LarsMomentumOptimizer": "paddle.incubate.optimizer.LarsMomentumOptimizer",
    f"{FLUID}.optimizer.ExponentialMovingAverage": "paddle.static.ExponentialMovingAverage",
    f"{FLUID}.clip.set_gradient_clip": "the optimizer's grad_clip argument",
}
"""A refused name -> what to write instead, where that has another name."""

PLACES_OF_TODAY = (
    "paddle",
    "paddle.static",
    "paddle.static.nn",
    _F,
    "paddle.nn",
    "paddle.vision.ops",
    "paddle.optimizer",
    "paddle.nn.initializer",
    "paddle.incubate",
)
"""Modules that are searched for a refused name."""
