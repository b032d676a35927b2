"""Activates paddle_ipu when Paddle is imported; every Python start runs this, so it is tiny.

A ``.pth`` file in site-packages calls :func:`start`. Nothing but `sys` and `os`, which are loaded
by then, may be imported before Paddle is; even ``from __future__`` would cost a file read.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

activating = False
"""True while the hook imports paddle_ipu, which then must not activate by itself."""


class PaddleFinder:
    """A meta-path finder that knows one name, ``paddle``, and activates the plugin after it."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        if name != "paddle":
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = ActivatingLoader(spec)  # type: ignore[assignment]
                return spec
        return None


class ActivatingLoader:
    """Runs Paddle's own loader, takes itself out of Paddle's spec, activates the plugin."""

    def __init__(self, spec: "ModuleSpec") -> None:
        self.spec = spec
        self.loader: Any = spec.loader

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: "ModuleType") -> None:
        self.spec.loader = module.__loader__ = self.loader
        # Paddle 2.6's library holds a zlib of its own. A system zlib that is loaded after it calls
        # into it, and importing JAX then crashes.
        import zlib  # noqa: F401

        self.loader.exec_module(module)
        stop_waiting()
        _activate()


def _activate() -> None:
    """Patches Paddle; where that is impossible Paddle stays as it is, with one warning."""
    global activating
    activating = True
    try:
        from paddle_ipu.activation import plugin

        plugin.activate()
    except Exception as error:
        # paddle_ipu itself may be what failed to import, so its error type is looked up, not
        # imported. Anything else is a bug and must be seen.
        errors = sys.modules.get("paddle_ipu.errors")
        if errors is None or not isinstance(error, errors.ActivationError):
            raise
        import warnings

        warnings.warn(f"paddle_ipu stays inactive. {error}", RuntimeWarning, stacklevel=2)
    finally:
        activating = False


def wait_for_paddle() -> None:
    """Activates the plugin when Paddle gets imported; a second call changes nothing."""
    if not any(isinstance(finder, PaddleFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PaddleFinder())


def stop_waiting() -> None:
    """Takes the finder off the meta path; without one it does nothing."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, PaddleFinder)]


def start() -> None:
    """What the ``.pth`` file calls: waits for Paddle unless ``PADDLE_IPU_AUTOLOAD`` is ``0``."""
    if os.environ.get("PADDLE_IPU_AUTOLOAD") != "0":
        wait_for_paddle()
