"""The compiled kernels: their library, and its convolutions as JAX functions.

Its entry points are in ``kernels.cc``. It is built with the package where there is a C++ compiler
and jaxlib, which has XLA's headers. Without it, or without oneDNN in Paddle's wheel, XLA's own
convolutions run.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import os
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.operating_system import platforms, processors
from paddle_ipu.xla import process

SETTING = "PADDLE_IPU_ONEDNN"
"""The variable of the environment that turns oneDNN off, where it is 0."""

ACTIVATIONS = ("", "Relu", "GeluErf", "Gelu", "HardSwish", "Swish")
"""What is fused with a convolution, by its number in plan.h: PopART's operators, and HardSwish, a
product of x and min(max(x / 6 + 1 / 2, 0), 1)."""

_EXACT_INTEGERS = 1 << 24
"""float32 has all integers up to here."""

_TARGET = "paddle_ipu_onednn_convolution"
TRAINING_TARGET = "paddle_ipu_onednn_training"
"""The name under which XLA knows the kernels of onednn/training.cc."""

ATTENTION_TARGET = "paddle_ipu_attention"
"""The name under which XLA knows the kernel of simd/attention.inc."""

HALF_PRODUCT_TARGET = "paddle_ipu_half_product"
"""The name under which XLA knows the kernel of simd/half_product.inc."""

ROUNDING_TARGET = "paddle_ipu_rounding"
"""The name under which XLA knows the kernel of simd/rounding.inc."""

CONCATENATION_TARGET = "paddle_ipu_concatenation"
"""The name under which XLA knows the kernel of memory/concatenation.cc."""

MOMENTS_TARGET = "paddle_ipu_moments"
GRADIENT_SUMS_TARGET = "paddle_ipu_gradient_sums"
"""The names under which XLA knows the kernels of simd/channel_sums.inc."""

Array = np.ndarray[Any, Any]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Spec:
    """A convolution of x [images, height, width, channels] in float32; the fields are plan.h's.

    A matrix product is a convolution with a kernel of one element.

    Attributes:
        results: channels of the result.
        groups: of channels.
        gap_y: distance of neighbouring kernel elements, likewise `gap_x`; 1 for no dilation.
        top: zeros around the data, likewise `left`, `bottom` and `right`.
        activation: index in `ACTIVATIONS`.
        has_bias: 1 where a bias [results] is added.
        has_addend: 1 where an array of the result's shape is added.
        parts: how many of XLA's threads may share it.
        lanes: floats of a vector of the kernel of ours that computes it, by Winograd's algorithm; 0
            for oneDNN.
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
    lanes: int = 0

    @property
    def numbers(self) -> Array:
        """int64 [21]."""
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


SPECS = {
    "paddle_ipu_onednn_numbers": len(fields(Spec)),
    "paddle_ipu_attention_numbers": 30,
    "paddle_ipu_half_product_numbers": 8,
    "paddle_ipu_rounding_numbers": 3,
    "paddle_ipu_concatenation_numbers": 2,
    "paddle_ipu_channel_numbers": 4,
}
"""Function of the library -> how many int64 numbers the spec is that it tells the length of."""

TARGETS = (
    _TARGET, TRAINING_TARGET, ATTENTION_TARGET, HALF_PRODUCT_TARGET, ROUNDING_TARGET,
    CONCATENATION_TARGET, MOMENTS_TARGET, GRADIENT_SUMS_TARGET,
)  # fmt: skip
"""What XLA calls, under the names of the library's functions."""


def threads() -> int:
    """How many of XLA's threads share a convolution or attention."""
    return processors.usable()


def version() -> str | None:
    """oneDNN's version where its kernels can be used in this process, else None."""
    opened = _opened()
    return opened.version if isinstance(opened, _Opened) else None


def lanes() -> int:
    """Floats of the longest vector of our kernels that may be used here.

    16 with AVX-512, 8 with AVX2, 0 where there is neither or no library. `ONEDNN_MAX_CPU_ISA`,
    which caps oneDNN's kernels, caps these too.
    """
    opened = _opened()
    return opened.lanes if isinstance(opened, _Opened) else 0


def why_not() -> str | None:
    """Why oneDNN's kernels cannot be used in this process; None where they can."""
    opened = _opened()
    return None if isinstance(opened, _Opened) else opened


def packed(spec: Spec) -> int | None:
    """How many floats the weights of `spec` are in the layout of its kernel.

    None where the kernels cannot be used, or the way is none for this convolution.
    """
    opened = _opened()
    if not isinstance(opened, _Opened):
        return None
    count = int(opened.library.paddle_ipu_onednn_packed(_pointer(spec.numbers)))
    return None if count < 0 else count


def trains(numbers: Array) -> bool:
    """Whether oneDNN has a fast kernel for the numbers of a convolution in training."""
    opened = _opened()
    return isinstance(opened, _Opened) and bool(
        opened.library.paddle_ipu_onednn_trains(_pointer(numbers))
    )


@functools.lru_cache(maxsize=4096)
def are_alike(spec: Spec, other: Spec) -> bool:
    """Whether weights packed for one spec are packed for the other."""
    if spec.weights_shape != other.weights_shape or packed(spec) != packed(other):
        return False
    # oneDNN does not say which layout it has chosen. Numbers that are all different show it when
    # they are packed: in two halves, since float32 has no more than 2**24 of them.
    numbers = np.arange(math.prod(spec.weights_shape)).reshape(spec.weights_shape)
    return all(
        np.array_equal(_packed_array(spec, half), _packed_array(other, half))
        for half in (numbers % _EXACT_INTEGERS, numbers // _EXACT_INTEGERS)
    )


def _packed_array(spec: Spec, weights: Array) -> Array:
    result = np.empty(packed(spec) or 0, np.float32)
    pack(spec, weights, result)
    return result


def pack(spec: Spec, weights: Array, out: Array) -> None:
    """Writes weights in the layout of the kernel.

    Args:
        spec: of the convolution.
        weights: float32 [M, C / groups, height, width], or a matrix [C, M].
        out: float32 [packed], where they are written.
    """
    _convert(spec, np.ascontiguousarray(weights, np.float32), out, back=False)


def unpack(spec: Spec, array: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of :func:`pack`, for weights of `shape`."""
    plain = np.empty(shape, np.float32)
    _convert(spec, plain, np.ascontiguousarray(array, np.float32), back=True)
    return plain


def convolved(
    spec: Spec,
    x: jax.Array,
    weights: jax.Array,
    bias: jax.Array | None,
    addend: jax.Array | None,
) -> jax.Array:
    """Calls the convolution of a spec.

    Args:
        spec: what is computed.
        x: float32 [images, height, width, channels].
        weights: in the layout of :func:`pack`.
        bias: float32 [results], where the spec has one.
        addend: float32 of the result's shape, where the spec has one; the result takes its memory.
    """
    arguments = [x, weights]
    if spec.has_bias and bias is not None:
        arguments.append(bias)
    if spec.has_addend and addend is not None:
        arguments.append(addend)
    kind = jax.ShapeDtypeStruct(spec.shape, jnp.float32)  # type: ignore[no-untyped-call]
    aliases = {len(arguments) - 1: 0} if spec.has_addend else {}
    call = jax.ffi.ffi_call(_TARGET, kind, input_output_aliases=aliases)
    result: jax.Array = call(*arguments, spec=spec.numbers)
    return result


def _convert(spec: Spec, plain: Array, packed: Array, back: bool) -> None:
    """Writes `packed` from `plain`, or `plain` from `packed` with `back`."""
    library = _library()
    done = library.paddle_ipu_onednn_pack(
        _pointer(spec.numbers), _pointer(plain), _pointer(packed), int(plain.ndim == 2), int(back)
    )
    if not done:
        raise RuntimeError(f"oneDNN could not lay out weights: {_error(library)}")


def _pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _error(library: ctypes.CDLL) -> str:
    return str(library.paddle_ipu_onednn_error().decode())


@dataclass(frozen=True, slots=True)
class _Opened:
    library: ctypes.CDLL
    version: str
    lanes: int


def _library() -> ctypes.CDLL:
    opened = _opened()
    assert isinstance(opened, _Opened), opened
    return opened.library


@functools.cache
def _opened() -> _Opened | str:
    """The library with oneDNN's version, or why it cannot be used."""
    process.prepare()
    if os.environ.get(SETTING) == "0":
        return f"{SETTING} is 0"
    if jax.default_backend() != "cpu":
        return f"JAX runs on {jax.default_backend()}"
    path = _FOLDER / "_kernels.so"
    here = platforms.this_platform()
    if not here.has_kernels:
        return f"paddle_ipu has no compiled kernels for {here.name}"
    if not path.exists():
        return "paddle_ipu was built without a C++ compiler, or without jaxlib for its headers"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        # Built for another machine, or without what it needs here.
        return f"{path.name} cannot be loaded: {error}"
    for name, count in SPECS.items():
        numbers = getattr(library, name, None)
        if numbers is None or numbers() != count:
            return f"{path.name} was built from other sources; install paddle_ipu again"
    library.paddle_ipu_onednn_error.restype = ctypes.c_char_p
    library.paddle_ipu_onednn_packed.restype = ctypes.c_int64
    onednn = _onednn()
    if onednn is None:
        return "Paddle's wheel has no oneDNN for this platform"
    number = int(library.paddle_ipu_onednn_open(os.fsencode(onednn)))
    if not number:
        return f"{onednn.name} of Paddle's wheel cannot be opened: {_error(library)}"
    for name in TARGETS:
        capsule = jax.ffi.pycapsule(getattr(library, name))  # type: ignore[no-untyped-call]
        try:
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        except RuntimeError as error:
            # XLA compares the version of its interface with that of the headers used.
            return (
                f"{path.name} was built with a jaxlib that this one does not fit; update jax, or "
                f"install paddle_ipu again with --no-build-isolation: {error}"
            )
    onednn_version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return _Opened(library, onednn_version, int(library.paddle_ipu_lanes()))


def _onednn() -> Path | None:
    """oneDNN's library in Paddle's wheel."""
    paddle = importlib.util.find_spec("paddle")
    if paddle is None or paddle.origin is None:
        return None
    return min((Path(paddle.origin).parent / "libs").glob("libdnnl.so*"), default=None)
