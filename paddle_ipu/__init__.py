"""Gives stock PaddlePaddle its IPU backend; importing it activates the plugin.

Public names are resolved on first use, so that importing this package stays cheap.
"""

from __future__ import annotations

import os
import sys

import _paddle_ipu_autoload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddle_ipu import errors, popart, serving
    from paddle_ipu.activation.plugin import activate, deactivate, is_active
    from paddle_ipu.compiler.custom_ops import register_custom_op
    from paddle_ipu.compiler.onnx_export import export
    from paddle_ipu.compiler.predictions import plan, report, smallest_pod
    from paddle_ipu.compiler.progress import CompileBar
    from paddle_ipu.verification.verify import verify

__version__ = "0.1.0"

__all__ = [
    "CompileBar",
    "activate",
    "deactivate",
    "errors",
    "export",
    "is_active",
    "plan",
    "popart",
    "register_custom_op",
    "report",
    "serving",
    "smallest_pod",
    "verify",
]

_PUBLIC_NAMES = {
    "CompileBar": "paddle_ipu.compiler.progress:CompileBar",
    "activate": "paddle_ipu.activation.plugin:activate",
    "deactivate": "paddle_ipu.activation.plugin:deactivate",
    "errors": "paddle_ipu.errors",
    "export": "paddle_ipu.compiler.onnx_export:export",
    "is_active": "paddle_ipu.activation.plugin:is_active",
    "plan": "paddle_ipu.compiler.predictions:plan",
    "popart": "paddle_ipu.popart",
    "register_custom_op": "paddle_ipu.compiler.custom_ops:register_custom_op",
    "report": "paddle_ipu.compiler.predictions:report",
    "serving": "paddle_ipu.serving",
    "smallest_pod": "paddle_ipu.compiler.predictions:smallest_pod",
    "verify": "paddle_ipu.verification.verify:verify",
}


def __getattr__(name: str) -> object:
    place = _PUBLIC_NAMES.get(name)
    if place is None:
        raise AttributeError(f"module 'paddle_ipu' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = place.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC_NAMES})


def _check_links() -> None:
    """A checkout without symbolic links has text files where two packages should be."""
    for name in ("ops", "passes"):
        path = os.path.join(os.path.dirname(__file__), name)
        if os.path.isfile(path):
            from paddle_ipu.errors import ActivationError

            raise ActivationError(
                f"{path} is a text file, expected a symbolic link to the folder ../{name}: the "
                "source was unpacked or checked out without support for symbolic links. Clone it "
                "with git (on Windows with core.symlinks=true), or install a wheel."
            )


def _activate_now_or_on_import() -> None:
    if "paddle" not in sys.modules:
        _paddle_ipu_autoload.wait_for_paddle()
    elif not _paddle_ipu_autoload.activating:
        from paddle_ipu.activation import plugin

        plugin.activate()


_check_links()
_activate_now_or_on_import()
