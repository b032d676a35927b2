"""``paddle.utils.cpp_extension.load`` where a custom operator has a half for PopART.

The half for Paddle's CPU compiles as always. A source that includes headers of Graphcore's SDK is
left out where there is none. Processes that build the same operators do so one after the other.
``paddle::Tensor(paddle::PlaceType::kCPU, shape)``, which Paddle 3.3 declares but does not define,
is defined in a header.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paddle_ipu.errors import BackendUnavailableError
from paddle_ipu.operating_system import file_locks
from paddle_ipu.runtime import target_selection

_LOG = logging.getLogger("paddle_ipu")
_told: list[Callable[[str], None]] = []


def when_written_for_paddle_2(tell: Callable[[str], None]) -> None:
    """Has `tell` called with what shows that a script is: it loads sources of the SDK."""
    _told[:] = [tell]


_SDK_HEADER = re.compile(
    r'^\s*#\s*include\s*[<"](?P<header>(?:popart|popops|poplin|popnn|poputil|poprand|poplar)/[^>"]+)',
    re.MULTILINE,
)
_OWN_HEADER = re.compile(r'^\s*#\s*include\s*"(?P<file>[^"]+)"', re.MULTILINE)
_SDK_LIBRARIES = frozenset(
    f"-l{library}"
    for library in (
        "gcl", "popart", "popfloat", "poplar", "poplin", "popnn", "popops", "poprand", "popsolver",
        "popsparse", "popsys", "poputil",
    )
)  # fmt: skip
_TENSOR_OF_PLACE = re.compile(
    r"\bTensor(?:\s+\w+)?\s*[({]\s*(?:[\w:]*Place\b|[\w:]*PlaceType|[\w.]+place\()"
)
_OLD_CONSTRUCTOR = "_ZN6paddle6TensorC1ERKN3phi5PlaceERKSt6vectorIlSaIlEE"
_CONSTRUCTORS = """\
#pragma once
#include "paddle/extension.h"
namespace paddle {
inline Tensor::Tensor(const Place& place) : Tensor(empty({0}, DataType::FLOAT32, place)) {}
inline Tensor::Tensor(const Place& place, const std::vector<int64_t>& shape)
    : Tensor(empty(shape, DataType::FLOAT32, place)) {}
}  // namespace paddle
"""
"""Of float32 until ``mutable_data<T>`` says otherwise, as in Paddle 2.0 to 3.2."""


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """``load`` for sources with a half for PopART, written for any Paddle since 2.0."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load(*args: Any, **keywords: Any) -> Any:
        arguments = signature.bind(*args, **keywords).arguments
        name = arguments["name"]
        folder = arguments.get("build_directory") or _default_folder()
        if not target_selection.sdk_installed():
            flags = arguments.get("extra_ldflags")
            kept, flags_kept = _without_sdk(name, arguments["sources"], flags or ())
            arguments["sources"] = kept
            if flags:
                arguments["extra_ldflags"] = flags_kept
        with _build_lock(name, folder):
            if _lacks_constructors(arguments["sources"]):
                flags = ["-include", _constructors_in(folder)]
                arguments["extra_cxx_cflags"] = [*(arguments.get("extra_cxx_cflags") or ()), *flags]
            return original(**arguments)

    return load


def _default_folder() -> str:
    """Where Paddle builds by default."""
    cache = os.path.join(os.path.expanduser("~"), ".cache", "paddle_extensions")
    return os.environ.get("PADDLE_EXTENSION_DIR", cache)


@contextlib.contextmanager
def _build_lock(name: str, folder: str) -> Iterator[None]:
    """Keeps other processes from building `name` in the same folder at the same time.

    Paddle writes ``<name>_setup.py`` and builds in place, so that ranks of one job, which all load
    the operators of one script, would write into each other's files. It makes the folder after a
    check of its own, which is a race too.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.lock"), "w") as lock:
        try:
            file_locks.lock(lock.fileno(), waits=True)
        except OSError as error:
            if error.errno not in file_locks.NO_LOCKS:
                raise
        yield


def _lacks_constructors(sources: Sequence[str]) -> bool:
    """Whether sources use what Paddle does not define; names in Windows' libraries are others."""
    if sys.platform == "win32":
        return False
    if not any(_TENSOR_OF_PLACE.search(_text(source)) for source in sources):
        return False
    from paddle.base import libpaddle

    return not hasattr(ctypes.CDLL(libpaddle.__file__), _OLD_CONSTRUCTOR)


def _constructors_in(folder: str) -> str:
    """Path of a header with the constructors, written where it is missing."""
    path = os.path.join(os.path.abspath(folder), "paddle_ipu_tensor_of_place.h")
    if _text(path) != _CONSTRUCTORS:
        whole = f"{path}.{os.getpid()}"
        with open(whole, "w", encoding="utf-8") as file:
            file.write(_CONSTRUCTORS)
        os.replace(whole, path)
    return path


def _without_sdk(
    name: str, sources: Sequence[str], flags: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The sources and flags of the linker that need nothing of Graphcore's SDK.

    One line tells of all others.

    Raises:
        BackendUnavailableError: no source is left.
    """
    needs = {source: header for source in sources if (header := _sdk_header(source))}
    libraries = [flag for flag in flags if flag in _SDK_LIBRARIES]
    if needs or libraries:
        files = [f"{os.path.basename(file)} (<{header}>)" for file, header in needs.items()]
        _LOG.warning(
            "%s: left out, since Graphcore's SDK is not installed: %s.",
            name,
            ", ".join((*files, *libraries)),
        )
    if needs:
        for tell in _told:
            tell(f"The script that loads {name}")
    kept = [source for source in sources if source not in needs]
    if needs and not kept:
        raise BackendUnavailableError(
            f"cpp_extension.load({name!r}): every source includes headers of Graphcore's SDK, "
            "which is not installed. Give that of the CPU kernel (PD_BUILD_OP) too."
        )
    return kept, [flag for flag in flags if flag not in libraries]


def _sdk_header(source: str, seen: frozenset[str] = frozenset()) -> str | None:
    """The first header of the SDK that a source file, or a file of its own, includes; else None."""
    text = _text(source)
    match = _SDK_HEADER.search(text)
    if match:
        return match["header"]
    folder = os.path.dirname(source)
    files = (os.path.join(folder, found["file"]) for found in _OWN_HEADER.finditer(text))
    headers = (_sdk_header(file, seen | {source}) for file in files if file not in seen | {source})
    return next(filter(None, headers), None)


def _text(path: str) -> str:
    """The text of a source file; "" where it cannot be read: the compiler reports why."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
