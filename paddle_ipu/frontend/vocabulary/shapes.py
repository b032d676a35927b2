"""Rows of operators that move and pick elements, and of constants."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# Shapes.
row("concat", "concat", "x=X* axis=AxisTensor|@axis:int32?0")
row("expand_v2", "expand", "x=X shape=Shape|expand_shapes_tensor*|@shape?[]")
row("expand_as_v2", "expand_as", "x=X y=Y", attributes="target_shape?[]")
row(
    "flatten_contiguous_range",
    "flatten",
    "x=X",
    attributes="start_axis?1 stop_axis?1",
)
row("flip", "flip", "x=X", attributes="axis")
row("reverse", "reverse", "x=X axis=@axis")
row("meshgrid", "meshgrid", "inputs=X*", "out=Out*")
row("pad", "pad", "x=X pad_value=@pad_value:float32?0.0", attributes="paddings")
row(
    "pad3d",
    "pad3d",
    "x=X paddings=Paddings|@paddings",
    attributes='data_format?"NCDHW" mode?"constant" pad_value=value?0.0',
)
row("pixel_shuffle", "pixel_shuffle", "x=X", attributes='data_format?"NCHW" upscale_factor?1')
row(
    "repeat_interleave",
    "repeat_interleave",
    "x=X",
    attributes="axis=dim?0 output_size?-1 repeats=Repeats?0",
)
for _name in ("reshape", "reshape2"):
    row(_name, "reshape", "x=X shape=ShapeTensor*|Shape|@shape?[]")
row("roll", "roll", "x=X shifts=ShiftsTensor|@shifts?[]", attributes="axis?[]")
row(
    "slice",
    "slice",
    "input=Input starts=StartsTensor|StartsTensorList*|@starts?[] "
    "ends=EndsTensor|EndsTensorList*|@ends?[]",
    attributes="axes decrease_axis?[] infer_flags?[]",
)
row(
    "split",
    "split",
    "x=X sections=SectionsTensorList*|@sections axis=AxisTensor|@axis:int32?0",
    "out=Out*",
)
row("split_with_num", "split_with_num", "x=X axis=AxisTensor|@axis:int32?0", "out=Out*", "num")
for _name in ("squeeze", "squeeze2"):
    row(_name, "squeeze", "x=X axis=@axes?[]")
row("stack", "stack", "x=X*", "out=Y", "axis?0")
row(
    "strided_slice",
    "strided_slice",
    "x=Input starts=StartsTensor|StartsTensorList*|@starts?[] "
    "ends=EndsTensor|EndsTensorList*|@ends?[] strides=StridesTensor|StridesTensorList*|@strides?[]",
    attributes="axes",
    fixed={"decrease_axis": []},
)
row("tile", "tile", "x=X repeat_times=RepeatTimes|repeat_times_tensor*|@repeat_times?[]")
row("expand", "tile", "x=X repeat_times=ExpandTimes|expand_times_tensor*|@expand_times?[]")
for _name in ("transpose", "transpose2"):
    row(_name, "transpose", "x=X", attributes="perm=axis")
row("tril", "tril", "x=X", attributes="diagonal?0")
row("triu", "triu", "x=X", attributes="diagonal?0")
row("unbind", "unbind", "input=X", "out=Out*", "axis?0")
for _name in ("unsqueeze", "unsqueeze2"):
    row(_name, "unsqueeze", "x=X axis=AxesTensor|AxesTensorList*|@axes?[]")
row("unstack", "unstack", "x=X", "out=Y*", "axis?0 num?0")

# Picking elements.
row(
    "argsort",
    "argsort",
    "x=X",
    "out=Out indices=Indices",
    "axis?-1 descending?false stable?false",
)
row("gather", "gather", "x=X index=Index axis=Axis|@axis:int32?0")
row("gather_nd", "gather_nd", "x=X index=Index")
row("index_sample", "index_sample", "x=X index=Index")
row("index_select", "index_select", "x=X index=Index", attributes="axis=dim?0")
for _name in ("lookup_table", "lookup_table_v2"):
    row(_name, "embedding", "x=Ids weight=W", attributes="padding_idx?-1 sparse=is_sparse?false")
for _name in ("one_hot", "one_hot_v2"):
    row(
        _name,
        "one_hot",
        "x=X num_classes=depth_tensor|@depth:int32",
        fixed={"allow_out_of_range": False},
    )
row(
    "sequence_mask",
    "sequence_mask",
    "x=X max_len=MaxLenTensor|@maxlen:int32?-1",
    "y=Y",
    "out_dtype:dtype",
)
row("take_along_axis", "take_along_axis", "arr=Input indices=Index", "out=Result", "axis=Axis")
for _name in ("top_k", "top_k_v2"):
    row(
        _name,
        "topk",
        "x=X k=K|@k:int32?1",
        "out=Out indices=Indices",
        "axis?-1 largest?true sorted?true",
    )

# Constants and dtypes.
row("assign_value", "assign_value", "", attributes="dtype:dtype shape values")
row("assign_value_", "assign_value_", "output=Out", attributes="dtype:dtype shape values")
row("cast", "cast", "x=X", attributes="dtype=out_dtype:dtype")
row(
    "eye",
    "eye",
    "num_rows=@num_rows:int64 num_columns=@num_columns:int64?-1",
    attributes="dtype:dtype?5",
)
row(
    "fill_any_like",
    "full_like",
    "x=X value=@value:float32?0.0",
    attributes="dtype:dtype?-1",
)
row("fill_constant", "full", "", attributes="dtype:dtype?5 shape?[] value?0.0")
row(
    "full_with_tensor",
    "full_with_tensor",
    "value=ValueTensor|@value:float32 shape=ShapeTensor|ShapeTensorList*|@shape?[]",
    attributes="dtype:dtype?5",
)
row(
    "fill_constant_batch_size_like",
    "full_batch_size_like",
    "input=Input",
    attributes="dtype:dtype?5 input_dim_idx?0 output_dim_idx?0 shape value?0.0",
)
row("linspace", "linspace", "start=Start stop=Stop number=Num", attributes="dtype:dtype")
row("range", "arange", "start=Start end=End step=Step", attributes="dtype:dtype")
# ``Array`` is written by `legacy_forms`: the array that the result names.
row("write_to_array", "array_write", "array=Array x=X i=I", "array_out=Out")
row("read_from_array", "array_read", "array=X i=I")
row("lod_array_length", "array_length", "x=X")
row(
    "tensor_array_to_tensor",
    "array_to_tensor",
    "x=X",
    "out=Out out_index=OutIndex",
    "axis?0 use_stack?false",
)
