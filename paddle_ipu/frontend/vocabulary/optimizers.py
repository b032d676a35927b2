"""Rows of the operators that update parameters."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# Loss scaling.
row(
    "check_finite_and_unscale",
    "check_finite_and_unscale_",
    "x=X* scale=Scale",
    "out=Out* found_infinite=FoundInfinite",
)
row(
    "update_loss_scaling",
    "update_loss_scaling_",
    "x=X* found_infinite=FoundInfinite prev_loss_scaling=PrevLossScaling in_good_steps=InGoodSteps "
    "in_bad_steps=InBadSteps stop_update=StopUpdate|@stop_update:bool?false",
    "out=Out* loss_scaling=LossScaling out_good_steps=OutGoodSteps out_bad_steps=OutBadSteps",
    "decr_every_n_nan_or_inf decr_ratio incr_every_n_steps incr_ratio",
)

# Optimizers.
row(
    "sgd",
    "sgd_",
    "param=Param learning_rate=LearningRate grad=Grad master_param=MasterParam",
    "param_out=ParamOut master_param_out=MasterParamOut",
    "multi_precision?false",
)
row(
    "momentum",
    "momentum_",
    "param=Param grad=Grad velocity=Velocity learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut velocity_out=VelocityOut master_param_out=MasterParamOut",
    'mu multi_precision?false regularization_coeff?0.0 regularization_method?"" rescale_grad?1.0 '
    "use_nesterov?false",
)
_ADAM = (
    "param=Param grad=Grad learning_rate=LearningRate moment1=Moment1 moment2=Moment2 "
    "moment2_max=Moment2Max beta1_pow=Beta1Pow beta2_pow=Beta2Pow master_param=MasterParam "
    "skip_update=SkipUpdate beta1=Beta1Tensor|@beta1:float32?0.9 "
    "beta2=Beta2Tensor|@beta2:float32?0.999 epsilon=EpsilonTensor|@epsilon:float32?1e-08"
)
_ADAM_OUT = (
    "param_out=ParamOut moment1_out=Moment1Out moment2_out=Moment2Out "
    "moment2_max_out=Moment2MaxOut beta1_pow_out=Beta1PowOut beta2_pow_out=Beta2PowOut "
    "master_param_out=MasterParamOut"
)
_ADAM_SETTINGS = (
    "amsgrad?false lazy_mode?false min_row_size_to_use_multithread?1000 multi_precision?false "
    "use_global_beta_pow?false"
)
row("adam", "adam_", _ADAM, _ADAM_OUT, _ADAM_SETTINGS)
row(
    "adamw",
    "adamw_",
    _ADAM,
    _ADAM_OUT,
    f"{_ADAM_SETTINGS} coeff?0.01 lr_ratio?1.0 with_decay?false",
)
row(
    "lamb",
    "lamb_",
    "param=Param grad=Grad learning_rate=LearningRate moment1=Moment1 moment2=Moment2 "
    "beta1_pow=Beta1Pow beta2_pow=Beta2Pow master_param=MasterParam skip_update=SkipUpdate",
    "param_out=ParamOut moment1_out=Moment1Out moment2_out=Moment2Out beta1_pow_out=Beta1PowOut "
    "beta2_pow_out=Beta2PowOut master_param_outs=MasterParamOut",
    "always_adapt?false beta1?0.9 beta2?0.999 epsilon?1e-06 multi_precision?false weight_decay",
)
row(
    "adamax",
    "adamax_",
    "param=Param grad=Grad learning_rate=LearningRate moment=Moment inf_norm=InfNorm "
    "beta1_pow=Beta1Pow master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut inf_norm_out=InfNormOut "
    "master_param_out=MasterParamOut",
    "beta1?0.9 beta2?0.999 epsilon?1e-08 multi_precision?false",
)
row(
    "adagrad",
    "adagrad_",
    "param=Param grad=Grad moment=Moment learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut master_param_out=MasterParamOut",
    "epsilon?1e-06 multi_precision?false",
)
row(
    "adadelta",
    "adadelta_",
    "param=Param grad=Grad avg_squared_grad=AvgSquaredGrad avg_squared_update=AvgSquaredUpdate "
    "learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut moment_out=AvgSquaredGradOut inf_norm_out=AvgSquaredUpdateOut "
    "master_param_out=MasterParamOut",
    "epsilon?1e-06 multi_precision?false rho?0.95",
)
row(
    "rmsprop",
    "rmsprop_",
    "param=Param mean_square=MeanSquare grad=Grad moment=Moment learning_rate=LearningRate "
    "mean_grad=MeanGrad master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut mean_square_out=MeanSquareOut "
    "mean_grad_out=MeanGradOut master_param_outs=MasterParamOut",
    "centered?false decay?0.9 epsilon?1e-10 momentum?0.0 multi_precision?false",
)
row(
    "lars_momentum",
    "lars_momentum_",
    "param=Param* grad=Grad* velocity=Velocity* learning_rate=LearningRate* "
    "master_param=MasterParam*",
    "param_out=ParamOut* velocity_out=VelocityOut* master_param_out=MasterParamOut*",
    "epsilon?0.0 lars_coeff?0.001 lars_weight_decay?[0.0005] mu multi_precision?false "
    "rescale_grad?1.0",
)
_MERGED_OUT = (
    "param_out=ParamOut* moment1_out=Moment1Out* moment2_out=Moment2Out* "
    "beta1_pow_out=Beta1PowOut* beta2_pow_out=Beta2PowOut* master_param_out=MasterParamOut*"
)
row(
    "merged_adam",
    "merged_adam_",
    "param=Param* grad=Grad* learning_rate=LearningRate* moment1=Moment1* moment2=Moment2* "
    "beta1_pow=Beta1Pow* beta2_pow=Beta2Pow* master_param=MasterParam* "
    "beta1=@beta1:float32?0.9 beta2=@beta2:float32?0.999 epsilon=@epsilon:float32?1e-08",
    _MERGED_OUT,
    "multi_precision?false use_global_beta_pow?false",
)
row(
    "merged_momentum",
    "merged_momentum_",
    "param=Param* grad=Grad* velocity=Velocity* learning_rate=LearningRate* "
    "master_param=MasterParam*",
    "param_out=ParamOut* velocity_out=VelocityOut* master_param_out=MasterParamOut*",
    "mu multi_precision?false regularization_coeff?[] regularization_method?[] rescale_grad?1.0 "
    "use_nesterov?false",
)
row(
    "decayed_adagrad",
    "decayed_adagrad",
    "param=Param grad=Grad moment=Moment learning_rate=LearningRate",
    "param_out=ParamOut moment_out=MomentOut",
    "decay?0.95 epsilon?1e-06",
)
