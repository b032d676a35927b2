"""Copies of ProgramDesc programs: a variable for every write, pruning, nested blocks, operands."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import programs
from paddle_ipu.verification.contents import DIVERGES
from paddle_ipu.verification.program_desc_copy import ProgramDescCopy
from tests.tables import lower_otherwise

pytestmark = pytest.mark.skipif(
    not paddle.__version__.startswith("2."), reason="Paddle 3 builds PIR programs"
)

X = np.random.default_rng(0).standard_normal((2, 3), np.float32)


def data(name: str = "x") -> Any:
    return paddle.static.data(name, [2, 3], "float32")


def copied(program: Any) -> ProgramDescCopy:
    return ProgramDescCopy.of(program, without_dropout=False)


def run(program: Any, fetches: list[Any], scope: Any = None, **feed: Any) -> list[Any]:
    executor = paddle.static.Executor(paddle.CPUPlace())
    return executor.run(program, feed=feed, fetch_list=fetches, scope=scope)


def names(program: Any) -> list[str]:
    return [str(value.name) for node in programs.read(program) for value in node.outputs]


def types(program: Any) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_every_write_has_a_variable_of_its_own_with_the_dialects_name(static_program: Any) -> None:
    hidden = paddle.exp(data())
    paddle.assign(paddle.scale(hidden, 2.0), hidden)
    paddle.assign(paddle.scale(hidden, 3.0), hidden)
    text, expected = str(static_program), names(static_program)
    copy = copied(static_program)
    assert names(copy.program) == expected
    versions = [f"{hidden.name}@1", f"{hidden.name}@2", hidden.name]
    assert set(versions) <= set(expected)
    values = run(copy.program, [copy.value(name) for name in versions], x=X)
    for value, factor in zip(values, (1.0, 2.0, 6.0), strict=True):
        np.testing.assert_allclose(value, factor * np.exp(X), rtol=1e-6)
    assert str(static_program) == text


def test_versions_of_a_persistable_variable_are_taken_where_they_are_made(
    static_program: Any,
) -> None:
    kept = paddle.static.create_global_var([2, 3], 0.0, "float32", persistable=True, name="kept")
    x = data()
    paddle.assign(paddle.exp(x), kept)
    paddle.assign(paddle.scale(kept, 2.0), kept)
    copy = copied(static_program)
    assert names(copy.program) == names(static_program)
    assert {"kept@1", "kept@2"} <= set(names(copy.program))
    pruned = copy.pruned(["kept@1", "kept@2"], training=False)
    scope = paddle.static.Scope()
    taken = [pruned.as_computed("kept@1"), pruned.as_computed("kept@2"), pruned.value("kept@1")]
    first, second, last = run(pruned.program, taken, scope=scope, x=X)
    np.testing.assert_allclose(first, np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(second, 2 * np.exp(X), rtol=1e-6)
    np.testing.assert_array_equal(last, second)


def test_pruning_keeps_what_is_wanted_and_what_writes_the_scope(static_program: Any) -> None:
    x, y = data(), data("y")
    kept = paddle.static.create_global_var([2, 3], 0.0, "float32", persistable=True, name="kept")
    hidden = paddle.exp(x)
    paddle.tanh(y)
    paddle.assign(paddle.scale(x, 2.0), kept)
    copy = copied(static_program)
    pruned = copy.pruned([hidden.name], training=False)
    assert types(pruned.program) == ["exp", "scale", "assign"]
    assert len(types(copy.program)) == 4
    (value,) = run(pruned.program, [pruned.value(hidden.name)], scope=paddle.static.Scope(), x=X)
    np.testing.assert_allclose(value, np.exp(X), rtol=1e-6)


def test_the_optimizer_goes_where_inference_is_wanted(static_program: Any) -> None:
    out = paddle.nn.Linear(3, 2)(data())
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(out))
    copy = copied(static_program)
    assert types(copy.pruned([out.name], training=False).program) == [
        "matmul_v2", "elementwise_add"
    ]  # fmt: skip
    assert types(copy.pruned([out.name], training=True).program)[-2:] == ["sgd", "sgd"]
    assert types(static_program)[-2:] == ["sgd", "sgd"]


def test_what_nested_blocks_use_keeps_its_variable(static_program: Any) -> None:
    """A loop finds its variables by their names."""
    total = paddle.scale(data(), 0.0)
    count = paddle.full([1], 0, "int64")
    count, total = paddle.static.nn.while_loop(
        lambda i, t: i < 3, lambda i, t: [i + 1, t + 2.0], [count, total]
    )
    (expected,) = run(static_program, [total], x=X)
    copy = copied(static_program)
    (value,) = run(copy.program, [copy.value(total.name)], x=X)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(value, np.full((2, 3), 6.0, np.float32))


def test_a_loaded_programs_feed_and_fetch_operators_are_left_out(
    static_program: Any, tmp_path: Any
) -> None:
    x = data()
    out = paddle.nn.Linear(3, 2)(x)
    executor = paddle.static.Executor(paddle.CPUPlace())
    path, scope = str(tmp_path / "model"), paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        executor.run(paddle.static.default_startup_program())
        paddle.static.save_inference_model(path, [x], [out], executor)
        program, feeds, fetches = paddle.static.load_inference_model(path, executor)
    text = str(program)
    assert types(program) == ["feed", "matmul_v2", "elementwise_add", "scale", "fetch"]
    report = paddle_ipu.verify(program, {"x": X}, fetches, scope=scope, every_operator=True)
    assert report.ok and feeds == ["x"]
    assert [row.operator for row in report.operators][:2] == ["matmul", "add"]
    assert str(program) == text


def test_fetching_goes_by_name_as_in_the_executor(static_program: Any) -> None:
    out = paddle.exp(data())
    clone = static_program.clone(for_test=True)
    assert paddle_ipu.verify(clone, {"x": X}, [out]).ok


def test_a_variable_that_is_written_again_is_compared_as_it_was_each_time(
    static_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first of the two operators that write the variable is wrong."""
    lower_otherwise(monkeypatch, "Exp", lambda context, x, _: jnp.exp(x[0]) * 1.01)
    hidden = paddle.exp(data())
    paddle.assign(paddle.scale(hidden, 0.0), hidden)
    out = paddle.scale(hidden, 1.0, bias=1.0)
    report = paddle_ipu.verify(static_program, {"x": X}, [out], every_operator=True)
    assert report.ok
    rows = {row.result.name: row for row in report.operators}
    first = rows[f"{hidden.name}@1"]
    assert first.verdict == DIVERGES and first.result.share == pytest.approx(0.01, rel=1e-3)
    assert rows[hidden.name].verdict == rows[out.name].verdict == "agrees"


def test_an_operand_behind_a_form_is_named_as_the_operators_own(
    static_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``axis`` puts a reshape before the addition; the derivative is the addition's."""
    lower_otherwise(
        monkeypatch,
        "Add",
        lambda context, x, _: x[0] + 0.9 * x[1] + 0.1 * jax.lax.stop_gradient(x[1]),
    )
    x, bias = data(), paddle.create_parameter([2], "float32", name="bias")
    block = static_program.global_block()
    out = block.create_var(name="out", dtype="float32", shape=[2, 3])
    block.append_op(
        type="elementwise_add", inputs={"X": x, "Y": bias}, outputs={"Out": out}, attrs={"axis": 0}
    )
    paddle.optimizer.SGD(0.1).minimize(paddle.mean(out))
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.default_startup_program())
    report = paddle_ipu.verify(
        static_program, {"x": X}, [out], scope=scope, raise_on_mismatch=False
    )
    first = report.first_divergence
    assert first is not None and first in report.derivatives
    assert (first.operator, first.result.name) == ("add", "y")


def test_a_feed_that_is_written_again_is_compared_version_by_version(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    paddle.assign(paddle.tanh(x), output=x)
    doubled = x * 2.0
    total = x + doubled
    feed = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    report = paddle_ipu.verify(static_program, feed, [doubled, total], every_operator=True)
    assert "x@1" in str(report)
    with pytest.raises(NotSupported, match="fetch 'x' is a feed that the program writes again"):
        paddle_ipu.verify(static_program, feed, [x])
