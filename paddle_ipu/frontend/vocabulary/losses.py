"""Rows of losses of sequences and of many classes."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import REQUIRED, row, same_names

row("log_loss", {"input": "Predicted", "label": "Labels"}, {"out": "Loss"}, {"epsilon": REQUIRED})
row("hinge_loss", {"logits": "Logits", "labels": "Labels"}, {"loss": "Loss"})
row(
    "warpctc",
    {"logits": "Logits", "label": "Label", "logits_length": "LogitsLength",
     "labels_length": "LabelLength"},
    {"loss": "Loss", "warpctcgrad": "WarpCTCGrad"},
    {"blank": 0, "norm_by_times": False},
)  # fmt: skip
row(
    "warprnnt",
    same_names("input", "label", "input_lengths", "label_lengths"),
    {"loss": "loss", "warprnntgrad": "warprnntgrad"},
    {"blank": 0, "fastemit_lambda": 0.0},
)
row(
    "hierarchical_sigmoid",
    {"x": "X", "label": "Label", "w": "W", "bias": "Bias", "path": "PathTable", "code": "PathCode"},
    {"out": "Out", "pre_out": "PreOut", "w_out": "W_Out"},
    {"num_classes": 2, "is_sparse": False},
    phi="hsigmoid_loss",
)
row(
    "margin_cross_entropy",
    {"logits": "Logits", "label": "Label"},
    {"softmax": "Softmax", "loss": "Loss"},
    {"return_softmax": False, "ring_id": 0, "rank": 0, "nranks": 1, "margin1": 1.0, "margin2": 0.5,
     "margin3": 0.0, "scale": 64.0},
)  # fmt: skip
