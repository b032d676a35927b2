"""What `paddle_ipu.verify` takes for rounding, and the faults that it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import VerificationError
from paddle_ipu.verification import rounding, sides
from paddle_ipu.verification.comparison import compare
from paddle_ipu.verification.contents import OperatorRow
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.text import notable
from paddle_ipu.xla.lowerings.registry import find_lowering, lowered_operators
from paddle_ipu.xla.optimizers import update_rules
from tests.tables import lower_otherwise

Array = np.ndarray[Any, Any]
F, nn = paddle.nn.functional, paddle.nn

# Paddle says so of every batch norm in training.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track global mean")


@dataclass
class Model:
    """A program with the loss, its variables and a feed."""

    main: Any
    scope: Any
    feed: Mapping[str, Array]
    fetches: list[Any]

    def verify(self, **keywords: Any) -> VerificationReport:
        keywords = {"raise_on_mismatch": False, **keywords}
        return paddle_ipu.verify(
            self.main, self.feed, self.fetches, scope=self.scope, **keywords
        )  # fmt: skip


def build(
    network: Callable[[Any], list[Any]], shape: tuple[int, ...], optimizer: Any = None
) -> Model:
    """A program with ``network(x) -> fetches``, the first of them the loss."""
    paddle_ipu.activate()
    paddle.enable_static()
    paddle.seed(5)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        fetches = network(paddle.static.data("x", [-1, *shape[1:]], "float32"))
        if optimizer is not None:
            optimizer().minimize(fetches[0])
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    feed = {"x": np.random.default_rng(0).standard_normal(shape, np.float32)}
    return Model(main, scope, feed, fetches)


def adam() -> Any:
    return paddle.optimizer.Adam(0.01)


def conv_net(x: Any) -> list[Any]:
    """Two convolutions with batch norm, channels weighed by a softmax, and a layer behind."""
    for channels in (8, 16):
        x = F.relu(nn.BatchNorm2D(channels)(nn.Conv2D(x.shape[1], channels, 3, padding=1)(x)))
    x = F.softmax(x.mean([2, 3])) * x.max([2, 3])
    out = nn.Linear(16, 4)(x)
    return [(out * out).mean(), out]


def transformer(x: Any) -> list[Any]:
    """A block of attention with a feed-forward part."""
    q, k, v = (nn.Linear(16, 16)(x) for _ in range(3))
    x = nn.LayerNorm(16)(x + paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True)), v))
    x = nn.LayerNorm(16)(x + nn.Linear(32, 16)(F.gelu(nn.Linear(16, 32)(x))))
    out = nn.Linear(16, 4)(x)
    return [(out * out).mean(), out]


def resnet(x: Any) -> list[Any]:
    out = paddle.vision.models.resnet18(num_classes=10)(x)
    return [(out * out).mean(), out]


def resnet_in_inference(x: Any) -> list[Any]:
    model = paddle.vision.models.resnet18(num_classes=10)
    model.eval()
    return [model(x)]


SHAPES: Mapping[Any, tuple[int, ...]] = {
    conv_net: (8, 3, 12, 12),
    transformer: (4, 6, 16),
    resnet: (2, 3, 64, 64),
    resnet_in_inference: (2, 3, 64, 64),
}


def long(*values: Any) -> Any:
    return pytest.param(*values, marks=[pytest.mark.long, pytest.mark.same])


# -- right programs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "steps"), [(conv_net, 2), (transformer, 2), long(resnet, 1)]
)  # fmt: skip
def test_training_differs_by_rounding_at_most(network: Any, steps: int) -> None:
    report = build(network, SHAPES[network], adam).verify(steps=steps, raise_on_mismatch=True)
    assert report.ok and report.verdict in ("agrees", "rounding")


@pytest.mark.parametrize("network", [conv_net, transformer, long(resnet_in_inference)])
def test_inference_differs_by_rounding_at_most(network: Any) -> None:
    report = build(network, SHAPES[network]).verify(every_operator=True, raise_on_mismatch=True)
    assert report.ok
    assert {row.verdict for row in report.operators} <= {"agrees", "rounding"}


def test_long_sums_and_cancellation_are_rounding() -> None:
    def network(x: Any) -> list[Any]:
        return [(x * 1000.7).sum(-1), paddle.cumsum(x, -1), (x * 3.3).sum(-1) - x.sum(-1) * 3.3]

    report = build(network, (8, 50000)).verify()
    assert report.verdict == "rounding"
    assert report.headline().startswith(
        "agrees, but for ROUNDING, with Paddle's CPU kernels after 1 step"
    )
    (drift,) = re.findall(r"of 3 fetches, drift ([\d.e-]+) in ", report.headline())
    assert float(drift) > 0
    rounding_rows = [row for row in report.fetches if row.rounding]
    assert rounding_rows and all(row.differing and row.noise > 0 for row in rounding_rows)
    assert "\n  rounding " in str(report) and '<tr class="rounding">' in report.to_html()


def test_an_optimizer_is_not_blamed_for_gradients_that_are_noise() -> None:
    """A bias before a batch norm has no gradient but rounding, which Adam makes whole steps of."""
    report = build(conv_net, SHAPES[conv_net], adam).verify()
    biases = [row for row in report.updates if re.fullmatch(r"conv2d_\d\.b_0", row.name)]
    assert len(biases) == 2 and all(row.rounding and row.drift > 0.1 for row in biases)
    assert report.verdict == "rounding" and report.explanation() == ""


# -- faults --------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def other_epsilon(patch: pytest.MonkeyPatch) -> None:
    """Norms add 1e-4 to the variance where the program says 1e-5."""
    for domain, op_type in lowered_operators():
        if op_type in ("BatchNormalization", "GroupNormalization"):
            right = find_lowering(domain, op_type)
            lower_otherwise(patch, op_type, _with(right, epsilon=1e-4), domain)


def _with(right: Any, **changed: Any) -> Any:
    return lambda context, inputs, attributes: right(context, inputs, {**attributes, **changed})


def no_bias_correction(patch: pytest.MonkeyPatch) -> None:
    """Adam's rate is the learning rate itself."""
    right = update_rules.NUMBERS["adam"]

    def numbers(settings: Any, lr: Any, powers: Any, corrected: bool) -> Any:
        return {**right(settings, lr, powers, corrected), "rate": lr}

    patch.setitem(update_rules.NUMBERS, "adam", numbers)  # type: ignore[misc]


def wrong_axis(patch: pytest.MonkeyPatch) -> None:
    """Softmax goes along the first axis."""
    lower_otherwise(patch, "Softmax", lambda context, x, _: jax.nn.softmax(x[0], axis=0))


def one_weight(patch: pytest.MonkeyPatch) -> None:
    """One element of the largest weight is 1e-3 larger on the IPU."""
    real = sides.Ipu.__init__

    def init(self: Any, case: Any, fetches: Any, state: Any, **keywords: Any) -> None:
        weights = case.forward.gradients.values() or case.state
        name = max(weights, key=lambda name: (case.state[name].size, name))
        changed = state[name].copy()
        changed.reshape(-1)[changed.size // 2] += np.float32(1e-3)
        real(self, case, fetches, {**state, name: changed}, **keywords)

    patch.setattr(sides.Ipu, "__init__", init)


@pytest.mark.parametrize(
    ("network", "plant", "blamed"),
    [
        (conv_net, other_epsilon, "batch_norm"),
        long(conv_net, no_bias_correction, "rule adam"),
        long(conv_net, wrong_axis, "softmax"),
        (conv_net, one_weight, "conv2d"),
        long(transformer, other_epsilon, "layer_norm"),
        (transformer, no_bias_correction, "rule adam"),
        (transformer, wrong_axis, "softmax"),
        long(transformer, one_weight, "matmul"),
        long(resnet, other_epsilon, "batch_norm"),
        long(resnet, one_weight, "conv2d"),
        long(resnet_in_inference, one_weight, "conv2d"),
    ],
)
def test_faults_are_no_rounding(
    network: Any, plant: Plant, blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    # Each rule is traced once for its numbers; no other test has these.
    rate = 0.01 + 0.0001 * (plant is no_bias_correction)
    trains = network is not resnet_in_inference
    optimizer = (lambda: paddle.optimizer.Adam(rate)) if trains else None
    report = build(network, SHAPES[network], optimizer).verify()
    first = report.first_divergence
    assert report.verdict == "differs"
    if isinstance(first, OperatorRow):
        assert first.operator.startswith(blamed)
        assert first.alone is not None and first.alone.drift > 10 * first.alone.noise
        assert "Paddle's kernel makes" in report.explanation()
    else:
        assert first is not None and first.what.endswith(blamed)
        assert "Of the IPU's own gradients Paddle's rule makes something else" in (
            report.explanation()
        )


def test_what_a_wrong_gradient_makes_of_weights_is_no_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong_axis(monkeypatch)
    report = build(conv_net, SHAPES[conv_net], adam).verify()
    assert not all(row.ok for row in report.gradients)
    assert not all(row.ok for row in report.updates)


# -- what is printed -----------------------------------------------------------------------------


def deep(x: Any) -> list[Any]:
    """Tanh in front of many operators that magnify its error."""
    x = paddle.tanh(x)
    for _ in range(8):
        x = paddle.exp(x) - 1.0
        x = x - x.mean()
        x = paddle.sin(x)
    return [x]


def test_the_table_counts_what_it_hides_and_shows_where_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lower_otherwise(monkeypatch, "Tanh", lambda context, x, _: jnp.tanh(x[0]) * 1.001)
    report = build(deep, (2, 4)).verify()
    verdicts = [row.verdict for row in report.operators]
    assert verdicts[0] == "diverges" and set(verdicts[1:]) == {"follows"}
    for most in (1, 5):
        text = report.summary(most)
        assert f"operators, in program order ({len(verdicts) - most} more follow):" in text
        assert re.search(r"  diverges .*  tanh at ", text)
    assert "more" not in str(report).partition("operators, in")[2].partition("\n")[0]


def test_hidden_operators_are_counted_by_verdict() -> None:
    report = build(deep, (2, 4)).verify(every_operator=True)
    table = [
        replace(row, verdict=verdict)
        for row, verdict in zip(
            report.operators,
            ["agrees"] * 3 + ["rounding", "diverges", "diverges"] + ["follows"] * 40,
            strict=False,
        )
    ]
    shown = notable(table, 1)
    assert [row.number for row in shown] == [table[4].number]
    report.operators = table
    report.fetches = [replace(row, ok=False) for row in report.fetches]
    hidden = len(table) - 6
    assert (
        f"(1 more diverge, {hidden} more follow, 1 more differ by rounding, 3 more agree):"
    ) in report.summary(1)


def log_of_zero(x: Any) -> list[Any]:
    return [paddle.log(F.relu(x)).mean()]


def test_what_is_not_finite_heads_the_report_and_is_raised() -> None:
    model = build(log_of_zero, (4, 8))
    with pytest.raises(
        VerificationError,
        match=r"verify: 1 of 1 fetches hold NaN or infinity, as on the other side\.\n"
        r"First infinity: log at .*test_rounding\.py:\d+ ",
    ) as caught:
        model.verify(raise_on_mismatch=True)
    report = caught.value.report
    assert report.ok and not report.finite and report.verdict == "not finite"
    assert str(report).startswith(
        "verify: NOT FINITE: 1 of 1 fetches hold NaN or infinity; beside that it agrees with Paddle"
    )
    assert "<h1>verify: not finite</h1>" in report.to_html()
    assert report.to_dict()["verdict"] == "not finite"


def test_the_page_has_every_operator_though_they_agree() -> None:
    report = build(transformer, SHAPES[transformer]).verify(rtol=1e-3, atol=1e-4)
    assert report.verdict == "agrees" and not report.operators
    page = report.to_html()
    assert '<table id="operators-table">' in page and len(report.operators) > 20
    assert page.count('<tr class="agrees"') == len(report.operators) + len(report.fetches)
    assert report.to_html() == page


# -- the formula ---------------------------------------------------------------------------------


def test_nudged_numbers_are_neighbours_and_exact_ones_stay() -> None:
    random = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    arrays = {
        "random": random,
        "exact": np.asarray([0, 1, -3, 0.5, 250, np.inf, np.nan], np.float32),
        "whole": np.arange(5),
        "scalar": np.asarray(0.1, np.float64),
    }
    moved = rounding.nudged(arrays, 0)
    ulps = (moved["random"] - random) / np.spacing(np.abs(random))
    assert set(np.abs(ulps[ulps != 0]).tolist()) <= {0.5, 1.0} and (ulps == 0).mean() < 0.01
    np.testing.assert_array_equal(moved["exact"], arrays["exact"])
    np.testing.assert_array_equal(moved["whole"], arrays["whole"])
    assert moved["scalar"].shape == () and moved["scalar"] != 0.1
    assert not np.array_equal(moved["random"], rounding.nudged(arrays, 1)["random"])


def judged(error: Any, size: float = 1e-3, noises: Any = None) -> bool:
    """Whether errors beside numbers of `size` are rounding, noise being 1e-5 each."""
    random = np.random.default_rng(0)
    y = random.standard_normal(1000) * size
    noises = np.full(1000, 1e-5) if noises is None else noises
    runs = [[y + noises * random.standard_normal(1000)] for _ in range(rounding.RUNS)]
    row = compare("y", got=[y + error], expected=[y], rtol=1e-6, atol=1e-8, nudged=runs)
    assert row.rounding == row.ok and row.differing
    return row.ok


def test_errors_like_the_noise_are_rounding() -> None:
    random = np.random.default_rng(1).standard_normal(1000)
    assert judged(3e-5 * random)
    assert not judged(3e-4 * random), "spread thin: 30 times the noise"
    one = np.zeros(1000)
    one[7] = 2e-4
    assert judged(one)
    one[7] = 2e-3
    assert not judged(one), "one element, 200 times the noise"


def test_few_noisy_elements_do_not_excuse_the_others() -> None:
    noises = np.full(1000, 1e-5)
    noises[:10] = 1.0
    errors = np.zeros(1000)
    errors[:10] = 1.0
    assert judged(errors, noises=noises)
    errors[500] = 1e-2
    assert not judged(errors, noises=noises)


def test_whole_numbers_may_differ_where_other_last_bits_change_them() -> None:
    expected, other = np.asarray([1, 2, 3]), np.asarray([1, 2, 4])
    for got, ok in (([1, 2, 4], True), ([1, 3, 3], False)):
        row = compare(
            "y", got=[np.asarray(got)], expected=[expected], rtol=0.0, atol=0.0, nudged=[[other]]
        )  # fmt: skip
        assert row.ok == row.rounding == ok


def test_without_noise_the_tolerance_decides() -> None:
    y = np.ones(3, np.float32)
    row = compare("y", got=[y + 1e-3], expected=[y], rtol=1e-5, atol=0.0, nudged=[[y], [y]])
    assert not row.ok and not row.rounding
