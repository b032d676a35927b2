"""Rows of operators that draw random numbers."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    attribute,
    dtype,
    full,
    full_int_array,
    list_slot,
    row,
    same_names,
)

_NO_DIAGONAL = {"diag_num": 0, "diag_step": 0, "diag_val": 1.0}

row(
    "gaussian_random",
    {"shape": ("ShapeTensor", list_slot("ShapeTensorList"), full_int_array("shape", []))},
    attributes={"mean": 0.0, "std": 1.0, "seed": 0, "dtype": dtype("dtype", "float32")},
    phi="gaussian",
)
row(
    "uniform_random",
    {"shape": ("ShapeTensor", list_slot("ShapeTensorList"), full_int_array("shape", [])),
     "min": full("min", "float32", -1.0), "max": full("max", "float32", 1.0)},
    attributes={"seed": 0, "dtype": dtype("dtype", "float32")},
    fixed=_NO_DIAGONAL,
    phi="uniform",
)  # fmt: skip
row("gaussian_inplace", {"x": "x"}, {"out": "out"}, {"mean": 0.0, "std": 1.0, "seed": 0})
row(
    "uniform_random_inplace",
    {"x": "X"},
    attributes={"min": -1.0, "max": 1.0, "seed": 0, "diag_num": 0, "diag_step": 0, "diag_val": 1.0},
    phi="uniform_inplace",
)
row(
    "uniform_random_batch_size_like",
    {"input": "Input"},
    attributes={"shape": REQUIRED, "input_dim_idx": 0, "output_dim_idx": 0, "min": -1.0, "max": 1.0,
                "seed": 0, "diag_num": 0, "diag_step": 0, "diag_val": 1.0,
                "dtype": dtype("dtype", "float32")},
)  # fmt: skip
row(
    "truncated_gaussian_random",
    {},
    attributes={"shape": REQUIRED, "mean": 0.0, "std": 1.0, "seed": 0, "a": REQUIRED, "b": REQUIRED,
                "dtype": dtype("dtype", "float32")},
)  # fmt: skip
row(
    "randint",
    {"shape": ("ShapeTensor", list_slot("ShapeTensorList"), full_int_array("shape", []))},
    attributes={"low": REQUIRED, "high": REQUIRED, "dtype": dtype("dtype", "int64")},
    fixed={"seed": 0},
)
row("random", {"x": "x"}, {"out": "out"}, {"from": REQUIRED, "to": REQUIRED})
row("randperm", {}, attributes={"n": REQUIRED, "dtype": dtype("dtype", "int64")}, fixed={"seed": 0})
row("bernoulli", {"x": "X"})
row("binomial", {"count": "count", "prob": "prob"}, {"out": "out"})
row(
    "multinomial",
    {"x": "X", "num_samples": full("num_samples", "int32", 1)},
    attributes={"replacement": False},
)
row("poisson", {"x": "X"})
row("exponential", {"x": "X"}, attributes={"lam": attribute("lambda", 1.0)}, phi="exponential_")
row("standard_gamma", {"x": "x"}, {"out": "out"})
row("dirichlet", {"alpha": "Alpha"})
row(
    "rrelu",
    {"x": "X"},
    {"out": "Out", "noise": "Noise"},
    {"lower": 0.125, "upper": 0.3333333432674408, "is_test": False},
)
row("gumbel_softmax", {"x": "X"}, attributes={"temperature": 1.0, "hard": False, "axis": -1})
row(
    "class_center_sample",
    {"label": "Label"},
    {"remapped_label": "RemappedLabel", "sampled_local_class_center": "SampledLocalClassCenter"},
    {"num_classes": REQUIRED, "num_samples": REQUIRED, "ring_id": 0, "rank": 0, "nranks": 1,
     "fix_seed": False, "seed": 0},
)  # fmt: skip
row(
    "shuffle_batch",
    {"x": "X", "seed": "Seed"},
    {"out": "Out", "shuffle_idx": "ShuffleIdx", "seed_out": "SeedOut"},
    {"startup_seed": 0},
)
row(
    "top_p_sampling",
    same_names("x", "ps", "threshold", "topp_seed"),
    same_names("out", "ids", "topk_scores", "topk_ids"),
    {"seed": -1, "k": 0, "mode": "truncate"},
)
