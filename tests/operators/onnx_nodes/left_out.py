"""Which of ONNX's node tests cannot pass, why, and what they fail with.

A model that is left out must fail with the error told here: one that passes, or fails with
another, makes the table wrong.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """Why models are left out.

    Attributes:
        models: pattern of their names, without ``test_`` in front.
        error: pattern of what they fail with.
        text: the reason.
    """

    models: str
    error: str
    text: str


def _no_class(operator: str, models: str) -> Reason:
    text = f"PopART has no implementation of {operator}"
    return Reason(models, f"popart_exception: No class for ai.onnx.{operator}:", text)


REASONS: tuple[Reason, ...] = (
    _no_class("BitShift", "bitshift_.*"),
    _no_class("Compress", "compress_.*"),
    _no_class("ConvInteger", ".*convinteger.*"),
    _no_class("DequantizeLinear", "dequantizelinear"),
    _no_class("Det", "det_.*"),
    _no_class("DynamicQuantizeLinear", "dynamicquantizelinear(_m.._adjusted)?"),
    _no_class("EyeLike", "eyelike_.*"),
    _no_class("GatherElements", "gather_elements_.*"),
    _no_class("GatherND", "gathernd_.*"),
    _no_class("Hardmax", "hardmax_.*"),
    _no_class("MatMulInteger", "matmulinteger"),
    _no_class("MaxUnpool", "maxunpool_.*"),
    _no_class("MeanVarianceNormalization", "mvn"),
    _no_class("NonMaxSuppression", "nonmaxsuppression_.*"),
    _no_class("NonZero", "nonzero_.*"),
    _no_class("QLinearConv", "qlinearconv"),
    _no_class("QLinearMatMul", "qlinearmatmul_.*"),
    _no_class("QuantizeLinear", "quantizelinear|dynamicquantizelinear.*_expanded"),
    _no_class("Range", "range_.*_delta"),
    _no_class("ReverseSequence", "reversesequence_.*"),
    _no_class("Scan", "scan_sum"),
    _no_class("ScatterND", "scatternd"),
    _no_class("Size", "size.*"),
    _no_class("StringNormalizer", "strnormalizer_.*"),
    _no_class("TfIdfVectorizer", "tfidfvectorizer_.*"),
    _no_class("Unique", "unique_.*"),
    _no_class("Xor", "xor.*"),
    Reason(
        "cast_.*STRING.*",
        "popart_exception: The data type STRING is not supported in Poplar",
        "there are no strings on the device",
    ),
    Reason(
        "averagepool_.*_count_include_pad",
        "`count_include_pad` is not supported",
        "PopART's average pooling does not count padding",
    ),
    Reason(
        "convtranspose_dilations",
        "Non default value for dilations is not supported",
        "PopART's transposed convolution has no dilations",
    ),
    Reason("lstm_with_peepholes", "does not support peephole", "PopART's LSTM has no peepholes"),
    Reason(
        "maxpool_2d_dilations",
        "dilations != 1, not supported",
        "PopART's max pooling has no dilations",
    ),
    Reason(
        "maxpool_with_argmax_.*",
        "MaxPool has an invalid number of outputs 2",
        "PopART's max pooling gives no indices",
    ),
    Reason(
        "resize_upsample_sizes_nearest_(ceil|floor|round_prefer_ceil)_.*",
        "Y: 39 of 64 elements differ",
        "the model lacks the attribute nearest_mode that the stored output was made with",
    ),
    Reason(
        "range_.*_expanded",
        "the 'maximum trip count' Tensor '[^']*' must be of type Constant",
        "the number of a loop's turns, and with it a shape, is computed from inputs",
    ),
)


def reason_for(model: str) -> Reason | None:
    """Why a model is left out, or None."""
    for reason in REASONS:
        if re.fullmatch(f"test_(?:{reason.models})", model):
            return reason
    return None
