"""Rows of fused operators: what Paddle's passes and its incubator write."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

# Normalisation.
_QUANTISATION = "quant_max_bound quant_min_bound quant_round_type quant_scale"

row("rms_norm", "rms_norm", "x=x scale=scale", "y=y invvar=invvar", "epsilon normalized_shape?[]")
for _name in ("fast_rms_norm", "fused_rms_norm_ext"):
    row(_name, _name, "x=x scale=scale", "y=y invvar=invvar", "epsilon")
row("fast_ln", "fast_ln", "x=x scale=scale bias=bias", "y=y mean=mean invvar=invvar", "epsilon")
row(
    "fused_rms_norm_quant",
    "fused_rms_norm_quant",
    "x=x bias=bias residual=residual norm_weight=norm_weight norm_bias=norm_bias",
    "out=out residual_out=residual_out inv_var=inv_var",
    f"begin_norm_axis epsilon {_QUANTISATION}",
)
row(
    "fused_bias_residual_layernorm",
    "fused_bias_residual_layernorm",
    "x=x bias=bias residual=residual norm_weight=norm_weight norm_bias=norm_bias",
    "out=out residual_out=residual_out mean=mean variance=variance",
    f"begin_norm_axis epsilon {_QUANTISATION} residual_alpha",
)
row(
    "fused_bias_dropout_residual_layer_norm",
    "fused_bias_dropout_residual_layer_norm",
    "x=X residual=Residual bias=Bias ln_scale=LnScale ln_bias=LnBias",
    "y=Y bias_dropout_residual_out=BiasDropoutResidualOut dropout_mask_out=DropoutMaskOut "
    "ln_mean=LnMean ln_variance=LnVariance",
    'dropout_fix_seed?true dropout_implementation?"downgrade_in_infer" dropout_rate?0.5 '
    "dropout_seed?1 is_test?false ln_epsilon?1e-05",
)
row(
    "skip_layernorm",
    "skip_layernorm",
    "x=X y=Y scale=Scale bias=Bias",
    attributes="begin_norm_axis epsilon",
)
row(
    "fused_embedding_eltwise_layernorm",
    "fused_embedding_eltwise_layernorm",
    "ids=Ids* embs=Embs* bias=Bias scale=Scale",
    attributes="epsilon?1e-05",
)
row(
    "fused_fc_elementwise_layernorm",
    "fused_fc_elementwise_layernorm",
    "x=X w=W y=Y bias0=Bias0 scale=Scale bias1=Bias1",
    "out=Out mean=Mean variance=Variance",
    'activation_type?"" begin_norm_axis?1 epsilon?1e-05 x_num_col_dims?1',
)
row(
    "add_group_norm_silu",
    "add_group_norm_silu",
    "x=x residual=residual scale=scale bias=bias",
    "y=y residual_out=residual_out mean=mean variance=variance",
    'activation?"" data_format?"NCHW" epsilon?1e-05 groups?-1',
)
