"""A report in words: what its first line says, and which rows a summary has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paddle_ipu.verification.comparison import Comparison, compare
from paddle_ipu.verification.report import VerificationReport


def gradient(number: int, error: float) -> Comparison:
    """Of the weight of that number, which is off by an error: what is above 0.5 differs."""
    expected = np.ones(4, np.float32)
    return compare(
        f"assign.{number}", got=[expected + np.float32(error)], expected=[expected], rtol=0.5,
        atol=0.0, what=f"gradient of w_{number}",
    )  # fmt: skip


def summary(report: VerificationReport) -> list[str]:
    return report.summary(3).splitlines()


def test_a_summary_has_the_worst_rows_in_their_order_and_counts_the_others() -> None:
    errors = [0.0, 1.0, 0.1, 0.2, np.nan, 2.0, 3.0, 0.0]
    report = VerificationReport(0.5, 0.0, 1, gradients=[*map(gradient, range(8), errors)])
    lines = summary(report)
    at = lines.index("gradients (1 more differ, 4 more agree):")
    assert [line.split("  ")[-1] for line in lines[at + 2 : at + 5]] == [
        "gradient of w_4", "gradient of w_5", "gradient of w_6",
    ]  # fmt: skip
    assert lines[at + 2].startswith("  NaN/inf") and lines[at + 5] == ""
    assert "\ngradients:\n" in str(report) and str(report).count("gradient of w_") > 8


def test_fewer_rows_are_all_there() -> None:
    report = VerificationReport(0.5, 0.0, 1, gradients=[gradient(0, 0.0), gradient(1, 1.0)])
    lines = summary(report)
    at = lines.index("gradients:")
    assert [line.split()[0] for line in lines[at + 2 : at + 4]] == ["ok", "DIFFERS"]


def test_a_gradient_is_called_by_its_weight_and_others_by_their_names() -> None:
    rounded = replace(gradient(1, 0.25), rounding=True)
    report = VerificationReport(0.5, 0.0, 1, gradients=[gradient(0, 0.0), rounded])
    assert report.headline() == (
        "agrees, but for ROUNDING, with Paddle's CPU kernels after 1 step(s), rtol=0.5, atol=0: "
        "1 of 2 gradients, drift 0.25 in gradient of w_1"
    )
    fetch = replace(gradient(1, 0.25), name="loss", what="fetch")
    told = summary(VerificationReport(0.5, 0.0, 1, fetches=[fetch]))
    assert "the largest drift is 2.5e-01, in loss, whose largest value is 1.0e+00" in told[1]


def test_beside_another_precision_the_first_line_has_the_largest_drift_allowed() -> None:
    report = VerificationReport(0.5, 0.0, 1, against="fp16", max_drift=0.02)
    assert report.headline() == "agrees with itself as compiled after 1 step(s), max_drift=0.02"
