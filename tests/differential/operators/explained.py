"""Differences that are explained: by Paddle's kernel, by a static shape, or by an open issue."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.operators.use import Case


@dataclass(frozen=True, slots=True)
class Explained:
    """A kind of difference that is no news.

    Attributes:
        op: regular expression for the whole name of an operator of the case.
        finding: regular expression that is searched in the finding's title and detail.
        why: the reason, and where it is written down.
        is_open: whether it is ours, and to be mended.
    """

    op: str
    finding: str
    why: str
    is_open: bool = False


ROWS = (
    Explained(
        "viterbi_decode",
        "shape",
        "Paddle cuts the path after the longest sequence; an IPU program's shapes are static, and "
        "the path is as long as the potentials (docs/operators.md)",
    ),
    Explained(
        "gammaincc|gammainc",
        "numbers|NaN|infinity",
        "Paddle's kernel reads y by x's index; a smaller y is read beyond its end",
    ),
    Explained(
        "auc",
        "LoweringError|numbers|popart_exception",
        "Paddle's shape inference takes counts and labels of any size, and its kernel reads and "
        "writes them as if they fitted num_thresholds and slide_steps",
    ),
    Explained(
        "median|nanmedian",
        "output 1: .*\n.*int64",
        "which of several equal numbers is the middle one: Paddle's kernel leaves that to "
        "std::nth_element, which says nothing of their order",
    ),
    Explained(
        "conv2d_transpose|conv3d_transpose|depthwise_conv2d_transpose",
        "Unexpected number of channels",
        "Paddle does not check that groups divide the channels; it is refused, but in PopART's "
        "words, which name neither groups nor Paddle's operator",
        is_open=True,
    ),
    Explained(
        "set_value_?",
        "ValueError: zip",
        "Paddle ignores steps beyond the axes",
        is_open=True,
    ),
    Explained(
        "triangular_solve|det",
        "popart_exception: Op.*(TriangularSolve|Determinant)",
        "Paddle takes a matrix of one number as a vector, and rows that broadcast",
        is_open=True,
    ),
    Explained(
        ".*",
        r"cannot reshape \[[^\]]*\] of \d+ elements to \[\]",
        "Paddle's kernel reads the first element of an operand that should have one; it is "
        "refused, but in PopART's words, which name no operator of Paddle's",
        is_open=True,
    ),
    Explained(
        ".*",
        r"Anchor tensor `Gradient___.* not in Ir Tensors",
        "the gradient of an operand without elements, or of one that no result depends on: Paddle "
        "gives zeros",
        is_open=True,
    ),
)
"""The first that fits explains a finding."""


def explanation(case: Case, title: str, detail: str) -> Explained | None:
    """The row that explains a finding, None for news."""
    for row in ROWS:
        if any(re.fullmatch(row.op, use.op) for use in case.steps) and re.search(
            row.finding, f"{title}\n{detail}"
        ):
            return row
    return None
