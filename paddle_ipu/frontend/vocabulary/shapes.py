"""Rows of operators that move and pick elements, and of constants."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    attribute,
    dtype,
    full,
    full_int_array,
    list_slot,
    row,
)

# Shapes.
row("concat", {"x": list_slot("X"), "axis": ("AxisTensor", full("axis", "int32", 0))})
row(
    "expand_v2",
    {"x": "X", "shape": ("Shape", list_slot("expand_shapes_tensor"), full_int_array("shape", []))},
    phi="expand",
)
row("expand_as_v2", {"x": "X", "y": "Y"}, attributes={"target_shape": []}, phi="expand_as")
row(
    "flatten_contiguous_range",
    {"x": "X"},
    attributes={"start_axis": 1, "stop_axis": 1},
    phi="flatten",
)
row("flip", {"x": "X"}, attributes={"axis": REQUIRED})
row("reverse", {"x": "X", "axis": full_int_array("axis")})
row("meshgrid", {"inputs": list_slot("X")}, {"out": list_slot("Out")})
row(
    "pad",
    {"x": "X", "pad_value": full("pad_value", "float32", 0.0)},
    attributes={"paddings": REQUIRED},
)
row(
    "pad3d",
    {"x": "X", "paddings": ("Paddings", full_int_array("paddings"))},
    attributes={"data_format": "NCDHW", "mode": "constant", "pad_value": attribute("value", 0.0)},
)
row("pixel_shuffle", {"x": "X"}, attributes={"data_format": "NCHW", "upscale_factor": 1})
row(
    "repeat_interleave",
    {"x": "X"},
    attributes={"axis": attribute("dim", 0), "output_size": -1, "repeats": attribute("Repeats", 0)},
)
for _name in ("reshape", "reshape2"):
    row(
        _name,
        {"x": "X", "shape": (list_slot("ShapeTensor"), "Shape", full_int_array("shape", []))},
        phi="reshape",
    )
row(
    "roll",
    {"x": "X", "shifts": ("ShiftsTensor", full_int_array("shifts", []))},
    attributes={"axis": []},
)
row(
    "slice",
    {"input": "Input",
     "starts": ("StartsTensor", list_slot("StartsTensorList"), full_int_array("starts", [])),
     "ends": ("EndsTensor", list_slot("EndsTensorList"), full_int_array("ends", []))},
    attributes={"axes": REQUIRED, "decrease_axis": [], "infer_flags": []},
)  # fmt: skip
row(
    "split",
    {"x": "X", "sections": (list_slot("SectionsTensorList"), full_int_array("sections")),
     "axis": ("AxisTensor", full("axis", "int32", 0))},
    {"out": list_slot("Out")},
)  # fmt: skip
row(
    "split_with_num",
    {"x": "X", "axis": ("AxisTensor", full("axis", "int32", 0))},
    {"out": list_slot("Out")},
    {"num": REQUIRED},
)
for _name in ("squeeze", "squeeze2"):
    row(_name, {"x": "X", "axis": full_int_array("axes", [])}, phi="squeeze")
row("stack", {"x": list_slot("X")}, {"out": "Y"}, {"axis": 0})
row(
    "strided_slice",
    {"x": "Input",
     "starts": ("StartsTensor", list_slot("StartsTensorList"), full_int_array("starts", [])),
     "ends": ("EndsTensor", list_slot("EndsTensorList"), full_int_array("ends", [])),
     "strides": ("StridesTensor", list_slot("StridesTensorList"), full_int_array("strides", []))},
    attributes={"axes": REQUIRED},
    fixed={"decrease_axis": []},
)  # fmt: skip
row(
    "tile",
    {"x": "X",
     "repeat_times": ("RepeatTimes", list_slot("repeat_times_tensor"),
                      full_int_array("repeat_times", []))},
)  # fmt: skip
row(
    "expand",
    {"x": "X",
     "repeat_times": ("ExpandTimes", list_slot("expand_times_tensor"),
                      full_int_array("expand_times", []))},
    phi="tile",
)  # fmt: skip
for _name in ("transpose", "transpose2"):
    row(_name, {"x": "X"}, attributes={"perm": attribute("axis")}, phi="transpose")
row("tril", {"x": "X"}, attributes={"diagonal": 0})
row("triu", {"x": "X"}, attributes={"diagonal": 0})
row("unbind", {"input": "X"}, {"out": list_slot("Out")}, {"axis": 0})
for _name in ("unsqueeze", "unsqueeze2"):
    row(
        _name,
        {"x": "X", "axis": ("AxesTensor", list_slot("AxesTensorList"), full_int_array("axes", []))},
        phi="unsqueeze",
    )
row("unstack", {"x": "X"}, {"out": list_slot("Y")}, {"axis": 0, "num": 0})

# Picking elements.
row(
    "argsort",
    {"x": "X"},
    {"out": "Out", "indices": "Indices"},
    {"axis": -1, "descending": False, "stable": False},
)
row("gather", {"x": "X", "index": "Index", "axis": ("Axis", full("axis", "int32", 0))})
row("gather_nd", {"x": "X", "index": "Index"})
row("index_sample", {"x": "X", "index": "Index"})
row("index_select", {"x": "X", "index": "Index"}, attributes={"axis": attribute("dim", 0)})
for _name in ("lookup_table", "lookup_table_v2"):
    row(
        _name,
        {"x": "Ids", "weight": "W"},
        attributes={"padding_idx": -1, "sparse": attribute("is_sparse", False)},
        phi="embedding",
    )
for _name in ("one_hot", "one_hot_v2"):
    row(
        _name,
        {"x": "X", "num_classes": ("depth_tensor", full("depth", "int32"))},
        fixed={"allow_out_of_range": False},
        phi="one_hot",
    )
row(
    "sequence_mask",
    {"x": "X", "max_len": ("MaxLenTensor", full("maxlen", "int32", -1))},
    {"y": "Y"},
    {"out_dtype": dtype("out_dtype")},
)
row(
    "take_along_axis",
    {"arr": "Input", "indices": "Index"},
    {"out": "Result"},
    {"axis": attribute("Axis")},
)
for _name in ("top_k", "top_k_v2"):
    row(
        _name,
        {"x": "X", "k": ("K", full("k", "int32", 1))},
        {"out": "Out", "indices": "Indices"},
        {"axis": -1, "largest": True, "sorted": True},
        phi="topk",
    )

# Constants and dtypes.
row("assign_value", {}, attributes={"dtype": dtype("dtype"), "shape": REQUIRED, "values": REQUIRED})
row(
    "assign_value_",
    {"output": "Out"},
    attributes={"dtype": dtype("dtype"), "shape": REQUIRED, "values": REQUIRED},
)
row("cast", {"x": "X"}, attributes={"dtype": dtype("out_dtype")})
row(
    "eye",
    {"num_rows": full("num_rows", "int64"), "num_columns": full("num_columns", "int64", -1)},
    attributes={"dtype": dtype("dtype", "float32")},
)
row(
    "fill_any_like",
    {"x": "X", "value": full("value", "float32", 0.0)},
    attributes={"dtype": dtype("dtype", "undefined")},
    phi="full_like",
)
row(
    "fill_constant",
    {},
    attributes={"dtype": dtype("dtype", "float32"), "shape": [], "value": 0.0},
    phi="full",
)
row(
    "full_with_tensor",
    {"value": ("ValueTensor", full("value", "float32")),
     "shape": ("ShapeTensor", list_slot("ShapeTensorList"), full_int_array("shape", []))},
    attributes={"dtype": dtype("dtype", "float32")},
)  # fmt: skip
row(
    "fill_constant_batch_size_like",
    {"input": "Input"},
    attributes={"dtype": dtype("dtype", "float32"), "input_dim_idx": 0, "output_dim_idx": 0,
                "shape": REQUIRED, "value": 0.0},
    phi="full_batch_size_like",
)  # fmt: skip
row(
    "linspace",
    {"start": "Start", "stop": "Stop", "number": "Num"},
    attributes={"dtype": dtype("dtype")},
)
row(
    "range",
    {"start": "Start", "end": "End", "step": "Step"},
    attributes={"dtype": dtype("dtype")},
    phi="arange",
)
# ``Array`` is written by `legacy_forms`: the array that the result names.
row(
    "write_to_array",
    {"array": "Array", "x": "X", "i": "I"},
    {"array_out": "Out"},
    phi="array_write",
)
row("read_from_array", {"array": "X", "i": "I"}, phi="array_read")
row("lod_array_length", {"x": "X"}, phi="array_length")
row(
    "tensor_array_to_tensor",
    {"x": "X"},
    {"out": "Out", "out_index": "OutIndex"},
    {"axis": 0, "use_stack": False},
    phi="array_to_tensor",
)
