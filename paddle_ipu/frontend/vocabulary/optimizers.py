"""Rows of the operators that update parameters."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    Attributes,
    Inputs,
    Outputs,
    full,
    list_slot,
    row,
)

# Loss scaling.
row(
    "check_finite_and_unscale",
    {"x": list_slot("X"), "scale": "Scale"},
    {"out": list_slot("Out"), "found_infinite": "FoundInfinite"},
    phi="check_finite_and_unscale_",
)
row(
    "update_loss_scaling",
    {"x": list_slot("X"), "found_infinite": "FoundInfinite", "prev_loss_scaling": "PrevLossScaling",
     "in_good_steps": "InGoodSteps", "in_bad_steps": "InBadSteps",
     "stop_update": ("StopUpdate", full("stop_update", "bool", False))},
    {"out": list_slot("Out"), "loss_scaling": "LossScaling", "out_good_steps": "OutGoodSteps",
     "out_bad_steps": "OutBadSteps"},
    {"decr_every_n_nan_or_inf": REQUIRED, "decr_ratio": REQUIRED, "incr_every_n_steps": REQUIRED,
     "incr_ratio": REQUIRED},
    phi="update_loss_scaling_",
)  # fmt: skip

# Optimizers.
row(
    "sgd",
    {"param": "Param", "learning_rate": "LearningRate", "grad": "Grad",
     "master_param": "MasterParam"},
    {"param_out": "ParamOut", "master_param_out": "MasterParamOut"},
    {"multi_precision": False},
    phi="sgd_",
)  # fmt: skip
row(
    "momentum",
    {"param": "Param", "grad": "Grad", "velocity": "Velocity", "learning_rate": "LearningRate",
     "master_param": "MasterParam"},
    {"param_out": "ParamOut", "velocity_out": "VelocityOut", "master_param_out": "MasterParamOut"},
    {"mu": REQUIRED, "multi_precision": False, "regularization_coeff": 0.0,
     "regularization_method": "", "rescale_grad": 1.0, "use_nesterov": False},
    phi="momentum_",
)  # fmt: skip
_ADAM: Inputs = {
    "param": "Param", "grad": "Grad", "learning_rate": "LearningRate", "moment1": "Moment1",
    "moment2": "Moment2", "moment2_max": "Moment2Max", "beta1_pow": "Beta1Pow",
    "beta2_pow": "Beta2Pow", "master_param": "MasterParam", "skip_update": "SkipUpdate",
    "beta1": ("Beta1Tensor", full("beta1", "float32", 0.9)),
    "beta2": ("Beta2Tensor", full("beta2", "float32", 0.999)),
    "epsilon": ("EpsilonTensor", full("epsilon", "float32", 1e-08)),
}  # fmt: skip
_ADAM_OUT: Outputs = {
    "param_out": "ParamOut", "moment1_out": "Moment1Out", "moment2_out": "Moment2Out",
    "moment2_max_out": "Moment2MaxOut", "beta1_pow_out": "Beta1PowOut",
    "beta2_pow_out": "Beta2PowOut", "master_param_out": "MasterParamOut",
}  # fmt: skip
_ADAM_SETTINGS: Attributes = {
    "amsgrad": False, "lazy_mode": False, "min_row_size_to_use_multithread": 1000,
    "multi_precision": False, "use_global_beta_pow": False,
}  # fmt: skip
row("adam", _ADAM, _ADAM_OUT, _ADAM_SETTINGS, phi="adam_")
row(
    "adamw",
    _ADAM,
    _ADAM_OUT,
    {**_ADAM_SETTINGS, "coeff": 0.01, "lr_ratio": 1.0, "with_decay": False},
    phi="adamw_",
)
row(
    "lamb",
    {"param": "Param", "grad": "Grad", "learning_rate": "LearningRate", "moment1": "Moment1",
     "moment2": "Moment2", "beta1_pow": "Beta1Pow", "beta2_pow": "Beta2Pow",
     "master_param": "MasterParam", "skip_update": "SkipUpdate"},
    {"param_out": "ParamOut", "moment1_out": "Moment1Out", "moment2_out": "Moment2Out",
     "beta1_pow_out": "Beta1PowOut", "beta2_pow_out": "Beta2PowOut",
     "master_param_outs": "MasterParamOut"},
    {"always_adapt": False, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-06,
     "multi_precision": False, "weight_decay": REQUIRED},
    phi="lamb_",
)  # fmt: skip
row(
    "adamax",
    {"param": "Param", "grad": "Grad", "learning_rate": "LearningRate", "moment": "Moment",
     "inf_norm": "InfNorm", "beta1_pow": "Beta1Pow", "master_param": "MasterParam"},
    {"param_out": "ParamOut", "moment_out": "MomentOut", "inf_norm_out": "InfNormOut",
     "master_param_out": "MasterParamOut"},
    {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-08, "multi_precision": False},
    phi="adamax_",
)  # fmt: skip
row(
    "adagrad",
    {"param": "Param", "grad": "Grad", "moment": "Moment", "learning_rate": "LearningRate",
     "master_param": "MasterParam"},
    {"param_out": "ParamOut", "moment_out": "MomentOut", "master_param_out": "MasterParamOut"},
    {"epsilon": 1e-06, "multi_precision": False},
    phi="adagrad_",
)  # fmt: skip
row(
    "adadelta",
    {"param": "Param", "grad": "Grad", "avg_squared_grad": "AvgSquaredGrad",
     "avg_squared_update": "AvgSquaredUpdate", "learning_rate": "LearningRate",
     "master_param": "MasterParam"},
    {"param_out": "ParamOut", "moment_out": "AvgSquaredGradOut",
     "inf_norm_out": "AvgSquaredUpdateOut", "master_param_out": "MasterParamOut"},
    {"epsilon": 1e-06, "multi_precision": False, "rho": 0.95},
    phi="adadelta_",
)  # fmt: skip
row(
    "rmsprop",
    {"param": "Param", "mean_square": "MeanSquare", "grad": "Grad", "moment": "Moment",
     "learning_rate": "LearningRate", "mean_grad": "MeanGrad", "master_param": "MasterParam"},
    {"param_out": "ParamOut", "moment_out": "MomentOut", "mean_square_out": "MeanSquareOut",
     "mean_grad_out": "MeanGradOut", "master_param_outs": "MasterParamOut"},
    {"centered": False, "decay": 0.9, "epsilon": 1e-10, "momentum": 0.0, "multi_precision": False},
    phi="rmsprop_",
)  # fmt: skip
row(
    "lars_momentum",
    {"param": list_slot("Param"), "grad": list_slot("Grad"), "velocity": list_slot("Velocity"),
     "learning_rate": list_slot("LearningRate"), "master_param": list_slot("MasterParam")},
    {"param_out": list_slot("ParamOut"), "velocity_out": list_slot("VelocityOut"),
     "master_param_out": list_slot("MasterParamOut")},
    {"epsilon": 0.0, "lars_coeff": 0.001, "lars_weight_decay": [0.0005], "mu": REQUIRED,
     "multi_precision": False, "rescale_grad": 1.0},
    phi="lars_momentum_",
)  # fmt: skip
_MERGED_OUT: Outputs = {
    "param_out": list_slot("ParamOut"), "moment1_out": list_slot("Moment1Out"),
    "moment2_out": list_slot("Moment2Out"), "beta1_pow_out": list_slot("Beta1PowOut"),
    "beta2_pow_out": list_slot("Beta2PowOut"), "master_param_out": list_slot("MasterParamOut"),
}  # fmt: skip
row(
    "merged_adam",
    {"param": list_slot("Param"), "grad": list_slot("Grad"),
     "learning_rate": list_slot("LearningRate"), "moment1": list_slot("Moment1"),
     "moment2": list_slot("Moment2"), "beta1_pow": list_slot("Beta1Pow"),
     "beta2_pow": list_slot("Beta2Pow"), "master_param": list_slot("MasterParam"),
     "beta1": full("beta1", "float32", 0.9), "beta2": full("beta2", "float32", 0.999),
     "epsilon": full("epsilon", "float32", 1e-08)},
    _MERGED_OUT,
    {"multi_precision": False, "use_global_beta_pow": False},
    phi="merged_adam_",
)  # fmt: skip
row(
    "merged_momentum",
    {"param": list_slot("Param"), "grad": list_slot("Grad"), "velocity": list_slot("Velocity"),
     "learning_rate": list_slot("LearningRate"), "master_param": list_slot("MasterParam")},
    {"param_out": list_slot("ParamOut"), "velocity_out": list_slot("VelocityOut"),
     "master_param_out": list_slot("MasterParamOut")},
    {"mu": REQUIRED, "multi_precision": False, "regularization_coeff": [],
     "regularization_method": [], "rescale_grad": 1.0, "use_nesterov": False},
    phi="merged_momentum_",
)  # fmt: skip
row(
    "decayed_adagrad",
    {"param": "Param", "grad": "Grad", "moment": "Moment", "learning_rate": "LearningRate"},
    {"param_out": "ParamOut", "moment_out": "MomentOut"},
    {"decay": 0.95, "epsilon": 1e-06},
)
