"""Patches Paddle by the table of ``patch_table.py``: all checked first, and reversible."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import _paddle_ipu_autoload
from paddle_ipu.activation import requirements, root_logger
from paddle_ipu.activation.patch import SUPPORTED_VERSIONS, Patch
from paddle_ipu.errors import ActivationError
from paddle_ipu.legacy import fluid_import
from paddle_ipu.operating_system import platforms

if TYPE_CHECKING:
    from paddle_ipu.options.strategy import StrategyValues
    from paddle_ipu.runtime.ipu_program import IpuProgram

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class _Applied:
    """A row in effect, or to be put into effect.

    Attributes:
        patch: the row.
        owner: the module or class whose attribute it replaces.
        name: of the attribute.
        original: what Paddle has there.
    """

    patch: Patch
    owner: Any
    name: str
    original: object

    def restore(self) -> None:
        """Puts the original back."""
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


_applied: list[_Applied] = []
_switched_on: dict[str, _Applied] = {}
"""Rows with `connect` that are in effect, by target."""


def activate() -> None:
    """Imports Paddle and patches it; does nothing where it is patched already.

    Raises:
        ActivationError: Paddle is missing, it or a package that the plugin is built on is of an
            unknown version, Paddle lacks names that the plugin replaces or has them in another
            form, or a part of the plugin cannot be imported. Nothing is patched then.
    """
    if _applied:
        return
    _paddle_ipu_autoload.stop_waiting()
    version = _paddle_version()
    patches = _patches_for(version)
    requirements.check()
    _tell_of_the_platform()
    if version.startswith("2.6."):
        from paddle_ipu.activation import zlib_order

        zlib_order.repair()
    targets = _find_targets(patches)
    for applied, replacement in zip(targets, _replacements(targets), strict=True):
        if applied.patch.connect is None:
            setattr(applied.owner, applied.name, replacement)
            _applied.append(applied)
        else:
            applied.patch.connect(functools.partial(_switch, applied.patch))
    from paddle_ipu.runtime import shared_runs

    shared_runs.register(_share_runs)
    fluid_import.install()
    root_logger.release()


@functools.cache
def _tell_of_the_platform() -> None:
    """Warns once on a platform that the package is not tested on."""
    told = platforms.what_is_missing()
    if told:
        warnings.warn(told, RuntimeWarning, stacklevel=3)


def deactivate() -> None:
    """Restores every patched name exactly; before Paddle is imported, stops waiting for it."""
    _paddle_ipu_autoload.stop_waiting()
    root_logger.restore()
    while _switched_on:
        _switched_on.popitem()[1].restore()
    while _applied:
        _applied.pop().restore()
    fluid_import.uninstall()


def is_active() -> bool:
    """Whether Paddle is patched."""
    return bool(_applied)


def _switch(patch: Patch, on: bool) -> None:
    """Puts a row with `connect` into effect, or takes it back."""
    before = _switched_on.pop(patch.target, None)
    if before is not None:
        before.restore()
    if on and is_active():
        (applied,) = _find_targets([patch])
        (replacement,) = _replacements([applied])
        setattr(applied.owner, applied.name, replacement)
        _switched_on[patch.target] = applied


def original(module: str, attribute: str) -> Any:
    """What Paddle itself has under a patched name, whether the plugin is active or not.

    Args:
        module: a row's module, for instance ``paddle.base.executor``.
        attribute: a row's attribute, for instance ``Executor.run``.

    Raises:
        KeyError: no row is for that name, or Paddle has nothing there.
    """
    for applied in (*_applied, *_switched_on.values()):
        if (applied.patch.module, applied.patch.attribute) == (module, attribute):
            if applied.original is _ABSENT:
                raise KeyError(f"stock Paddle has no {module}.{attribute}")
            return applied.original
    if not any((row.module, row.attribute) == (module, attribute) for row in _table()):
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
    for row in _table():
        new = row.replacement_name
        made = f"made by `{new}`" if row.wraps else f"`{new}`"
        required = "yes" if row.required else "no"
        versions = ", ".join(row.versions)
        lines.append(f"| `{row.target}` | {made} | {row.reason} | {required} | {versions} |")
    return "\n".join(lines) + "\n"


def _share_runs(program: IpuProgram, values: StrategyValues) -> None:
    from paddle_ipu.serving.shared_runs import share

    share(program, values)


def _paddle_version() -> str:
    try:
        import paddle
    except ImportError as error:
        raise ActivationError(
            f"Paddle cannot be imported: {error}. Install it with `pip install paddlepaddle`, "
            f"one of the versions {_known_versions()}."
        ) from error
    return str(paddle.__version__)


def _known_versions() -> str:
    return ", ".join(f"{version}.x" for version in SUPPORTED_VERSIONS)


def _patches_for(version: str) -> list[Patch]:
    major_minor = ".".join(version.split(".")[:2])
    if major_minor not in SUPPORTED_VERSIONS:
        raise ActivationError(
            f"This Paddle has version {version}; paddle_ipu knows {_known_versions()}. Install "
            "one of these, or set PADDLE_IPU_AUTOLOAD=0 to use Paddle without the IPU."
        )
    return [row for row in _table() if major_minor in row.versions]


def _table() -> Sequence[Patch]:
    """The rows; imports everything that is put into Paddle."""
    try:
        from paddle_ipu.activation import patch_table
    except (ImportError, AttributeError) as error:
        raise ActivationError(
            f"a part of paddle_ipu cannot be imported: {error}. Nothing was patched. Reinstall "
            "paddle_ipu with its dependencies."
        ) from error
    return patch_table.PATCHES


def _owner(module: str, attribute: str) -> tuple[Any, str]:
    """The module or class that holds an attribute, and the last part of the attribute's name."""
    path, _, name = attribute.rpartition(".")
    owner: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in path.split(".") if path else ():
        owner = getattr(owner, part)
    return owner, name


def _find_targets(patches: list[Patch]) -> list[_Applied]:
    targets, missing = [], []
    for patch in patches:
        try:
            owner, name = _owner(patch.module, patch.attribute)
        except (ImportError, AttributeError):
            missing.append(patch.target)
            continue
        # Not getattr: a property or a static method has to be restored as it is, and an inherited
        # attribute belongs to the base class.
        stock = vars(owner).get(name, _ABSENT)
        if stock is _ABSENT and patch.required:
            missing.append(patch.target)
        if stock is _ABSENT and patch.wraps and not patch.where_absent:
            continue
        targets.append(_Applied(patch, owner, name, stock))
    if missing:
        raise ActivationError(
            f"This Paddle, version {_paddle_version()}, lacks names that paddle_ipu replaces: "
            f"{', '.join(missing)}. Nothing was patched. Install one of Paddle "
            f"{_known_versions()} as released, or a paddle_ipu made for this one."
        )
    return targets


def _replacements(targets: list[_Applied]) -> list[object]:
    """The replacements of rows; copies of one original get one and the same replacement."""
    made: dict[tuple[int, int], object] = {}
    replacements: list[object] = []
    for applied in targets:
        patch = applied.patch
        key = (id(patch.replacement), id(applied.original))
        if key not in made:
            new = patch.replacement
            made[key] = new(applied.original) if patch.wraps else new
            if not patch.wraps:
                _check_form(patch, applied.original, new)
            _leave_unconverted(made[key])
        replacements.append(made[key])
    return replacements


def _leave_unconverted(replacement: object) -> None:
    """Marks a replacement so that ``paddle.jit.to_static`` calls it as it calls Paddle's own.

    It rewrites the source of all functions that are neither Paddle's nor marked.
    """
    import paddle

    function = replacement.__func__ if isinstance(replacement, staticmethod) else replacement
    if isinstance(function, types.FunctionType):
        paddle.jit.not_to_static(function)


def _check_form(patch: Patch, stock: object, new: object) -> None:
    """Checks that a Python function or class has the parameters that its replacement has.

    Raises:
        ActivationError: it has others.
    """
    if not all(isinstance(each, types.FunctionType) or type(each) is type for each in (stock, new)):
        return
    expected = list(inspect.signature(new).parameters)  # type: ignore[arg-type]
    got = list(inspect.signature(stock).parameters)  # type: ignore[arg-type]
    if got != expected:
        raise ActivationError(
            f"{patch.target} has the parameters {', '.join(got)}; its replacement "
            f"{patch.replacement_name} expects {', '.join(expected)}. Nothing was patched. Install "
            f"one of Paddle {_known_versions()} as released, or a paddle_ipu made for this one."
        )
