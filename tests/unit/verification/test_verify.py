"""`paddle_ipu.verify`: what it compares, what it blames, and what it leaves alone."""

from __future__ import annotations

import inspect
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
from paddle_ipu.errors import FeedError, FetchError, NotSupported, VerificationError
from paddle_ipu.frontend import programs
from paddle_ipu.options.one_micro_batch import for_one_micro_batch
from paddle_ipu.options.strategy import check_consistent
from paddle_ipu.verification import sides
from paddle_ipu.verification import verify as reference
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import DIVERGES, FOLLOWS
from paddle_ipu.verification.run_history import state_before
from paddle_ipu.xla.optimizers import update_rules
from tests.tables import lower_otherwise

Array = np.ndarray[Any, Any]


@dataclass
class Model:
    """A built program with its parameters in a scope of its own."""

    main: Any
    scope: Any
    feed: Mapping[str, Array]
    fetches: list[Any]
    lines: Mapping[str, int]


def line() -> int:
    """The caller's line number."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def build(
    network: Callable[[Any, dict[str, int]], list[Any]], rows: int = 4, optimizer: Any = None
) -> Model:
    """Builds ``network(x, lines) -> fetches``; with an optimizer the first fetch is the loss."""
    paddle_ipu.activate()
    paddle.enable_static()
    paddle.seed(7)
    main, startup = paddle.static.Program(), paddle.static.Program()
    lines: dict[str, int] = {}
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [-1, 6, 8], "float32")
        fetches = network(x, lines)
        if optimizer is not None:
            optimizer().minimize(fetches[0])
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    feed = {"x": np.random.default_rng(0).standard_normal((rows, 6, 8), np.float32)}
    return Model(main, scope, feed, fetches, lines)


def mlp(x: Any, lines: dict[str, int]) -> list[Any]:
    """Two layers with tanh, and gelu after them."""
    hidden = paddle.nn.Linear(8, 16)(x)
    hidden = paddle.tanh(hidden); lines["tanh"] = line()  # noqa: E702 # fmt: skip
    out = paddle.nn.Linear(16, 4)(hidden)
    out = paddle.nn.functional.gelu(out); lines["gelu"] = line()  # noqa: E702 # fmt: skip
    return [(out * out).mean(), out]


def attention(x: Any, lines: dict[str, int]) -> list[Any]:
    """Two heads, a residual and layer norm; q, k and v come out of one split."""
    q, k, v = paddle.split(paddle.nn.Linear(8, 24)(x), 3, axis=-1)
    q, k, v = (paddle.reshape(t, [0, 6, 2, 4]).transpose([0, 2, 1, 3]) for t in (q, k, v))
    weights = paddle.nn.functional.softmax(paddle.matmul(q, k, transpose_y=True) * 0.5)
    mixed = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([0, 6, 8])
    out = paddle.nn.LayerNorm(8)(x + mixed)
    return [(out * paddle.nn.Linear(8, 8)(out)).mean(), out]


def momentum() -> Any:
    return paddle.optimizer.Momentum(0.1, 0.9, weight_decay=0.01)


def verify(model: Model, **keywords: Any) -> Any:
    return paddle_ipu.verify(model.main, model.feed, model.fetches, scope=model.scope, **keywords)


def strategy(training: bool, micro_batch: int = 2, **options: Any) -> Any:
    made = paddle.static.IpuStrategy()
    made.set_graph_config(num_ipus=1, is_training=training, micro_batch_size=micro_batch)
    made.set_options(options)
    return made


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tanh that gives a hundredth too much."""
    lower_otherwise(monkeypatch, "Tanh", lambda context, x, _: jnp.tanh(x[0]) * 1.01)


# -- programs that agree ------------------------------------------------------------------------


@pytest.mark.parametrize("network", [mlp, attention])
def test_inference_agrees(network: Any) -> None:
    report = verify(build(network))
    assert report.ok and report.first_divergence is None
    assert [row.shape for row in report.fetches] == [(), (4, 6, 4 if network is mlp else 8)]
    assert not report.gradients and not report.updates and not report.operators
    assert str(report).startswith("verify: agrees with Paddle's CPU kernels after 1 step(s)")


@pytest.mark.parametrize("network", [mlp, attention])
def test_training_agrees(network: Any) -> None:
    report = verify(build(network, optimizer=momentum), steps=2, every_operator=True)
    assert report.ok
    parameters = 4 if network is mlp else 6
    assert len(report.gradients) == parameters
    assert len(report.updates) == 2 * parameters
    assert {row.verdict for row in report.operators} == {"agrees"}


def test_the_table_holds_every_forward_operator_with_its_line() -> None:
    model = build(mlp)
    report = verify(model, every_operator=True)
    operators = [row.operator for row in report.operators]
    assert operators == ["matmul", "add", "tanh", "matmul", "add", "gelu", "multiply", "mean"]
    rows = {row.operator: row for row in report.operators}
    for name in ("tanh", "gelu"):
        assert rows[name].source == f"{__file__}:{model.lines[name]}"


def test_batches_of_one_run_are_compared_one_by_one() -> None:
    model = build(mlp, rows=6, optimizer=momentum)
    report = verify(model, ipu_strategy=strategy(True, batches_per_step=3), steps=2)
    assert report.ok
    assert report.fetches[1].shape == (2, 6, 4)
    assert report.fetches[1].size == 6 * 2 * 6 * 4


def test_accumulation_compares_everything_but_the_update() -> None:
    model = build(mlp, rows=6, optimizer=momentum)
    options = {"enable_gradient_accumulation": True, "accumulation_factor": 3}
    report = verify(model, ipu_strategy=strategy(True, **options))
    assert report.ok and len(report.gradients) == 4 and not report.updates
    assert report.notes == [
        "weights and optimizer state are not compared: Paddle's CPU executor has no gradient "
        "accumulation; every micro-batch ran from the same weights"
    ]
    with pytest.raises(NotSupported, match=r"over one update only.*got steps=2, batches_per_step"):
        verify(model, ipu_strategy=strategy(True, **options), steps=2)


def test_inference_of_a_training_program_leaves_the_optimizer_out() -> None:
    model = build(mlp, rows=4, optimizer=momentum)
    report = verify(model, ipu_strategy=strategy(False, batches_per_step=2))
    assert report.ok and not report.updates
    assert report.fetches[1].size == 4 * 6 * 4


def test_loss_scaling_is_taken_out_of_gradients() -> None:
    model = build(mlp, optimizer=momentum)
    report = verify(model, ipu_strategy=strategy(True, 4, loss_scaling=64.0))
    assert report.ok
    assert report.notes == []


def test_automatic_loss_scaling_starts_from_the_scale_in_the_scope() -> None:
    model = build(mlp, optimizer=lambda: paddle.optimizer.SGD(0.01))
    options = {"loss_scaling": 4.0, "automatic_loss_scaling_settings.enabled": True}
    compiler = paddle.static.IpuCompiledProgram(
        model.main, scope=model.scope, ipu_strategy=strategy(True, 4, **options)
    )
    program = compiler.compile(["x"], model.fetches)
    paddle.static.Executor(paddle.IPUPlace()).run(program, feed=model.feed)
    assert program.loss_scale == 8
    again = strategy(True, 4, **options)
    case = reference.prepare(
        model.main, [model.feed], model.fetches, scope=model.scope, strategy=again
    )
    assert case.loss_scale == 8
    (name,) = [name for name in case.state if name.endswith(".loss_scale")]
    assert state_before(case, sides.AS_COMPILED, 1)[name].tolist() == [16, 4]
    assert again.need_compile and program.loss_scale == 8


def test_one_micro_batch_needs_nothing_of_a_pipeline() -> None:
    pipelined = paddle.static.IpuStrategy()
    pipelined.set_graph_config(num_ipus=2, is_training=True, enable_manual_shard=True)
    pipelined.set_pipelining_config(
        enable_pipelining=True, enable_gradient_accumulation=True, accumulation_factor=4
    )
    pipelined.set_options(
        {"create_implicit_pipelining_fwd_only_program": True, "auto_recomputation": "Pipeline"}
    )
    check_consistent(pipelined._ipu_strategy.snapshot())
    values = for_one_micro_batch(pipelined)._ipu_strategy.snapshot()
    check_consistent(values)
    assert not values["create_implicit_pipelining_fwd_only_program"]
    assert values.member("auto_recomputation") == "NoRecompute"


# -- programs that differ -----------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
def test_a_wrong_lowering_is_found_with_the_line(wrong_tanh: None, training: bool) -> None:
    model = build(mlp, optimizer=momentum if training else None)
    place = re.escape(f"tanh at {__file__}:{model.lines['tanh']}")
    with pytest.raises(
        VerificationError,
        match=rf"(?s)2 of 2 fetches.* differ from Paddle's CPU kernels \(rtol=1e-05, atol=1e-06\)"
        rf".*First diverging operator: {place} \(result tanh.*\): got .*, expected .* at \[.*"
        r"max abs error .*Everything it reads agrees.*raise_on_mismatch=False",
    ) as caught:
        verify(model)
    first = caught.value.report.first_divergence
    assert (first.operator, first.verdict) == ("tanh", DIVERGES)
    # Where tanh is small the two kernels themselves differ by 1e-5 or so, which verify allows.
    assert first.result.share == pytest.approx(0.01, abs=3e-5)
    assert first.result.got == pytest.approx(1.01 * first.result.expected, rel=1e-4)
    verdicts = {row.operator: row.verdict for row in caught.value.report.operators}
    assert verdicts["gelu"] == verdicts["mean"] == FOLLOWS


def test_a_difference_in_a_later_batch_is_bisected_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_for_large(context: Any, x: Any, attributes: Any) -> Any:
        return jnp.where(jnp.abs(x[0]) > 50, 0.5, jnp.tanh(x[0]))

    lower_otherwise(monkeypatch, "Tanh", wrong_for_large)
    model = build(mlp, rows=6, optimizer=momentum)
    model.feed["x"][4:] *= 1000
    report = verify(
        model, ipu_strategy=strategy(True, batches_per_step=3), raise_on_mismatch=False, rtol=1e-3
    )
    assert report.fetches[0].micro_batch == 2
    assert report.first_divergence.operator == "tanh"
    assert report.notes == [
        "operators are compared on micro-batch 2, from the CPU's weights at that point"
    ]


@jax.custom_jvp
def tanh_with_a_wrong_derivative(x: Any) -> Any:
    return jnp.tanh(x)


@tanh_with_a_wrong_derivative.defjvp
def _(primals: Any, tangents: Any) -> Any:
    y = jnp.tanh(primals[0])
    return y, tangents[0] * (1 - 0.9 * y * y)


@pytest.fixture
def wrong_tanh_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tanh whose derivative has 0.9 where 1 belongs."""
    lower_otherwise(monkeypatch, "Tanh", lambda context, x, _: tanh_with_a_wrong_derivative(x[0]))


def test_a_wrong_derivative_is_found_by_operators_alone(wrong_tanh_derivative: None) -> None:
    model = build(mlp, optimizer=momentum)
    place = re.escape(f"tanh at {__file__}:{model.lines['tanh']}")
    with pytest.raises(
        VerificationError,
        match=rf"(?s)2 of 4 gradients.*First diverging derivative: {place} with respect to its "
        r"operand x: got .*Every operator agrees forward",
    ) as caught:
        verify(model)
    report = caught.value.report
    assert all(row.verdict == "agrees" for row in report.operators)
    assert [row.operator for row in report.derivatives if row.verdict == DIVERGES] == ["tanh"]
    operands = [(row.operator, row.result.name) for row in report.derivatives]
    assert operands[0] == ("mean", "x") and operands[-2:] == [("add", "y"), ("matmul", "y")]
    assert "First diverging derivative" in str(report)
    assert "Derivatives of each operator by itself" in report.to_html()


def test_every_derivative_of_a_larger_network_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient scaled after backward sends verify through all operators, none of which errs."""
    model = build(attention, optimizer=momentum)
    real, runs = sides.Ipu.run, []

    def scaled(self: Any, feed: Any) -> Any:
        results = real(self, feed)
        runs.append(self)
        if len(runs) == 1:
            return {
                name: [2 * array for array in arrays] if "grad" in name.lower() else arrays
                for name, arrays in results.items()
            }
        return results

    monkeypatch.setattr(sides.Ipu, "run", scaled)
    report = verify(model, raise_on_mismatch=False)
    assert {row.operator for row in report.derivatives} >= {"matmul", "layer_norm", "softmax"}
    assert {row.verdict for row in report.derivatives} == {"agrees"}
    assert isinstance(report.first_divergence, Comparison)
    assert "Each operator agrees by itself" in report.explanation()


def test_an_operand_in_a_list_is_named_by_its_place(wrong_tanh_derivative: None) -> None:
    def network(x: Any, lines: dict[str, int]) -> list[Any]:
        hidden = paddle.nn.Linear(8, 4)(x)
        joined = paddle.concat([hidden, paddle.tanh(hidden)], axis=-1)
        return [(joined * joined).mean()]

    report = verify(build(network, optimizer=momentum), raise_on_mismatch=False)
    verdicts = {(row.operator, row.result.name): row.verdict for row in report.derivatives}
    assert verdicts["concat", "x[0]"] == verdicts["concat", "x[1]"] == "agrees"
    assert verdicts["tanh", "x"] == DIVERGES


def test_a_wrong_derivative_is_found_on_several_ipus(wrong_tanh_derivative: None) -> None:
    def network(x: Any, lines: dict[str, int]) -> list[Any]:
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            hidden = paddle.tanh(paddle.nn.Linear(8, 8)(x))
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            return [paddle.nn.functional.gelu(paddle.nn.Linear(8, 4)(hidden)).mean()]

    made = paddle.static.IpuStrategy()
    made.set_graph_config(num_ipus=2, is_training=True, enable_manual_shard=True)
    made.set_pipelining_config(True, 1, enable_gradient_accumulation=True, accumulation_factor=4)
    report = verify(build(network, optimizer=momentum), ipu_strategy=made, raise_on_mismatch=False)
    wrong = [
        (row.operator, row.result.name) for row in report.derivatives if row.verdict == DIVERGES
    ]
    assert wrong == [("tanh", "x")]


def test_a_wrong_update_rule_is_a_weight_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    right = update_rules.RULES["momentum"]

    def too_fast(*arguments: Any) -> Any:
        weight, state = right(*arguments)
        return weight + 0.001, state

    monkeypatch.setitem(update_rules.RULES, "momentum", too_fast)  # type: ignore[misc]

    def another() -> Any:
        # Each rule is traced once for its numbers; no other test has these.
        return paddle.optimizer.Momentum(0.1, 0.87)

    with pytest.raises(
        VerificationError,
        match=r"(?s)4 of 8 weights and states differ.*First difference: 'linear_\d\.[wb]_0', "
        r"weight updated by rule momentum \(.*test_verify\.py:\d+\): got .*"
        r"Every gradient agrees, so the update does not\.\nReport the rule",
    ) as caught:
        verify(build(mlp, optimizer=another))
    report = caught.value.report
    assert all(row.ok for row in (*report.fetches, *report.gradients))
    assert isinstance(report.first_divergence, Comparison)
    assert report.first_divergence.max_abs == pytest.approx(0.001, rel=1e-3)


def test_a_difference_is_reported_even_where_the_bisection_is_refused(
    wrong_tanh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise NotSupported("no such fetch")

    monkeypatch.setattr(reference, "examine", refuse)
    with pytest.raises(VerificationError, match=r"2 of 2 fetches.*\n.*First difference") as caught:
        verify(build(mlp))
    note = "the operators could not be compared one by one: no such fetch"
    assert caught.value.report.notes == [note]
    assert f"note: {note}" in str(caught.value.report)


def test_refused_isolation_leaves_the_gradient_as_the_first_difference(
    wrong_tanh_derivative: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise NotSupported("no such program")

    monkeypatch.setattr(reference, "isolate", refuse)
    report = verify(build(mlp, optimizer=momentum), raise_on_mismatch=False)
    assert report.notes == ["the operators could not be run by themselves: no such program"]
    assert report.first_divergence.what == "gradient of linear_0.b_0"


# -- what stays as it was -----------------------------------------------------------------------


def persistable(program: Any) -> list[str]:
    """Names of the parameters and states of a program."""
    if programs.is_legacy(program):
        return [variable.name for variable in program.list_vars() if variable.persistable]
    attributes = [op.attrs() for op in program.global_block().ops]
    return [each["parameter_name"] for each in attributes if "parameter_name" in each]


def operators(program: Any) -> list[Any]:
    return list(program.global_block().ops)


def kind(op: Any) -> str:
    """The operator's name without its dialect."""
    return str(op.type if paddle.__version__.startswith("2.") else op.name().rpartition(".")[2])


def attribute(op: Any, name: str) -> Any:
    return op.attr(name) if paddle.__version__.startswith("2.") else op.attrs()[name]


def test_program_scope_and_scheduler_stay_as_they_were() -> None:
    scheduler = paddle.optimizer.lr.StepDecay(0.25, 1)
    model = build(mlp, optimizer=lambda: paddle.optimizer.Adam(scheduler))
    names = persistable(model.main)
    before = {name: np.array(model.scope.find_var(name).get_tensor()) for name in names}
    text = str(model.main)
    rate_name = programs.learning_rate_name(model.main)
    rate = paddle.static.global_scope().find_var(rate_name)
    assert verify(model, steps=2).ok
    assert str(model.main) == text
    assert before.keys() >= {"linear_0.w_0", "linear_0.b_0", rate_name}
    for name, array in before.items():
        np.testing.assert_array_equal(model.scope.find_var(name).get_tensor(), array)
    assert scheduler() == 0.25
    assert paddle.static.global_scope().find_var(rate_name) is rate


def test_the_schedulers_present_rate_is_used() -> None:
    scheduler = paddle.optimizer.lr.StepDecay(0.5, 1, gamma=0.1)
    model = build(mlp, optimizer=lambda: paddle.optimizer.SGD(scheduler))
    scheduler.step()
    report = verify(model)
    (weight,) = (row for row in report.updates if row.name == "linear_0.b_0")
    (gradient,) = (row for row in report.gradients if row.what == "gradient of linear_0.b_0")
    assert report.ok
    assert weight.magnitude == pytest.approx(0.05 * gradient.magnitude, rel=1e-5)


def test_a_program_under_construction_can_be_verified_and_goes_on() -> None:
    model = build(mlp)
    with paddle.static.program_guard(model.main):
        assert verify(model).ok
        length = len(operators(model.main))
        paddle.exp(model.fetches[1])
    assert [kind(op) for op in operators(model.main)[length:]] == ["exp"]


def test_one_part_of_a_split_can_be_fetched() -> None:
    report = verify(build(lambda x, _: [paddle.split(paddle.tanh(x), 2, axis=-1)[1]]))
    assert report.ok and report.fetches[0].shape == (4, 6, 4)


def test_get_instance_goes_on_speaking_for_the_users_program() -> None:
    model = build(mlp)
    compiled = paddle.static.IpuCompiledProgram(
        model.main, scope=model.scope, ipu_strategy=strategy(False, 4)
    )
    program = compiled.compile(["x"], model.fetches)
    verify(model)
    last = paddle.base.core.IpuBackend.get_instance()
    assert last._backend() is program.backend
    assert program.run(model.feed, model.fetches)[0].shape == ()


# -- refusals -----------------------------------------------------------------------------------


def with_dropout(x: Any, lines: dict[str, int]) -> list[Any]:
    """Dropout between two layers."""
    hidden = paddle.nn.Linear(8, 16)(x)
    hidden = paddle.nn.functional.dropout(hidden, 0.5); lines["dropout"] = line()  # noqa: E702 # fmt: skip
    return [paddle.nn.Linear(16, 4)(hidden).mean(), hidden]


def test_dropout_is_refused_with_its_line() -> None:
    model = build(with_dropout, optimizer=momentum)
    place = re.escape(f"dropout at {__file__}:{model.lines['dropout']}")
    with pytest.raises(
        NotSupported,
        match=rf"draws random numbers.*: {place}\. Pass without_dropout=True, or --without-dropout",
    ):
        verify(model)


@pytest.mark.parametrize("draw", [paddle.randn, paddle.uniform])
def test_random_tensors_are_refused(draw: Any) -> None:
    with pytest.raises(NotSupported, match=r"draws random numbers.*feed other random tensors"):
        verify(build(lambda x, _: [paddle.add(x, draw([6, 8]))]))


def test_dropout_can_be_switched_off_on_both_sides() -> None:
    model = build(with_dropout, optimizer=momentum)
    report = verify(model, without_dropout=True)
    assert report.ok and len(report.gradients) == 4
    dropouts = [op for op in operators(model.main) if kind(op).startswith("dropout")]
    assert [attribute(op, "is_test") for op in dropouts] == [False, False]


def test_dropout_that_drops_nothing_is_compared() -> None:
    assert verify(build(lambda x, _: [paddle.nn.functional.dropout(x, 0.0)])).ok


def test_other_refusals() -> None:
    model = build(mlp, optimizer=momentum)
    with pytest.raises(ValueError, match=r"verify\(steps=0\): expected at least one step"):
        verify(model, steps=0)
    with pytest.raises(NotSupported, match=r"verify takes a program .*, got builtins\.str"):
        paddle_ipu.verify("main", {}, [])
    with pytest.raises(FetchError, match=r"value of type int; expected names or variables"):
        paddle_ipu.verify(model.main, model.feed, [1], scope=model.scope)
    with pytest.raises(NotSupported, match=r"cannot fetch 'Gradient___linear_0\.w_0': the IPU ans"):
        paddle_ipu.verify(model.main, model.feed, ["Gradient___linear_0.w_0"], scope=model.scope)
    for option, value in {
        "use_no_bias_optimizer": True, "optimizer_rule": "popart", "accl1_type": "FLOAT16",
    }.items():  # fmt: skip
        with pytest.raises(NotSupported, match=f"verify cannot compare {option}: Paddle's CPU"):
            verify(model, ipu_strategy=strategy(True, 4, **{option: value}))


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: paddle.optimizer.Adamax(0.01, weight_decay=0.1),
        lambda: paddle.optimizer.Adam(0.01, use_multi_tensor=True),
    ],
    ids=["a power advanced apart", "one operator for all parameters"],
)
def test_optimizers_whose_operators_are_not_one_for_each_parameter(optimizer: Any) -> None:
    report = verify(build(mlp, optimizer=optimizer), steps=2)
    assert all(row.ok for row in report.updates)


def test_sparse_embeddings_are_compared_whole() -> None:
    def network(x: Any, lines: dict[str, int]) -> list[Any]:
        ids = paddle.cast(paddle.argmax(x, axis=-1), "int64")
        return [paddle.nn.Embedding(8, 4, sparse=True)(ids).mean()]

    report = verify(build(network, optimizer=lambda: paddle.optimizer.SGD(0.5)), steps=2)
    assert report.ok
    assert [row.shape for row in report.gradients] == [(8, 4)]


# -- the report ---------------------------------------------------------------------------------


def test_text_and_page_hold_every_operator(wrong_tanh: None, tmp_path: Any) -> None:
    model = build(mlp)
    report = verify(model, raise_on_mismatch=False)
    text = str(report)
    assert "verify: DIFFERS from Paddle's CPU kernels" in text
    assert report.explanation() in text
    assert f"tanh at {__file__}:{model.lines['tanh']}" in text
    report.save_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page == report.to_html()
    assert page.count("<tr class=") == len(report.operators) + len(report.fetches)
    assert '<tr class="diverges"><td class="n" data-sort="2">2</td><td>diverges</td>' in page
    assert not re.search(r"src\s*=|href=\"(?!#|data:,)|@import|url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_page_escapes_text_of_the_program() -> None:
    report = verify(build(mlp), every_operator=True)
    report.fetches[0] = replace(report.fetches[0], name="<script>alert(1)</script>")
    assert "<script>alert(1)" not in report.to_html()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report.to_html()


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (3, "feed must be a dict of arrays by name, or a list of them, .*, got an int"),
        ("x", "feed must be a dict of arrays by name, or a list of them, .*, got a string"),
        ({"x": "abc"}, "feed 'x': got a string, expected an array of float32"),
        ({"x": [[1.0], [1.0, 2.0]]}, "feed 'x': got a list whose parts differ in length, expected"),
    ],
)
def test_what_is_no_feed(feed: Any, message: str) -> None:
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        y = paddle.tanh(paddle.static.data("x", [-1, 2], "float32"))
    with pytest.raises(FeedError, match=message):
        paddle_ipu.verify(program, feed, [y])
