"""The table of all names that are replaced in Paddle; ``plugin.py`` puts it into effect."""

from __future__ import annotations

from typing import Any

from paddle_ipu.activation import amp, gradient_clip, no_grad_set, places, saved_models, shard_guard
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
from paddle_ipu.legacy import fluid_import, static_nn, variables_of_copies
from paddle_ipu.legacy.pir_members import member_of
from paddle_ipu.legacy.pir_names import PIR_NAMES, STATIC_LAYERS
from paddle_ipu.options import strategy
from paddle_ipu.runtime import executor, ipu_backend
from paddle_ipu.runtime.weights import persistence


def _everywhere(
    modules: tuple[str, ...],
    attribute: str,
    replacement: Any,
    reason: str,
    *,
    wraps: bool = False,
    required: bool = True,
) -> tuple[Patch, ...]:
    """A row for each module that has the name: a name imported by value is a copy."""
    return tuple(
        Patch(module, attribute, replacement, reason, wraps, required) for module in modules
    )


_CORE = ("paddle.base.core", "paddle.base.libpaddle")

_SAVING = tuple(
    Patch(
        module,
        attribute,
        persistence.saving,
        "reads the Scope, while the newest weights are on the device",
        wraps=True,
        versions=WITH_PIR if module == "paddle.pir" else SUPPORTED_VERSIONS,
    )
    for module, attribute in (
        ("paddle.static.io", "save"),
        ("paddle.static", "save"),
        ("paddle.static.io", "save_inference_model"),
        ("paddle.static", "save_inference_model"),
        ("paddle.jit.api", "save_inference_model"),
        ("paddle.static.io", "save_vars"),
        ("paddle.static", "save_vars"),
        ("paddle.static.io", "serialize_persistables"),
        ("paddle.static", "serialize_persistables"),
        ("paddle.base.framework", "Program.state_dict"),
        ("paddle.pir", "Program.state_dict"),
    )
)

_SETS = ("set_program_state",)

_LOADING = tuple(
    Patch(
        module,
        attribute,
        persistence.setting_state if attribute in _SETS else persistence.loading,
        "writes the Scope, while the device keeps the weights it has",
        wraps=True,
    )
    for module, attribute in (
        ("paddle.static.io", "load"),
        ("paddle.static", "load"),
        ("paddle.static.io", "load_vars"),
        ("paddle.static", "load_vars"),
        ("paddle.static.io", "set_program_state"),
        ("paddle.static", "set_program_state"),
        ("paddle.static.io", "deserialize_persistables"),
        ("paddle.static", "deserialize_persistables"),
        ("paddle.base.framework", "Program.set_state_dict"),
    )
)

_AMP_MODULES = ("paddle.static.amp.fp16_utils", "paddle.static.amp.decorator", "paddle.static.amp")

_DECORATED = "OptimizerWithMixedPrecision"

_AMP = (
    *(
        Patch(
            module,
            "serialize_pir_program",
            amp.serialising,
            "refuses attributes of parameters that it does not know, and AMP writes one there",
            wraps=True,
            versions=WITH_PIR,
        )
        for module in _CORE
    ),
    *(
        Patch(
            module,
            attribute,
            getattr(amp, replacement),
            "cannot convert PIR programs, which the CPU wheel does not build in half",
            wraps=True,
            versions=WITH_PIR,
        )
        for attribute, replacement, modules in (
            ("cast_model_to_fp16", "casting_models", _AMP_MODULES),
            ("cast_parameters_to_fp16", "casting_parameters", _AMP_MODULES),
            ("fp16_guard", "guarding", (_AMP_MODULES[0], _AMP_MODULES[2])),
            ("amp_guard", "auto_casting", ("paddle.amp.auto_cast", "paddle.amp")),
            (f"{_DECORATED}.backward", "scaling_backward", _AMP_MODULES[1:2]),
            (f"{_DECORATED}.apply_gradients", "unscaling_gradients", _AMP_MODULES[1:2]),
        )
        for module in modules
    ),
    Patch(
        "paddle.static.amp.fp16_lists",
        "_get_sys_unsupported_list",
        amp.supporting_everything,
        "asks for a GPU's kernels, of which the CPU wheel has none",
        wraps=True,
    ),
)

_OLD_API = tuple(
    Patch(
        "paddle.pir",
        f"{row.owner}.{row.name}",
        member_of(row),
        "PIR lacks it and scripts for ProgramDesc programs use it",
        row.wraps,
        row.wraps,
        WITH_PIR,
    )
    for row in PIR_NAMES
)

_SAVING_COPIES = tuple(
    Patch(
        module,
        "normalize_pir_program",
        variables_of_copies.normalizing,
        "does not know the variables of the program that a program to save was cloned from",
        wraps=True,
        versions=WITH_PIR,
    )
    for module in ("paddle.static.pir_io", "paddle.static.io")
)

_LAYERS_FOR_PIR = tuple(
    Patch(
        module,
        layer,
        getattr(static_nn, layer),
        "refuses PIR programs, which Paddle 3.x builds",
        wraps=True,
        versions=WITH_PIR,
        name=f"{static_nn.__name__}.{layer}",
    )
    for layer in STATIC_LAYERS
    for module in ("paddle.static.nn.common", "paddle.static.nn")
)

_FLUID = (
    Patch(
        "paddle",
        "__getattr__",
        fluid_import.importing_fluid,
        "`paddle.fluid` without an import",
        wraps=True,
        required=False,
        where_absent=True,
    ),
)

_DYNAMIC = (
    *(
        Patch(
            "paddle.base.compiler",
            f"IpuDynamicPatcher.{name}",
            getattr(registration, replacement),
            "wraps `LRScheduler.step` once more for every strategy, and leaves it so",
            wraps=True,
        )
        for name, replacement in (("register_patch", "registering"), ("release_patch", "releasing"))
    ),
    *(
        Patch(
            "paddle.jit.dy2static.program_translator",
            f"{kind}StaticFunction._perform_call",
            dispatch.performing,
            "runs to_static layers; on the IPU while a strategy is registered",
            wraps=True,
        )
        for kind in ("AST", "Symbolic")
    ),
    *(
        Patch(
            "paddle",
            f"Tensor.{name}",
            host_writes.writing,
            "writes parameters that a device has too, and Paddle does not count it",
            wraps=True,
        )
        for name in ("set_value", "copy_")
    ),
    Patch(
        "paddle.nn.initializer",
        "Initializer.__call__",
        host_writes.initializing,
        "writes parameters that a device has too",
        wraps=True,
    ),
    *(
        Patch(
            "paddle.hapi.model",
            name,
            getattr(high_level, replacement),
            reason,
            wraps=True,
        )
        for name, replacement, reason in (
            ("DynamicGraphAdapter.train_batch", "training", "computes on the CPU"),
            ("DynamicGraphAdapter.eval_batch", "evaluating", "computes on the CPU"),
            ("DynamicGraphAdapter.predict_batch", "evaluating", "computes on the CPU"),
            ("extract_args", "unwrapping", "raises for networks of to_static"),
        )
    ),
    *_everywhere(
        ("paddle.device", "paddle"),
        "set_device",
        left_on_cpu.setting_device,
        "says nothing of dynamic mode, which stays on the CPU",
        wraps=True,
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
    Patch(
        "paddle.nn.layer.norm",
        "SyncBatchNorm.forward",
        layer_forms.normalizing,
        "traces an operator that only GPUs have",
        wraps=True,
    ),
    *(
        Patch(
            module,
            form.__name__,
            layer_forms.traced_as(form),
            "traces shapes that depend on the labels",
            wraps=True,
            required=False,
            name=f"{form.__module__}.{form.__qualname__}",
        )
        for form in (
            layer_forms.multi_label_margin_loss,
            layer_forms.adaptive_log_softmax_with_loss,
        )
        for module in ("paddle.nn.functional", "paddle.nn.functional.loss")
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer._apply_optimize",
        optimizers.applying,
        "updates parameters that a device has too, or has updated already",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.state_dict",
        optimizers.reading_state,
        "reads state that is on a device",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.set_state_dict",
        optimizers.writing_state,
        "writes state that a device has too",
        wraps=True,
    ),
)

_CONFIG = "paddle.base.libpaddle"

_INFERENCE = (
    *(
        Patch(
            _CONFIG,
            f"AnalysisConfig.{name}",
            getattr(config, replacement),
            reason,
            wraps=True,
        )
        for name, replacement, reason in (
            ("__init__", "constructing", "copies a config without its IPU settings"),
            ("set_model_buffer", "setting_buffers", "does not give the bytes back"),
            ("set_model", "setting_model", "takes the place of a model given as bytes"),
            ("summary", "summarising", "leaves the IPU settings out"),
        )
    ),
    *(
        Patch(
            _CONFIG,
            f"AnalysisConfig.{name}",
            getattr(config, name),
            reason,
            required=required,
        )
        for reason, required, names in (
            (
                "refuses the IPU without a build for it",
                True,
                ("enable_ipu", "set_ipu_config", "set_ipu_custom_info", "load_ipu_config"),
            ),
            (
                "only C++ has it; paddle_ipu's own `set_ipu_options` is for the other options",
                False,
                (
                    "use_ipu",
                    "ipu_device_num",
                    "ipu_micro_batch_size",
                    "ipu_enable_pipelining",
                    "ipu_batches_per_step",
                    "ipu_enable_fp16",
                    "ipu_replica_num",
                    "set_ipu_options",
                ),
            ),
        )
        for name in names
    ),
    *_everywhere(
        (*_CORE, "paddle.inference"),
        "create_predictor",
        predictor.creating,
        "makes predictors on the CPU",
        wraps=True,
    ),
    Patch(
        "paddle.incubate.jit.inference_decorator",
        "create_predictor",
        predictor.creating,
        "makes predictors on the CPU",
        wraps=True,
        versions=WITH_PIR,
    ),
    *_everywhere(
        (*_CORE, "paddle.inference"),
        "PredictorPool",
        pool.pooling,
        "makes predictors on the CPU",
        wraps=True,
    ),
    *_everywhere(
        _CORE,
        "create_paddle_predictor",
        predictor.refusing,
        "would compute on the CPU what is meant for the IPU",
        wraps=True,
    ),
    Patch(
        _CONFIG,
        "PaddleInferPredictor.__init__",
        predictor.refusing,
        "would compute on the CPU what is meant for the IPU",
        wraps=True,
    ),
)

PATCHES: tuple[Patch, ...] = (
    *_everywhere(
        _CORE,
        "is_compiled_with_ipu",
        places.is_compiled_with_ipu,
        "opens what Paddle keeps for IPU builds; its public forms ask this one",
    ),
    *_everywhere(
        _CORE,
        "get_ipu_device_count",
        places.get_ipu_device_count,
        "only IPU builds have it; `get_device` and the launcher ask for it",
        required=False,
    ),
    *_everywhere(
        (*_CORE, "paddle.base", "paddle.framework", "paddle"),
        "IPUPlace",
        places.IPUPlace,
        "the stock class cannot be made; `set_device('ipu')` and 'ipu:0' make one",
    ),
    *_everywhere(
        ("paddle.device", "paddle", "paddle.distributed.spawn"),
        "get_device",
        places.naming_ipus,
        "takes the IPU place for the CPU, which it inherits from",
        wraps=True,
    ),
    *(
        Patch(
            module,
            "device_guard",
            places.guarding_ipus,
            "refuses the device that `paddle.to_tensor` writes after `set_device('ipu')`",
            wraps=True,
            versions=versions,
        )
        for module, versions in {
            **dict.fromkeys(
                (
                    "paddle.base.framework",
                    "paddle.base",
                    "paddle.static",
                    "paddle.common_ops_import",
                    "paddle.tensor.creation",
                    "paddle.optimizer.optimizer",
                    "paddle.incubate.optimizer.gradient_merge",
                    "paddle.distributed.fleet.meta_optimizers.sharding_optimizer",
                ),
                SUPPORTED_VERSIONS,
            ),
            "paddle.distributed.passes": ("2.6",),
            "paddle.distributed.passes.auto_parallel_gradient_merge": ("2.6", "3.0"),
        }.items()
    ),
    Patch(
        "paddle.distributed.launch.context.device",
        "Device.get_selected_devices",
        places.counting_ipus,
        "looks for the launcher's number of IPUs among the devices of this host",
        wraps=True,
    ),
    Patch(
        "paddle.device",
        "_convert_to_place",
        places.taking_named_ipus,
        "does not take `ipus:{0-0}`, which `get_device` gives",
        wraps=True,
    ),
    *_everywhere(
        ("paddle.base.framework", "paddle.base", "paddle.static"),
        "ipu_shard_guard",
        shard_guard.stamping,
        "reaches legacy operators only; `set_ipu_shard` goes through it",
        wraps=True,
    ),
    Patch(
        "paddle.pir.core",
        "switch_main_program",
        shard_guard.following_programs,
        "a shard guard may begin outside of a `program_guard`",
        wraps=True,
        versions=WITH_PIR,
    ),
    Patch(
        "paddle.pir",
        "Value.name",
        value_names.naming_intermediates,
        "raises for intermediates; scripts fetch by `loss.name`",
        wraps=True,
        versions=WITH_PIR,
    ),
    *_everywhere(
        _CORE,
        "IpuStrategy",
        strategy.CoreIpuStrategy,
        "only IPU builds have it; `paddle.static.IpuStrategy` keeps its options there",
        required=False,
    ),
    *_everywhere(
        _CORE,
        "IpuBackend",
        ipu_backend.IpuBackend,
        "only IPU builds have it; scripts fetch weights and save models through it",
        required=False,
    ),
    *_everywhere(
        ("paddle.base.compiler", "paddle.base", "paddle.static"),
        "IpuCompiledProgram",
        compiled_program.IpuCompiledProgram,
        "takes legacy programs only and runs passes that only IPU builds have",
    ),
    Patch(
        "paddle.base.executor",
        "Executor.run",
        executor.run,
        "runs compiled programs; passes every other program on",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.backward",
        no_grad_set.marking,
        "leaves no trace of `no_grad_set` in the program",
        wraps=True,
    ),
    Patch(
        "paddle.nn.clip",
        "ClipGradByValue._pir_clip",
        gradient_clip.clip_by_value,
        "raises NotImplementedError for PIR programs",
        required=False,
        versions=WITH_PIR,
    ),
    *_SAVING,
    *_LOADING,
    *_everywhere(
        ("paddle.static.io", "paddle.static"),
        "load_inference_model",
        saved_models.loading_inference_models,
        "reads one of the two formats, and can end the process on a damaged file",
        wraps=True,
    ),
    *_AMP,
    *_OLD_API,
    *_SAVING_COPIES,
    *_LAYERS_FOR_PIR,
    *_FLUID,
    *_DYNAMIC,
    *_INFERENCE,
    *_everywhere(
        ("paddle.utils.cpp_extension.cpp_extension", "paddle.utils.cpp_extension"),
        "load",
        cpp_extension.loading,
        "stops at sources that include Graphcore's headers, where there is no SDK; two processes "
        "that build the same operators write into each other's files; tensors made of a place end "
        "the process in 3.3",
        wraps=True,
    ),
)
