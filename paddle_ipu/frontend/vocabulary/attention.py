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
