"""Rows of attention."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

_RESULTS = "out=out softmax=softmax softmax_lse=softmax_lse seed_offset=seed_offset"
_FLASH = 'causal?false dropout?0.0 is_test?false return_softmax?false rng_name?""'

row(
    "flash_attn",
    "flash_attn",
    "q=q k=k v=v fixed_seed_offset=fixed_seed_offset attn_mask=attn_mask",
    _RESULTS,
    _FLASH,
)
row(
    "flash_attn_qkvpacked",
    "flash_attn_qkvpacked",
    "qkv=qkv fixed_seed_offset=fixed_seed_offset attn_mask=attn_mask",
    _RESULTS,
    _FLASH,
)
row(
    "memory_efficient_attention",
    "memory_efficient_attention",
    "query=query key=key value=value bias=bias cu_seqlens_q=cu_seqlens_q "
    "cu_seqlens_k=cu_seqlens_k causal_diagonal=causal_diagonal seqlen_k=seqlen_k "
    "max_seqlen_q=@max_seqlen_q:int64 max_seqlen_k=@max_seqlen_k:int64",
    "output=output logsumexp=logsumexp seed_and_offset=seed_and_offset",
    "causal dropout_p is_test scale",
)
row(
    "fused_dot_product_attention",
    "fused_dot_product_attention",
    "q=q k=k v=v bias=bias cu_seqlen_q=cu_seqlen_q cu_seqlen_kv=cu_seqlen_kv",
    "out=out softmax_out=softmax_out rng_state=rng_state",
    'bias_type_str?"none" dropout_probability is_training?false mask_type_str?"none" '
    "scaling_factor",
)
row("self_dp_attention", "self_dp_attention", "x=X", "out=Out", "alpha?1.0 head_number?1")
row(
    "multihead_matmul",
    "multihead_matmul",
    "input=Input w=W bias=Bias bias_qk=BiasQK",
    "out=Out",
    "alpha?1.0 head_number?1 transpose_k=transpose_K?true transpose_q=transpose_Q?false "
    "transpose_v=transpose_V?false",
)
row("fused_softmax_mask", "fused_softmax_mask", "x=X mask=Mask", "out=Out")
row("fused_softmax_mask_upper_triangle", "fused_softmax_mask_upper_triangle", "X=X", "Out=Out")

# Rotary position embedding.
row(
    "fused_rotary_position_embedding",
    "fused_rotary_position_embedding",
    "q=q k=k v=v sin=sin cos=cos position_ids=position_ids",
    "out_q=out_q out_k=out_k out_v=out_v",
    "rotary_emb_base?10000.0 time_major?false use_neox_rotary_style?true",
)
row("fused_partial_rope", "fused_partial_rope", "x=x cos=cos sin=sin", "out=out")

# Attention whose mask is told in numbers.
_OF_SEQUENCES = (
    "cu_seqlens_q=cu_seqlens_q cu_seqlens_k=cu_seqlens_k fixed_seed_offset=fixed_seed_offset "
    "attn_mask=attn_mask"
)
_LONGEST = "max_seqlen_q=@max_seqlen_q:int64 max_seqlen_k=@max_seqlen_k:int64"
row(
    "flash_attn_unpadded",
    "flash_attn_unpadded",
    f"q=q k=k v=v {_OF_SEQUENCES} {_LONGEST}",
    _RESULTS,
    f"{_FLASH} scale",
)
row(
    "flash_attn_varlen_qkvpacked",
    "flash_attn_varlen_qkvpacked",
    f"qkv=qkv {_OF_SEQUENCES} {_LONGEST}",
    _RESULTS,
    f"{_FLASH} scale varlen_padded?true",
)
row(
    "variable_length_memory_efficient_attention",
    "variable_length_memory_efficient_attention",
    "query=query key=key value=value seq_lens=seq_lens kv_seq_lens=kv_seq_lens mask=mask",
    "out=out",
    "causal pre_cache_length scale",
)
row(
    "flashmask_attention",
    "flashmask_attention",
    "q=q k=k v=v startend_row_indices=startend_row_indices fixed_seed_offset=fixed_seed_offset",
    _RESULTS,
    _FLASH,
)
row(
    "flash_attn_v3",
    "flash_attn_v3",
    "q=q k=k v=v q_v_=q_v_ q_descale_=q_descale_ k_descale_=k_descale_ v_descale_=v_descale_",
    "out=out softmax_lse=softmax_lse",
    "is_causal manual_set_pack_gqa num_splits pack_gqa_ sm_margin softcap softmax_scale "
    "window_size_left window_size_right",
)
row(
    "sparse_attention",
    "sparse_attention",
    "q=Q k=K v=V offset=Offset columns=Columns key_padding_mask=KeyPaddingMask attn_mask=AttnMask",
    "out=Out sparse_dot_sdd=SparseDotSdd softmax=Softmax",
)
