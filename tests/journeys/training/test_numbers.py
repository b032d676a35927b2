"""Training on the IPU gives the numbers of Paddle's CPU executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training import tiny_bert
from tests.journeys.training.side_by_side import Built, Pair, build, mlp, pair, read, rows, snapshot


def test_fifty_steps_of_tiny_bert_equal_paddles() -> None:
    tiny_bert.assert_fifty_steps_equal_paddles("lamb")


# -- optimizers; their rules, decays and clips are test_update_rules.py's -------------------------


def _train(both: Pair, steps: int = 10, tolerance: float = 1e-5) -> None:
    """Steps of both runs, compared; then their weights."""
    before = snapshot(both.cpu, both.built.parameters)
    for step in range(steps):
        cpu, ipu = both.step(rows(4, step))
        np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=tolerance, err_msg=f"step {step}")
    both.assert_equal_weights(tolerance)
    assert any(np.any(read(both.cpu, name) != array) for name, array in before.items())


def test_clip_by_value() -> None:
    """Written by hand, since Paddle's own ClipGradByValue has no form for PIR programs."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        loss = paddle.nn.functional.cross_entropy(paddle.nn.Linear(8, 4)(x), y)
        pairs = paddle.static.append_backward(loss)
        clipped = [(parameter, paddle.clip(g, -0.01, 0.02)) for parameter, g in pairs]
        paddle.optimizer.SGD(0.1).apply_gradients(clipped)
        return ["x", "y"], {"loss": loss}, None

    both = pair(build(make))
    before = snapshot(both.ipu, both.built.parameters)
    both.step(rows(4))
    both.weights_to_host()
    moved = read(both.ipu, "linear_0.w_0") - before["linear_0.w_0"]
    np.testing.assert_allclose([moved.min(), moved.max()], [-0.1 * 0.02, 0.1 * 0.01], rtol=1e-3)
    _train(both)


def test_a_parameters_own_learning_rate_with_a_scheduler() -> None:
    attr = paddle.ParamAttr(learning_rate=3.0)
    both = pair(
        mlp(
            lambda lr: paddle.optimizer.SGD(lr),
            scheduler=lambda: paddle.optimizer.lr.StepDecay(0.1, 2, 0.5),
            first={"weight_attr": attr},
        )
    )
    _train(both)


@pytest.mark.parametrize("how", ["trainable", "stop_gradient"])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_frozen_parameters_stay(how: str, rule: str) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        attr = paddle.ParamAttr(trainable=False) if how == "trainable" else None
        first = paddle.nn.Linear(8, 16, weight_attr=attr)
        first.weight.stop_gradient = True
        loss = paddle.nn.functional.cross_entropy(paddle.nn.Linear(16, 4)(paddle.tanh(first(x))), y)
        made = {"sgd": paddle.optimizer.SGD, "adam": paddle.optimizer.Adam}[rule](0.1)
        made.minimize(loss)
        return ["x", "y"], {"loss": loss}, None

    both = pair(build(make))
    frozen = "linear_0.w_0"
    before = read(both.ipu, frozen)
    _train(both)
    np.testing.assert_array_equal(read(both.ipu, frozen), before)


def test_loss_scaling_changes_no_number() -> None:
    decay = paddle.regularizer.L2Decay(0.05)
    built = mlp(lambda lr: paddle.optimizer.Adam(lr, weight_decay=decay))

    def losses(loss_scaling: float) -> list[Any]:
        both = pair(built, {"loss_scaling": loss_scaling})
        found = [both.on_ipu(rows(4, step))[0] for step in range(5)]
        both.weights_to_host()
        return [*found, *snapshot(both.ipu, both.built.parameters).values()]

    # A power of two scales without rounding; what is left is the order in which XLA adds.
    expected = losses(1.0)
    for scale in (128.0, 512.0):
        for got, number in zip(losses(scale), expected, strict=True):
            np.testing.assert_allclose(got, number, rtol=1e-6, atol=1e-7)


def _directions(
    gradients: list[np.ndarray], beta1: float, beta2: float, epsilon: float, corrected: bool
) -> list[np.ndarray]:
    """Adam's directions, m / (sqrt(v) + epsilon), with the moments corrected or not."""
    m, v, found = 0.0, 0.0, []
    for step, g in enumerate(gradients, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        by1, by2 = (1 - beta1**step, 1 - beta2**step) if corrected else (1.0, 1.0)
        found.append(m / by1 / (np.sqrt(v / by2) + epsilon))
    return found


def _linear(optimizer: Any) -> Built:
    """The loss is the sum of x @ w, whose gradient is the sum of x's rows, whatever w is."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        loss = paddle.sum(paddle.nn.Linear(3, 1, bias_attr=False)(x))
        optimizer.minimize(loss)
        return ["x"], {"loss": loss}, None

    return build(make)


def _run_linear(both: Pair, corrected: bool) -> list[np.ndarray]:
    """Four steps; gives the directions NumPy finds for them."""
    feeds = [rows(4, step)["x"][:, :3] for step in range(4)]
    for x in feeds:
        both.on_ipu({"x": x})
    both.weights_to_host()
    gradients = [x.astype(np.float64).sum(0)[:, None] for x in feeds]
    return _directions(gradients, 0.9, 0.99, 1e-6, corrected)


@pytest.mark.parametrize("rule", ["adam", "lamb"])
def test_no_bias_correction(rule: str) -> None:
    optimizer = {
        "adam": lambda: paddle.optimizer.Adam(0.1, 0.9, 0.99, 1e-6),
        "lamb": lambda: paddle.optimizer.Lamb(0.1, 0.05, 0.9, 0.99, 1e-6),
    }[rule]()
    both = pair(_linear(optimizer), {"use_no_bias_optimizer": True})
    w = read(both.ipu, "linear_0.w_0").astype(np.float64)
    for direction in _run_linear(both, corrected=False):
        if rule == "lamb":
            direction = direction + 0.05 * w
            w = w - 0.1 * np.linalg.norm(w) / np.linalg.norm(direction) * direction
        else:
            w = w - 0.1 * direction
    np.testing.assert_allclose(read(both.ipu, "linear_0.w_0"), w, rtol=1e-5)


def test_a_ratio_on_the_learning_rate_of_adamw() -> None:
    """Paddle refuses ``lr_ratio`` on a CPU wheel, so the oracle is its documented formula."""
    optimizer = paddle.optimizer.AdamW(0.1, 0.9, 0.99, 1e-6, weight_decay=0.2)
    optimizer._lr_ratio = lambda parameter: 0.5
    both = pair(_linear(optimizer))
    w = read(both.ipu, "linear_0.w_0").astype(np.float64)
    for direction in _run_linear(both, corrected=True):
        w = w * (1 - 0.1 * 0.5 * 0.2) - 0.1 * 0.5 * direction
    np.testing.assert_allclose(read(both.ipu, "linear_0.w_0"), w, rtol=1e-5)


# -- what a program may look like -----------------------------------------------------------------


def test_metrics_after_minimize_and_fetched_gradients() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        y = paddle.static.data("y", [-1, 1], "int64")
        logits = paddle.nn.Linear(8, 4)(x)
        loss = paddle.nn.functional.cross_entropy(logits, y)
        _, pairs = paddle.optimizer.Adam(0.1).minimize(loss)
        gradients = {f"d {parameter.name}": gradient for parameter, gradient in pairs}
        best = paddle.argmax(logits, axis=-1, keepdim=True)
        accuracy = paddle.cast(best == y, "float32").mean()
        values = {"loss": loss, "best": best, "accuracy": accuracy, **gradients}
        return ["x", "y"], values, None

    both = pair(build(make))
    assert len(both.built.values) == 5
    for step in range(3):
        cpu, ipu = both.step(rows(4, step))
        for name, expected in cpu.items():
            assert (ipu[name].shape, ipu[name].dtype) == (expected.shape, expected.dtype), name
            np.testing.assert_allclose(ipu[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_clone_trains_like_its_original() -> None:
    built = mlp(lambda lr: paddle.optimizer.Adam(lr))
    loss = built.values["loss"].name
    clone = Built(
        built.main.clone(), built.startup, built.feeds, {"loss": loss}, None, built.parameters
    )
    both = pair(clone)
    original = Built(built.main, built.startup, built.feeds, {"loss": loss}, None, built.parameters)
    expected = pair(original)
    for step in range(3):
        feed = rows(4, step)
        np.testing.assert_array_equal(both.on_ipu(feed), expected.on_ipu(feed))


def test_a_program_built_before_activation(run_python: Any) -> None:
    done = run_python(
        """
import numpy as np, paddle
paddle.enable_static()
paddle.seed(3)
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [4, 8], "float32")
    loss = paddle.nn.Linear(8, 1)(x).square().mean()
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
cpu = paddle.static.Executor(paddle.CPUPlace())
cpu.run(startup)
start = [np.array(paddle.static.global_scope().find_var(f"linear_0.{n}_0").get_tensor())
         for n in "wb"]
feed = {"x": np.arange(32, dtype=np.float32).reshape(4, 8) / 32}
expected = [cpu.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(3)]
import paddle_ipu
scope = paddle.static.Scope()
with paddle.static.scope_guard(scope):
    cpu.run(startup)
for name, array in zip("wb", start):
    scope.find_var(f"linear_0.{name}_0").get_tensor().set(array, paddle.CPUPlace())
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=4)
program = paddle.static.IpuCompiledProgram(main, scope, strategy).compile(["x"], [loss])
ipu = paddle.static.Executor(paddle.IPUPlace())
got = [ipu.run(program, feed=feed, fetch_list=[loss])[0] for _ in range(3)]
np.testing.assert_allclose(got, expected, rtol=1e-5)
assert expected[2] < expected[0]
print("equal")
"""
    )
    assert "equal" in done.stdout


def test_a_squad_head() -> None:
    built, noisy = tiny_bert.squad(lambda: paddle.optimizer.AdamW(1e-3))
    both = pair(built, spread=0.05)
    for step in range(3):
        cpu, ipu = both.step(tiny_bert.questions(step))
        for name, expected in cpu.items():
            assert ipu[name].shape == expected.shape, name
        for name in ("loss", "start_accuracy"):
            np.testing.assert_allclose(ipu[name], cpu[name], rtol=1e-5, err_msg=f"step {step}")
        # The head's bias is noise, and shifts all scores of an answer alike.
        got, expected = (s - s.mean(-1, keepdims=True) for s in (ipu["scores"], cpu["scores"]))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)
    both.assert_equal_weights(1e-4, except_for=noisy)


def test_a_result_of_a_list_operator_is_fetched() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 2], "float32")
        first, second = paddle.unstack(x, axis=1)
        return ["x"], {"first": first, "second": second}, None

    both = pair(build(make), is_training=False)
    x = rows(4)["x"][:, :2]
    first, second = both.on_ipu({"x": x})
    np.testing.assert_array_equal(first, x[:, 0])
    np.testing.assert_array_equal(second, x[:, 1])
