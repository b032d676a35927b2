"""Rows of operators that scatter, arrange and make elements, and of graph messages."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    Attributes,
    Inputs,
    attribute,
    dtype,
    full,
    full_int_array,
    list_slot,
    row,
    same_names,
)

# Scattering. Paddle 2, which writes ProgramDescs, rounds the mean of integers towards zero, and
# Paddle 3 down; no program says so.
row("scatter", {"x": "X", "index": "Ids", "updates": "Updates"}, attributes={"overwrite": True})
row("scatter_nd_add", {"x": "X", "index": "Index", "updates": "Updates"})
row(
    "put_along_axis",
    {"arr": "Input", "indices": "Index", "values": "Value"},
    {"out": "Result"},
    {"axis": attribute("Axis"), "reduce": attribute("Reduce", "assign"),
     "include_self": attribute("Include_self", True), "rounds_down": False},
)  # fmt: skip
row("index_add", {"x": "X", "index": "Index", "add_value": "AddValue"}, attributes={"axis": 0})
row(
    "index_put",
    {"x": "x", "indices": list_slot("indices"), "value": "value"},
    {"out": "out"},
    {"accumulate": False},
)
_SLICE: Inputs = {
    "starts": (list_slot("StartsTensorList"), full_int_array("starts", [])),
    "ends": (list_slot("EndsTensorList"), full_int_array("ends", [])),
    "steps": (list_slot("StepsTensorList"), full_int_array("steps", [])),
}
row(
    "set_value",
    {"x": "Input", **_SLICE},
    attributes={"axes": REQUIRED, "decrease_axes": [], "none_axes": [], "shape": [], "values": []},
)
row(
    "set_value_with_tensor",
    {"x": "Input", "values": "ValueTensor", **_SLICE},
    attributes={"axes": REQUIRED, "decrease_axes": [], "none_axes": []},
)
row("fill_any", {"x": "X", "value": full("value", "float32", 0.0)}, phi="fill")
row("fill_diagonal", {"x": "X"}, attributes={"offset": 0, "value": 0.0, "wrap": False})
row("fill_diagonal_tensor", {"x": "X", "y": "Y"}, attributes={"dim1": 0, "dim2": 1, "offset": 0})

# Diagonals, windows and channels.
row("diag_v2", {"x": "X"}, attributes={"offset": 0, "padding_value": 0.0}, phi="diag")
row("diag_embed", {"input": "Input"}, attributes={"dim1": -2, "dim2": -1, "offset": 0})
row("diagonal", {"x": "Input"}, attributes={"axis1": 0, "axis2": 1, "offset": 0})
_WINDOWS: Attributes = {
    "dilations": REQUIRED, "kernel_sizes": REQUIRED, "paddings": REQUIRED, "strides": REQUIRED,
}  # fmt: skip
row("unfold", {"x": "X"}, {"out": "Y"}, _WINDOWS)
row("fold", {"x": "X"}, {"out": "Y"}, {**_WINDOWS, "output_sizes": REQUIRED})
row("pixel_unshuffle", {"x": "X"}, attributes={"data_format": "NCHW", "downscale_factor": 1})
row("channel_shuffle", {"x": "X"}, attributes={"data_format": "NCHW", "groups": REQUIRED})
row("shuffle_channel", {"x": "X"}, attributes={"group": 1})
row(
    "temporal_shift",
    {"x": "X"},
    attributes={"data_format": "NCHW", "seg_num": REQUIRED, "shift_ratio": 0.25},
)
row("frame", {"x": "X"}, attributes={"axis": -1, "frame_length": REQUIRED, "hop_length": REQUIRED})
row("overlap_add", {"x": "X"}, attributes={"axis": -1, "hop_length": REQUIRED})
row("broadcast_tensors", {"input": list_slot("X")}, {"out": list_slot("Out")})
row("multiplex", {"inputs": list_slot("X"), "index": "Ids"})
row(
    "repeat_interleave_with_tensor_index",
    {"x": "X", "repeats": "RepeatsTensor"},
    attributes={"axis": attribute("dim", 0), "output_size": -1},
)
row(
    "crop_tensor",
    {"x": "X", "shape": ("Shape", list_slot("ShapeTensor"), full_int_array("shape", [])),
     "offsets": ("Offsets", list_slot("OffsetsTensor"), full_int_array("offsets", []))},
    phi="crop",
)  # fmt: skip
row("npu_identity", {"x": "x"}, {"out": "out"}, {"format": -1})

# Elements by their values.
row("masked_select", {"x": "X", "mask": "Mask"}, {"out": "Y"})
row("where_index", {"condition": "Condition"}, phi="nonzero")
row(
    "unique",
    {"x": "X"},
    {"out": "Out", "indices": "Indices", "inverse": "Index", "counts": "Counts"},
    {"axis": [], "dtype": dtype("dtype", "int64"), "is_sorted": False, "return_counts": False,
     "return_index": False, "return_inverse": False},
)  # fmt: skip
row(
    "unique_consecutive",
    {"x": "X"},
    {"out": "Out", "index": "Index", "counts": "Counts"},
    {"axis": [], "dtype": dtype("dtype", "float32"), "return_counts": False,
     "return_inverse": False},
)  # fmt: skip
row("gather_tree", {"ids": "Ids", "parents": "Parents"})
row(
    "shard_index",
    {"input": "X"},
    attributes={"ignore_value": -1, "index_num": REQUIRED, "nshards": REQUIRED,
                "shard_id": REQUIRED},
)  # fmt: skip

# Creation.
row(
    "tril_indices",
    {},
    {"out": "out"},
    {"cols": 0, "dtype": dtype("dtype", "int64"), "offset": 0, "rows": 0},
)
row(
    "triu_indices",
    {},
    {"out": "out"},
    {"col": 0, "dtype": dtype("dtype", "int64"), "offset": 0, "row": 0},
)
row(
    "logspace",
    {"start": "Start", "stop": "Stop", "num": "Num", "base": "Base"},
    attributes={"dtype": dtype("dtype")},
)
row(
    "empty",
    {"shape": ("ShapeTensor", list_slot("ShapeTensorList"), full_int_array("shape", []))},
    attributes={"dtype": dtype("dtype", "float32")},
)
row("is_empty", {"x": "X"})

# Graph messages.
row(
    "segment_pool",
    {"x": "X", "segment_ids": "SegmentIds"},
    {"out": "Out", "summed_ids": "SummedIds"},
    {"pooltype": "SUM"},
)
row(
    "graph_send_recv",
    {"x": "X", "src_index": "Src_index", "dst_index": "Dst_index",
     "out_size": ("Out_size", full_int_array("out_size", [0]))},
    {"out": "Out", "dst_count": "Dst_count"},
    {"reduce_op": "SUM"},
    phi="send_u_recv",
)  # fmt: skip
row(
    "graph_send_ue_recv",
    {"x": "X", "y": "Y", "src_index": "Src_index", "dst_index": "Dst_index",
     "out_size": ("Out_size", full_int_array("out_size", [0]))},
    {"out": "Out", "dst_count": "Dst_count"},
    {"message_op": "ADD", "reduce_op": "SUM"},
    phi="send_ue_recv",
)  # fmt: skip
row(
    "graph_send_uv",
    same_names("x", "y", "src_index", "dst_index"),
    {"out": "out"},
    {"message_op": "ADD"},
    phi="send_uv",
)
