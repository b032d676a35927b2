"""Patches Paddle by the table of ``patch_table.py``: all checked first, and reversible."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import _paddle_ipu_autoload
from paddle_ipu.activation import root_logger
from paddle_ipu.activation.patch import SUPPORTED_VERSIONS, Patch
from paddle_ipu.dygraph import left_on_cpu
from paddle_ipu.errors import ActivationError
from paddle_ipu.legacy import fluid_import

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
        from paddle_ipu.activation import zlib_order

        zlib_order.repair()
    found = _find_targets(patches)
    replacements = _resolve(found)
    for applied, replacement in zip(found, replacements, strict=True):
        setattr(applied.owner, applied.name, replacement)
        _applied.append(applied)
    from paddle_ipu.runtime import shared_runs

    shared_runs.register(_share_runs)
    fluid_import.remember()
    root_logger.release()


def deactivate() -> None:
    """Restores every patched name exactly; before Paddle is imported, stops waiting for it."""
    _paddle_ipu_autoload.stop_waiting()
    root_logger.restore()
    left_on_cpu.rest()
    while _applied:
        applied = _applied.pop()
        if applied.original is _ABSENT:
            delattr(applied.owner, applied.name)
        else:
            setattr(applied.owner, applied.name, applied.original)
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
        made = f"made by `{row.told}`" if row.wraps else f"`{row.told}`"
        required = "yes" if row.required else "no"
        versions = ", ".join(row.versions)
        lines.append(f"| `{row.target}` | {made} | {row.reason} | {required} | {versions} |")
    return "\n".join(lines) + "\n"


def _share_runs(program: Any, values: Any) -> None:
    from paddle_ipu.serving.shared_runs import share

    share(program, values)


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
    return [row for row in _table() if major_minor in row.versions]


def _table() -> Sequence[Patch]:
    """The rows; all that is put into Paddle is imported for it."""
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
        if stock is _ABSENT and patch.wraps and not patch.where_absent:
            continue
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
    made: dict[tuple[int, int], object] = {}
    replacements: list[object] = []
    for applied in found:
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
    """Has ``paddle.jit.to_static`` call what stands for a function of Paddle, as it calls Paddle's.

    It rewrites the source of all functions that are neither Paddle's nor marked.
    """
    import paddle

    function = replacement.__func__ if isinstance(replacement, staticmethod) else replacement
    if isinstance(function, types.FunctionType):
        paddle.jit.not_to_static(function)


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
            f"{patch.told} expects {', '.join(expected)}. Nothing was patched. Install one "
            f"of Paddle {_versions_in_words()} as released, or a paddle_ipu made for this one."
        )
