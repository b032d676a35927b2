"""Rows of operators that scatter, arrange and make elements, and of graph messages."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# Scattering. Paddle 2, which writes ProgramDescs, rounds the mean of integers towards zero, and
# Paddle 3 down; no program says so.
row("scatter", "scatter", "x=X index=Ids updates=Updates", attributes="overwrite?true")
row("scatter_nd_add", "scatter_nd_add", "x=X index=Index updates=Updates")
row(
    "put_along_axis",
    "put_along_axis",
    "arr=Input indices=Index values=Value",
    "out=Result",
    'axis=Axis reduce=Reduce?"assign" include_self=Include_self?true rounds_down?false',
)
row("index_add", "index_add", "x=X index=Index add_value=AddValue", attributes="axis?0")
row("index_put", "index_put", "x=x indices=indices* value=value", "out=out", "accumulate?false")
_SLICE = (
    "starts=StartsTensorList*|@starts?[] ends=EndsTensorList*|@ends?[] "
    "steps=StepsTensorList*|@steps?[]"
)
row(
    "set_value",
    "set_value",
    f"x=Input {_SLICE}",
    attributes="axes decrease_axes?[] none_axes?[] shape?[] values?[]",
)
row(
    "set_value_with_tensor",
    "set_value_with_tensor",
    f"x=Input values=ValueTensor {_SLICE}",
    attributes="axes decrease_axes?[] none_axes?[]",
)
row("fill_any", "fill", "x=X value=@value:float32?0.0")
row("fill_diagonal", "fill_diagonal", "x=X", attributes="offset?0 value?0.0 wrap?false")
row(
    "fill_diagonal_tensor",
    "fill_diagonal_tensor",
    "x=X y=Y",
    attributes="dim1?0 dim2?1 offset?0",
)

# Diagonals, windows and channels.
row("diag_v2", "diag", "x=X", attributes="offset?0 padding_value?0.0")
row("diag_embed", "diag_embed", "input=Input", attributes="dim1?-2 dim2?-1 offset?0")
row("diagonal", "diagonal", "x=Input", attributes="axis1?0 axis2?1 offset?0")
_WINDOWS = "dilations kernel_sizes paddings strides"
row("unfold", "unfold", "x=X", "out=Y", _WINDOWS)
row("fold", "fold", "x=X", "out=Y", f"{_WINDOWS} output_sizes")
row(
    "pixel_unshuffle",
    "pixel_unshuffle",
    "x=X",
    attributes='data_format?"NCHW" downscale_factor?1',
)
row("channel_shuffle", "channel_shuffle", "x=X", attributes='data_format?"NCHW" groups')
row("shuffle_channel", "shuffle_channel", "x=X", attributes="group?1")
row(
    "temporal_shift",
    "temporal_shift",
    "x=X",
    attributes='data_format?"NCHW" seg_num shift_ratio?0.25',
)
row("frame", "frame", "x=X", attributes="axis?-1 frame_length hop_length")
row("overlap_add", "overlap_add", "x=X", attributes="axis?-1 hop_length")
row("broadcast_tensors", "broadcast_tensors", "input=X*", "out=Out*")
row("multiplex", "multiplex", "inputs=X* index=Ids")
row(
    "repeat_interleave_with_tensor_index",
    "repeat_interleave_with_tensor_index",
    "x=X repeats=RepeatsTensor",
    attributes="axis=dim?0 output_size?-1",
)
row(
    "crop_tensor",
    "crop",
    "x=X shape=Shape|ShapeTensor*|@shape?[] offsets=Offsets|OffsetsTensor*|@offsets?[]",
)
row("npu_identity", "npu_identity", "x=x", "out=out", "format?-1")

# Elements by their values.
row("masked_select", "masked_select", "x=X mask=Mask", "out=Y")
row("where_index", "nonzero", "condition=Condition")
row(
    "unique",
    "unique",
    "x=X",
    "out=Out indices=Indices inverse=Index counts=Counts",
    "axis?[] dtype:dtype?3 is_sorted?false return_counts?false return_index?false "
    "return_inverse?false",
)
row(
    "unique_consecutive",
    "unique_consecutive",
    "x=X",
    "out=Out index=Index counts=Counts",
    "axis?[] dtype:dtype?5 return_counts?false return_inverse?false",
)
row("gather_tree", "gather_tree", "ids=Ids parents=Parents")
row(
    "shard_index",
    "shard_index",
    "input=X",
    attributes="ignore_value?-1 index_num nshards shard_id",
)

# Creation.
row("tril_indices", "tril_indices", "", "out=out", "cols?0 dtype:dtype?3 offset?0 rows?0")
row("triu_indices", "triu_indices", "", "out=out", "col?0 dtype:dtype?3 offset?0 row?0")
row(
    "logspace",
    "logspace",
    "start=Start stop=Stop num=Num base=Base",
    attributes="dtype:dtype",
)
row(
    "empty",
    "empty",
    "shape=ShapeTensor|ShapeTensorList*|@shape?[]",
    attributes="dtype:dtype?5",
)
row("is_empty", "is_empty", "x=X")

# Graph messages.
row(
    "segment_pool",
    "segment_pool",
    "x=X segment_ids=SegmentIds",
    "out=Out summed_ids=SummedIds",
    'pooltype?"SUM"',
)
row(
    "graph_send_recv",
    "send_u_recv",
    "x=X src_index=Src_index dst_index=Dst_index out_size=Out_size|@out_size?[0]",
    "out=Out dst_count=Dst_count",
    'reduce_op?"SUM"',
)
row(
    "graph_send_ue_recv",
    "send_ue_recv",
    "x=X y=Y src_index=Src_index dst_index=Dst_index out_size=Out_size|@out_size?[0]",
    "out=Out dst_count=Dst_count",
    'message_op?"ADD" reduce_op?"SUM"',
)
row(
    "graph_send_uv",
    "send_uv",
    "x=x y=y src_index=src_index dst_index=dst_index",
    "out=out",
    'message_op?"ADD"',
)
