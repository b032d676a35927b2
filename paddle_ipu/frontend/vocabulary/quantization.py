"""Rows of simulated quantisation."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import REQUIRED, Attributes, Outputs, list_slot, row

_OUT: Outputs = {"out": "Out", "out_scale": "OutScale"}
_BITS: Attributes = {"bit_length": 8, "round_type": 1}
_AVERAGE: Outputs = {
    "out": "Out", "out_scale": "OutScale", "out_state": "OutState", "out_accum": "OutAccum",
}  # fmt: skip
for _name in ("fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"):
    row(_name, {"x": "X"}, _OUT, _BITS)
row(
    "fake_channel_wise_quantize_abs_max",
    {"x": "X"},
    _OUT,
    {**_BITS, "quant_axis": 0, "is_test": False},
)
row("fake_channel_wise_quantize_dequantize_abs_max", {"x": "X"}, _OUT, {**_BITS, "quant_axis": 0})
for _name in (
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
):
    row(
        _name,
        {"x": "X", "in_scale": "InScale", "in_accum": "InAccum", "in_state": "InState"},
        _AVERAGE,
        {"moving_rate": 0.9, "bit_length": 8, "is_test": False, "round_type": 1},
    )
row(
    "fake_quantize_range_abs_max",
    {"x": "X", "in_scale": "InScale", "iter": "Iter"},
    {"out": "Out", "out_scale": "OutScale", "out_scales": "OutScales"},
    {"window_size": 10000, "bit_length": 8, "is_test": False, "round_type": 1},
)
row(
    "moving_average_abs_max_scale",
    {"x": "X", "in_accum": "InAccum", "in_state": "InState"},
    _AVERAGE,
    {"moving_rate": 0.9, "is_test": False},
)
for _name in ("quantize_linear", "dequantize_linear"):
    row(
        _name,
        {"x": "X", "scale": "Scale", "zero_point": "ZeroPoint", "in_accum": "InAccum",
         "in_state": "InState"},
        {"y": "Y", "out_state": "OutState", "out_accum": "OutAccum", "out_scale": "OutScale"},
        {"quant_axis": 0, "bit_length": 8, "qmin": -128, "qmax": 127, "round_type": 0,
         "is_test": True, "only_observer": False},
        # Of the training of Paddle 2.6, whose kernel has it written in.
        fixed={"moving_rate": 0.8999999761581421},
    )  # fmt: skip
row("fake_dequantize_max_abs", {"x": "X", "scale": "Scale"}, attributes={"max_range": REQUIRED})
row(
    "fake_channel_wise_dequantize_max_abs",
    {"x": "X", "scales": list_slot("Scales")},
    attributes={"quant_bits": [8], "quant_axis": 0, "x_num_col_dims": 1},
)
row("dequantize_abs_max", {"x": "X", "scale": "Scale"}, attributes={"max_range": REQUIRED})
row("dequantize_log", {"x": "X", "dict": "Dict"})
