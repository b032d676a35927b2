"""Rows of fused operators: what Paddle's passes and its incubator write."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    Attributes,
    attribute,
    list_slot,
    row,
    same_names,
)

# Normalisation.
_QUANTISATION: Attributes = {
    "quant_max_bound": REQUIRED, "quant_min_bound": REQUIRED, "quant_round_type": REQUIRED,
    "quant_scale": REQUIRED,
}  # fmt: skip

row(
    "rms_norm",
    {"x": "x", "scale": "scale"},
    {"y": "y", "invvar": "invvar"},
    {"epsilon": REQUIRED, "normalized_shape": []},
)
for _name in ("fast_rms_norm", "fused_rms_norm_ext"):
    row(_name, {"x": "x", "scale": "scale"}, {"y": "y", "invvar": "invvar"}, {"epsilon": REQUIRED})
row(
    "fast_ln",
    same_names("x", "scale", "bias"),
    same_names("y", "mean", "invvar"),
    {"epsilon": REQUIRED},
)
row(
    "fused_rms_norm_quant",
    same_names("x", "bias", "residual", "norm_weight", "norm_bias"),
    same_names("out", "residual_out", "inv_var"),
    {"begin_norm_axis": REQUIRED, "epsilon": REQUIRED, **_QUANTISATION},
)
row(
    "fused_bias_residual_layernorm",
    same_names("x", "bias", "residual", "norm_weight", "norm_bias"),
    same_names("out", "residual_out", "mean", "variance"),
    {"begin_norm_axis": REQUIRED, "epsilon": REQUIRED, **_QUANTISATION, "residual_alpha": REQUIRED},
)
row(
    "fused_bias_dropout_residual_layer_norm",
    {"x": "X", "residual": "Residual", "bias": "Bias", "ln_scale": "LnScale", "ln_bias": "LnBias"},
    {"y": "Y", "bias_dropout_residual_out": "BiasDropoutResidualOut",
     "dropout_mask_out": "DropoutMaskOut", "ln_mean": "LnMean", "ln_variance": "LnVariance"},
    {"dropout_fix_seed": True, "dropout_implementation": "downgrade_in_infer", "dropout_rate": 0.5,
     "dropout_seed": 1, "is_test": False, "ln_epsilon": 1e-05},
)  # fmt: skip
row(
    "skip_layernorm",
    {"x": "X", "y": "Y", "scale": "Scale", "bias": "Bias"},
    attributes={"begin_norm_axis": REQUIRED, "epsilon": REQUIRED},
)
row(
    "fused_embedding_eltwise_layernorm",
    {"ids": list_slot("Ids"), "embs": list_slot("Embs"), "bias": "Bias", "scale": "Scale"},
    attributes={"epsilon": 1e-05},
)
row(
    "fused_fc_elementwise_layernorm",
    {"x": "X", "w": "W", "y": "Y", "bias0": "Bias0", "scale": "Scale", "bias1": "Bias1"},
    {"out": "Out", "mean": "Mean", "variance": "Variance"},
    {"activation_type": "", "begin_norm_axis": 1, "epsilon": 1e-05, "x_num_col_dims": 1},
)
row(
    "add_group_norm_silu",
    same_names("x", "residual", "scale", "bias"),
    same_names("y", "residual_out", "mean", "variance"),
    {"activation": "", "data_format": "NCHW", "epsilon": 1e-05, "groups": -1},
)

# Activations, products, dropout and addition.
row("swiglu", {"x": "x", "y": "y"}, {"out": "out"})
row(
    "fused_bias_act",
    same_names("x", "bias", "dequant_scales", "shift", "smooth"),
    {"out": "out"},
    {"act_method": "gelu", "compute_dtype": "default", "quant_max_bound": 127.0,
     "quant_min_bound": -127.0, "quant_round_type": 1, "quant_scale": -1.0},
)  # fmt: skip
row(
    "fused_dropout_add",
    same_names("x", "y", "seed_tensor"),
    {"out": "out", "seed_offset": "seed_offset"},
    {"fix_seed": False, "is_test": REQUIRED, "mode": REQUIRED, "p": REQUIRED, "seed": 0},
)
row(
    "gemm_epilogue",
    same_names("input", "w", "bias"),
    {"out": "out"},
    {"activation_type": "", "in_num_col_dims": 1, "padding_weights": False},
)
row(
    "fusion_repeated_fc_relu",
    {"x": "X", "w": list_slot("W"), "bias": list_slot("Bias")},
    {"relu_out": list_slot("ReluOut"), "out": "Out"},
)
row(
    "fusion_squared_mat_sub",
    {"x": "X", "y": "Y"},
    {"squared_x": "SquaredX", "squared_y": "SquaredY", "squared_xy": "SquaredXY", "out": "Out"},
    {"scalar": 1.0},
)
row(
    "fusion_transpose_flatten_concat",
    {"x": list_slot("X")},
    attributes={"concat_axis": REQUIRED, "flatten_axis": REQUIRED, "trans_axis": REQUIRED},
)
row("batch_fc", {"input": "Input", "w": "W", "bias": "Bias"})
row("apply_per_channel_scale", {"x": "x", "scales": "scales"}, {"out": "out"})
for _name in ("fused_elemwise_activation", "fused_elemwise_add_activation"):
    row(
        _name,
        {"x": "X", "y": "Y"},
        {"out": "Out", "intermediate_out": "IntermediateOut"},
        {"axis": -1, "functor_list": REQUIRED, "save_intermediate_out": False, "scale": 0.0},
    )
row(
    "fused_scale_bias_add_relu",
    same_names("x1", "scale1", "bias1", "x2", "scale2", "bias2"),
    {"out": "out"},
    {"exhaustive_search": REQUIRED, "fuse_dual": REQUIRED},
)
row(
    "rank_attention",
    {"x": "X", "rank_offset": "RankOffset", "rank_param": "RankParam"},
    {"input_help": "InputHelp", "out": "Out", "ins_rank": "InsRank"},
    {"max_rank": attribute("MaxRank", 3), "max_size": attribute("MaxSize", 0)},
)
row(
    "fused_linear_param_grad_add",
    same_names("x", "dout", "dweight", "dbias"),
    {"dweight_out": "dweight_out", "dbias_out": "dbias_out"},
    {"has_bias": True, "multi_precision": True},
)
row("moe_combine", same_names("x", "combine_weights", "scatter_index"), {"y": "y"})
row(
    "blha_get_max_len",
    same_names("seq_lens_encoder", "seq_lens_decoder", "batch_size"),
    {"max_enc_len_this_time": "max_enc_len_this_time",
     "max_dec_len_this_time": "max_dec_len_this_time"},
)  # fmt: skip
row(
    "fused_feedforward",
    {"x": "X", "dropout1_seed": "Dropout1Seed", "dropout2_seed": "Dropout2Seed",
     "linear1_weight": "Linear1Weight", "linear1_bias": "Linear1Bias",
     "linear2_weight": "Linear2Weight", "linear2_bias": "Linear2Bias", "ln1_scale": "Ln1Scale",
     "ln1_bias": "Ln1Bias", "ln2_scale": "Ln2Scale", "ln2_bias": "Ln2Bias"},
    {"out": "Out", "dropout1_mask": "Dropout1Mask", "dropout2_mask": "Dropout2Mask",
     "ln1_mean": "Ln1Mean", "ln1_variance": "Ln1Variance", "ln2_mean": "Ln2Mean",
     "ln2_variance": "Ln2Variance", "linear1_out": "Linear1Out", "ln1_out": "Ln1Out",
     "dropout1_out": "Dropout1Out", "dropout2_out": "Dropout2Out"},
    {"act_method": "gelu", "add_residual": True, "dropout1_fix_seed": False,
     "dropout1_implementation": "downgrade_in_infer",
     "dropout1_prob": attribute("dropout1_rate", 0.5),
     "dropout1_seed_val": attribute("dropout1_seed", 0), "dropout2_fix_seed": False,
     "dropout2_implementation": "downgrade_in_infer",
     "dropout2_prob": attribute("dropout2_rate", 0.5),
     "dropout2_seed_val": attribute("dropout2_seed", 0), "is_test": False, "ln1_epsilon": 1e-05,
     "ln2_epsilon": 1e-05, "pre_layer_norm": False, "ring_id": -1},
)  # fmt: skip
row(
    "fused_attention",
    {"x": "X", "ln_scale": "LnScale", "ln_bias": "LnBias", "qkv_weight": "QKVW",
     "qkv_bias": "QKVBias", "cache_kv": "CacheKV", "src_mask": "SrcMask",
     "out_linear_weight": "OutLinearW", "out_linear_bias": "OutLinearBias",
     "ln_scale_2": "Ln2Scale", "ln_bias_2": "Ln2Bias"},
    {"ln_mean": "LnMean", "ln_var": "LnVariance", "ln_out": "LnOut", "qkv_out": "QKVOut",
     "qkv_bias_out": "QKVBiasOut", "transpose_out_2": "TransposeOut2", "qk_out": "QKOut",
     "qktv_out": "QKTVOut", "softmax_out": "SoftmaxOut",
     "attn_dropout_mask_out": "AttnDropoutMaskOut", "attn_dropout_out": "AttnDropoutOut",
     "src_mask_out": "SrcMaskOut", "fmha_out": "FMHAOut", "out_linear_out": "OutLinearOut",
     "dropout_mask_out": "DropoutMaskOut", "ln_mean_2": "Ln2Mean", "ln_var_2": "Ln2Variance",
     "bias_dropout_residual_out": "BiasDropoutResidualOut", "cache_kv_out": "CacheKVOut",
     "out": "Y"},
    {"add_residual": True, "attn_dropout_fix_seed": False,
     "attn_dropout_implementation": "downgrade_in_infer", "attn_dropout_rate": 0.5,
     "attn_dropout_seed": 0, "dropout_fix_seed": False,
     "dropout_implementation": "downgrade_in_infer", "dropout_rate": 0.5, "dropout_seed": 0,
     "epsilon": 1e-05, "is_test": False, "ln_epsilon": 1e-05, "num_heads": 0,
     "pre_layer_norm": False, "ring_id": -1, "transpose_qkv_wb": False},
)  # fmt: skip
