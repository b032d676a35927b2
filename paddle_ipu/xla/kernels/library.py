"""Convolutions by oneDNN and by kernels beside it, as JAX functions; the library they are in.

The compiled half, entered by ``kernels.cc``, is built with the package where there is a C++
compiler. Without it, or without oneDNN in Paddle's wheel, XLA's own convolutions run.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import math
import os
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla import process

SETTING = "PADDLE_IPU_ONEDNN"
"""The variable of the environment that turns oneDNN off, where it is 0."""

ACTIVATIONS = ("", "Relu", "GeluErf", "Gelu")
"""PopART's operators whose work is done with a product's, by the number that kernels.cc has."""

_COUNTED = 1 << 24
"""How far float32 counts."""

_TARGET = "paddle_ipu_onednn_convolution"
ATTENTION_TARGET = "paddle_ipu_attention"
"""The name under which XLA knows the kernel of avx512/attention.cc."""

ATTENTION_NUMBERS = 29
"""How many numbers say what that is to do."""

SOFTMAX_TARGET = "paddle_ipu_softmax"
"""The name under which XLA knows the kernel of avx512/softmax.cc."""

SOFTMAX_NUMBERS = 3
"""How many numbers say what that is to do."""

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Spec:
    """A convolution of x [images, height, width, channels] in float32, as kernels.cc reads it.

    Attributes:
        results: channels of the result.
        gap_y: distance of the kernel's elements; so is `gap_x`.
        top: zeros around the data; so are `left`, `bottom` and `right`.
        activation: index in `ACTIVATIONS`.
        has_bias: 1 where a bias [results] is added.
        has_addend: 1 where an array of the result's shape is added.
        parts: among how many threads it is shared out.
    """

    images: int
    channels: int
    height: int
    width: int
    results: int
    groups: int
    kernel_height: int
    kernel_width: int
    stride_y: int
    stride_x: int
    gap_y: int
    gap_x: int
    top: int
    left: int
    bottom: int
    right: int
    activation: int
    has_bias: int
    has_addend: int
    parts: int

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """int64 [20]."""
        return np.asarray(astuple(self), np.int64)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the result: [images, height, width, results]."""
        reach_y = (self.kernel_height - 1) * self.gap_y + 1
        reach_x = (self.kernel_width - 1) * self.gap_x + 1
        height = (self.height + self.top + self.bottom - reach_y) // self.stride_y + 1
        width = (self.width + self.left + self.right - reach_x) // self.stride_x + 1
        return self.images, height, width, self.results

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Of the weights that a model has: [results, channels / groups, height, width]."""
        return self.results, self.channels // self.groups, self.kernel_height, self.kernel_width


def threads() -> int:
    """How many of XLA's threads share a product out among themselves."""
    return len(os.sched_getaffinity(0))


def version() -> str | None:
    """oneDNN's version where its kernels can be used in this process, else None."""
    opened = _opened()
    return opened.version if isinstance(opened, _Opened) else None


def has_attention() -> bool:
    """Whether the kernels of avx512/ can be used here, on this machine."""
    opened = _opened()
    return isinstance(opened, _Opened) and opened.has_attention


def why_not() -> str | None:
    """Why oneDNN's kernels cannot be used in this process; None where they can."""
    opened = _opened()
    return None if isinstance(opened, _Opened) else opened


def packed(spec: Spec) -> int | None:
    """How many floats the weights of `spec` are in the layout of its kernel.

    None where oneDNN cannot be used, or there is no fast kernel.
    """
    opened = _opened()
    if not isinstance(opened, _Opened):
        return None
    count = int(opened.library.paddle_ipu_onednn_packed(_pointer(spec.numbers)))
    return None if count < 0 else count


@functools.lru_cache(maxsize=4096)
def are_alike(spec: Spec, other: Spec) -> bool:
    """Whether packed weights of one are also those of the other."""
    if spec.weights_shape != other.weights_shape or packed(spec) != packed(other):
        return False
    # Layouts are not told apart for us; numbers that are all different do, in two
    # halves, since float32 counts to 2**24 only.
    places = np.arange(math.prod(spec.weights_shape)).reshape(spec.weights_shape)
    return all(
        np.array_equal(_laid_out(spec, half), _laid_out(other, half))
        for half in (places % _COUNTED, places // _COUNTED)
    )


def _laid_out(spec: Spec, weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = np.empty(packed(spec) or 0, np.float32)
    pack(spec, weights, found)
    return found


def pack(spec: Spec, weights: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> None:
    """Writes weights in the layout of the kernel.

    Args:
        weights: float32 [M, C / groups, height, width], or a matrix [C, M].
        found: float32 [packed], where they are written.
    """
    _convert(spec, np.ascontiguousarray(weights, np.float32), found, back=False)


def unpack(spec: Spec, array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The inverse of :func:`pack`, for weights of `shape`."""
    plain = np.empty(shape, np.float32)
    _convert(spec, plain, np.ascontiguousarray(array, np.float32), back=True)
    return plain


def convolved(spec: Spec, x: Any, weights: Any, bias: Any, addend: Any) -> Any:
    """The result of a spec.

    Args:
        x: float32 [images, height, width, channels].
        weights: packed.
        bias: float32 [results], where the spec has one.
        addend: float32 of the result's shape, where the spec has one.
    """
    arguments = [x, weights]
    if spec.has_bias:
        arguments.append(bias)
    if spec.has_addend:
        arguments.append(addend)
    kind = jax.ShapeDtypeStruct(spec.shape, jnp.float32)  # type: ignore[no-untyped-call]
    aliases = {len(arguments) - 1: 0} if spec.has_addend else {}
    call = jax.ffi.ffi_call(_TARGET, kind, input_output_aliases=aliases)
    return call(*arguments, spec=spec.numbers)


def _convert(
    spec: Spec, plain: np.ndarray[Any, Any], found: np.ndarray[Any, Any], back: bool
) -> None:
    library = _library()
    done = library.paddle_ipu_onednn_pack(
        _pointer(spec.numbers), _pointer(plain), _pointer(found), int(plain.ndim == 2), int(back)
    )
    if not done:
        raise RuntimeError(f"oneDNN could not lay out weights: {_error(library)}")


def _pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _error(library: ctypes.CDLL) -> str:
    return str(library.paddle_ipu_onednn_error().decode())


@dataclass(frozen=True, slots=True)
class _Opened:
    library: ctypes.CDLL
    version: str
    has_attention: bool


def _library() -> ctypes.CDLL:
    opened = _opened()
    assert isinstance(opened, _Opened), opened
    return opened.library


@functools.cache
def _opened() -> _Opened | str:
    """The compiled half with oneDNN's version, or why it cannot be used."""
    process.prepare()
    if os.environ.get(SETTING) == "0":
        return f"{SETTING} is 0"
    if jax.default_backend() != "cpu":
        return f"JAX runs on {jax.default_backend()}"
    paths = (_FOLDER / f"_kernels{end}" for end in importlib.machinery.EXTENSION_SUFFIXES)
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return "paddle_ipu was installed without a C++ compiler"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        # Built for another machine, or without what it needs here.
        return f"{path.name} cannot be loaded: {error}"
    numbers = getattr(library, "paddle_ipu_onednn_numbers", None)
    attention = getattr(library, "paddle_ipu_attention_numbers", None)
    softmax = getattr(library, "paddle_ipu_softmax_numbers", None)
    if (
        numbers is None
        or numbers() != len(fields(Spec))
        or attention is None
        or attention() not in (0, ATTENTION_NUMBERS)
        or softmax is None
        or softmax() != SOFTMAX_NUMBERS
    ):
        return f"{path.name} was built from other sources; install paddle_ipu again"
    library.paddle_ipu_onednn_error.restype = ctypes.c_char_p
    library.paddle_ipu_onednn_packed.restype = ctypes.c_int64
    found = _onednn()
    if found is None:
        return "Paddle's wheel has no oneDNN for this platform"
    number = int(library.paddle_ipu_onednn_open(os.fsencode(found)))
    if not number:
        return f"{found.name} of Paddle's wheel cannot be opened: {_error(library)}"
    functions = {
        _TARGET: library.paddle_ipu_onednn_convolution,
        ATTENTION_TARGET: library.paddle_ipu_attention,
        SOFTMAX_TARGET: library.paddle_ipu_softmax,
    }
    for name, function in functions.items():
        capsule = jax.ffi.pycapsule(function)  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    opened = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return _Opened(library, opened, has_attention=bool(attention()))


def _onednn() -> Path | None:
    """oneDNN's library in Paddle's wheel."""
    found = importlib.util.find_spec("paddle")
    if found is None or found.origin is None:
        return None
    return min((Path(found.origin).parent / "libs").glob("libdnnl.so*"), default=None)
