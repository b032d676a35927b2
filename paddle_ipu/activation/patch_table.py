"""The table of all names that are replaced in Paddle; ``plugin.py`` puts it into effect."""

from __future__ import annotations

from functools import partial

from paddle_ipu.activation import (
    amp,
    gradient_clip,
    layer_scopes,
    no_grad_set,
    places,
    saved_models,
    shard_guard,
)
from paddle_ipu.activation.patch import SUPPORTED_VERSIONS, WITH_PIR, Patch
from paddle_ipu.compiler import compiled_program, cpp_extension
from paddle_ipu.dialect import value_names
from paddle_ipu.dygraph import (
    dispatch,
    high_level,
    host_writes,
    layer_forms,
    left_on_cpu,
    optimizers,
    registration,
)
from paddle_ipu.inference import config, pool, predictor
from paddle_ipu.legacy import fluid_import, layer_numbers, static_nn, variables_of_copies
from paddle_ipu.legacy.pir_members import member_of
from paddle_ipu.legacy.pir_names import PIR_NAMES, STATIC_LAYERS
from paddle_ipu.options import strategy
from paddle_ipu.runtime import executor, ipu_backend
from paddle_ipu.runtime.weights import persistence


def _replace(
    modules: str,
    attributes: str,
    replacement: object,
    reason: str,
    *,
    required: bool = True,
    versions: tuple[str, ...] = SUPPORTED_VERSIONS,
    wraps: bool = False,
    name: str = "",
) -> tuple[Patch, ...]:
    """A row for each name in each module, both separated by spaces.

    A name that another module imported is a copy, and has a row of its own.
    """
    return tuple(
        Patch(module, attribute, replacement, reason, wraps, required, versions, name)
        for attribute in attributes.split()
        for module in modules.split()
    )


# The replacement makes the new object from the original one.
_wrap = partial(_replace, wraps=True)


_CORE = "paddle.base.core paddle.base.libpaddle"
_STATIC_IO = "paddle.static.io paddle.static"

cpp_extension.when_written_for_paddle_2(layer_numbers.written_for_paddle_2)

_READS_SCOPE = "reads the Scope, while the newest weights are on the device"
_WRITES_SCOPE = "writes the Scope, while the device keeps the weights it has"

_NUMBERS = (
    "takes no number of the layer's kind, as in Paddle 2; replaced where a script is written for "
    "its IPU build"
)

_SAVING = (
    *_wrap(
        _STATIC_IO,
        "save save_inference_model save_vars serialize_persistables",
        persistence.saving,
        _READS_SCOPE,
    ),
    *_wrap("paddle.jit.api", "save_inference_model", persistence.saving, _READS_SCOPE),
    *_wrap("paddle.base.framework", "Program.state_dict", persistence.saving, _READS_SCOPE),
    *_wrap("paddle.pir", "Program.state_dict", persistence.saving, _READS_SCOPE, versions=WITH_PIR),
)

_LOADING = (
    *_wrap(
        _STATIC_IO,
        "load load_vars deserialize_persistables",
        persistence.loading,
        _WRITES_SCOPE,
    ),
    *_wrap(_STATIC_IO, "set_program_state", persistence.setting_state, _WRITES_SCOPE),
    *_wrap("paddle.base.framework", "Program.set_state_dict", persistence.loading, _WRITES_SCOPE),
)

_AMP_UTILS, _AMP_DECORATOR = "paddle.static.amp.fp16_utils", "paddle.static.amp.decorator"
_NO_HALF = "cannot convert PIR programs, which the CPU wheel does not build in half"

_AMP = (
    *_wrap(
        _CORE,
        "serialize_pir_program",
        amp.serialising,
        "refuses attributes of parameters that it does not know, and AMP writes one there",
        versions=WITH_PIR,
    ),
    *(
        row
        for modules, attribute, wrapper in (
            (f"{_AMP_UTILS} {_AMP_DECORATOR} paddle.static.amp", "cast_model_to_fp16",
             amp.casting_models),
            (f"{_AMP_UTILS} {_AMP_DECORATOR} paddle.static.amp", "cast_parameters_to_fp16",
             amp.casting_parameters),
            (f"{_AMP_UTILS} paddle.static.amp", "fp16_guard", amp.guarding),
            ("paddle.amp.auto_cast paddle.amp", "amp_guard", amp.auto_casting),
            (_AMP_DECORATOR, "OptimizerWithMixedPrecision.backward", amp.scaling_backward),
            (_AMP_DECORATOR, "OptimizerWithMixedPrecision.apply_gradients",
             amp.unscaling_gradients),
        )
        for row in _wrap(modules, attribute, wrapper, _NO_HALF, versions=WITH_PIR)
    ),
    *_wrap(
        "paddle.static.amp.fp16_lists",
        "_get_sys_unsupported_list",
        amp.supporting_everything,
        "asks for a GPU's kernels, of which the CPU wheel has none",
    ),
)  # fmt: skip

_OLD_API = tuple(
    Patch(
        "paddle.pir",
        f"{row.owner}.{row.name}",
        member_of(row),
        "PIR lacks it and scripts for ProgramDesc programs use it",
        row.wraps,
        row.wraps,
        WITH_PIR,
        name=row.replacement_name,
    )
    for row in PIR_NAMES
)

_LAYERS_FOR_PIR = tuple(
    row
    for layer in STATIC_LAYERS
    for row in _wrap(
        "paddle.static.nn.common paddle.static.nn",
        layer,
        getattr(static_nn, layer),
        "refuses PIR programs, which Paddle 3.x builds",
        versions=WITH_PIR,
        name=f"{static_nn.__name__}.{layer}",
    )
)

_ON_CPU = "computes on the CPU"
_REGISTERS = "wraps `LRScheduler.step` once more for every strategy, and leaves it so"
_OPTIMIZER = "paddle.optimizer.optimizer"

_DYNAMIC = (
    *_wrap(
        "paddle.base.compiler",
        "IpuDynamicPatcher.register_patch",
        registration.registering,
        _REGISTERS,
    ),
    *_wrap(
        "paddle.base.compiler",
        "IpuDynamicPatcher.release_patch",
        registration.releasing,
        _REGISTERS,
    ),
    *_wrap(
        "paddle.jit.dy2static.program_translator",
        "ASTStaticFunction._perform_call SymbolicStaticFunction._perform_call",
        dispatch.performing,
        "runs to_static layers; on the IPU while a strategy is registered",
    ),
    *_wrap(
        "paddle",
        "Tensor.set_value Tensor.copy_",
        host_writes.writing,
        "writes parameters that a device has too, and Paddle does not count it",
    ),
    *_wrap(
        "paddle.nn.initializer",
        "Initializer.__call__",
        host_writes.initializing,
        "writes parameters that a device has too",
    ),
    *_wrap("paddle.hapi.model", "DynamicGraphAdapter.train_batch", high_level.training, _ON_CPU),
    *_wrap(
        "paddle.hapi.model",
        "DynamicGraphAdapter.eval_batch DynamicGraphAdapter.predict_batch",
        high_level.evaluating,
        _ON_CPU,
    ),
    *_wrap(
        "paddle.hapi.model",
        "extract_args",
        high_level.unwrapping,
        "raises for networks of to_static",
    ),
    *_wrap(
        "paddle.device paddle",
        "set_device",
        left_on_cpu.setting_device,
        "says nothing of dynamic mode, which stays on the CPU",
    ),
    Patch(
        "paddle.nn",
        "Layer.__call__",
        left_on_cpu.noticing,
        "says nothing of a layer on the CPU; replaced from `set_device('ipu')` until a layer is "
        "called",
        wraps=True,
        connect=left_on_cpu.connect,
    ),
    *_wrap(
        "paddle.nn",
        "Layer._dygraph_call_func",
        layer_scopes.naming,
        "leaves no trace of the layer on the operators of a static program",
    ),
    *_wrap(
        "paddle.jit.dy2static.program_translator",
        "ConcreteProgram.from_func_spec ConcreteProgram.pir_from_func_spec",
        layer_scopes.tracing,
        "calls a layer's forward, so that nothing knows the layer",
    ),
    *_wrap(
        "paddle.nn.layer.norm",
        "SyncBatchNorm.forward",
        layer_forms.normalizing,
        "traces an operator that only GPUs have",
    ),
    *(
        row
        for form in (
            layer_forms.multi_label_margin_loss,
            layer_forms.adaptive_log_softmax_with_loss,
        )
        for row in _wrap(
            "paddle.nn.functional paddle.nn.functional.loss",
            form.__name__,
            layer_forms.traced_as(form),
            "traces shapes that depend on the labels",
            required=False,
            name=f"{form.__module__}.{form.__qualname__}",
        )
    ),
    *_wrap(
        _OPTIMIZER,
        "Optimizer._apply_optimize",
        optimizers.applying,
        "updates parameters that a device has too, or has updated already",
    ),
    *_wrap(
        _OPTIMIZER,
        "Optimizer.state_dict",
        optimizers.reading_state,
        "reads state that is on a device",
    ),
    *_wrap(
        _OPTIMIZER,
        "Optimizer.set_state_dict",
        optimizers.writing_state,
        "writes state that a device has too",
    ),
)

_CONFIG = "paddle.base.libpaddle"
_CPU_PREDICTORS = "makes predictors on the CPU"
_WRONG_DEVICE = "would compute on the CPU what is meant for the IPU"

_INFERENCE = (
    *(
        row
        for name, wrapper, reason in (
            ("__init__", config.constructing, "copies a config without its IPU settings"),
            ("set_model_buffer", config.setting_buffers, "does not give the bytes back"),
            ("set_model", config.setting_model, "takes the place of a model given as bytes"),
            ("summary", config.summarising, "leaves the IPU settings out"),
        )
        for row in _wrap(_CONFIG, f"AnalysisConfig.{name}", wrapper, reason)
    ),
    *(
        row
        for name in ("enable_ipu", "set_ipu_config", "set_ipu_custom_info", "load_ipu_config")
        for row in _replace(
            _CONFIG,
            f"AnalysisConfig.{name}",
            getattr(config, name),
            "refuses the IPU without a build for it",
        )
    ),
    *(
        row
        for name in (
            "use_ipu",
            "ipu_device_num",
            "ipu_micro_batch_size",
            "ipu_enable_pipelining",
            "ipu_batches_per_step",
            "ipu_enable_fp16",
            "ipu_replica_num",
            "set_ipu_options",
        )
        for row in _replace(
            _CONFIG,
            f"AnalysisConfig.{name}",
            getattr(config, name),
            "only C++ has it; paddle_ipu's own `set_ipu_options` is for the other options",
            required=False,
        )
    ),
    *_wrap(f"{_CORE} paddle.inference", "create_predictor", predictor.creating, _CPU_PREDICTORS),
    *_wrap(
        "paddle.incubate.jit.inference_decorator",
        "create_predictor",
        predictor.creating,
        _CPU_PREDICTORS,
        versions=WITH_PIR,
    ),
    *_wrap(f"{_CORE} paddle.inference", "PredictorPool", pool.pooling, _CPU_PREDICTORS),
    *_wrap(_CORE, "create_paddle_predictor", predictor.refusing, _WRONG_DEVICE),
    *_wrap(_CONFIG, "PaddleInferPredictor.__init__", predictor.refusing, _WRONG_DEVICE),
)

_GUARDS = "refuses the device that `paddle.to_tensor` writes after `set_device('ipu')`"

PATCHES: tuple[Patch, ...] = (
    *_replace(
        _CORE,
        "is_compiled_with_ipu",
        places.is_compiled_with_ipu,
        "opens what Paddle keeps for IPU builds; its public forms ask this one",
    ),
    *_replace(
        _CORE,
        "get_ipu_device_count",
        places.get_ipu_device_count,
        "only IPU builds have it; `get_device` and the launcher ask for it",
        required=False,
    ),
    *_replace(
        f"{_CORE} paddle.base paddle.framework paddle",
        "IPUPlace",
        places.IPUPlace,
        "the stock class cannot be made; `set_device('ipu')` and 'ipu:0' make one",
    ),
    *_wrap(
        "paddle.device paddle paddle.distributed.spawn",
        "get_device",
        places.naming_ipus,
        "takes the IPU place for the CPU, which it inherits from",
    ),
    *_wrap(
        "paddle.base.framework paddle.base paddle.static paddle.common_ops_import "
        "paddle.tensor.creation paddle.optimizer.optimizer "
        "paddle.incubate.optimizer.gradient_merge "
        "paddle.distributed.fleet.meta_optimizers.sharding_optimizer",
        "device_guard",
        places.guarding_ipus,
        _GUARDS,
    ),
    *_wrap(
        "paddle.distributed.passes",
        "device_guard",
        places.guarding_ipus,
        _GUARDS,
        versions=("2.6",),
    ),
    *_wrap(
        "paddle.distributed.passes.auto_parallel_gradient_merge",
        "device_guard",
        places.guarding_ipus,
        _GUARDS,
        versions=("2.6", "3.0"),
    ),
    *_wrap(
        "paddle.distributed.launch.context.device",
        "Device.get_selected_devices",
        places.counting_ipus,
        "looks for the launcher's number of IPUs among the devices of this host",
    ),
    *_wrap(
        "paddle.device",
        "_convert_to_place",
        places.taking_named_ipus,
        "does not take `ipus:{0-0}`, which `get_device` gives",
    ),
    *_wrap(
        "paddle.base.framework paddle.base paddle.static",
        "ipu_shard_guard",
        shard_guard.stamping,
        "reaches legacy operators only; `set_ipu_shard` goes through it",
    ),
    *_wrap(
        "paddle.pir.core",
        "switch_main_program",
        shard_guard.following_programs,
        "a shard guard may begin outside of a `program_guard`",
        versions=WITH_PIR,
    ),
    *_wrap(
        "paddle.pir",
        "Value.name",
        value_names.naming_intermediates,
        "raises for intermediates; scripts fetch by `loss.name`",
        versions=WITH_PIR,
    ),
    *_replace(
        _CORE,
        "IpuStrategy",
        strategy.CoreIpuStrategy,
        "only IPU builds have it; `paddle.static.IpuStrategy` keeps its options there",
        required=False,
    ),
    *_replace(
        "paddle.static",
        "IpuStrategy.__repr__",
        strategy.represented,
        "gives an address; the options that were set are of use at a prompt",
        required=False,
    ),
    *_replace(
        "paddle.static",
        "IpuStrategy._repr_html_",
        strategy.represented_in_html,
        "is missing; notebooks show the options that were set as a table",
        required=False,
    ),
    *_replace(
        _CORE,
        "IpuBackend",
        ipu_backend.IpuBackend,
        "only IPU builds have it; scripts fetch weights and save models through it",
        required=False,
    ),
    *_replace(
        "paddle.base.compiler paddle.base paddle.static",
        "IpuCompiledProgram",
        compiled_program.IpuCompiledProgram,
        "takes legacy programs only and runs passes that only IPU builds have",
    ),
    *_wrap(
        "paddle.base.executor",
        "Executor.run",
        executor.run,
        "runs compiled programs; passes every other program on",
    ),
    *_wrap(
        _OPTIMIZER,
        "Optimizer.backward",
        no_grad_set.marking,
        "leaves no trace of `no_grad_set` in the program",
    ),
    *_replace(
        "paddle.nn.clip",
        "ClipGradByValue._pir_clip",
        gradient_clip.clip_by_value,
        "raises NotImplementedError for PIR programs",
        required=False,
        versions=WITH_PIR,
    ),
    *_SAVING,
    *_LOADING,
    *_wrap(
        _STATIC_IO,
        "load_inference_model",
        saved_models.loading_inference_models,
        "reads one of the two formats, and can end the process on a damaged file",
    ),
    *_AMP,
    *_OLD_API,
    *_wrap(
        "paddle.static.pir_io paddle.static.io",
        "normalize_pir_program",
        variables_of_copies.normalizing,
        "does not know the variables of the program that a program to save was cloned from",
        versions=WITH_PIR,
    ),
    *_LAYERS_FOR_PIR,
    Patch(
        "paddle",
        "__getattr__",
        fluid_import.importing_fluid,
        "`paddle.fluid` without an import",
        wraps=True,
        required=False,
        where_absent=True,
    ),
    *_DYNAMIC,
    *_INFERENCE,
    *(
        Patch(
            module,
            function,
            layer_numbers.counting(kind),
            _NUMBERS,
            wraps=True,
            versions=WITH_PIR,
            connect=layer_numbers.connecting(f"{module}.{function}"),
        )
        for function, kind in layer_numbers.KINDS.items()
        # LayerNorm has a copy; so has GroupNorm, which takes no second number in Paddle 2.
        for module in ("paddle.nn.functional", "paddle.nn.layer.norm")
        if module == "paddle.nn.functional" or function == "layer_norm"
    ),
    Patch(
        "paddle.nn.functional.conv",
        "_conv_nd",
        layer_numbers.counting(),
        _NUMBERS,
        wraps=True,
        versions=WITH_PIR,
        connect=layer_numbers.connecting("_conv_nd"),
    ),
    *_wrap(
        "paddle.utils.cpp_extension.cpp_extension paddle.utils.cpp_extension",
        "load",
        cpp_extension.loading,
        "stops at sources that include Graphcore's headers, where there is no SDK; two processes "
        "that build the same operators write into each other's files; tensors made of a place end "
        "the process in 3.3",
    ),
)
