"""Every row of the vocabulary against Paddle's own translation of ProgramDescs to PIR.

Each operator becomes a program of its own, written as a message. Paddle 3's ``translate_to_pir``
and ``frontend/pir.py`` make one dialect graph of it, ``frontend/program_desc.py`` another.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from paddle_ipu.frontend import legacy_forms, program_desc
from paddle_ipu.frontend.vocabulary.row import TABLE, Constant, Row, Slot
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import translated_operators
from tests.unit.frontend.desc_builder import DescBuilder, attribute_kinds, input_slots
from tests.unit.frontend.dialect_form import form

_AXIS = {"axis": -1}
_MATRIX = {"shape": [2, 3], "dtype": 5}
_LENGTHS = {"max_seqlen_q": 3, "max_seqlen_k": 4}
_NORM = {"epsilon": 0.5, "begin_norm_axis": 2}
_QUANTISED = {
    "quant_scale": 0.5,
    "quant_round_type": 1,
    "quant_max_bound": 7.0,
    "quant_min_bound": -7.0,
}
_SLICED = {"axes": [0], "starts": [0], "ends": [1], "steps": [1]}
_WINDOWS = {
    "kernel_sizes": [2, 2],
    "strides": [1, 1],
    "paddings": [0, 0, 0, 0],
    "dilations": [1, 1],
}

ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(legacy_forms.ALIGNED, _AXIS),
    "anchor_generator": {
        "anchor_sizes": [32.0],
        "aspect_ratios": [0.5],
        "stride": [16.0, 8.0],
        "variances": [0.1, 0.2],
    },
    "arg_max": {"axis": 1},
    "arg_min": {"axis": -2},
    "channel_shuffle": {"groups": 2},
    "crop_tensor": {"offsets": [0, 0, 0], "shape": [1, 2, 3]},
    "fold": {"output_sizes": [3, 4], **_WINDOWS},
    "frame": {"frame_length": 2, "hop_length": 1},
    "logspace": {"dtype": 5},
    "correlation": {
        "kernel_size": 1,
        "max_displacement": 2,
        "pad_size": 2,
        "stride1": 1,
        "stride2": 1,
    },
    "maxout": {"groups": 2},
    "overlap_add": {"hop_length": 1},
    "prior_box": {"min_sizes": [4.0], "aspect_ratios": [2.0], "variances": [0.1, 0.1, 0.2, 0.2]},
    "put_along_axis": {"Axis": 1, "Reduce": "add"},
    "reverse": {"axis": [0]},
    "segment_pool": {"pooltype": "MEAN"},
    "set_value": _SLICED,
    "shard_index": {"index_num": 20, "nshards": 2, "shard_id": 1},
    "temporal_shift": {"seg_num": 2, "shift_ratio": 0.125},
    "tril_indices": {"rows": 3, "cols": 4, "dtype": 3},
    "triu_indices": {"row": 3, "col": 4, "dtype": 3},
    "unfold": _WINDOWS,
    "unique": {"dtype": 3},
    "unique_consecutive": {"dtype": 3},
    "assign_value": {**_MATRIX, "fp32_values": [1.0, 2.5, 3.0, 4.0, 5.0, 6.0]},
    "batch_norm": {"is_test": False, "use_global_stats": False},
    "class_center_sample": {"num_classes": 9, "num_samples": 5, "nranks": 1},
    "cast": {"in_dtype": 5, "out_dtype": 3},
    "clip": {"min": -0.5, "max": 2.0},
    "clip_by_norm": {"max_norm": 0.5},
    "einsum": {"equation": "abc,bcd->ad"},
    "dequantize_abs_max": {"max_range": 3.0},
    "eye": {"num_rows": 3, "num_columns": 4},
    "fake_dequantize_max_abs": {"max_range": 3.0},
    "fill_constant": {"shape": [2, 3], "value": 1.5, "str_value": "1.5"},
    "fill_constant_batch_size_like": {"shape": [-1, 3], "str_value": ""},
    "flip": {"axis": [0]},
    "frobenius_norm": {"dim": [0, 1]},
    "fractional_max_pool2d": {"output_size": [2, 3], "kernel_size": [2, 2]},
    "fractional_max_pool3d": {"output_size": [2, 3, 2], "kernel_size": [2, 2, 2]},
    "fast_ln": {"epsilon": 0.5},
    "fast_rms_norm": {"epsilon": 0.5},
    "fused_bias_residual_layernorm": {**_NORM, **_QUANTISED, "residual_alpha": 0.5},
    "flash_attn_unpadded": {**_LENGTHS, "scale": 0.25},
    "flash_attn_v3": {
        "is_causal": True,
        "manual_set_pack_gqa": True,
        "num_splits": 2,
        "pack_gqa_": True,
        "sm_margin": 3,
        "softcap": 0.5,
        "softmax_scale": 0.25,
        "window_size_left": 4,
        "window_size_right": 5,
    },
    "flash_attn_varlen_qkvpacked": {**_LENGTHS, "scale": 0.25},
    "fused_dropout_add": {"p": 0.5, "is_test": True, "mode": "downscale_in_infer"},
    "fused_elemwise_activation": {"functor_list": ["relu", "elementwise_add"]},
    "fused_elemwise_add_activation": {"functor_list": ["relu", "elementwise_add"]},
    "fused_scale_bias_add_relu": {"exhaustive_search": False, "fuse_dual": True},
    "fusion_transpose_flatten_concat": {
        "concat_axis": 1,
        "flatten_axis": 1,
        "trans_axis": [0, 2, 1],
    },
    "fused_dot_product_attention": {"dropout_probability": 0.5, "scaling_factor": 0.25},
    "fused_rms_norm_ext": {"epsilon": 0.5},
    "fused_rms_norm_quant": {**_NORM, **_QUANTISED},
    "huber_loss": {"delta": 0.5},
    "lamb": {"weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6},
    "lars_momentum": {"mu": 0.9},
    "linspace": {"dtype": 5},
    "lp_pool2d": {"kernel_size": [2, 2], "pooling_type": "avg", "norm_type": 2.0},
    "log_loss": {"epsilon": 0.1},
    "matmul": {"alpha": 1.0},
    "cumprod": {"dim": 1, "exclusive": True, "reverse": True},
    "lu_solve": {"trans": "T"},
    "number_count": {"upper_range": 4},
    "matrix_power": {"n": 3},
    "max_pool2d_with_index": {"ksize": [2, 2]},
    "max_pool3d_with_index": {"ksize": [2, 2, 2]},
    "memory_efficient_attention": {
        "causal": True,
        "dropout_p": 0.5,
        "is_test": True,
        "max_seqlen_k": 3,
        "max_seqlen_q": 4,
        "scale": 0.25,
    },
    "momentum": {"mu": 0.9},
    "merged_momentum": {"mu": 0.9},
    "mul": {"x_num_col_dims": 2, "y_num_col_dims": 1},
    "one_hot": {"depth": 5},
    "one_hot_v2": {"depth": 5},
    "pad": {"paddings": [0, 1, 0, 1, 0, 1]},
    "pad3d": {"paddings": [0, 1, 0, 1, 0, 1]},
    "pool2d": {"ksize": [2, 2], "pooling_type": "max"},
    "pool3d": {"ksize": [2, 2, 2], "pooling_type": "avg"},
    "rms_norm": {"epsilon": 0.5},
    "rnn": {"mode": "LSTM"},
    "sequence_mask": {"out_dtype": 3},
    "skip_layernorm": _NORM,
    "slice": {"axes": [0], "starts": [0], "ends": [1]},
    "split": {"sections": [1, 1], "num": 0},
    "strided_slice": {"axes": [0], "starts": [0], "ends": [2], "strides": [2]},
    "take_along_axis": {"Axis": 1},
    "transpose": {"axis": [0, 2, 1]},
    "transpose2": {"axis": [0, 2, 1]},
    "norm": {"axis": 1, "epsilon": 0.5, "is_test": False},
    "polygamma": {"n": 2},
    "renorm": {"p": 1.5, "axis": 1, "max_norm": 2.0},
    "random": {"from": 1, "to": 7},
    "randint": {"low": 1, "high": 7, "seed": 0, "dtype": 5},
    "randperm": {"n": 5},
    "reshape2": {"shape": [2, 12]},
    "unpool": {"ksize": [2, 2], "output_size": [4, 4]},
    "unpool3d": {"ksize": [2, 2, 2], "output_size": [4, 4, 4]},
    "unstack": {"num": 2},
    "truncated_gaussian_random": {"shape": [2, 3], "a": -1.0, "b": 3.0},
    "uniform_random_batch_size_like": {"shape": [2, 3]},
    "variable_length_memory_efficient_attention": {
        "causal": True,
        "pre_cache_length": 2,
        "scale": 0.25,
    },
    "update_loss_scaling": {
        "decr_every_n_nan_or_inf": 2,
        "decr_ratio": 0.8,
        "incr_every_n_steps": 1000,
        "incr_ratio": 2.0,
    },
}
"""Attributes of an operator's program beside the defaults of its row."""

UNSAID: Mapping[str, Mapping[str, Any]] = {"put_along_axis": {"rounds_down": 0}}
"""Attributes that say in what Paddle 2 differs from Paddle 3; no program has them."""

WRITTEN_AS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "set_value_with_tensor": ("set_value", {}),
    "matrix_rank_tol": ("matrix_rank", {}),
    "split_with_num": ("split", {"num": 2, "sections": []}),
    "tril": ("tril_triu", {"lower": True}),
    "triu": ("tril_triu", {"lower": False}),
}
"""Rows that are no operator of ProgramDesc -> the operator, and its attributes, that become one."""

OLDER: Mapping[str, str] = {
    "reshape": "reshape2",
    "squeeze": "squeeze2",
    "top_k": "top_k_v2",
    "transpose": "transpose2",
    "unsqueeze": "unsqueeze2",
}
"""Operators that Paddle 3 does not translate -> the newer one that reads the same."""

WITHOUT_PROTO = frozenset({"fused_attention", "fused_feedforward"})
"""Operators that Paddle 3 translates, though on the CPU it does not declare them."""

READ_OTHERWISE = frozenset(
    {
        "assert", "assign_out_", "assign_value_", "batch_norm_", "expand",
        "full_with_tensor", "increment_", "repeat_interleave_with_tensor_index",
        "lookup_table", "mul", "one_hot", "sync_batch_norm", "sync_batch_norm_",
        "rnn", "merged_adam", "merged_momentum",
        "conv2d_transpose_bias", "lod_array_length", "read_from_array",
        "tensor_array_to_tensor", "write_to_array",
    }
)  # fmt: skip
"""Rows of ``test_program_desc``: in place, by tensor, of forms that Paddle 3 writes otherwise;
those of arrays of tensors, which the operator cases build on Paddle 2; optimizers of several
parameters, which ``test_update_rules`` has."""


def _source(row: Row, by_tensor: bool) -> dict[str, Slot]:
    """The slot each operand is given in; operands that stay attributes have none."""
    chosen: dict[str, Slot] = {}
    for operand in row.inputs:
        slots = [source for source in operand.sources if isinstance(source, Slot)]
        constants = [source for source in operand.sources if isinstance(source, Constant)]
        if slots and (by_tensor or not constants):
            chosen[operand.name] = slots[0]
    return chosen


def _another(default: Any, at: int) -> Any:
    """A value that is not the default, nor that of the attribute before it."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, float)):
        return default + 1 + at
    return default


def _program(
    legacy: str, row: Row, by_tensor: bool = False, attributes: Mapping[str, Any] | None = None
) -> bytes:
    """A program of one operator, all of whose operands are fed."""
    builder = DescBuilder()
    inputs: dict[str, list[str]] = {}
    for name, slot in _source(row, by_tensor).items():
        names = [f"{name}_{at}" for at in range(2 if slot.is_list else 1)]
        inputs[slot.name] = [builder.variable(found, is_feed=True) for found in names]
    outputs = {
        result.slot: [
            builder.variable(f"{result.name}_{at}_result")
            for at in range(2 if result.is_list else 1)
        ]
        for result in row.outputs
    }
    given = {
        attribute.name: attribute.default if attribute.is_dtype else _another(attribute.default, at)
        for at, attribute in enumerate(row.attributes.values())
        if attribute.default is not None and attribute.name not in UNSAID.get(legacy, {})
    }
    for operand in row.inputs:
        for source in operand.sources:
            if isinstance(source, Constant) and source.attribute.default is not None:
                given[source.attribute.name] = _another(source.attribute.default, len(given))
    legacy, own = WRITTEN_AS.get(legacy, (legacy, {}))
    own = {**ATTRIBUTES.get(legacy, {}), **own} if attributes is None else attributes
    builder.operator(legacy, inputs, outputs, {**given, **own})
    return builder.serialized()


def _translated(program: bytes) -> Any:
    import paddle
    from paddle.base import core

    if paddle.__version__.startswith("2."):
        pytest.skip("Paddle 2's own translation to PIR fails")

    from paddle_ipu.frontend import pir

    return pir.read(paddle.pir.translate_to_pir(core.ProgramDesc(program)))


def _skip_what_this_paddle_lacks(legacy: str) -> None:
    """Some operators are newer than Paddle 3.0, and ``rms_norm`` had other operands."""
    if legacy in WITHOUT_PROTO:
        return
    slots = input_slots(WRITTEN_AS.get(legacy, (legacy,))[0])
    if slots is None or not {slot.name for slot in _source(TABLE[legacy], False).values()} <= slots:
        pytest.skip("this version of Paddle has no such operator")


@pytest.mark.parametrize("legacy", sorted(TABLE.keys() - OLDER.keys() - READ_OTHERWISE))
def test_a_row_reads_as_paddles_translation(legacy: str) -> None:
    program = _program(legacy, TABLE[legacy], by_tensor=False)
    _skip_what_this_paddle_lacks(legacy)
    if legacy == "repeat_interleave" and "output_size" not in attribute_kinds()[legacy]:
        pytest.skip("this version of Paddle has no output_size")
    expected = [
        (operator, operands, {**attributes, **UNSAID.get(legacy, {})}, results)
        for operator, operands, attributes, results in form(_translated(program))
    ]
    assert form(program_desc.read(program)) == expected


def _takes_tensors(row: Row) -> bool:
    return any(len(operand.sources) > 1 for operand in row.inputs)


@pytest.mark.parametrize(
    "legacy",
    sorted(
        name
        for name, row in TABLE.items()
        if _takes_tensors(row) and name not in OLDER and name not in READ_OTHERWISE
    ),
)
def test_a_row_reads_numbers_given_as_tensors_as_paddles_translation(legacy: str) -> None:
    program = _program(legacy, TABLE[legacy], by_tensor=True)
    assert form(program_desc.read(program)) == form(_translated(program))


@pytest.mark.parametrize(("older", "newer"), OLDER.items())
def test_an_older_form_reads_as_the_newer(older: str, newer: str) -> None:
    attributes = ATTRIBUTES.get(newer, {})
    reads = [
        form(program_desc.read(_program(name, TABLE[name], attributes=attributes)))
        for name in (older, newer)
    ]
    assert reads[0] == reads[1]


@pytest.mark.parametrize("legacy", sorted(TABLE.keys() - WRITTEN_AS.keys()))
def test_an_attribute_left_out_has_paddles_default(legacy: str) -> None:
    if legacy not in attribute_kinds():
        pytest.skip("this version of Paddle has no such operator")
    row = TABLE[legacy]
    constants = (
        source.attribute
        for operand in row.inputs
        for source in operand.sources
        if isinstance(source, Constant)
    )
    theirs = _paddles_defaults(legacy)
    for source in (*row.attributes.values(), *constants):
        if source.default is None or source.name not in theirs:
            continue
        expected = theirs[source.name]
        if (legacy, source.name) == ("logsumexp", "axis"):
            # Paddle 3 made it []; a program without the attribute is older.
            expected = [0]
        if isinstance(expected, float):
            expected = pytest.approx(expected)
        assert source.default == expected, source.name


def _paddles_defaults(legacy: str) -> Mapping[str, Any]:
    """What Paddle fills in where a program's operator has no attributes."""
    from paddle.base import core

    program = core.ProgramDesc()  # It owns the operator.
    operator = program.block(0).append_op()
    operator.set_type(legacy)
    with suppress(ValueError):
        # One that must be given ends the check; those before it are filled in.
        operator.check_attrs()
    return {name: operator.attr(name) for name in operator.attr_names()}


_OF_PIR_ONLY = frozenset(
    {
        "array_pop",
        "create_array",
        "empty_like",
        "fc",
        "fused_gemm_epilogue",
        "full_int_array",
        "masked_fill",
        "matmul_with_flatten",
        "range_v2",
        "shape64",
        "trans_layout",
    }
)
"""Translated operators that no ProgramDesc operator becomes."""

_WITH_BLOCKS = frozenset({"if", "while"})
"""Translated operators that ``control_flow_desc`` reads."""


def test_every_translated_operator_has_a_row() -> None:
    known = {row.op.removesuffix("_") for row in TABLE.values()}
    translated = {row.name.removesuffix("_") for row in translated_operators()}
    lacking, listed = translated - known, _OF_PIR_ONLY | _WITH_BLOCKS
    assert not lacking - listed, (
        "give it a row in frontend/vocabulary/, or, where no ProgramDesc has it, its operands in "
        "frontend/operand_names.py and its name in _OF_PIR_ONLY here"
    )
    assert not listed - lacking, "it has a row in frontend/vocabulary/: take it out of here"


def test_every_row_has_a_test() -> None:
    assert OLDER.keys() | READ_OTHERWISE | WRITTEN_AS.keys() <= TABLE.keys()
    assert ATTRIBUTES.keys() <= TABLE.keys()
