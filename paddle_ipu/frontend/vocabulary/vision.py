"""Rows of convolution in three dimensions, its transpose, and pooling with indices."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

row(
    "conv3d",
    "conv3d",
    "input=Input filter=Filter",
    "out=Output",
    'data_format?"NCDHW" dilations?[1,1,1] groups?1 padding_algorithm?"EXPLICIT" '
    "paddings?[0,0,0] strides?[1,1,1]",
)
for _name in ("conv2d_transpose", "depthwise_conv2d_transpose"):
    row(
        _name,
        _name,
        "x=Input filter=Filter output_size=@output_size?[]",
        "out=Output",
        'data_format?"NCHW" dilations?[1,1] groups?1 output_padding?[] '
        'padding_algorithm?"EXPLICIT" paddings?[0,0] strides?[1,1]',
    )
row(
    "conv2d_transpose_bias",
    "conv2d_transpose_bias",
    "x=Input filter=Filter bias=Bias output_size=@output_size?[]",
    "out=Output",
    'data_format?"NCHW" dilations?[1,1] groups?1 output_padding?[] '
    'padding_algorithm?"EXPLICIT" paddings?[0,0] strides?[1,1]',
)
row(
    "conv3d_transpose",
    "conv3d_transpose",
    "x=Input filter=Filter",
    "out=Output",
    'data_format?"NCHW" dilations?[1,1,1] groups?1 output_padding?[] output_size?[] '
    'padding_algorithm?"EXPLICIT" paddings?[0,0,0] strides?[1,1,1]',
)
row(
    "pool3d",
    "pool3d",
    "x=X",
    attributes='adaptive?false ceil_mode?false data_format?"NCDHW" exclusive?true '
    'global_pooling?false kernel_size=ksize padding_algorithm?"EXPLICIT" paddings?[0,0,0] '
    "pooling_type strides?[1,1,1]",
)
row(
    "max_pool3d_with_index",
    "max_pool3d_with_index",
    "x=X",
    "out=Out mask=Mask",
    "adaptive?false ceil_mode?false global_pooling?false kernel_size=ksize paddings?[0,0,0] "
    "strides?[1,1,1]",
)
row(
    "lp_pool2d",
    "lp_pool2d",
    "x=x",
    "out=out",
    'adaptive?false ceil_mode?false data_format?"NCHW" exclusive?true global_pooling?false '
    'kernel_size norm_type padding_algorithm?"EXPLICIT" paddings?[0,0] pooling_type strides?[1,1]',
)
for _name in ("fractional_max_pool2d", "fractional_max_pool3d"):
    row(
        _name,
        _name,
        "x=x",
        "out=out mask=mask",
        "kernel_size output_size random_u?0.0 return_mask?true",
    )

row(
    "affine_channel",
    "affine_channel",
    "x=X scale=Scale bias=Bias",
    attributes='data_layout?"AnyLayout"',
)
row(
    "spectral_norm",
    "spectral_norm",
    "weight=Weight u=U v=V",
    attributes="dim?0 eps?1e-12 power_iters?1",
)
for _name in ("bicubic", "bilinear", "linear", "nearest", "trilinear"):
    row(
        f"{_name}_interp_v2",
        f"{_name}_interp",
        "x=X out_size=OutSize size_tensor=SizeTensor* scale_tensor=Scale",
        attributes='align_corners?true align_mode?1 data_format=data_layout?"NCHW" '
        'interp_method?"bilinear" out_d?0 out_h?0 out_w?0 scale?[]',
    )
row(
    "grid_sampler",
    "grid_sample",
    "x=X grid=Grid",
    "out=Output",
    'align_corners?true mode?"bilinear" padding_mode?"zeros"',
)
row(
    "affine_grid",
    "affine_grid",
    "input=Theta output_shape=OutputShape|@output_shape?[]",
    "output=Output",
    "align_corners?true",
)
row("maxout", "maxout", "x=X", attributes="axis?1 groups")
row(
    "unpool",
    "unpool",
    "x=X indices=Indices output_size=@output_size",
    attributes='data_format?"NCHW" ksize padding=paddings?[0,0] strides?[1,1]',
    fixed={"unpooling_type": "max"},
)
row(
    "unpool3d",
    "unpool3d",
    "x=X indices=Indices",
    attributes='data_format?"NCDHW" ksize output_size paddings?[0,0,0] strides?[1,1,1]',
)
row(
    "prior_box",
    "prior_box",
    "input=Input image=Image",
    "out=Boxes var=Variances",
    "aspect_ratios clip?true flip?true max_sizes?[] min_max_aspect_ratios_order?false min_sizes "
    "offset?0.5 step_h?0.0 step_w?0.0 variances",
)
row(
    "anchor_generator",
    "anchor_generator",
    "input=Input",
    "anchors=Anchors variances_out=Variances",
    "anchor_sizes aspect_ratios offset?0.5 stride variances",
)
row(
    "box_coder",
    "box_coder",
    "prior_box=PriorBox prior_box_var=PriorBoxVar target_box=TargetBox",
    "output_box=OutputBox",
    'axis?0 box_normalized?true code_type?"encode_center_size" variance?[]',
)
row(
    "yolo_box",
    "yolo_box",
    "x=X img_size=ImgSize",
    "boxes=Boxes scores=Scores",
    "anchors?[] class_num?1 clip_bbox?true conf_thresh?0.01 downsample_ratio?32 iou_aware?false "
    "iou_aware_factor?0.5 scale_x_y?1.0",
)
_BINS = "pooled_height?1 pooled_width?1 spatial_scale?1.0"
row(
    "roi_align",
    "roi_align",
    "x=X boxes=ROIs boxes_num=RoisNum",
    attributes=f"{_BINS} aligned?false sampling_ratio?-1",
)
row("roi_pool", "roi_pool", "x=X boxes=ROIs boxes_num=RoisNum", "out=Out arg_max=Argmax", _BINS)
row(
    "psroi_pool",
    "psroi_pool",
    "x=X boxes=ROIs boxes_num=RoisNum",
    attributes=f"{_BINS} output_channels?1",
)
_DEFORMABLE = (
    "deformable_groups?1 dilations?[1,1] groups?1 im2col_step?64 paddings?[0,0] strides?[1,1]"
)
row(
    "deformable_conv",
    "deformable_conv",
    "x=Input offset=Offset filter=Filter mask=Mask",
    "out=Output",
    _DEFORMABLE,
)
row(
    "deformable_conv_v1",
    "deformable_conv",
    "x=Input offset=Offset filter=Filter mask=Mask",
    "out=Output",
    _DEFORMABLE,
)
row(
    "yolov3_loss",
    "yolo_loss",
    "x=X gt_box=GTBox gt_label=GTLabel gt_score=GTScore",
    "loss=Loss objectness_mask=ObjectnessMask gt_match_mask=GTMatchMask",
    "anchor_mask?[] anchors?[] class_num?1 downsample_ratio?32 ignore_thresh?0.7 scale_x_y?1.0 "
    "use_label_smooth?true",
)
row(
    "correlation",
    "correlation",
    "input1=Input1 input2=Input2",
    "out=Output",
    "corr_type_multiply?1 kernel_size max_displacement pad_size stride1 stride2",
)
