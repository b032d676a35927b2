"""Cases of operators that decode sequences, and of ranking models."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.cases.one_operator import call
from tests.operators.operator_case import Array, CaseTable, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_add(
    "add_position_encoding",
    lambda x, y: [
        call("add_position_encoding", [x, 0.5, 2.0], {"X": x}, {"Out": "float32"}, alpha=0.5,
             beta=2.0)[0],
        call("add_position_encoding", [y, 1.0, 1.0], {"X": y}, {"Out": "float32"}, alpha=1.0,
             beta=1.0)[0],
    ],
    gradient=("x", "y"),
    x=normal(2, 5, 6),
    y=normal(2, 3, 2),
)  # fmt: skip
_add(
    "cvm",
    lambda x, c: [
        call("cvm", [x, c, use], {"X": x, "CVM": c}, {"Y": "float32"}, use_cvm=use)[0]
        for use in (True, False)
    ],
    gradient=("x",),
    x=uniform(3, 5),
    c=uniform(3, 2, seed=1),
)


# Best paths.
def _viterbi(x: Any, t: Any, n: Any, tagged: bool) -> list[Any]:
    return list(paddle.text.viterbi_decode(x, t, n, include_bos_eos_tag=tagged))


_add(
    "viterbi_decode",
    lambda x, t, n: [*_viterbi(x, t, n, False), *_viterbi(x, t, n, True)],
    x=normal(3, 5, 4),
    t=normal(4, 4, seed=1),
    n=np.asarray([5, 3, 1]),
)
_add(
    "viterbi_decode",
    lambda x, t, n: _viterbi(x, t, n, False),
    label="ties",
    x=np.zeros((2, 3, 3), np.float32),
    t=np.asarray([[0, 1, 1], [1, 0, 1], [1, 1, 0]], np.float32),
    n=np.asarray([3, 3]),
)


def _crf(x: Any, t: Any, n: Any, label: Any = None) -> Any:
    return call(
        "crf_decoding",
        [x, t, label, n],
        {"Emission": x, "Transition": t, "Label": label, "Length": n},
        {"ViterbiPath": "int64"},
    )[0]


_add(
    "crf_decoding",
    lambda x, t, n, m: [_crf(x, t, n), _crf(x, t, n, m)],
    x=normal(3, 5, 4),
    t=normal(6, 4, seed=1),
    n=np.asarray([5, 3, 1]),
    m=integers(3, 5, high=4),
)
_add(
    "crf_decoding",
    lambda x, t, n: _crf(x, t, n),
    label="scores that are no numbers",
    x=floats(
        [[-1.5, 0.5], [2.5, 0.0], [np.nan, -0.25], [3.0, -np.inf], [-1.0, 0.25]],
        [[np.nan, 1.0], [0.5, np.inf], [0.5, np.nan], [np.nan, np.nan], [1.0, 2.0]],
    ),
    t=normal(4, 2, seed=1),
    n=np.asarray([5, 4]),
)
TABLE.refuse(
    "crf_decoding",
    lambda x, t: _crf(x, t, None),
    "without length its sequences are LoD tensors",
    x=normal(3, 4),
    t=normal(6, 4, seed=1),
)


# Strings.
def _distance(h: Any, r: Any, m: Any, n: Any, normalized: bool) -> list[Any]:
    return call(
        "edit_distance",
        [h, r, m, n, normalized],
        {"Hyps": h, "Refs": r, "HypsLength": m, "RefsLength": n},
        {"SequenceNum": "int64", "Out": "float32"},
        normalized=normalized,
    )


_STRINGS: dict[str, Any] = {
    "h": np.asarray([[1, 2, 3, 4, 5], [1, 1, 2, 0, 0], [4, 0, 0, 0, 0], [7, 7, 7, 7, 0]]),
    "r": np.asarray([[2, 3, 5, 0], [1, 2, 2, 1], [4, 0, 0, 0], [8, 8, 0, 0]]),
    "m": np.asarray([5, 3, 1, 0]),
    "n": np.asarray([3, 4, 1, 2]),
}
_add(
    "edit_distance",
    lambda h, r, m, n: [
        *_distance(h, r, m, n, False),
        *_distance(h, r, m, n, True),
    ],
    **_STRINGS,
)
TABLE.refuse(
    "edit_distance",
    lambda h, r: _distance(h, r, None, None, False),
    "without lengths its sequences are LoD tensors",
    h=integers(4, 1),
    r=integers(4, 1),
)  # fmt: skip


def _align(x: Any, n: Any, blank: int, merge: bool, padding: int) -> list[Any]:
    return call(
        "ctc_align",
        [x, n, blank, merge, padding],
        {"Input": x, "InputLength": n},
        {"Output": x.dtype, "OutputLength": x.dtype},
        blank=blank,
        merge_repeated=merge,
        padding_value=padding,
    )


_TOKENS = np.asarray([[0, 1, 1, 0, 1, 2], [3, 3, 0, 4, 4, 0], [0, 0, 0, 0, 0, 0]])
_LENGTHS = np.asarray([[6], [4], [5]])
for _dtype in ("int64", "int32"):
    _add(
        "ctc_align",
        lambda x, n: [*_align(x, n, 0, True, 0), *_align(x, n, 1, False, 7)],
        label=_dtype,
        x=_TOKENS.astype(_dtype),
        n=_LENGTHS.astype(_dtype),
    )
TABLE.refuse(
    "ctc_align",
    lambda x: _align(x, None, 0, True, 0),
    "without input_length its sequences are LoD tensors",
    x=_TOKENS,
)


# Metrics.
def _auc(x: Any, label: Any, counts: list[Any], steps: int, curve: str = "ROC") -> list[Any]:
    return call(
        "auc",
        [x, label, *counts, None, curve, 15, steps],
        {"Predict": x, "Label": label, "StatPos": counts[0], "StatNeg": counts[1]},
        {"AUC": "float64", "StatPosOut": "int64", "StatNegOut": "int64"},
        curve=curve,
        num_thresholds=15,
        slide_steps=steps,
    )


def _slid(seed: int) -> Array:
    """Counts of the last two steps, their sum and the number of steps."""
    counts = integers(2, 16, seed=seed)
    return np.concatenate([counts.reshape(-1), counts.sum(0), [3]]).astype(np.int64)


_PREDICTED: dict[str, Any] = {
    "x": np.stack([1 - uniform(20, high=0.9), uniform(20, high=0.9)], axis=1),
    "n": integers(20, 1, high=2),
}
_add(
    "auc",
    lambda x, n, p, q, r, s: [*_auc(x, n, [p, q], 0), *_auc(x[:, 1:], n, [r, s], 2)],
    **_PREDICTED,
    p=integers(1, 16),
    q=integers(1, 16, seed=1),
    r=_slid(2),
    s=_slid(3),
)
_add(
    "auc",
    lambda x, n, p, q: _auc(x, n * 0, [p, q], 0),
    label="one class",
    **_PREDICTED,
    p=np.zeros((1, 16), np.int64),
    q=np.zeros((1, 16), np.int64),
)
TABLE.refuse(
    "auc",
    lambda x, n, p, q: _auc(x, n, [p, q], 0, "PR"),
    "curve 'PR' is not supported",
    **_PREDICTED,
    p=integers(1, 16),
    q=integers(1, 16, seed=1),
)
TABLE.refuse(
    "auc",
    lambda x, n, p, q: _auc(paddle.reshape(x, [5, 4, 2]), n, [p, q], 0),
    r"x is \[5, 4, 2\], expected \[N, 2\] or \[N, 1\]",
    **_PREDICTED,
    p=integers(1, 16),
    q=integers(1, 16, seed=1),
)
