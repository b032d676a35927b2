"""One Python program becomes one PopART program, whichever version of Paddle built it.

The other version runs in an environment of its own: ``PADDLE_IPU_PADDLE26_PYTHON`` names its
Python, ``make test`` sets it.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import paddle
import pytest

from tests.checkout import ROOT
from tests.operators.operator_cases import CASES
from tools.program_forms.__main__ import main

TABLES = ("tests.operators.program_table:PROGRAMS", "tests.versions.training_programs:PROGRAMS")
OTHER = os.environ.get("PADDLE_IPU_PADDLE26_PYTHON", "")

pytestmark = [
    pytest.mark.skipif(not OTHER, reason="PADDLE_IPU_PADDLE26_PYTHON names no Python"),
    pytest.mark.skipif(
        paddle.__version__.startswith("2.6"), reason="compared from the newer version's side"
    ),
]

DIFFERENT: Mapping[str, str] = {
    "divide-integers": "paddle.divide converts integers to float32 in 3.3 only",
    "cumsum": "paddle.cumsum of an integer has a cast in 3.3 only, to its own dtype",
    "sqrt-standard deviation": "paddle.var guards n - 1 by where in 2.6, by maximum in 3.3",
    "slice": "x[:, 0:100] writes no operator in 3.3",
    "expand": "2.6 infers 1 for a dimension of -1, which is the shape of the fed cotangent",
    "cross_entropy_with_softmax-class weights and smoothing": "2.6 casts soft labels",
    "sigmoid_cross_entropy_with_logits": "focal loss writes 1 - x as a scale in 2.6",
    "cross_entropy_with_softmax-smoothed soft labels": "2.6 casts soft labels",
    "sigmoid_cross_entropy_with_logits-focal loss": "focal loss writes 1 - x as a scale in 2.6",
    "exp-Poisson likelihood": "the loss casts its labels in 2.6",
    "index_sample-margins between classes": "multi_margin_loss weighs before the power in 2.6",
    "batch_norm-twice with the same statistics": "2.6 stops the gradient between both writes",
    "strided_slice-bounds": "3.3 writes the end of a whole axis as -5, 2.6 as given",
    "det": "2.6 declares the shape of the matrix, which the fed cotangent then has",
    "det-singular": "2.6 declares the shape of the matrices",
    "kthvalue": "2.6 declares the indices as float32",
    "lu": "2.6 declares one number of the decomposition as a vector",
    "diag_embed": "2.6 stops the gradient of its result",
    "relu-hinges": "2.6 reads the two operands in the other order",
    **dict.fromkeys(
        (
            "conv2d-channels last",
            "conv2d-one axis",
            "conv2d_transpose-one axis",
            "conv3d_transpose",
            "deformable_conv",
        ),
        "3.3 reshapes the bias before it adds it, 2.6 adds along an axis",
    ),
    **dict.fromkeys(
        ("einsum-broadcast ellipsis", "einsum-ellipsis", "einsum-ellipsis of one"),
        "2.6 writes einsum with plain operators where there is an ellipsis",
    ),
    **dict.fromkeys(
        (
            "set_value_with_tensor",
            "set_value_with_tensor-from computed starts",
            "set_value_with_tensor-gradient with a new axis",
            "set_value_with_tensor-new axes before and behind dropped ones",
            "set_value_with_tensor-new axis",
            "set_value_with_tensor-whole numbers and truth values",
        ),
        "2.6 assigns the value to a variable of its own first",
    ),
    **dict.fromkeys(
        (
            "array_length",
            "array_read",
            "array_read-by a number of run time",
            "array_to_tensor",
            "array_write-in a False branch",
            "array_write-in a True branch",
            "array_write-in a loop",
            "array_write-over an element",
            "create_array",
        ),
        "3.3 copies what it writes to an array of tensors",
    ),
    **dict.fromkeys(
        (
            "set_value-from computed starts",
            "slice-a start that is an expression, beside an index and a slice",
            "slice-constant lengths from computed starts",
            "slice-one index, a tensor without axes",
            "strided_slice-beside computed starts",
            "while-writes a slice",
        ),
        "3.3 makes one tensor of the bounds first",
    ),
    **dict.fromkeys(
        (
            "put_along_axis-mean of int32 below zero",
            "put_along_axis-mean of int64 below zero",
            "put_along_axis-mean of whole numbers",
            "put_along_axis-mean of whole numbers without what was there",
        ),
        "2.6 rounds a mean of integers towards zero, 3.3 down",
    ),
    **dict.fromkeys(
        (
            "moving_average_abs_max_scale-of 0 and 0 axes",
            "moving_average_abs_max_scale-of 0 and 1 axes",
            "moving_average_abs_max_scale-of 2 and 1 axes",
            "quantize_linear-numbers without an axis",
        ),
        "2.6 declares an average as a vector, 3.3 in the shape of the operand with its last value",
    ),
    **dict.fromkeys(
        (
            "max_pool2d_with_index-windows_outside_of_1",
            "max_pool2d_with_index-windows_outside_of_2",
            "max_pool3d_with_index-windows_outside_of_3",
        ),
        "2.6 leaves out windows that begin behind the image",
    ),
    **dict.fromkeys(
        (
            "set_value-backwards_from_-3_to_None_of_1",
            "set_value-backwards_from_-6_to_-7_of_5",
            "set_value-backwards_from_-8_to_None_of_5",
            "strided_slice-backwards_from_-3_to_None_of_1",
            "strided_slice-backwards_from_-8_to_None_of_5",
            "strided_slice-backwards_from_3_to_-9_of_5",
        ),
        "2.6 has other bounds of backward slices before the front",
    ),
    "increment-64 bits": "3.3 writes the end of a last column as the largest number",
    "scale-constants": "3.3 keeps a constant's whole numbers as float64",
    "kldiv_loss": "batchmean divides by the shape's first element in 2.6, scales in 3.3",
}
"""Rows whose Paddle functions write other operators in 2.6 than in 3.3."""


@pytest.fixture(scope="module")
def forms(made_once: Callable[..., Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The programs of this Paddle and of the other, by name, each behind its version."""
    folder = made_once("forms", _write_forms)
    this, theirs = (json.loads((folder / f"{name}.json").read_text()) for name in ("this", "other"))
    return this, theirs


def _write_forms(folder: Path) -> None:
    arguments = [word for table in TABLES for word in ("--programs", table)] + ["--out"]
    with subprocess.Popen(
        [OTHER, "-m", "tools.program_forms", *arguments, folder / "other.json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert main([*arguments, str(folder / "this.json")]) == 0
            _, messages = other.communicate(timeout=300)
        except BaseException:
            other.kill()
            raise
    assert other.returncode == 0, messages


def _difference(this: Any, theirs: Any) -> str:
    lines = (json.dumps(form, indent=0).splitlines() for form in (theirs, this))
    return "\n".join(list(difflib.unified_diff(*lines, "2.6", "here", lineterm="", n=0))[:16])


def test_every_program_but_the_named_ones_is_the_same(
    forms: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    this, theirs = (each["programs"] for each in forms)
    different = {name for name in this.keys() & theirs.keys() if this[name] != theirs[name]}
    told = [
        f"{name}:\n{_difference(this[name], theirs[name])}"
        for name in sorted(different - DIFFERENT.keys())
    ]
    assert not told, "\n".join(told)
    # A reason that holds no longer is taken out of the table.
    assert different == DIFFERENT.keys() & this.keys()


def test_reasons_are_those_of_rows() -> None:
    assert DIFFERENT.keys() <= {case.name for case in CASES}


def test_only_rows_that_say_so_are_missing(
    forms: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    this, theirs = forms
    assert theirs["paddle"].startswith("2.6.")
    told = {case.name for case in CASES if case.since is not None and not case.since.holds("2.6.2")}
    assert this["programs"].keys() - theirs["programs"].keys() == told
    assert not theirs["programs"].keys() - this["programs"].keys()


def test_the_programs_are_not_empty(forms: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for written in forms:
        form = written["programs"]["tiny BERT, lamb"]
        assert len(form["operators"]) > 100
        assert len(form["optimizer"]["updates"]) == len(form["weights"])
        assert {update["rule"] for update in form["optimizer"]["updates"].values()} == {"lamb"}
        assert form["unread"] == {}
