"""Rows of convolution in three dimensions, its transpose, and pooling with indices."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    Attributes,
    attribute,
    full_int_array,
    list_slot,
    row,
)

row(
    "conv3d",
    {"input": "Input", "filter": "Filter"},
    {"out": "Output"},
    {"data_format": "NCDHW", "dilations": [1, 1, 1], "groups": 1, "padding_algorithm": "EXPLICIT",
     "paddings": [0, 0, 0], "strides": [1, 1, 1]},
)  # fmt: skip
for _name in ("conv2d_transpose", "depthwise_conv2d_transpose"):
    row(
        _name,
        {"x": "Input", "filter": "Filter", "output_size": full_int_array("output_size", [])},
        {"out": "Output"},
        {"data_format": "NCHW", "dilations": [1, 1], "groups": 1, "output_padding": [],
         "padding_algorithm": "EXPLICIT", "paddings": [0, 0], "strides": [1, 1]},
    )  # fmt: skip
row(
    "conv2d_transpose_bias",
    {"x": "Input", "filter": "Filter", "bias": "Bias",
     "output_size": full_int_array("output_size", [])},
    {"out": "Output"},
    {"data_format": "NCHW", "dilations": [1, 1], "groups": 1, "output_padding": [],
     "padding_algorithm": "EXPLICIT", "paddings": [0, 0], "strides": [1, 1]},
)  # fmt: skip
row(
    "conv3d_transpose",
    {"x": "Input", "filter": "Filter"},
    {"out": "Output"},
    {"data_format": "NCHW", "dilations": [1, 1, 1], "groups": 1, "output_padding": [],
     "output_size": [], "padding_algorithm": "EXPLICIT", "paddings": [0, 0, 0],
     "strides": [1, 1, 1]},
)  # fmt: skip
row(
    "pool3d",
    {"x": "X"},
    attributes={"adaptive": False, "ceil_mode": False, "data_format": "NCDHW", "exclusive": True,
                "global_pooling": False, "kernel_size": attribute("ksize"),
                "padding_algorithm": "EXPLICIT", "paddings": [0, 0, 0], "pooling_type": REQUIRED,
                "strides": [1, 1, 1]},
)  # fmt: skip
row(
    "max_pool3d_with_index",
    {"x": "X"},
    {"out": "Out", "mask": "Mask"},
    {"adaptive": False, "ceil_mode": False, "global_pooling": False,
     "kernel_size": attribute("ksize"), "paddings": [0, 0, 0], "strides": [1, 1, 1]},
)  # fmt: skip
row(
    "lp_pool2d",
    {"x": "x"},
    {"out": "out"},
    {"adaptive": False, "ceil_mode": False, "data_format": "NCHW", "exclusive": True,
     "global_pooling": False, "kernel_size": REQUIRED, "norm_type": REQUIRED,
     "padding_algorithm": "EXPLICIT", "paddings": [0, 0], "pooling_type": REQUIRED,
     "strides": [1, 1]},
)  # fmt: skip
for _name in ("fractional_max_pool2d", "fractional_max_pool3d"):
    row(
        _name,
        {"x": "x"},
        {"out": "out", "mask": "mask"},
        {"kernel_size": REQUIRED, "output_size": REQUIRED, "random_u": 0.0, "return_mask": True},
    )

row(
    "affine_channel",
    {"x": "X", "scale": "Scale", "bias": "Bias"},
    attributes={"data_layout": "AnyLayout"},
)
row(
    "spectral_norm",
    {"weight": "Weight", "u": "U", "v": "V"},
    attributes={"dim": 0, "eps": 1e-12, "power_iters": 1},
)
for _name in ("bicubic", "bilinear", "linear", "nearest", "trilinear"):
    row(
        f'{_name}_interp_v2',
        {"x": "X", "out_size": "OutSize", "size_tensor": list_slot("SizeTensor"),
         "scale_tensor": "Scale"},
        attributes={"align_corners": True, "align_mode": 1,
                    "data_format": attribute("data_layout", "NCHW"), "interp_method": "bilinear",
                    "out_d": 0, "out_h": 0, "out_w": 0, "scale": []},
        phi=f'{_name}_interp',
    )  # fmt: skip
row(
    "grid_sampler",
    {"x": "X", "grid": "Grid"},
    {"out": "Output"},
    {"align_corners": True, "mode": "bilinear", "padding_mode": "zeros"},
    phi="grid_sample",
)
row(
    "affine_grid",
    {"input": "Theta", "output_shape": ("OutputShape", full_int_array("output_shape", []))},
    {"output": "Output"},
    {"align_corners": True},
)
row("maxout", {"x": "X"}, attributes={"axis": 1, "groups": REQUIRED})
row(
    "unpool",
    {"x": "X", "indices": "Indices", "output_size": full_int_array("output_size")},
    attributes={"data_format": "NCHW", "ksize": REQUIRED, "padding": attribute("paddings", [0, 0]),
                "strides": [1, 1]},
    fixed={"unpooling_type": "max"},
)  # fmt: skip
row(
    "unpool3d",
    {"x": "X", "indices": "Indices"},
    attributes={"data_format": "NCDHW", "ksize": REQUIRED, "output_size": REQUIRED,
                "paddings": [0, 0, 0], "strides": [1, 1, 1]},
)  # fmt: skip
row(
    "prior_box",
    {"input": "Input", "image": "Image"},
    {"out": "Boxes", "var": "Variances"},
    {"aspect_ratios": REQUIRED, "clip": True, "flip": True, "max_sizes": [],
     "min_max_aspect_ratios_order": False, "min_sizes": REQUIRED, "offset": 0.5, "step_h": 0.0,
     "step_w": 0.0, "variances": REQUIRED},
)  # fmt: skip
row(
    "anchor_generator",
    {"input": "Input"},
    {"anchors": "Anchors", "variances_out": "Variances"},
    {"anchor_sizes": REQUIRED, "aspect_ratios": REQUIRED, "offset": 0.5, "stride": REQUIRED,
     "variances": REQUIRED},
)  # fmt: skip
row(
    "box_coder",
    {"prior_box": "PriorBox", "prior_box_var": "PriorBoxVar", "target_box": "TargetBox"},
    {"output_box": "OutputBox"},
    {"axis": 0, "box_normalized": True, "code_type": "encode_center_size", "variance": []},
)
row(
    "yolo_box",
    {"x": "X", "img_size": "ImgSize"},
    {"boxes": "Boxes", "scores": "Scores"},
    {"anchors": [], "class_num": 1, "clip_bbox": True, "conf_thresh": 0.01, "downsample_ratio": 32,
     "iou_aware": False, "iou_aware_factor": 0.5, "scale_x_y": 1.0},
)  # fmt: skip
_BINS: Attributes = {"pooled_height": 1, "pooled_width": 1, "spatial_scale": 1.0}
row(
    "roi_align",
    {"x": "X", "boxes": "ROIs", "boxes_num": "RoisNum"},
    attributes={**_BINS, "aligned": False, "sampling_ratio": -1},
)
row(
    "roi_pool",
    {"x": "X", "boxes": "ROIs", "boxes_num": "RoisNum"},
    {"out": "Out", "arg_max": "Argmax"},
    _BINS,
)
row(
    "psroi_pool",
    {"x": "X", "boxes": "ROIs", "boxes_num": "RoisNum"},
    attributes={**_BINS, "output_channels": 1},
)
_DEFORMABLE: Attributes = {
    "deformable_groups": 1, "dilations": [1, 1], "groups": 1, "im2col_step": 64, "paddings": [0, 0],
    "strides": [1, 1],
}  # fmt: skip
row(
    "deformable_conv",
    {"x": "Input", "offset": "Offset", "filter": "Filter", "mask": "Mask"},
    {"out": "Output"},
    _DEFORMABLE,
)
row(
    "deformable_conv_v1",
    {"x": "Input", "offset": "Offset", "filter": "Filter", "mask": "Mask"},
    {"out": "Output"},
    _DEFORMABLE,
    phi="deformable_conv",
)
row(
    "yolov3_loss",
    {"x": "X", "gt_box": "GTBox", "gt_label": "GTLabel", "gt_score": "GTScore"},
    {"loss": "Loss", "objectness_mask": "ObjectnessMask", "gt_match_mask": "GTMatchMask"},
    {"anchor_mask": [], "anchors": [], "class_num": 1, "downsample_ratio": 32, "ignore_thresh": 0.7,
     "scale_x_y": 1.0, "use_label_smooth": True},
    phi="yolo_loss",
)  # fmt: skip
row(
    "correlation",
    {"input1": "Input1", "input2": "Input2"},
    {"out": "Output"},
    {"corr_type_multiply": 1, "kernel_size": REQUIRED, "max_displacement": REQUIRED,
     "pad_size": REQUIRED, "stride1": REQUIRED, "stride2": REQUIRED},
)  # fmt: skip
