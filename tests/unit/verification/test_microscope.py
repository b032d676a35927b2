"""`verify` as a microscope: drift to half, what half cannot hold, and where NaN comes from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import VerificationError
from paddle_ipu.verification.ranges import best_scale, measure, scale_table
from paddle_ipu.verification.report import VerificationReport

F = paddle.nn.functional
Array = np.ndarray[Any, Any]
Network = Callable[[Any, Any, dict[str, int]], Any]


@dataclass
class Model:
    """A training program, its variables and a feed for eight rows."""

    main: Any
    scope: Any
    feed: dict[str, Array]
    loss: Any
    lines: Mapping[str, int]

    def verify(self, against: str, **keywords: Any) -> VerificationReport:
        keywords = {"raise_on_mismatch": False, **keywords}
        return paddle_ipu.verify(
            self.main, keywords.pop("feed", self.feed), [self.loss], scope=self.scope,
            against=against, **keywords,
        )  # fmt: skip


def build(network: Network, optimizer: Any = None) -> Model:
    """A program with ``network(x, y, lines) -> loss``."""
    paddle_ipu.activate()
    paddle.enable_static()
    paddle.seed(3)
    main, startup = paddle.static.Program(), paddle.static.Program()
    lines: dict[str, int] = {}
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [-1, 16], "float32")
        y = paddle.static.data("y", [-1, 1], "float32")
        loss = network(x, y, lines)
        (optimizer or sgd)().minimize(loss)
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    random = np.random.default_rng(0)
    feed = {
        "x": random.standard_normal((8, 16), np.float32),
        "y": random.standard_normal((8, 1), np.float32),
    }
    return Model(main, scope, feed, loss, lines)


def sgd() -> Any:
    return paddle.optimizer.SGD(0.1)


def here(lines: dict[str, int], name: str) -> None:
    """Keeps the caller's line."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    lines[name] = frame.f_back.f_lineno


def strategy(half: bool, **options: Any) -> Any:
    made = paddle.static.IpuStrategy()
    made.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=8)
    made.set_precision_config(enable_fp16=half)
    made.set_options(options)
    return made


def place(model: Model, name: str) -> str:
    return f"{__file__}:{model.lines[name]}"


def mlp(x: Any, y: Any, lines: dict[str, int]) -> Any:
    hidden = F.relu(paddle.nn.Linear(16, 32)(x))
    return F.mse_loss(paddle.nn.Linear(32, 1)(hidden), y)


def overflowing(x: Any, y: Any, lines: dict[str, int]) -> Any:
    """Activations whose products are far beyond half."""
    hidden = paddle.square(paddle.nn.Linear(16, 32)(x * 50))
    hidden = paddle.matmul(hidden, hidden, transpose_y=True); here(lines, "matmul")  # noqa: E702 # fmt: skip
    return F.mse_loss(paddle.nn.Linear(8, 1)(hidden * 1e-6), y)


def faint(x: Any, y: Any, lines: dict[str, int]) -> Any:
    """A loss so small that its gradients are below half's smallest number."""
    hidden = paddle.nn.Linear(32, 1)(F.tanh(paddle.nn.Linear(16, 32)(x)))
    return F.mse_loss(hidden * 1e-3, y * 1e-3)


def log_of_zero(x: Any, y: Any, lines: dict[str, int]) -> Any:
    share = F.relu(paddle.nn.Linear(16, 1)(x))
    logs = paddle.log(share); here(lines, "log")  # noqa: E702 # fmt: skip
    return (logs * y).mean()


def masked_root(x: Any, y: Any, lines: dict[str, int]) -> Any:
    """Forward is finite: what the root made is not chosen."""
    share = paddle.nn.Linear(16, 1)(x)
    root = paddle.sqrt(share); here(lines, "sqrt")  # noqa: E702 # fmt: skip
    return paddle.where(share > 0, root, paddle.zeros_like(share)).mean()


def with_dropout(x: Any, y: Any, lines: dict[str, int]) -> Any:
    """Both sides are on the IPU and draw the same mask."""
    return mlp(F.dropout(x, 0.25), y, lines)


def test_half_drifts_a_little_and_the_table_says_where() -> None:
    report = build(with_dropout, lambda: paddle.optimizer.Adam(0.01)).verify("fp16", steps=2)
    assert report.ok and report.finite and not report.findings
    assert [row.operator for row in report.operators] == [
        "dropout", "matmul", "add", "relu", "matmul", "add", "subtract", "square", "mean",
    ]  # fmt: skip
    for row in report.operators:
        assert row.result.dtype == "float16" and row.result.expected_dtype == "float32"
        assert row.values is not None and row.values.finite
        # Half has 11 bits: an element is off by 2^-11 at most, and not all of them are exact.
        assert 2.0**-15 < row.result.drift < 2.0**-8
    gradients = [row.gradient for row in report.operators if row.gradient is not None]
    assert len(gradients) == 8 and all(row.drift < 2.0**-8 for row in gradients)
    assert len(report.history) == 2
    text = str(report)
    assert text.startswith("verify: agrees with itself as compiled after 2 step(s), max_drift=")


def test_an_activation_that_overflows_half_is_named() -> None:
    model = build(overflowing)
    with pytest.raises(
        VerificationError, match="First infinity: matmul at .*overflows half"
    ) as caught:
        model.verify("fp32", ipu_strategy=strategy(True), raise_on_mismatch=True)
    report = caught.value.report
    first, then = report.not_finite
    assert (first.kind, first.phase, first.operator) == ("infinity", "forward", "matmul")
    assert (first.source, first.micro_batch) == (place(model, "matmul"), 0)
    assert (first.count, first.size) == (64, 64)
    assert "in float32 its result goes up to 7.62" in first.reason
    assert then.kind == "NaN" and "infinity minus infinity" in then.reason
    assert [found.title for found in report.findings] == ["Half precision is the cause"]
    (row,) = (row for row in report.operators if row.source == first.source)
    assert row.values is not None and row.values.overflow == 64
    assert row.verdict == "diverges" and row.number == first.number


def check_page(page: str) -> None:
    assert page.count('<svg class="h"') == 19
    assert page.count("Gradients underflow half") == 1
    assert '<table id="scales-table">' in page and "&gt; half" in page
    assert " data-lost>" in page
    assert not re.search(r"src=|href=\"h|@import|url\((?!#)", page)


def test_gradients_that_underflow_get_a_loss_scale_that_keeps_them() -> None:
    model = build(faint)
    report = model.verify("fp32", ipu_strategy=strategy(True))
    (finding,) = report.findings
    assert finding.title == "Gradients underflow half"
    assert "Set loss_scaling to 8192" in finding.advice
    assert not report.ok and report.scales[0].underflow > 0.3
    check_page(report.to_html())
    (row,) = (row for row in report.operators if row.operator == "tanh")
    assert row.gradient_values is not None and row.gradient_values.underflow > 50
    scaled = model.verify("fp32", ipu_strategy=strategy(True, loss_scaling=8192.0))
    assert all(row.ok for row in scaled.gradients) and not scaled.findings
    (row,) = (row for row in scaled.operators if row.operator == "tanh")
    assert row.gradient_values is not None and row.gradient_values.underflow < 2


def test_a_loss_scale_that_half_does_not_hold_is_told() -> None:
    report = build(mlp).verify("fp32", ipu_strategy=strategy(True, loss_scaling=2.0**17))
    (found,) = report.not_finite
    assert (found.phase, found.kind) == ("loss", "infinity")
    assert "Backward starts from the loss scale, 131072, which half does not hold" in str(found)


def test_a_learning_rate_too_large_is_tried_out() -> None:
    model = build(mlp, lambda: paddle.optimizer.SGD(5.0))
    report = model.verify("cpu", steps=6)
    (finding,) = report.findings
    assert finding.title == "The learning rate is too large"
    assert "with the rate 0.05 in place of 5 it goes to 0." in finding.text
    losses = [row.loss for row in report.history]
    assert len(losses) == 6 and losses[1] is not None and losses[1] > 1e3
    assert "steps, on the IPU:" in str(report)


def test_log_of_zero_is_named_with_how_many_zeros() -> None:
    model = build(log_of_zero)
    report = model.verify("fp16", feed=[model.feed, model.feed])
    first = report.not_finite[0]
    assert (first.kind, first.operator, first.source) == ("infinity", "log", place(model, "log"))
    assert first.reason == "Of its operand's 8 elements 3 are 0."
    assert "Keep its operand above 0" in first.advice
    assert [found.title for found in report.findings] == ["Half precision is not the cause"]


def test_nan_that_only_backward_makes_is_found_behind_a_mask() -> None:
    model = build(masked_root)
    report = model.verify("cpu")
    (found,) = report.not_finite
    assert (found.kind, found.phase, found.operator) == ("NaN", "backward", "sqrt")
    assert found.source == place(model, "sqrt")
    assert [row.operator for row in report.operators if row.number == found.number] == ["sqrt"]
    assert "of its operand's 8 elements 0 are 0 and 3 negative" in found.reason
    assert report.ok and not report.finite
    assert str(found) in str(report) and str(found).replace("'", "&#x27;") in report.to_html()


def test_a_feed_with_nan_is_blamed_with_its_place_and_micro_batch() -> None:
    model = build(mlp)
    bad = {**model.feed, "x": model.feed["x"].copy()}
    bad["x"][3, 2] = np.nan
    report = model.verify("fp32", feed=[model.feed, bad])
    assert str(report.not_finite[0]) == (
        "First NaN: the feed 'x', micro-batch 1: 1 of 128 elements. The first stands at [3, 2]. "
        "Look at what made this row."
    )
    assert "the program computes nothing in half: both sides are the same" in report.notes


def test_wrong_arguments() -> None:
    model = build(mlp)
    with pytest.raises(ValueError, match=r"verify\(against='fp8'\): expected one of 'cpu', 'fp32'"):
        model.verify("fp8")
    with pytest.raises(ValueError, match="got 2 feeds for 3 steps"):
        model.verify("fp16", feed=[model.feed] * 2, steps=3)


# -- ranges --------------------------------------------------------------------------------------


def test_ranges_count_what_numpys_cast_to_half_loses() -> None:
    random = np.random.default_rng(0)
    exponents = random.uniform(-40, 30, 20000)
    values = (np.sign(random.standard_normal(20000)) * 2.0**exponents).astype(np.float32)
    values[:4] = [65519.996, 65520.0, 2.0**-25, 2.0**-14]
    values[4:7] = [0.0, np.nan, np.inf]
    found = measure([values[:500], values[500:]])
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    finite = np.isfinite(values)
    assert found.overflow == int((np.isinf(half) & finite).sum())
    assert found.underflow == int(((half == 0) & (values != 0)).sum())
    assert (found.size, found.nan, found.infinite, found.zero) == (20000, 1, 1, 1)
    normal = np.abs(values) >= 2.0**-14
    lost = (found.overflow, found.underflow, found.subnormal)
    assert sum(lost) + int((normal & finite).sum()) - found.overflow == 20000 - 3
    assert sum(found.exponents.values()) == 20000 - 3


def test_a_scale_moves_values_and_the_best_leaves_headroom() -> None:
    gradients = [measure([np.asarray([2.0**-26, 2.0**-20, 2.0**-2], np.float32)])]
    now, then = scale_table(gradients, [1.0, 2.0**13])
    assert (now.underflow, now.subnormal, now.overflow) == pytest.approx((1 / 3, 1 / 3, 0))
    assert (then.underflow, then.subnormal, then.overflow) == pytest.approx((0, 0, 0))
    assert best_scale(gradients) == 2.0**15
    assert best_scale([measure([np.zeros(3, np.float32)])]) is None
