"""Every attribute of every operator appears in the case table with a value beside its default."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import paddle
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs
from paddle_ipu.frontend.legacy_operator import DTYPES
from paddle_ipu.frontend.vocabulary import table  # noqa: F401 - fills it
from paddle_ipu.frontend.vocabulary.row import TABLE, Attribute, Constant
from tests.operators.built_case import build_case, lacks
from tests.operators.operator_case import Since
from tests.operators.operator_cases import CASES, REFUSED, cases_by_operator

pytestmark = pytest.mark.thorough

NOT_THE_OPERATORS = frozenset({"input_segments", "output_segments", "op_role", "stop_gradient"})
"""Attributes that the reader or the trainer writes on any operator."""

REFUSED_VALUE = "refused"

_BY_REASON: dict[str, str] = {
    REFUSED_VALUE: """
        auc.curve class_center_sample.num_samples fake_channel_wise_quantize_abs_max.is_test
        flash_attn_v3.softcap flash_attn_v3.window_size_left
        flash_attn_v3.window_size_right fused_bias_act.quant_scale fused_rms_norm_quant.quant_scale
        correlation.kernel_size gemm_epilogue.padding_weights mish.lambda
        multihead_matmul.transpose_k multihead_matmul.transpose_q multihead_matmul.transpose_v
        print.first_n top_p_sampling.k top_p_sampling.mode
        uniform_inplace.diag_num variable_length_memory_efficient_attention.pre_cache_length
    """,
    "Paddle's CPU kernel or its function refuses another value": """
        lu.pivot unpool.data_format unpool3d.data_format
    """,
    "one value only exists": """
        bilinear_interp.interp_method lp_pool2d.pooling_type
    """,
    "of programs for several devices, which are not these": """
        fused_attention.ring_id fused_feedforward.ring_id
        class_center_sample.nranks class_center_sample.rank class_center_sample.ring_id
        margin_cross_entropy.nranks margin_cross_entropy.rank margin_cross_entropy.ring_id
    """,
    "names a way of the kernel, or what else it keeps, and not a result": """
        cross_entropy_with_softmax.numeric_stable_mode embedding.sparse
        flash_attn.return_softmax flash_attn.rng_name
        flash_attn_qkvpacked.return_softmax flash_attn_qkvpacked.rng_name
        flash_attn_unpadded.max_seqlen_k flash_attn_unpadded.max_seqlen_q
        flash_attn_unpadded.return_softmax flash_attn_unpadded.rng_name
        flash_attn_v3.manual_set_pack_gqa flash_attn_v3.num_splits flash_attn_v3.pack_gqa_
        flash_attn_v3.sm_margin
        flash_attn_varlen_qkvpacked.max_seqlen_k flash_attn_varlen_qkvpacked.max_seqlen_q
        flash_attn_varlen_qkvpacked.return_softmax flash_attn_varlen_qkvpacked.rng_name
        flashmask_attention.return_softmax flashmask_attention.rng_name
        fused_elemwise_activation.save_intermediate_out
        fused_elemwise_add_activation.save_intermediate_out
        fused_linear_param_grad_add.multi_precision fused_scale_bias_add_relu.exhaustive_search
        hsigmoid_loss.is_sparse lp_pool2d.exclusive memory_efficient_attention.max_seqlen_k
        memory_efficient_attention.max_seqlen_q norm.is_test print.is_forward
        rank_attention.max_size repeat_interleave.output_size
        repeat_interleave_with_tensor_index.output_size
    """,
    "says how to quantise the result, and quantised results are refused": """
        fused_bias_residual_layernorm.quant_max_bound fused_bias_residual_layernorm.quant_min_bound
        fused_bias_residual_layernorm.quant_round_type fused_bias_residual_layernorm.quant_scale
        fused_rms_norm_quant.quant_max_bound fused_rms_norm_quant.quant_min_bound
        fused_rms_norm_quant.quant_round_type
    """,
    "says how to fill a diagonal, and diagonals are refused": """
        uniform_inplace.diag_step uniform_inplace.diag_val
        uniform_random_batch_size_like.diag_num uniform_random_batch_size_like.diag_step
        uniform_random_batch_size_like.diag_val
    """,
}

EXCEPTIONS: dict[str, str] = {
    key: reason for reason, keys in _BY_REASON.items() for key in keys.split()
}
"""``operator.attribute`` -> why its rows give it one value only."""

PADDLE_3 = Since("3.0", "PIR").holds(str(paddle.__version__))
FORGOTTEN_IN_A_PROGRAM_DESC = frozenset() if PADDLE_3 else {"kthvalue.keepdim"}
"""What Paddle 2.6's function takes and does not write into the program."""

Values = dict[str, set[Any]]


def _plain(value: Any) -> Any:
    """The value in a form in which equal values of PIR, ProgramDesc and JSON are equal."""
    if isinstance(value, np.ndarray):
        return _plain(value.ravel().tolist())
    if isinstance(value, (list, tuple)):
        return _plain(value[0]) if len(value) == 1 else tuple(_plain(item) for item in value)
    if isinstance(value, (bool, int, float)):
        return float(np.float32(value))
    return str(value)


def _nodes(program: Any, op: str) -> Iterator[ir.Node]:
    for node in dialect.walk(programs.read(program)):
        if str(node.op_type).removesuffix("_") == op:
            yield node


def _attributes_by_operator() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """phi name -> attribute -> its default; phi name -> operand that stands for one -> the same."""

    def default(attribute: Attribute) -> Any:
        if attribute.default is None:
            return None
        if attribute.is_dtype:
            assert isinstance(attribute.default, int)
            return DTYPES.get(attribute.default, "undefined")
        return _plain(attribute.default)

    attributes: dict[str, dict[str, Any]] = defaultdict(dict)
    operands: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in TABLE.values():
        op = row.op.removesuffix("_")
        for name, attribute in row.attributes.items():
            attributes[op][name] = default(attribute)
        for operand in row.inputs:
            for source in operand.sources:
                if isinstance(source, Constant):
                    operands[op][operand.name] = default(source.attribute)
    return attributes, operands


def _seen() -> tuple[dict[str, Values], set[str]]:
    """phi name -> attribute -> its values in all rows; and what has rows that cannot run here."""
    operands = _attributes_by_operator()[1]
    found: dict[str, Values] = defaultdict(lambda: defaultdict(set))
    for case in CASES:
        op = case.op.removesuffix("_")
        if lacks(case):
            continue
        for node in _nodes(build_case(case).program, op):
            _collect(node, operands[op], found[op])
    return found, {case.op.removesuffix("_") for case in CASES if lacks(case)}


def _collect(node: ir.Node, operands: Mapping[str, Any], found: Values) -> None:
    for name, attribute in node.attributes.items():
        if name not in NOT_THE_OPERATORS:
            found[name].add(_plain(attribute.value))
    for name, value in dialect.operands(node):
        if name in operands:
            constant = dialect.constant(value)
            if constant is not None:
                found[name].add(_plain(constant))


@pytest.fixture(scope="module")
def one_value() -> tuple[set[str], set[str], set[str]]:
    """``operator.attribute``: with one value, the default if known; seen; of incomplete rows."""
    attributes, operands = _attributes_by_operator()
    found, incomplete = _seen()
    alone, seen, partly = set(), set(), set()
    for op, values in found.items():
        for name, given in values.items():
            key = f"{op}.{name}"
            seen.add(key)
            default = attributes[op].get(name, operands[op].get(name))
            if op in incomplete:
                partly.add(key)
            if given == {default} or (default is None and len(given) == 1):
                alone.add(key)
    return alone, seen, partly


def test_every_attribute_has_a_value_beside_its_default(
    one_value: tuple[set[str], set[str], set[str]],
) -> None:
    alone, _, partly = one_value
    assert sorted(alone - partly - EXCEPTIONS.keys() - FORGOTTEN_IN_A_PROGRAM_DESC) == []


@pytest.mark.skipif(not PADDLE_3, reason="a ProgramDesc has other attributes and fewer rows")
def test_no_exception_is_out_of_date(one_value: tuple[set[str], set[str], set[str]]) -> None:
    alone, seen, _ = one_value
    assert sorted((EXCEPTIONS.keys() & seen) - alone) == []
    if Since("3.3", "every row runs").holds(str(paddle.__version__)):
        assert sorted(EXCEPTIONS.keys() - seen) == []


@pytest.mark.skipif(not PADDLE_3, reason="a ProgramDesc has other attributes and fewer rows")
def test_what_is_said_to_be_refused_has_a_refuse_row(
    one_value: tuple[set[str], set[str], set[str]],
) -> None:
    """The refuse row gives the attribute another value than the rows do."""
    operands = _attributes_by_operator()[1]
    wanted = {key for key, reason in EXCEPTIONS.items() if reason == REFUSED_VALUE}
    found: dict[str, Values] = defaultdict(lambda: defaultdict(set))
    for case in REFUSED:
        op = case.op.removesuffix("_")
        if not lacks(case) and any(key.startswith(f"{op}.") for key in wanted):
            for node in _nodes(build_case(case).program, op):
                _collect(node, operands[op], found[op])
    _, _, partly = one_value
    attributes = _attributes_by_operator()[0]
    without = [
        key
        for key in sorted((wanted & one_value[1]) - partly)
        for op, _, name in [key.partition(".")]
        if not found[op][name] - {attributes[op].get(name)}
    ]
    assert without == []


def test_every_exception_is_of_an_operator_with_rows() -> None:
    names = {op.removesuffix("_") for op in cases_by_operator()}
    assert {key.partition(".")[0] for key in EXCEPTIONS} <= names
