"""Rows of attention."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import (
    REQUIRED,
    Attributes,
    Inputs,
    Outputs,
    attribute,
    full,
    row,
    same_names,
)

_RESULTS: Outputs = same_names("out", "softmax", "softmax_lse", "seed_offset")
_FLASH: Attributes = {
    "causal": False, "dropout": 0.0, "is_test": False, "return_softmax": False, "rng_name": "",
}  # fmt: skip

row("flash_attn", same_names("q", "k", "v", "fixed_seed_offset", "attn_mask"), _RESULTS, _FLASH)
row("flash_attn_qkvpacked", same_names("qkv", "fixed_seed_offset", "attn_mask"), _RESULTS, _FLASH)
row(
    "memory_efficient_attention",
    {"query": "query", "key": "key", "value": "value", "bias": "bias",
     "cu_seqlens_q": "cu_seqlens_q", "cu_seqlens_k": "cu_seqlens_k",
     "causal_diagonal": "causal_diagonal", "seqlen_k": "seqlen_k",
     "max_seqlen_q": full("max_seqlen_q", "int64"), "max_seqlen_k": full("max_seqlen_k", "int64")},
    same_names("output", "logsumexp", "seed_and_offset"),
    {"causal": REQUIRED, "dropout_p": REQUIRED, "is_test": REQUIRED, "scale": REQUIRED},
)  # fmt: skip
row(
    "fused_dot_product_attention",
    same_names("q", "k", "v", "bias", "cu_seqlen_q", "cu_seqlen_kv"),
    same_names("out", "softmax_out", "rng_state"),
    {"bias_type_str": "none", "dropout_probability": REQUIRED, "is_training": False,
     "mask_type_str": "none", "scaling_factor": REQUIRED},
)  # fmt: skip
row("self_dp_attention", {"x": "X"}, attributes={"alpha": 1.0, "head_number": 1})
row(
    "multihead_matmul",
    {"input": "Input", "w": "W", "bias": "Bias", "bias_qk": "BiasQK"},
    attributes={"alpha": 1.0, "head_number": 1, "transpose_k": attribute("transpose_K", True),
                "transpose_q": attribute("transpose_Q", False),
                "transpose_v": attribute("transpose_V", False)},
)  # fmt: skip
row("fused_softmax_mask", {"x": "X", "mask": "Mask"})
row("fused_softmax_mask_upper_triangle", {"X": "X"}, {"Out": "Out"})

# Rotary position embedding.
row(
    "fused_rotary_position_embedding",
    same_names("q", "k", "v", "sin", "cos", "position_ids"),
    same_names("out_q", "out_k", "out_v"),
    {"rotary_emb_base": 10000.0, "time_major": False, "use_neox_rotary_style": True},
)
row("fused_partial_rope", same_names("x", "cos", "sin"), {"out": "out"})

# Attention with lengths of sequences instead of a mask.
_OF_SEQUENCES: Inputs = same_names("cu_seqlens_q", "cu_seqlens_k", "fixed_seed_offset", "attn_mask")
_LONGEST: Inputs = {
    "max_seqlen_q": full("max_seqlen_q", "int64"), "max_seqlen_k": full("max_seqlen_k", "int64"),
}  # fmt: skip
row(
    "flash_attn_unpadded",
    {"q": "q", "k": "k", "v": "v", **_OF_SEQUENCES, **_LONGEST},
    _RESULTS,
    {**_FLASH, "scale": REQUIRED},
)
row(
    "flash_attn_varlen_qkvpacked",
    {"qkv": "qkv", **_OF_SEQUENCES, **_LONGEST},
    _RESULTS,
    {**_FLASH, "scale": REQUIRED, "varlen_padded": True},
)
row(
    "variable_length_memory_efficient_attention",
    same_names("query", "key", "value", "seq_lens", "kv_seq_lens", "mask"),
    {"out": "out"},
    {"causal": REQUIRED, "pre_cache_length": REQUIRED, "scale": REQUIRED},
)
row(
    "flashmask_attention",
    same_names("q", "k", "v", "startend_row_indices", "fixed_seed_offset"),
    _RESULTS,
    _FLASH,
)
row(
    "flash_attn_v3",
    same_names("q", "k", "v", "q_v_", "q_descale_", "k_descale_", "v_descale_"),
    {"out": "out", "softmax_lse": "softmax_lse"},
    {"is_causal": REQUIRED, "manual_set_pack_gqa": REQUIRED, "num_splits": REQUIRED,
     "pack_gqa_": REQUIRED, "sm_margin": REQUIRED, "softcap": REQUIRED, "softmax_scale": REQUIRED,
     "window_size_left": REQUIRED, "window_size_right": REQUIRED},
)  # fmt: skip
row(
    "sparse_attention",
    {"q": "Q", "k": "K", "v": "V", "offset": "Offset", "columns": "Columns",
     "key_padding_mask": "KeyPaddingMask", "attn_mask": "AttnMask"},
    {"out": "Out", "sparse_dot_sdd": "SparseDotSdd", "softmax": "Softmax"},
)  # fmt: skip
