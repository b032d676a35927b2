"""Rows of simulated quantisation."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

_OUT = "out=Out out_scale=OutScale"
_BITS = "bit_length?8 round_type?1"
_AVERAGE = "out=Out out_scale=OutScale out_state=OutState out_accum=OutAccum"
for _name in ("fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"):
    row(_name, _name, "x=X", _OUT, _BITS)
row(
    "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_abs_max",
    "x=X",
    _OUT,
    f"{_BITS} quant_axis?0 is_test?false",
)
row(
    "fake_channel_wise_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
    "x=X",
    _OUT,
    f"{_BITS} quant_axis?0",
)
for _name in (
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
):
    row(
        _name,
        _name,
        "x=X in_scale=InScale in_accum=InAccum in_state=InState",
        _AVERAGE,
        "moving_rate?0.9 bit_length?8 is_test?false round_type?1",
    )
row(
    "fake_quantize_range_abs_max",
    "fake_quantize_range_abs_max",
    "x=X in_scale=InScale iter=Iter",
    "out=Out out_scale=OutScale out_scales=OutScales",
    "window_size?10000 bit_length?8 is_test?false round_type?1",
)
row(
    "moving_average_abs_max_scale",
    "moving_average_abs_max_scale",
    "x=X in_accum=InAccum in_state=InState",
    _AVERAGE,
    "moving_rate?0.9 is_test?false",
)
for _name in ("quantize_linear", "dequantize_linear"):
    row(
        _name,
        _name,
        "x=X scale=Scale zero_point=ZeroPoint in_accum=InAccum in_state=InState",
        "y=Y out_state=OutState out_accum=OutAccum out_scale=OutScale",
        "quant_axis?0 bit_length?8 qmin?-128 qmax?127 round_type?0 is_test?true "
        "only_observer?false",
        # Of the training of Paddle 2.6, whose kernel has it written in.
        fixed={"moving_rate": 0.8999999761581421},
    )
row(
    "fake_dequantize_max_abs",
    "fake_dequantize_max_abs",
    "x=X scale=Scale",
    attributes="max_range",
)
row(
    "fake_channel_wise_dequantize_max_abs",
    "fake_channel_wise_dequantize_max_abs",
    "x=X scales=Scales*",
    attributes="quant_bits?[8] quant_axis?0 x_num_col_dims?1",
)
row("dequantize_abs_max", "dequantize_abs_max", "x=X scale=Scale", attributes="max_range")
row("dequantize_log", "dequantize_log", "x=X dict=Dict")
