"""Rows of convolution, pooling, normalisation, dropout, losses and metrics."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import REQUIRED, attribute, full, full_int_array, row

# Convolution, pooling, normalisation, dropout.
for _name in ("conv2d", "depthwise_conv2d"):
    row(
        _name,
        {"input": "Input", "filter": "Filter"},
        {"out": "Output"},
        {"data_format": "NCHW", "dilations": [1, 1], "groups": 1, "padding_algorithm": "EXPLICIT",
         "paddings": [0, 0], "strides": [1, 1]},
    )  # fmt: skip
row(
    "pool2d",
    {"x": "X", "kernel_size": full_int_array("ksize")},
    attributes={"adaptive": False, "ceil_mode": False, "data_format": "NCHW", "exclusive": True,
                "global_pooling": False, "padding_algorithm": "EXPLICIT", "paddings": [0, 0],
                "pooling_type": REQUIRED, "strides": [1, 1]},
)  # fmt: skip
row(
    "max_pool2d_with_index",
    {"x": "X"},
    {"out": "Out", "mask": "Mask"},
    {"adaptive": False, "ceil_mode": False, "global_pooling": False,
     "kernel_size": attribute("ksize"), "paddings": [0, 0], "strides": [1, 1]},
)  # fmt: skip
for _name in ("batch_norm", "batch_norm_", "sync_batch_norm", "sync_batch_norm_"):
    row(
        _name,
        {"x": "X", "mean": "Mean", "variance": "Variance", "scale": "Scale", "bias": "Bias"},
        {"out": "Y", "mean_out": "MeanOut", "variance_out": "VarianceOut",
         "saved_mean": "SavedMean", "saved_variance": "SavedVariance",
         "reserve_space": "ReserveSpace"},
        {"data_format": attribute("data_layout", "NCHW"), "epsilon": 1e-05, "is_test": False,
         "momentum": 0.9, "trainable_statistics": False, "use_global_stats": False},
    )  # fmt: skip
row(
    "group_norm",
    {"x": "X", "scale": "Scale", "bias": "Bias"},
    {"y": "Y", "mean": "Mean", "variance": "Variance"},
    {"data_format": attribute("data_layout", "NCHW"), "epsilon": 1e-05, "groups": -1},
)
row(
    "instance_norm",
    {"x": "X", "scale": "Scale", "bias": "Bias"},
    {"y": "Y", "saved_mean": "SavedMean", "saved_variance": "SavedVariance"},
    {"epsilon": 1e-05},
)
row(
    "layer_norm",
    {"x": "X", "scale": "Scale", "bias": "Bias"},
    {"out": "Y", "mean": "Mean", "variance": "Variance"},
    {"begin_norm_axis": 1, "epsilon": 1e-05},
)
row(
    "dropout",
    {"x": "X", "seed_tensor": "Seed", "p": full("dropout_prob", "float32", 0.5)},
    {"out": "Out", "mask": "Mask"},
    {"fix_seed": False, "is_test": False,
     "mode": attribute("dropout_implementation", "downgrade_in_infer"), "seed": 0},
)  # fmt: skip

# Losses and metrics.
row(
    "accuracy",
    {"x": "Out", "indices": "Indices", "label": "Label"},
    {"accuracy": "Accuracy", "correct": "Correct", "total": "Total"},
)
row("bce_loss", {"input": "X", "label": "Label"})
row(
    "huber_loss",
    {"input": "X", "label": "Y"},
    {"out": "Out", "residual": "Residual"},
    {"delta": REQUIRED},
)
row("identity_loss", {"x": "X"}, attributes={"reduction": 1})
row(
    "kldiv_loss",
    {"x": "X", "label": "Target"},
    {"out": "Loss"},
    {"log_target": False, "reduction": "mean"},
)
row("label_smooth", {"label": "X", "prior_dist": "PriorDist"}, attributes={"epsilon": 0.0})
row(
    "nll_loss",
    {"input": "X", "label": "Label", "weight": "Weight"},
    {"out": "Out", "total_weight": "Total_weight"},
    {"ignore_index": -100, "reduction": "mean"},
)
row(
    "sigmoid_cross_entropy_with_logits",
    {"x": "X", "label": "Label", "pos_weight": "pos_weight"},
    attributes={"ignore_index": -100, "normalize": False},
)
row(
    "softmax_with_cross_entropy",
    {"input": "Logits", "label": "Label"},
    {"softmax": "Softmax", "loss": "Loss"},
    {"axis": -1, "ignore_index": -100, "numeric_stable_mode": True, "soft_label": False,
     "use_softmax": True},
    phi="cross_entropy_with_softmax",
)  # fmt: skip
