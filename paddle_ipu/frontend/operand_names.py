"""The operand names of phi's operators in PIR's order, for programs read without Paddle's PIR.

A saved PIR program has operands by position only. Paddle 3.3 tells their names where it is
installed; Paddle 2.6 knows other operators. The table is that of Paddle 3.3, whose files of
version 1 to 3 (Paddle 3.0 to 3.2) differ in ``rms_norm`` and a few attention kernels for GPUs.
"""

from __future__ import annotations

# Each line: operand names, a colon, the operators that have them. An indented line goes on with
# the one above.
_TABLE = """
x: abs abs_ acos acos_ acosh acosh_ add_position_encoding all all_gather all_reduce all_reduce_
    all_to_all amax amin angle any argsort array_length array_to_tensor as_complex as_real asin
    asin_ asinh asinh_ assign assign_ atan atan_ atanh atanh_ bernoulli bitwise_not bitwise_not_
    broadcast broadcast_ c_allreduce_sum c_allreduce_sum_ c_concat c_identity c_identity_ cast
    cast_ ceil ceil_ celu channel_shuffle cholesky clip_by_norm conj cos cos_ cosh cosh_ cummax
    cummin cumprod cumprod_ decode_jpeg det diag diagonal digamma digamma_
    disable_check_model_nan_inf eig eigh eigvals eigvalsh einsum elu elu_ empty_like
    enable_check_model_nan_inf erf erf_ erfinv erfinv_ exp exp_ expm1 expm1_ exponential_
    fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max
    fake_quantize_abs_max fake_quantize_dequantize_abs_max fetch fft_c2c fft_c2r fft_r2c
    fill_diagonal fill_diagonal_ flatten flatten_ flip floor floor_ fold fp8_quant_blockwise
    fractional_max_pool2d fractional_max_pool3d frame fused_stack_quant
    fused_stack_transpose_quant fused_transpose_wlch_split_quant fusion_seqpool_concat
    fusion_transpose_flatten_concat gammaln gammaln_ gaussian_inplace gaussian_inplace_ gelu
    get_tensor_from_selected_rows gumbel_softmax hardshrink hardsigmoid hardswish hardtanh
    hardtanh_ hash i0 i0_ i0e i1 i1e identity_loss identity_loss_ imag increment increment_
    index_select_strided int_bincount inverse is_empty isfinite isinf isnan kthvalue l1_norm
    l1_norm_ leaky_relu leaky_relu_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_
    log_softmax logcumsumexp logical_not logical_not_ logit logit_ logsigmoid logsumexp lp_pool2d
    lu lu_ matrix_power matrix_rank max_pool2d_with_index max_pool3d_with_index max_with_index
    maxout mean_all median memcpy memcpy_d2h memcpy_h2d merge_selected_rows min_with_index mish
    mode mp_allreduce_sum mp_allreduce_sum_ multi_dot nanmedian nansum nms nop nop_ norm
    npu_identity numel onednn_to_paddle_layout overlap_add p_norm pixel_shuffle pixel_unshuffle
    poisson polygamma polygamma_ pool3d pow pow_ qr random random_ real reciprocal reciprocal_
    reduce reduce_ reduce_scatter relu relu6 relu_ renorm renorm_ repeat_interleave rint rint_
    round round_ rrelu rsqrt rsqrt_ self_dp_attention selu send_v2 sequence_pool sequence_softmax
    share_data share_data_ shuffle_channel sigmoid sigmoid_ sign silu silu_ sin sin_ sinh sinh_
    slogdet slogdet_v2 softmax softmax_ softplus softshrink softsign sqrt sqrt_ square square_
    squared_l2_norm stack standard_gamma stanh std svd svdvals swish sync_calc_stream
    sync_calc_stream_ tan tan_ tanh tanh_ tanh_shrink temporal_shift tensorrt_engine
    thresholded_relu thresholded_relu_ trace trans_layout transpose transpose_ tril tril_ triu
    triu_ unfold uniform_inplace uniform_inplace_ unique unique_consecutive unstack var variance
    weight_quantize yolo_box_head
x y: accuracy_check add add_ atan2 bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
    bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ bmm
    cholesky_solve copysign copysign_ cross dist divide divide_ dot elementwise_pow equal equal_
    equal_all expand_as fill_diagonal_tensor fill_diagonal_tensor_ floor_divide floor_divide_ fmax
    fmin fusion_squared_mat_sub gammaincc gammaincc_ greater_equal greater_equal_ greater_than
    greater_than_ heaviside im2sequence kron less_equal less_equal_ less_than less_than_
    logical_and logical_and_ logical_or logical_or_ logical_xor logical_xor_ lu_unpack matmul
    matmul_with_flatten maximum minimum multiply multiply_ nextafter not_equal not_equal_
    remainder remainder_ sequence_expand solve subtract subtract_ swiglu triangular_solve
    trunc_divide trunc_divide_
input: anchor_generator as_strided broadcast_tensors coalesce_tensor coalesce_tensor_
    create_array_like diag_embed full_batch_size_like shape shape64 shard_index trunc trunc_
    unbind uniform_random_batch_size_like view_dtype view_shape view_slice
x axis: argmax argmin concat cumsum cumsum_ frobenius_norm max mean min prod reverse
    split_with_num squeeze squeeze_ sum unsqueeze unsqueeze_
: assign_value create_array data full full_int_array randperm read_file recv_v2 tril_indices
    triu_indices truncated_gaussian_random
x scale: check_finite_and_unscale_ dequantize_abs_max fake_dequantize_max_abs fast_rms_norm
    fused_rms_norm_ext rms_norm scale scale_ weight_dequantize
input label: bce_loss bce_loss_ cross_entropy_with_softmax cross_entropy_with_softmax_ huber_loss
    log_loss
x index: gather_nd index_elementwise_get index_elementwise_put index_elementwise_put_ index_sample
    index_select
x out_size size_tensor scale_tensor: bicubic_interp bilinear_interp interp_antialias linear_interp
    nearest_interp trilinear_interp
x scale bias: affine_channel affine_channel_ fast_ln group_norm instance_norm layer_norm
input x y: addmm addmm_ baddbmm baddbmm_
x gate_logits corr_bias: moe_gate_dispatch moe_gate_dispatch_and_quant moe_gate_dispatch_auto
    moe_gate_dispatch_permute
x in_scale in_accum in_state: fake_quantize_dequantize_moving_average_abs_max
    fake_quantize_dequantize_moving_average_abs_max_ fake_quantize_moving_average_abs_max
    fake_quantize_moving_average_abs_max_
x scale zero_point in_accum in_state: dequantize_linear dequantize_linear_ quantize_linear
    quantize_linear_
xs: ap_facade ap_trivial_fusion_begin ap_trivial_fusion_end ap_variadic
input filter: conv2d conv3d depthwise_conv2d
inputs: add_n add_n_array meshgrid
param grad velocity learning_rate master_param: lars_momentum_ merged_momentum_ momentum_
shape: empty gaussian randint
x boxes boxes_num: psroi_pool roi_align roi_pool
x index updates: scatter scatter_ scatter_nd_add
x mean variance scale bias: batch_norm batch_norm_ sync_batch_norm_
x shape: expand reshape reshape_
x value: fill fill_ full_like
arr indices values: put_along_axis put_along_axis_
condition: nonzero restrict_nonzero
condition x y: where where_
input filter bias: depthwise_conv2d_bias depthwise_conv3d_bias
input starts ends: slice slice_array
logits label: c_softmax_with_cross_entropy margin_cross_entropy
output: assign_value_ full_
param grad: distributed_fused_lamb_init distributed_fused_lamb_init_
param grad learning_rate moment1 moment2 moment2_max beta1_pow beta2_pow master_param skip_update
    beta1 beta2 epsilon: adam_ adamw_
start end step: arange range_v2
x bias residual norm_weight norm_bias: fused_bias_residual_layernorm fused_rms_norm_quant
x combine_weights scatter_index: moe_combine moe_combine_auto
x filter output_size: conv2d_transpose depthwise_conv2d_transpose
x in_accum in_state: moving_average_abs_max_scale moving_average_abs_max_scale_
x in_scale iter: fake_quantize_range_abs_max fake_quantize_range_abs_max_
x index add_value: index_add index_add_
x index value: index_elementwise_put_with_tensor index_elementwise_put_with_tensor_
x indices value: index_put index_put_
x label pos_weight: sigmoid_cross_entropy_with_logits sigmoid_cross_entropy_with_logits_
x mask: fused_softmax_mask masked_select
x mask value: masked_fill masked_fill_
x min max: clip clip_
x scales: apply_per_channel_scale fake_channel_wise_dequantize_max_abs
x seed_tensor p: dropout dropout_
x source: set set_
x starts ends steps: set_value set_value_
x values starts ends steps: set_value_with_tensor set_value_with_tensor_
x weight bias weight_scale: llm_int8_linear weight_only_linear
x y bias: fp8_fp8_half_gemm_fused fused_gemm_epilogue
x y rtol atol: allclose isclose
x y weight: lerp lerp_
A A_scale B B_scale input_result bias pre_gelu workspace: fp8_gemm_blockwise_
X: fused_softmax_mask_upper_triangle
alpha: dirichlet
arr indices: take_along_axis
array: array_pop
array i: array_read
array x i: array_write_
b lu pivots: lu_solve
bboxes scores: matrix_nms
bboxes scores rois_num: multiclass_nms3
boxes0 boxes1 boxes2 image_shape image_scale: yolo_box_post
count prob: binomial
dist_mat: bipartite_match
emission transition label length: crf_decoding
expert_count capacity: limit_by_capacity
expert_id: expand_modality_expert_id
expert_num_global_tensor: build_src_rank_and_local_expert_id
fpn_rois rois_num: distribute_fpn_proposals
gate_idx expert_count: prune_gate_by_capacity
gate_prob dispatch_mask tokens_mask dispatch_tokens_mask: cal_aux_loss
hidden_states scale expert_routemap_topk expert_prob_topk: moe_permute
hidden_states_unzipped zipped_expertwise_rowmap expert_routemap_topk token_prob_unzipped:
    moe_unpermute
hyps refs hypslength refslength: edit_distance
ids embs bias scale: fused_embedding_eltwise_layernorm
ids parents: gather_tree
ids scores: beam_search_decode
in: print
inference label seq_length: chunk_eval
input filter bias residual_data: fused_conv2d_add_act
input h0 c0 weight bias: lstm
input h0 weight bias: gru
input hidden_prev weight bias: gru_unit
input im_info: box_clip
input image: prior_box
input input_length: ctc_align
input label input_lengths label_lengths: warprnnt
input label weight: nll_loss
input output_shape: affine_grid
input starts: slice_array_dense
input w bias: fc
input w bias bias_qk: multihead_matmul
input weight: histogram
input weight bias: linear_v2
input1 input2: correlation
inputs index: multiplex
label: class_center_sample
label prior_dist: label_smooth
label softmax loss_grad: cross_entropy_with_softmax_bwd_w_downcast
lhs rhs: batched_gemm
logits label logits_length labels_length: warpctc
logits label smooth_weight: c_softmax_with_multi_label_cross_entropy
logits labels: hinge_loss
multi_level_rois multi_level_scores multi_level_rois_num: collect_fpn_proposals
num_rows num_columns: eye
numbers: number_count
o1 do2_s unzipped_probs: fused_swiglu_weighted_bwd
param grad avg_squared_grad avg_squared_update learning_rate master_param: adadelta_
param grad learning_rate beta1_pow beta2_pow rho moment1 moment2 master_param: radam_
param grad learning_rate d y n master_param: asgd_
param grad learning_rate moment inf_norm beta1_pow master_param: adamax_
param grad learning_rate moment1 moment2 beta1_pow beta2_pow master_param skip_update: lamb_
param grad learning_rate moment1 moment2 moment2_max beta1_pow beta2_pow master_param beta1 beta2
    epsilon: merged_adam_
param grad learning_rate momentum_decay_pow beta2_pow mu_product moment1 moment2 master_param:
    nadam_
param grad prev learning_rate master_param learning_rate_range etas: rprop_
param in_sum_1 in_sum_2 in_sum_3 in_num_accumulates in_old_num_accumulates in_num_updates:
    average_accumulates_
param learning_rate grad master_param: sgd_
param mean_square grad moment learning_rate mean_grad master_param: rmsprop_
potentials transition_params lengths: viterbi_decode
pre_ids pre_scores ids scores: beam_search
prior_box prior_box_var target_box: box_coder
prob topk_value topk_idx: random_routing_
q k softmax_lse: calc_reduced_attn_scores
q k v cu_seqlens_q cu_seqlens_k fixed_seed_offset attn_mask max_seqlen_q max_seqlen_k:
    flash_attn_unpadded
q k v cu_seqlens_q cu_seqlens_k seqused_q seqused_k qv q_descale k_descale v_descale max_seqlen_q
    max_seqlen_k: flash_attn_v3_varlen
q k v fixed_seed_offset attn_mask: flash_attn
q k v offset columns key_padding_mask attn_mask: sparse_attention
q k v q_v_ q_descale_ k_descale_ v_descale_: flash_attn_v3
q k v sin cos position_ids: fused_rotary_position_embedding
q k v src_mask: qkv_unpack_mha
q k v startend_row_indices block_mask: flashmask_attention_v2
q k v startend_row_indices fixed_seed_offset: flashmask_attention
qkv cu_seqlens_q cu_seqlens_k fixed_seed_offset attn_mask max_seqlen_q max_seqlen_k:
    flash_attn_varlen_qkvpacked
qkv fixed_seed_offset attn_mask: flash_attn_qkvpacked
qkv key_cache value_cache seq_lens_encoder seq_lens_decoder seq_lens_this_time padding_offsets
    cum_offsets cu_seqlens_q cu_seqlens_k block_tables cache_k_per_batch_maxs
    cache_v_per_batch_maxs pre_key_cache pre_value_cache rope_emb mask tgt_mask
    cache_k_quant_scales cache_v_quant_scales cache_k_dequant_scales cache_v_dequant_scales
    qkv_out_scale qkv_bias out_shift out_smooth max_enc_len_this_time max_dec_len_this_time:
    block_multihead_attention_xpu_
qkv key_cache value_cache seq_lens_encoder seq_lens_decoder seq_lens_this_time padding_offsets
    cum_offsets cu_seqlens_q cu_seqlens_k block_tables pre_key_cache pre_value_cache rope_emb mask
    tgt_mask cache_k_quant_scales cache_v_quant_scales cache_k_dequant_scales
    cache_v_dequant_scales qkv_out_scale qkv_bias out_shift out_smooth max_enc_len_this_time
    max_dec_len_this_time: block_multihead_attention_
query key value bias cu_seqlens_q cu_seqlens_k causal_diagonal seqlen_k max_seqlen_q max_seqlen_k:
    memory_efficient_attention
query key value seq_lens kv_seq_lens mask: variable_length_memory_efficient_attention
real imag: complex
row colptr edge_weight input_nodes eids: weighted_sample_neighbors
row colptr x eids: graph_khop_sampler
row colptr x eids perm_buffer: graph_sample_neighbors
scores bbox_deltas im_shape anchors variances: generate_proposals
seq_lens_encoder seq_lens_decoder batch_size: blha_get_max_len
shape min max: uniform
sorted_sequence values: searchsorted
start stop num base: logspace
start stop number: linspace
tensor: check_numerics
value shape: full_with_tensor
w ids: lookup_table_dequant
weight u v: spectral_norm
weight x: c_embedding
x alpha: prelu
x atol rtol: matrix_rank_atol_rtol
x atol_tensor: matrix_rank_tol
x bias dequant_scales shift smooth: fused_bias_act
x c0 h0 attention_weight attention_bias attention_scalar attention_scalar_bias lstm_weight
    lstm_bias: attention_lstm
x cache_kv bias src_mask cum_offsets sequence_lengths rotary_tensor beam_cache_offset
    qkv_out_scale out_shift out_smooth: masked_multihead_attention_
x combine_weight scatter_index: moe_combine_no_weight
x combine_weights expert_id: moe_gate_dispatch_partial_nosoftmaxtopk
x cos sin: fused_partial_rope
x cum_count eff_num_len: assign_pos
x current_step: dgc_clip_by_norm
x cvm: cvm
x dep: depend
x dict: dequantize_log
x dropout1_seed dropout2_seed linear1_weight linear1_bias linear2_weight linear2_bias ln1_scale
    ln1_bias ln2_scale ln2_bias: fused_feedforward
x filter: conv3d_transpose
x filter bias: fusion_seqconv_eltadd_relu
x filter bias output_size: conv2d_transpose_bias
x filter filter_max bias branch: squeeze_excitation_block
x filter1 scale1 bias1 mean1 var1 filter2 scale2 bias2 mean2 var2 filter3 scale3 bias3 mean3 var3:
    resnet_basic_block
x filter_x scale_x bias_x mean_x var_x z filter_z scale_z bias_z mean_z var_z: resnet_unit
x found_infinite prev_loss_scaling in_good_steps in_bad_steps stop_update: update_loss_scaling_
x grid: grid_sample
x gt_box gt_label gt_score: yolo_loss
x h0 weight_x weight_h bias: fusion_gru
x img_size: yolo_box
x index axis: gather
x indices: unpool3d
x indices label: accuracy
x indices output_size: unpool
x init_h init_c w weight_list sequence_length: cudnn_lstm
x input_scales: fused_transpose_split_quant
x k: topk
x kernel_size: pool2d
x label: kldiv_loss
x label stat_pos stat_neg ins_tag_weight: auc
x label w bias path code: hsigmoid_loss
x ln_scale ln_bias qkv_weight qkv_bias cache_kv src_mask out_linear_weight out_linear_bias
    ln_scale_2 ln_bias_2: fused_attention
x ln_scales ln_biases qkv_weights qkv_biases cache_kvs pre_caches rotary_tensor beam_offset
    time_step seq_lengths src_mask out_linear_weights out_linear_biases ffn_ln_scales
    ffn_ln_biases ffn1_weights ffn1_biases ffn2_weights ffn2_biases: fused_multi_transformer_
x max_len: sequence_mask
x neighbors count hashtable_value hashtable_index: reindex_graph
x num_classes: one_hot
x num_samples: multinomial
x offset filter mask: deformable_conv
x output: assign_out_
x pad_value: pad
x padding_data filter: sequence_conv
x paddings: pad3d
x pre_state weight_list sequence_length dropout_state_in: rnn
x prob: fused_weighted_swiglu_act_quant
x ps threshold topp_seed: top_p_sampling
x rank_offset rank_param: rank_attention
x repeat_times: tile
x repeats: repeat_interleave_with_tensor_index
x residual bias ln_scale ln_bias: fused_bias_dropout_residual_layer_norm
x residual scale bias: add_group_norm_silu
x scale bias mean variance: fused_batch_norm_act
x sections axis: split
x seed: shuffle_batch
x segment_ids: segment_pool
x shape offsets: crop
x shifts: roll
x src_index dst_index out_size: send_u_recv
x starts ends strides: strided_slice
x target: reduce_as
x travel layer: tdm_sampler
x tree_info: tdm_child
x vec: mv
x w bias: fusion_repeated_fc_relu
x w white_list black_list: pyramid_hash
x w y bias0 scale bias1: fused_fc_elementwise_layernorm
x weight: embedding
x weights minlength: bincount
x window: stft
x x_scale: fused_act_dequant
x y rcond: lstsq
x y scale bias: skip_layernorm
x y seed_tensor: fused_dropout_add
x y src_index dst_index: send_uv
x y src_index dst_index out_size: send_ue_recv
x y weight bias: bilinear
x z scale bias mean variance: fused_bn_add_activation
"""


def _parse(table: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in table.strip().replace("\n    ", " ").splitlines():
        names, _, operators = line.partition(":")
        for operator in operators.split():
            found[operator] = tuple(names.split())
    return found


OPERAND_NAMES = _parse(_TABLE)
"""Operator -> the names of its operands; a list operand has one name."""
