"""Every name patched into Paddle: one table, checked before anything changes, reversible."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import _paddle_ipu_autoload
from paddle_ipu import root_logger
from paddle_ipu.errors import ActivationError
from paddle_ipu.legacy import fluid_import
from paddle_ipu.legacy.pir_names import PIR_NAMES, STATIC_LAYERS

SUPPORTED_VERSIONS = ("2.6", "3.0", "3.1", "3.2", "3.3")
"""The Paddle versions, as major.minor, that this plugin knows."""

WITH_PIR = ("3.0", "3.1", "3.2", "3.3")
"""Those whose static programs are PIR programs; 2.6 has the classes, but builds none of them."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One row: the attribute of one Paddle module (or of a class in it) that is replaced.

    Attributes:
        module: the module to patch, imported if need be.
        attribute: the name in it, dotted for an attribute of a class.
        replacement: ``module:name`` of what takes its place.
        reason: why it is patched.
        wraps: `replacement` is a function that makes the new object from the original one.
        required: Paddle must have the attribute; False for names only an IPU build has.
        versions: Paddle versions the row is for, as major.minor.
    """

    module: str
    attribute: str
    replacement: str
    reason: str
    wraps: bool = False
    required: bool = True
    versions: tuple[str, ...] = SUPPORTED_VERSIONS

    @property
    def target(self) -> str:
        return f"{self.module}.{self.attribute}"


def _everywhere(
    modules: tuple[str, ...],
    attribute: str,
    replacement: str,
    reason: str,
    *,
    wraps: bool = False,
    required: bool = True,
) -> tuple[Patch, ...]:
    """One row for each module that holds the name: a name imported by value is a copy."""
    return tuple(
        Patch(module, attribute, replacement, reason, wraps, required) for module in modules
    )


_CORE = ("paddle.base.core", "paddle.base.libpaddle")

_SAVING = tuple(
    Patch(
        module,
        attribute,
        "paddle_ipu.persistence:saving",
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
        f"paddle_ipu.persistence:{'setting_state' if attribute in _SETS else 'loading'}",
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
            "paddle_ipu.amp:serialising",
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
            f"paddle_ipu.amp:{replacement}",
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
        "paddle_ipu.amp:supporting_everything",
        "asks for a GPU's kernels, of which the CPU wheel has none",
        wraps=True,
    ),
)

_OLD_API = tuple(
    Patch(
        "paddle.pir",
        f"{row.owner}.{row.name}",
        row.replacement,
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
        "paddle_ipu.legacy.variables_of_copies:normalizing",
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
        f"paddle_ipu.legacy.static_nn:{layer}",
        "refuses PIR programs, which Paddle 3.x builds",
        wraps=True,
        versions=WITH_PIR,
    )
    for layer in STATIC_LAYERS
    for module in ("paddle.static.nn.common", "paddle.static.nn")
)

_FLUID = (
    Patch(
        "paddle",
        "__path__",
        "paddle_ipu.legacy.fluid_import:with_fluid_folder",
        "`import paddle.fluid` finds it in a folder of ours",
        wraps=True,
    ),
    Patch(
        "paddle",
        "__getattr__",
        "paddle_ipu.legacy.fluid_import:importing_fluid",
        "`paddle.fluid` without an import",
        wraps=True,
        required=False,
    ),
)

_DYNAMIC = (
    *(
        Patch(
            "paddle.base.compiler",
            f"IpuDynamicPatcher.{name}",
            f"paddle_ipu.dygraph.registration:{replacement}",
            "wraps `LRScheduler.step` once more for every strategy, and leaves it so",
            wraps=True,
        )
        for name, replacement in (("register_patch", "registering"), ("release_patch", "releasing"))
    ),
    *(
        Patch(
            "paddle.jit.dy2static.program_translator",
            f"{kind}StaticFunction._perform_call",
            "paddle_ipu.dygraph.dispatch:performing",
            "runs to_static layers; on the IPU while a strategy is registered",
            wraps=True,
        )
        for kind in ("AST", "Symbolic")
    ),
    *(
        Patch(
            "paddle",
            f"Tensor.{name}",
            "paddle_ipu.dygraph.host_writes:writing",
            "writes parameters that a device has too, and Paddle does not count it",
            wraps=True,
        )
        for name in ("set_value", "copy_")
    ),
    Patch(
        "paddle.nn.initializer",
        "Initializer.__call__",
        "paddle_ipu.dygraph.host_writes:initializing",
        "writes parameters that a device has too",
        wraps=True,
    ),
    *(
        Patch(
            "paddle.hapi.model",
            name,
            f"paddle_ipu.dygraph.high_level:{replacement}",
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
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer._apply_optimize",
        "paddle_ipu.dygraph.optimizers:applying",
        "updates parameters that a device has too, or has updated already",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.state_dict",
        "paddle_ipu.dygraph.optimizers:reading_state",
        "reads state that is on a device",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.set_state_dict",
        "paddle_ipu.dygraph.optimizers:writing_state",
        "writes state that a device has too",
        wraps=True,
    ),
)

PATCHES: tuple[Patch, ...] = (
    *_everywhere(
        _CORE,
        "is_compiled_with_ipu",
        "paddle_ipu.places:is_compiled_with_ipu",
        "opens what Paddle keeps for IPU builds; its public forms ask this one",
    ),
    *_everywhere(
        _CORE,
        "get_ipu_device_count",
        "paddle_ipu.places:get_ipu_device_count",
        "only IPU builds have it; `get_device` and the launcher ask for it",
        required=False,
    ),
    *_everywhere(
        (*_CORE, "paddle.base", "paddle.framework", "paddle"),
        "IPUPlace",
        "paddle_ipu.places:IPUPlace",
        "the stock class cannot be made; `set_device('ipu')` and 'ipu:0' make one",
    ),
    *_everywhere(
        ("paddle.device", "paddle", "paddle.distributed.spawn"),
        "get_device",
        "paddle_ipu.places:naming_ipus",
        "takes the IPU place for the CPU, which it inherits from",
        wraps=True,
    ),
    Patch(
        "paddle.device",
        "_convert_to_place",
        "paddle_ipu.places:taking_named_ipus",
        "does not take `ipus:{0-0}`, which `get_device` gives",
        wraps=True,
    ),
    *_everywhere(
        ("paddle.base.framework", "paddle.base", "paddle.static"),
        "ipu_shard_guard",
        "paddle_ipu.shard_guard:stamping",
        "reaches legacy operators only; `set_ipu_shard` goes through it",
        wraps=True,
    ),
    Patch(
        "paddle.pir.core",
        "switch_main_program",
        "paddle_ipu.shard_guard:following_programs",
        "a shard guard may begin outside of a `program_guard`",
        wraps=True,
        versions=WITH_PIR,
    ),
    Patch(
        "paddle.pir",
        "Value.name",
        "paddle_ipu.value_names:naming_intermediates",
        "raises for intermediates; scripts fetch by `loss.name`",
        wraps=True,
        versions=WITH_PIR,
    ),
    *_everywhere(
        _CORE,
        "IpuStrategy",
        "paddle_ipu.strategy:CoreIpuStrategy",
        "only IPU builds have it; `paddle.static.IpuStrategy` keeps its options there",
        required=False,
    ),
    *_everywhere(
        _CORE,
        "IpuBackend",
        "paddle_ipu.backend:IpuBackend",
        "only IPU builds have it; scripts fetch weights and save models through it",
        required=False,
    ),
    *_everywhere(
        ("paddle.base.compiler", "paddle.base", "paddle.static"),
        "IpuCompiledProgram",
        "paddle_ipu.compiled_program:IpuCompiledProgram",
        "takes legacy programs only and runs passes that only IPU builds have",
    ),
    Patch(
        "paddle.base.executor",
        "Executor.run",
        "paddle_ipu.executor:run",
        "runs compiled programs; passes every other program on",
        wraps=True,
    ),
    Patch(
        "paddle.optimizer.optimizer",
        "Optimizer.backward",
        "paddle_ipu.no_grad_set:marking",
        "leaves no trace of `no_grad_set` in the program",
        wraps=True,
    ),
    Patch(
        "paddle.nn.clip",
        "ClipGradByValue._pir_clip",
        "paddle_ipu.gradient_clip:clip_by_value",
        "raises NotImplementedError for PIR programs",
        required=False,
        versions=WITH_PIR,
    ),
    *_SAVING,
    *_LOADING,
    *_everywhere(
        ("paddle.static.io", "paddle.static"),
        "load_inference_model",
        "paddle_ipu.saved_models:loading_inference_models",
        "reads one of the two formats, and can end the process on a damaged file",
        wraps=True,
    ),
    *_AMP,
    *_OLD_API,
    *_SAVING_COPIES,
    *_LAYERS_FOR_PIR,
    *_FLUID,
    *_DYNAMIC,
    *_everywhere(
        ("paddle.utils.cpp_extension.cpp_extension", "paddle.utils.cpp_extension"),
        "load",
        "paddle_ipu.cpp_extension:loading",
        "stops at sources that include Graphcore's headers, where there is no SDK; two processes "
        "that build the same operators write into each other's files; tensors made of a place end "
        "the process in 3.3",
        wraps=True,
    ),
)

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class _Applied:
    patch: Patch
    owner: Any
    name: str
    original: object


_applied: list[_Applied] = []


def activate() -> None:
    """Patches Paddle, which is imported if it was not; does nothing if it is patched already.

    Raises:
        ActivationError: Paddle is missing or of a version the plugin does not know, or lacks
            names the plugin replaces, or has them in another form, or a part of the plugin cannot
            be imported. Nothing is patched then.
    """
    if _applied:
        return
    _paddle_ipu_autoload.stop_waiting()
    version = _paddle_version()
    patches = _patches_for(version)
    if version.startswith("2.6."):
        from paddle_ipu import zlib_order

        zlib_order.repair()
    found = _find_targets(patches)
    replacements = _resolve(found)
    for applied, replacement in zip(found, replacements, strict=True):
        setattr(applied.owner, applied.name, replacement)
        _applied.append(applied)
    root_logger.release()


def deactivate() -> None:
    """Restores every patched name exactly; before Paddle is imported, stops waiting for it."""
    _paddle_ipu_autoload.stop_waiting()
    root_logger.restore()
    while _applied:
        applied = _applied.pop()
        if applied.original is _ABSENT:
            delattr(applied.owner, applied.name)
        else:
            setattr(applied.owner, applied.name, applied.original)
    if "paddle" in sys.modules:
        fluid_import.forget()


def is_active() -> bool:
    """Whether Paddle is patched."""
    return bool(_applied)


def original(module: str, attribute: str) -> Any:
    """What Paddle itself has under a patched name, whether the plugin is active or not.

    Args:
        module: a row's module, for instance ``paddle.base.executor``.
        attribute: a row's attribute, for instance ``Executor.run``.

    Raises:
        KeyError: no row is for that name, or Paddle has nothing there.
    """
    for applied in _applied:
        if (applied.patch.module, applied.patch.attribute) == (module, attribute):
            if applied.original is _ABSENT:
                raise KeyError(f"stock Paddle has no {module}.{attribute}")
            return applied.original
    if not any((row.module, row.attribute) == (module, attribute) for row in PATCHES):
        raise KeyError(f"{module}.{attribute} is not patched: no row of PATCHES is for it")
    owner, name = _owner(module, attribute)
    stock = vars(owner).get(name, _ABSENT)
    if stock is _ABSENT:
        raise KeyError(f"stock Paddle has no {module}.{attribute}")
    return stock


def describe_patches() -> str:
    """The table of patches as Markdown, for the documentation."""
    lines = [
        "| Patched in Paddle | Replacement | Why | Stock Paddle has it | Paddle |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in PATCHES:
        replacement = row.replacement.replace(":", ".")
        made = f"made by `{replacement}`" if row.wraps else f"`{replacement}`"
        required = "yes" if row.required else "no"
        versions = ", ".join(row.versions)
        lines.append(f"| `{row.target}` | {made} | {row.reason} | {required} | {versions} |")
    return "\n".join(lines) + "\n"


def _paddle_version() -> str:
    try:
        import paddle
    except ImportError as error:
        raise ActivationError(
            f"Paddle cannot be imported: {error}. Install it with `pip install paddlepaddle`, "
            f"one of the versions {_versions_in_words()}."
        ) from error
    return str(paddle.__version__)


def _versions_in_words() -> str:
    return ", ".join(f"{version}.x" for version in SUPPORTED_VERSIONS)


def _patches_for(version: str) -> list[Patch]:
    major_minor = ".".join(version.split(".")[:2])
    if major_minor not in SUPPORTED_VERSIONS:
        raise ActivationError(
            f"This Paddle has version {version}; paddle_ipu knows {_versions_in_words()}. Install "
            "one of these, or set PADDLE_IPU_AUTOLOAD=0 to use Paddle without the IPU."
        )
    return [row for row in PATCHES if major_minor in row.versions]


def _owner(module: str, attribute: str) -> tuple[Any, str]:
    """The module or class that holds an attribute, and the last part of the attribute's name."""
    path, _, name = attribute.rpartition(".")
    owner: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in path.split(".") if path else ():
        owner = getattr(owner, part)
    return owner, name


def _find_targets(patches: list[Patch]) -> list[_Applied]:
    found, missing = [], []
    for patch in patches:
        try:
            owner, name = _owner(patch.module, patch.attribute)
        except (ImportError, AttributeError):
            missing.append(patch.target)
            continue
        # Not getattr: a property or a static method must be put back as it was, and an attribute
        # inherited from a base class belongs to that class.
        stock = vars(owner).get(name, _ABSENT)
        if stock is _ABSENT and patch.required:
            missing.append(patch.target)
        found.append(_Applied(patch, owner, name, stock))
    if missing:
        raise ActivationError(
            f"This Paddle, version {_paddle_version()}, lacks names that paddle_ipu replaces: "
            f"{', '.join(missing)}. Nothing was patched. Install one of Paddle "
            f"{_versions_in_words()} as released, or a paddle_ipu made for this one."
        )
    return found


def _resolve(found: list[_Applied]) -> list[object]:
    """The replacements of all rows; copies of one original get one and the same replacement."""
    made: dict[tuple[str, int], object] = {}
    replacements: list[object] = []
    for applied in found:
        patch = applied.patch
        key = (patch.replacement, id(applied.original))
        if key not in made:
            new = _import_replacement(patch)
            made[key] = new(applied.original) if patch.wraps else new
            if not patch.wraps:
                _check_form(patch, applied.original, new)
        replacements.append(made[key])
    return replacements


def _import_replacement(patch: Patch) -> Callable[..., Any]:
    module, _, name = patch.replacement.partition(":")
    try:
        new: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ActivationError(
            f"{patch.target} cannot be replaced by {patch.replacement}: {error}. Nothing was "
            "patched. Reinstall paddle_ipu with its dependencies."
        ) from error
    return new


def _check_form(patch: Patch, stock: object, new: object) -> None:
    """Python functions and classes must be callable in the way the replacement expects."""
    for each in (stock, new):
        if not isinstance(each, types.FunctionType) and type(each) is not type:
            return
    expected = list(inspect.signature(new).parameters)  # type: ignore[arg-type]
    got = list(inspect.signature(stock).parameters)  # type: ignore[arg-type]
    if got != expected:
        raise ActivationError(
            f"{patch.target} has the parameters {', '.join(got)}; its replacement "
            f"{patch.replacement} expects {', '.join(expected)}. Nothing was patched. Install one "
            f"of Paddle {_versions_in_words()} as released, or a paddle_ipu made for this one."
        )
