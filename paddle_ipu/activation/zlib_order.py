"""Python's `zlib` after Paddle 2.6: links it anew where it was loaded in the wrong order.

Paddle 2.6's library holds a zlib of its own and shows its functions. A system zlib that is loaded
together with it, and not before, calls into them; the two disagree about their state, and the next
`zlib.decompress` (importing JAX needs one) kills the process. A start hook or `import paddle_ipu`
before `import paddle` avoids that by importing `zlib` first. For the other order fresh copies of
both libraries are loaded here, and the functions of the module `zlib` become those of the copy.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

from paddle_ipu.errors import ActivationError

_MAPS = Path("/proc/self/maps")
_repaired = False


def repair() -> bool:
    """Makes Python's `zlib` safe to call; True if that took a fresh copy of it.

    Raises:
        ActivationError: it is not safe, and no copy can be loaded.
    """
    global _repaired
    import zlib

    library = _loaded_library()
    extension = getattr(zlib, "__file__", None)
    # Where Python has zlib linked in, no library can come between.
    if _repaired or library is None or extension is None or not _came_after_paddle():
        return False
    copies = [_copy(library), _copy(extension)]
    # Not /proc/self, and both at once: the loader takes one path for one library.
    paths = [f"/proc/{os.getpid()}/fd/{copy}" for copy in copies]
    try:
        # First among its own symbols, and ahead of the library that was there.
        ctypes.CDLL(paths[0], mode=os.RTLD_NOW | os.RTLD_GLOBAL | os.RTLD_DEEPBIND)
        loader = importlib.machinery.ExtensionFileLoader("zlib", paths[1])
        spec = importlib.util.spec_from_loader("zlib", loader)
        assert spec is not None
        fresh = importlib.util.module_from_spec(spec)
        loader.exec_module(fresh)
    except (OSError, ImportError) as error:
        raise ActivationError(
            f"Paddle was imported before Python's zlib, which cannot be used any more in this "
            f"process, and a copy of it cannot be loaded: {error}. Write `import paddle_ipu` "
            "before `import paddle`, or install paddle_ipu with pip: it then loads by itself."
        ) from error
    finally:
        for copy in copies:
            os.close(copy)
    # In place: gzip, zipfile and everything else hold the module.
    for name, value in vars(fresh).items():
        if not name.startswith("__"):
            setattr(zlib, name, value)
    _repaired = True
    return True


def _came_after_paddle() -> bool:
    order = list(sys.modules)
    return order.index("zlib") > order.index("paddle.base.libpaddle")


def _loaded_library() -> str | None:
    """The file of the system's zlib in this process, None where there is none to be found."""
    try:
        maps = _MAPS.read_text()
    except OSError:
        # Other systems have no /proc, and look a library's functions up by its name.
        return None
    for line in maps.splitlines():
        path = line[line.find("/") :] if "/" in line else ""
        if os.path.basename(path).startswith("libz.so"):
            return path
    return None


def _copy(path: str) -> int:
    """The file's content as a file in memory, opened."""
    copy = os.memfd_create(os.path.basename(path))
    with os.fdopen(os.dup(copy), "wb") as file:
        file.write(Path(path).read_bytes())
    return copy
