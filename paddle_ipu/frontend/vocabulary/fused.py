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

# Activations, products, dropout and addition.
row("swiglu", "swiglu", "x=x y=y", "out=out")
row(
    "fused_bias_act",
    "fused_bias_act",
    "x=x bias=bias dequant_scales=dequant_scales shift=shift smooth=smooth",
    "out=out",
    'act_method?"gelu" compute_dtype?"default" quant_max_bound?127.0 quant_min_bound?-127.0 '
    "quant_round_type?1 quant_scale?-1.0",
)
row(
    "fused_dropout_add",
    "fused_dropout_add",
    "x=x y=y seed_tensor=seed_tensor",
    "out=out seed_offset=seed_offset",
    "fix_seed?false is_test mode p seed?0",
)
row(
    "gemm_epilogue",
    "gemm_epilogue",
    "input=input w=w bias=bias",
    "out=out",
    'activation_type?"" in_num_col_dims?1 padding_weights?false',
)
row(
    "fusion_repeated_fc_relu",
    "fusion_repeated_fc_relu",
    "x=X w=W* bias=Bias*",
    "relu_out=ReluOut* out=Out",
)
row(
    "fusion_squared_mat_sub",
    "fusion_squared_mat_sub",
    "x=X y=Y",
    "squared_x=SquaredX squared_y=SquaredY squared_xy=SquaredXY out=Out",
    "scalar?1.0",
)
row(
    "fusion_transpose_flatten_concat",
    "fusion_transpose_flatten_concat",
    "x=X*",
    attributes="concat_axis flatten_axis trans_axis",
)
row("batch_fc", "batch_fc", "input=Input w=W bias=Bias")
row("apply_per_channel_scale", "apply_per_channel_scale", "x=x scales=scales", "out=out")
for _name in ("fused_elemwise_activation", "fused_elemwise_add_activation"):
    row(
        _name,
        _name,
        "x=X y=Y",
        "out=Out intermediate_out=IntermediateOut",
        "axis?-1 functor_list save_intermediate_out?false scale?0.0",
    )
row(
    "fused_scale_bias_add_relu",
    "fused_scale_bias_add_relu",
    "x1=x1 scale1=scale1 bias1=bias1 x2=x2 scale2=scale2 bias2=bias2",
    "out=out",
    "exhaustive_search fuse_dual",
)
row(
    "rank_attention",
    "rank_attention",
    "x=X rank_offset=RankOffset rank_param=RankParam",
    "input_help=InputHelp out=Out ins_rank=InsRank",
    "max_rank=MaxRank?3 max_size=MaxSize?0",
)
row(
    "fused_linear_param_grad_add",
    "fused_linear_param_grad_add",
    "x=x dout=dout dweight=dweight dbias=dbias",
    "dweight_out=dweight_out dbias_out=dbias_out",
    "has_bias?true multi_precision?true",
)
row(
    "moe_combine",
    "moe_combine",
    "x=x combine_weights=combine_weights scatter_index=scatter_index",
    "y=y",
)
row(
    "blha_get_max_len",
    "blha_get_max_len",
    "seq_lens_encoder=seq_lens_encoder seq_lens_decoder=seq_lens_decoder batch_size=batch_size",
    "max_enc_len_this_time=max_enc_len_this_time max_dec_len_this_time=max_dec_len_this_time",
)
row(
    "fused_feedforward",
    "fused_feedforward",
    "x=X dropout1_seed=Dropout1Seed dropout2_seed=Dropout2Seed linear1_weight=Linear1Weight "
    "linear1_bias=Linear1Bias linear2_weight=Linear2Weight linear2_bias=Linear2Bias "
    "ln1_scale=Ln1Scale ln1_bias=Ln1Bias ln2_scale=Ln2Scale ln2_bias=Ln2Bias",
    "out=Out dropout1_mask=Dropout1Mask dropout2_mask=Dropout2Mask ln1_mean=Ln1Mean "
    "ln1_variance=Ln1Variance ln2_mean=Ln2Mean ln2_variance=Ln2Variance linear1_out=Linear1Out "
    "ln1_out=Ln1Out dropout1_out=Dropout1Out dropout2_out=Dropout2Out",
    'act_method?"gelu" add_residual?true dropout1_fix_seed?false '
    'dropout1_implementation?"downgrade_in_infer" dropout1_prob=dropout1_rate?0.5 '
    "dropout1_seed_val=dropout1_seed?0 dropout2_fix_seed?false "
    'dropout2_implementation?"downgrade_in_infer" dropout2_prob=dropout2_rate?0.5 '
    "dropout2_seed_val=dropout2_seed?0 is_test?false ln1_epsilon?1e-05 ln2_epsilon?1e-05 "
    "pre_layer_norm?false ring_id?-1",
)
row(
    "fused_attention",
    "fused_attention",
    "x=X ln_scale=LnScale ln_bias=LnBias qkv_weight=QKVW qkv_bias=QKVBias cache_kv=CacheKV "
    "src_mask=SrcMask out_linear_weight=OutLinearW out_linear_bias=OutLinearBias "
    "ln_scale_2=Ln2Scale ln_bias_2=Ln2Bias",
    "ln_mean=LnMean ln_var=LnVariance ln_out=LnOut qkv_out=QKVOut qkv_bias_out=QKVBiasOut "
    "transpose_out_2=TransposeOut2 qk_out=QKOut qktv_out=QKTVOut softmax_out=SoftmaxOut "
    "attn_dropout_mask_out=AttnDropoutMaskOut attn_dropout_out=AttnDropoutOut "
    "src_mask_out=SrcMaskOut fmha_out=FMHAOut out_linear_out=OutLinearOut "
    "dropout_mask_out=DropoutMaskOut ln_mean_2=Ln2Mean ln_var_2=Ln2Variance "
    "bias_dropout_residual_out=BiasDropoutResidualOut cache_kv_out=CacheKVOut out=Y",
    "add_residual?true attn_dropout_fix_seed?false "
    'attn_dropout_implementation?"downgrade_in_infer" attn_dropout_rate?0.5 '
    "attn_dropout_seed?0 dropout_fix_seed?false "
    'dropout_implementation?"downgrade_in_infer" dropout_rate?0.5 dropout_seed?0 epsilon?1e-05 '
    "is_test?false ln_epsilon?1e-05 num_heads?0 pre_layer_norm?false ring_id?-1 "
    "transpose_qkv_wb?false",
)
