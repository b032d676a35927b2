"""Why some of Paddle's operators have no translator, and what to use instead.

An operator in neither table is not written yet. With ``cpu_fallback`` an operator of dense tensors
whose result has a static shape runs on Paddle's CPU kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

_OPERATORS_BY_REASON: Mapping[str, str] = {
    "How many boxes it gives depends on the scores, and an IPU program has static shapes: fetch "
    "boxes and scores, and select among them on the host.": """
        collect_fpn_proposals detection_map distribute_fpn_proposals generate_mask_labels
        generate_proposal_labels generate_proposals generate_proposals_v2 locality_aware_nms
        matrix_nms mine_hard_examples multiclass_nms multiclass_nms2 multiclass_nms3 nms
        retinanet_detection_output retinanet_target_assign rpn_target_assign yolo_box_post
    """,
    "How many nodes it gives depends on the graph, and an IPU program has static shapes: sample on "
    "the host, and feed what was sampled, padded to one size.": """
        graph_khop_sampler graph_reindex graph_sample_neighbors reindex_graph
        weighted_sample_neighbors
    """,
    "How many tokens an expert gets is known at run time only, and an IPU program has static "
    "shapes: let every expert see all tokens, and weight what they give by the gate.": """
        assign_pos build_src_rank_and_local_expert_id expand_modality_expert_id limit_by_capacity
        moe_combine_auto moe_combine_no_weight moe_gate_dispatch moe_gate_dispatch_and_quant
        moe_gate_dispatch_auto moe_gate_dispatch_partial_nosoftmaxtopk moe_gate_dispatch_permute
        moe_permute moe_unpermute prune_gate_by_capacity random_routing
    """,
    "It works on sequences whose lengths are known at run time only (LoD): pad them to one length, "
    "tell the lengths apart (paddle.nn.functional.sequence_mask, sequence_length of "
    "paddle.nn.LSTM and GRU), and use operators of dense tensors.": """
        array_to_lod_tensor attention_lstm chunk_eval fused_embedding_fc_lstm
        fused_embedding_seq_pool fused_seqpool_cvm fusion_gru fusion_lstm
        fusion_seqconv_eltadd_relu fusion_seqexpand_concat_fc fusion_seqpool_concat
        fusion_seqpool_cvm_concat gru im2sequence linear_chain_crf lod_rank_table lod_reset
        lod_tensor_to_array lstm match_matrix_tensor max_sequence_len merge_lod_tensor
        merge_lod_tensor_infer multi_gru recurrent reorder_lod_tensor_by_rank
        sequence_concat sequence_conv sequence_enumerate sequence_erase sequence_expand
        sequence_expand_as sequence_pad sequence_pool sequence_reshape sequence_reverse
        sequence_scatter sequence_slice sequence_softmax sequence_unpad shrink_rnn_memory
        split_lod_tensor var_conv_2d
    """,
    "Which beams live on is kept in lengths that are known at run time only (LoD): keep a fixed "
    "number of beams with paddle.topk, and follow them back with "
    "paddle.nn.functional.gather_tree.": """
        beam_search beam_search_decode
    """,
    "It works on strings, files or tables of words, which an IPU cannot hold: do it while loading "
    "the data, and feed the numbers.": """
        decode_jpeg faster_tokenizer hash pyramid_hash read_file
    """,
    "An IPU program has dense tensors only: call to_dense() before it, or feed a dense tensor.": """
        sparse_abs sparse_acos sparse_acosh sparse_add sparse_addmm sparse_asin sparse_asinh
        sparse_atan sparse_atanh sparse_batch_norm sparse_cast sparse_coalesce sparse_conv3d
        sparse_conv3d_implicit_gemm sparse_divide sparse_divide_scalar sparse_expm1
        sparse_full_like sparse_fused_attention sparse_indices sparse_isnan sparse_leaky_relu
        sparse_log1p sparse_mask_as sparse_masked_matmul sparse_matmul sparse_maxpool
        sparse_multiply sparse_mv sparse_pow sparse_relu sparse_relu6 sparse_reshape sparse_scale
        sparse_sin sparse_sinh sparse_slice sparse_softmax sparse_sparse_coo_tensor sparse_sqrt
        sparse_square sparse_subtract sparse_sum sparse_sync_batch_norm sparse_tan sparse_tanh
        sparse_to_dense sparse_to_sparse_coo sparse_to_sparse_csr sparse_transpose sparse_values
        get_tensor_from_selected_rows merge_selected_rows
    """,
    "An IPU has no complex numbers: keep the real and the imaginary part as two tensors. A Fourier "
    "transform of constant length is a product with its matrix of cosines and sines.": """
        as_complex as_real complex eig eigvals fft_c2c fft_c2r fft_r2c imag real stft
    """,
    "Replicas of an IPU program exchange what they have to by themselves: build the program for "
    "one device, and set enable_replicated_graphs and replicated_graph_count in the "
    "strategy.": """
        all_gather all_reduce all_to_all alltoall barrier broadcast c_allgather c_allreduce_max
        c_allreduce_min c_allreduce_prod c_allreduce_sum c_broadcast c_comm_init c_comm_init_all
        c_comm_init_multitrainer c_concat c_embedding c_gen_xccl_id c_identity c_reduce_max
        c_reduce_min c_reduce_prod c_reduce_sum c_reducescatter c_scatter
        c_softmax_with_cross_entropy c_softmax_with_multi_label_cross_entropy c_split
        c_sync_calc_stream c_sync_comm_stream c_wait_comm c_wait_compute comm_init_all dist_concat
        global_gather global_scatter mp_allreduce_sum p_recv p_recv_array p_send p_send_array
        partial_allgather partial_recv partial_send recv_v2 reduce reduce_scatter send_v2
        sync_calc_stream
    """,
    "It talks to a parameter server, and the weights of an IPU program lie on the device: use "
    "paddle.nn.Embedding.": """
        distributed_lookup_table distributed_push_sparse fake_init fetch_barrier
        heter_listen_and_serv listen_and_serv pull_box_extended_sparse pull_box_sparse
        pull_gpups_sparse pull_sparse pull_sparse_v2 push_dense send send_and_recv send_barrier
    """,
    "It computes in 8-bit numbers, which the matrix units of an IPU do not have: save the model "
    "before it is quantised, or simulate the quantisation (quantize_linear, "
    "dequantize_linear).": """
        dequantize fp8_fp8_half_gemm_fused fp8_gemm_blockwise fp8_quant_blockwise fused_act_dequant
        fused_stack_quant fused_stack_transpose_quant fused_transpose_split_quant
        fused_transpose_wlch_split_quant fused_weighted_swiglu_act_quant llm_int8_linear
        quant_linear quantize requantize
    """,
    "Its weights have 8 or 4 bits and lie as a GPU's kernels want them: save the model with its "
    "weights in floating point.": """
        weight_dequantize weight_only_linear weight_quantize
    """,
    "It writes to a cache of keys and values at places that are known at run time only: use "
    "paddle.nn.functional.scaled_dot_product_attention over the whole sequence, with a mask.": """
        block_multihead_attention fused_multi_transformer masked_multihead_attention qkv_unpack_mha
    """,
    "Another device's optimiser has put it into the program: save the model without its passes "
    "(TensorRT, OpenVINO, oneDNN, CINN).": """
        ap_facade ap_trivial_fusion_begin ap_trivial_fusion_end ap_variadic fusion_group memcpy
        memcpy_d2h memcpy_h2d onednn_to_paddle_layout openvino_engine squeeze_excitation_block
        tensorrt_engine transfer_dtype transfer_layout
    """,
    "It reads data or files inside the program: feed the data, and load files before the "
    "program is compiled.": """
        create_double_buffer_reader create_py_reader dequeue enqueue load load_combine
        queue_generator read save save_combine
    """,
    "It calls Python inside the program: write it with Paddle's operators, or say what it means "
    "with a custom operator (paddle_ipu.register_custom_op).": """
        py_func pylayer run_program
    """,
    "It works on memory as it lies there, and tensors of an IPU lie otherwise: use "
    "paddle.reshape, paddle.slice, paddle.cast or paddle.gather.": """
        as_strided coalesce_tensor share_buffer tensor_unfold view_dtype view_slice
    """,
    "It counts the values that are not finite, which a compiled step cannot stop at: fetch the "
    "tensor, or compare each operator with Paddle's CPU kernels by paddle_ipu.verify.": """
        accuracy_check check_numerics disable_check_model_nan_inf enable_check_model_nan_inf
    """,
    "It searches a tree that lies outside the program: search on the host, and feed what was "
    "found.": """
        tdm_child tdm_sampler
    """,
}

REASONS: Mapping[str, str] = {
    operator: reason
    for reason, operators in _OPERATORS_BY_REASON.items()
    for operator in operators.split()
}
"""Operator, as PIR or a ProgramDesc calls it -> why it has no translator and what to do."""


def reason_of(op_type: str) -> str:
    """Why an operator has no translator, "" if unknown; an in-place form shares the plain one's."""
    return REASONS.get(op_type) or REASONS.get(op_type.removesuffix("_"), "")


def operators_by_reason() -> Mapping[str, list[str]]:
    """Reason -> the operators that have no translator for it."""
    return {reason: names.split() for reason, names in _OPERATORS_BY_REASON.items()}
