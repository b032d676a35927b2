"""Convolutions and products by oneDNN give what NumPy gives in float64, however cut."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.library import Spec
from tests.unit.xla import convolutions
from tests.unit.xla.convolutions import LARGE, ONE, PLAIN, WEIGHTY

Array = np.ndarray[Any, Any]

COMPILER = shutil.which(str(sysconfig.get_config_var("CC")).split()[0])

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no oneDNN here: {library.why_not()}"
)


@st.composite
def _specs(draw: st.DrawFn) -> Spec:
    groups = draw(st.sampled_from([1, 1, 1, 2, 8]))
    kernel = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    gap = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    reach = [(k - 1) * g + 1 for k, g in zip(kernel, gap, strict=True)]
    return Spec(
        images=draw(st.integers(1, 5)),
        channels=groups * draw(st.integers(1, 9)),
        height=draw(st.integers(max(1, reach[0] - pads[0] - pads[2]), 9)),
        width=draw(st.integers(max(1, reach[1] - pads[1] - pads[3]), 9)),
        results=groups * draw(st.integers(1, 9)),
        groups=groups,
        kernel_height=kernel[0],
        kernel_width=kernel[1],
        stride_y=draw(st.integers(1, 3)),
        stride_x=draw(st.integers(1, 3)),
        gap_y=gap[0],
        gap_x=gap[1],
        top=pads[0],
        left=pads[1],
        bottom=pads[2],
        right=pads[3],
        activation=draw(st.integers(0, len(library.ACTIVATIONS) - 1)),
        has_bias=draw(st.integers(0, 1)),
        has_addend=draw(st.integers(0, 1)),
        parts=draw(st.integers(1, 5)),
    )


@settings(max_examples=60, deadline=None)
@given(spec=_specs())
def test_a_convolution_is_that_of_numpy(spec: Spec) -> None:
    if library.packed(spec) is not None:
        convolutions.check(spec)


def test_padding_by_a_whole_kernel_is_right_or_refused() -> None:
    strip = replace(PLAIN, images=4, channels=9, results=4, height=5, width=1, kernel_width=1)
    spec = replace(strip, stride_y=3, stride_x=3, top=0, left=2, bottom=0, gap_x=2, parts=4)
    if library.packed(spec) is not None:
        convolutions.check(spec)


@pytest.mark.parametrize("changed", [{}, {"results": 1}, {"channels": 3}], ids=str)
def test_a_result_one_column_wide_is_right_or_refused(changed: dict[str, int]) -> None:
    strip = replace(PLAIN, channels=1, height=3, width=3, kernel_height=1, top=0, bottom=0, left=0)
    spec = replace(strip, right=0, stride_x=2, has_bias=0, **changed)
    if library.packed(spec) is not None:
        convolutions.check(spec)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"parts": 1},
        {"images": 7, "parts": 3},
        {"images": 1, "parts": 4},
        {"stride_y": 2, "stride_x": 2},
        ONE,
        {**ONE, "stride_y": 2, "stride_x": 2, "has_addend": 1, "height": 64, "width": 41},
        {**ONE, "channels": 1100, "has_addend": 1},
        {**ONE, "channels": 1100, "results": 1200, "height": 3, "width": 3, "has_addend": 1},
        {**ONE, "channels": 1100, "results": 1000, "height": 1, "width": 1, "has_addend": 1},
        {**ONE, "channels": 1024, "results": 200, "height": 2, "parts": 4, "activation": 5},
        {**ONE, "channels": 9000, "results": 33, "height": 1, "width": 1},
        {**ONE, "channels": 9000, "results": 65, "height": 1, "width": 1, "parts": 16},
        {**ONE, "channels": 1024},
        {**ONE, "channels": 1024, "results": 128},
        {**ONE, "results": 61, "activation": 1},
        {"images": 5, "top": 0, "left": 2, "bottom": 2, "right": 0},
        {"channels": 256, "results": 256, "height": 3, "width": 3, "stride_y": 2, "has_addend": 1},
        {"groups": 8, "channels": 64},
    ],
    ids=str,
)
def test_what_threads_share_is_put_together(changed: dict[str, int]) -> None:
    spec = replace(LARGE, **changed)
    assert library.packed(spec) is not None
    convolutions.check(spec)


@pytest.mark.parametrize(
    "activation", range(len(library.ACTIVATIONS)), ids=lambda i: library.ACTIVATIONS[i] or "none"
)
def test_activations_follow_the_sum(activation: int) -> None:
    convolutions.check(replace(PLAIN, activation=activation, has_addend=1))


@pytest.mark.parametrize(
    "activation", range(len(library.ACTIVATIONS)), ids=lambda i: library.ACTIVATIONS[i] or "none"
)
def test_what_is_no_number_stays_none_but_for_relu(activation: int) -> None:
    spec = replace(PLAIN, activation=activation)
    x, weights, bias, addend = convolutions.numbers(spec)
    x[1, 2, 3, 4] = np.nan
    found = convolutions.given(spec, x, weights, bias, addend)
    reached = found[1, 1:4, 2:5]
    if library.ACTIVATIONS[activation] == "Relu":
        # Paddle's CPU kernel of relu makes zero of it too.
        assert (reached == 0).all()
    else:
        assert np.isnan(reached).all()
    assert np.isfinite(found[0]).all()


@pytest.mark.parametrize("changed", [{}, ONE, {"stride_y": 2}], ids=str)
def test_runs_give_the_same_bits(changed: dict[str, int]) -> None:
    spec = replace(LARGE, images=3, **changed)
    arrays = convolutions.numbers(spec)
    first = convolutions.given(spec, *arrays)
    for _ in range(5):
        np.testing.assert_array_equal(convolutions.given(spec, *arrays), first)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "results", [16, 61, 256, 203], ids=["whole", "odd", "in chunks", "in unequal chunks"]
)
def test_weights_are_packed_and_unpacked(results: int, stride: int) -> None:
    spec = replace(WEIGHTY, results=results, images=8, stride_y=stride)
    _, weights, _, _ = convolutions.numbers(spec)
    packed = convolutions.packed(spec, weights)
    np.testing.assert_array_equal(library.unpack(spec, packed, weights.shape), weights)


def test_weights_of_another_size_are_refused() -> None:
    x, _, bias, _ = convolutions.numbers(PLAIN)
    run = jax.jit(lambda *arrays: library.convolved(PLAIN, *arrays, None))
    with pytest.raises(Exception, match="weights of another layout"):
        run(x, jnp.zeros(7), bias)


@pytest.mark.parametrize(("rows", "channels", "results"), [(4, 900, 500), (200, 128, 32)])
def test_small_products_one_after_the_other(rows: int, channels: int, results: int) -> None:
    """Runs that follow at once are shared out otherwise than the first."""
    spec = replace(PLAIN, **ONE, images=1, height=rows, width=1, channels=channels, results=results)
    x, weights, bias, addend = convolutions.numbers(spec)
    run = jax.jit(lambda *given: library.convolved(spec, *given, None))
    packed = jax.device_put(convolutions.packed(spec, weights))
    inputs = [x * factor for factor in np.float32([1, 2, -3])]
    expected = [convolutions.expected(spec, each, weights, bias, addend) for each in inputs]
    for at in range(300):
        found = np.asarray(run(inputs[at % 3], packed, bias))
        np.testing.assert_allclose(found, expected[at % 3], rtol=1e-3, atol=1e-3)


def test_threads_run_the_same_product_at_a_time() -> None:
    arrays = [convolutions.numbers(LARGE, seed) for seed in range(4)]
    run = jax.jit(lambda *given: library.convolved(LARGE, *given, None))
    packed = [convolutions.packed(LARGE, weights) for _, weights, _, _ in arrays]
    expected = [convolutions.expected(LARGE, *item) for item in arrays]
    wrong: list[int] = []

    def many(index: int) -> None:
        x, _, bias, _ = arrays[index]
        for _ in range(20):
            found = np.asarray(run(x, packed[index], bias))
            if not np.allclose(found, expected[index], rtol=1e-3, atol=1e-3):
                wrong.append(index)

    threads = [threading.Thread(target=many, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("counted", [1 << 24, 1000])
def test_batches_of_any_size_share_their_weights(
    counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_EXACT_INTEGERS", counted)
    are_alike, spec = library.are_alike.__wrapped__, replace(PLAIN, channels=64, results=64)
    assert are_alike(spec, replace(spec, images=8))
    assert not are_alike(spec, replace(spec, kernel_width=2))
    # In chunks for two threads, whole for one: as many numbers, in another order or not.
    whole, (_, weights, _, _) = replace(WEIGHTY, parts=1), convolutions.numbers(WEIGHTY)
    is_same = np.array_equal(
        convolutions.packed(WEIGHTY, weights), convolutions.packed(whole, weights)
    )
    assert are_alike(WEIGHTY, whole) == is_same


@pytest.mark.parametrize(
    ("is_library", "why"),
    [(False, "cannot be loaded: .*too short"), (True, "was built from other sources")],
)
def test_a_library_that_does_not_fit_is_told(
    is_library: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "_kernels.so"
    if is_library:
        path.symlink_to(next(Path(np.__file__).parent.rglob("_multiarray_umath*.so")))
    else:
        path.write_bytes(b"")
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    assert re.match(rf"{re.escape(path.name)} {why}", library._opened.__wrapped__())


_NEWER = r"""
#include "xla/ffi/api/c_api.h"

const char* paddle_ipu_onednn_error() { return ""; }
long paddle_ipu_onednn_packed(const long* spec) { return -1; }
int paddle_ipu_onednn_open(const char* path) { return 30000; }

XLA_FFI_Error* paddle_ipu_onednn_convolution(XLA_FFI_CallFrame* call) {
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)call->extension_start)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR + 1;
  metadata->traits = 0;
  return 0;
}
"""
"""A library whose headers have a newer version of XLA's interface."""


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_a_library_for_a_newer_jaxlib_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "newer.c"
    lengths = [f"int {name}() {{ return {count}; }}" for name, count in library.SPECS.items()]
    others = [
        f"XLA_FFI_Error* {name}(XLA_FFI_CallFrame* call) {{ return 0; }}"
        for name in library.TARGETS[1:]
    ]
    source.write_text("\n".join([_NEWER, *lengths, *others]))
    path = tmp_path / "_kernels.so"
    command = [str(COMPILER), "-fPIC", "-shared", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([*command, str(source), "-o", str(path)], check=True, timeout=60)
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    why = library._opened.__wrapped__()
    assert isinstance(why, str)
    assert re.match(
        rf"{re.escape(path.name)} was built with a jaxlib that this one does not fit; update jax, "
        "or install paddle_ipu again with --no-build-isolation: .*API version",
        why,
    )


@pytest.mark.parametrize(
    "activation", range(len(library.ACTIVATIONS)), ids=lambda i: library.ACTIVATIONS[i] or "none"
)
@pytest.mark.parametrize("results", [48, 61, 256], ids=["whole", "odd", "in chunks"])
def test_a_matrix_is_packed_as_it_is(results: int, activation: int) -> None:
    spec = replace(LARGE, channels=512, results=results, activation=activation, **ONE)
    _, weights, _, _ = convolutions.numbers(spec)
    matrix = weights.reshape(results, 512).T.copy()
    packed = convolutions.packed(spec, matrix)
    np.testing.assert_array_equal(packed, convolutions.packed(spec, weights))
    np.testing.assert_array_equal(library.unpack(spec, packed, matrix.shape), matrix)
