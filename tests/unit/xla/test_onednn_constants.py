"""The numbers in ``onednn.h`` are those of oneDNN in Paddle's wheel.

The wheel lacks the headers that define them, so the library itself is asked for its values' names.
"""

from __future__ import annotations

import ctypes
import re

import pytest

from paddle_ipu.xla.kernels import library

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no oneDNN here: {library.why_not()}"
)

HEADER = (library._FOLDER / "onednn" / "onednn.h").read_text()
CONSTANTS = {
    name: int(value)
    for value, names in re.findall(r"constexpr int k\w+ = (\d+); +// (.+)", HEADER)
    for name in names.split(", ")
}
"""By oneDNN's names."""

NAMING = {
    "dnnl_cpu": ("dnnl_engine_kind2str", "cpu"),
    "dnnl_f32": ("dnnl_dt2str", "f32"),
    "dnnl_data_type_undef": ("dnnl_dt2str", "undef"),
    "dnnl_format_tag_any": ("dnnl_fmt_tag2str", "any"),
    "dnnl_forward_inference": ("dnnl_prop_kind2str", "forward_inference"),
    "dnnl_forward_training": ("dnnl_prop_kind2str", "forward_training"),
    "dnnl_convolution_direct": ("dnnl_alg_kind2str", "convolution_direct"),
    "dnnl_scratchpad_mode_user": ("dnnl_scratchpad_mode2str", "user"),
    "dnnl_eltwise_relu": ("dnnl_alg_kind2str", "eltwise_relu"),
    "dnnl_eltwise_gelu_tanh": ("dnnl_alg_kind2str", "eltwise_gelu_tanh"),
    "dnnl_eltwise_gelu_erf": ("dnnl_alg_kind2str", "eltwise_gelu_erf"),
    "dnnl_eltwise_hardswish": ("dnnl_alg_kind2str", "eltwise_hardswish"),
    "dnnl_eltwise_swish": ("dnnl_alg_kind2str", "eltwise_swish"),
}
"""The function of oneDNN that names values of a type, and the name that it must give."""

UNNAMED = {
    "dnnl_stream_in_order",
    "dnnl_query_weights_md",
    "dnnl_query_diff_weights_md",
    "dnnl_query_scratchpad_md",
    "dnnl_query_impl_info_str",
    "DNNL_ARG_SRC",
    "DNNL_ARG_FROM",
    "DNNL_ARG_DST",
    "DNNL_ARG_TO",
    "DNNL_ARG_WEIGHTS",
    "DNNL_ARG_BIAS",
    "DNNL_ARG_SCRATCHPAD",
    "DNNL_ARG_DIFF_SRC",
    "DNNL_ARG_DIFF_DST",
    "DNNL_ARG_DIFF_WEIGHTS",
}
"""Of types that oneDNN has no names for; without them no convolution of test_onednn.py runs."""


def test_every_constant_says_which_of_onednns_it_is() -> None:
    assert len(re.findall("constexpr int", HEADER)) == len(
        re.findall(r"constexpr int k\w+ = \d+; +// (?:dnnl|DNNL)_\w+", HEADER)
    )
    assert set(CONSTANTS) == set(NAMING) | UNNAMED


@pytest.mark.parametrize("name", NAMING)
def test_a_constant_is_onednns(name: str) -> None:
    path = library._onednn()
    assert path is not None
    function, expected = NAMING[name]
    named = getattr(ctypes.CDLL(str(path)), function)
    named.restype = ctypes.c_char_p
    assert named(CONSTANTS[name]).decode() == expected
