"""Translators of sequence decoding (Viterbi, CTC, edit distance) and of two features for models."""

from __future__ import annotations

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


@translator("add_position_encoding", emits=("Mul", "Add"), limits="without LoD")
def add_position_encoding(context: TranslationContext) -> str:
    """``alpha * x + beta * encoding`` for x [N, T, D], encoding by arXiv:1706.03762.

    The first half of D are sines, the second cosines of ``t / 10000 ** (i / (D / 2 - 1))``;
    Paddle's kernel divides by ``D / 2 - 1``, the paper by ``D / 2``.
    """
    x = context.input("x")
    _, times, width = context.shape(x)
    half = width // 2
    steps = np.arange(half) / (half - 1) if half > 1 else np.ones(1)
    angles = np.arange(times)[:, None] / 10000.0**steps
    encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    encoding = encoding * float(context.attr("beta", 1.0))
    scaled = context.onnx.mul([x, context.const_like(float(context.attr("alpha", 1.0)), x)])
    return context.onnx.add([scaled, context.const(encoding, context.dtype(x))])


@translator("cvm", emits=("paddle_ipu.Cvm",))
def cvm(context: TranslationContext) -> str:
    """Features [N, D] whose first two columns are counts of shows and clicks.

    With ``use_cvm`` they become ``log(show + 1)`` and ``log(click + 1) - log(show + 1)``, else they
    are dropped. As in Paddle's kernel the gradient of the two columns is the operand ``cvm``.
    """
    x, counts = context.input("x"), context.input("cvm")
    rows, *columns = context.shape(x)
    if len(columns) != 1 or columns[0] < 2 or context.shape(counts) != [rows, 2]:
        raise context.refuse(
            f"x is {context.shape(x)} and cvm {context.shape(counts)}; they have to be [N, D], "
            "with D at least 2, and [N, 2]."
        )
    return context.extension("Cvm", [x, counts], {"use_cvm": int(context.attr("use_cvm", 1))})[0]


@translator(
    "viterbi_decode",
    emits=("paddle_ipu.ViterbiDecode",),
    limits="the path is as long as the potentials, however short the sequences",
)
def viterbi_decode(context: TranslationContext) -> list[str]:
    """Scores [B] and tags [B, T] of the most probable paths."""
    written_as(context, 0, "float32")
    written_as(context, 1, "int64")
    names = ("potentials", "transition_params", "lengths")
    attributes = {"include_bos_eos_tag": int(context.attr("include_bos_eos_tag", 1))}
    return context.extension(
        "ViterbiDecode", [context.input(name) for name in names], attributes, 2
    )


@translator(
    "crf_decoding",
    emits=("paddle_ipu.CrfDecode", "Reshape", "Cast", "Equal", "And", "Less"),
    limits="padded sequences with lengths",
)
def crf_decoding(context: TranslationContext) -> str:
    """Tags [B, T] of the most probable paths of a linear-chain CRF.

    With a ``label`` the result is 1 where the tag is the label, within the length, else 0.
    """
    if not context.has("length"):
        raise context.refuse(
            "without length its sequences are LoD tensors, whose shapes are not static; pad them "
            "and give their lengths."
        )
    written_as(context, 0, "int64")
    emission, transition = context.input("emission"), context.input("transition")
    batch, times, _ = context.shape(emission)
    lengths = context.reshape(context.index(context.input("length")), [batch])
    path = context.extension("CrfDecode", [emission, transition, lengths], {}, 2)[1]
    if not context.has("label"):
        return path
    label = context.reshape(context.index(context.input("label")), [batch, times])
    within = context.onnx.less(
        [context.const(np.arange(times), "int32"), context.reshape(lengths, [batch, 1])]
    )
    matches = context.onnx.logical_and([context.onnx.equal([label, path]), within])
    return context.cast(matches, context.output_dtype())


@translator(
    "edit_distance",
    emits=("paddle_ipu.EditDistance", "Reshape", "Cast", "Div"),
    limits="padded sequences with lengths",
)
def edit_distance(context: TranslationContext) -> list[str]:
    """The number of sequences, and the Levenshtein distance of each pair: [B, 1].

    ``normalized`` divides the distance by the length of the reference.
    """
    if not context.has("hypslength") or not context.has("refslength"):
        raise context.refuse(
            "without lengths its sequences are LoD tensors, whose shapes are not static; pad them "
            "and give input_length and label_length."
        )
    written_as(context, 0, "int64")
    written_as(context, 1, "float32")
    hypotheses, references = context.input("hyps"), context.input("refs")
    batch = context.shape(hypotheses)[0]
    lengths = [
        context.reshape(context.input(name), [batch]) for name in ("hypslength", "refslength")
    ]
    distance = context.extension("EditDistance", [hypotheses, references, *lengths])[0]
    if context.attr("normalized", 0):
        distance = context.onnx.div([distance, context.cast(lengths[1], "float32")])
    count = context.const(np.full(dialect.dims_of(context.node.outputs[0]), batch), "int32")
    return [count, context.reshape(distance, [batch, 1])]


@translator(
    "ctc_align",
    emits=("paddle_ipu.CtcAlign", "Reshape"),
    limits="padded sequences with lengths",
)
def ctc_align(context: TranslationContext) -> list[str]:
    """Tokens [B, T] with repetitions merged and blanks removed, padded; and their counts [B, 1]."""
    if not context.has("input_length"):
        raise context.refuse(
            "without input_length its sequences are LoD tensors, whose shapes are not static; pad "
            "them and give their lengths."
        )
    written_as(context, 1, dialect.dtype_name(context.node.outputs[0]))
    tokens = context.input("input")
    batch = context.shape(tokens)[0]
    attributes = {
        "blank": int(context.attr("blank", 0)),
        "merge_repeated": int(context.attr("merge_repeated", 1)),
        "padding_value": int(context.attr("padding_value", 0)),
    }
    lengths = context.reshape(context.input("input_length"), [batch])
    aligned, counts = context.extension("CtcAlign", [tokens, lengths], attributes, 2)
    return [aligned, context.reshape(counts, [batch, 1])]
