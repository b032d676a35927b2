"""ProgramDesc programs of Paddle 3, which FLAGS_enable_pir_api=0 builds, train on the IPU."""

from __future__ import annotations

from typing import Any

import paddle
import pytest

TRAIN = """
import numpy as np, paddle, paddle_ipu
paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [4, 8])
    y = paddle.static.data("y", [4, 1])
    hidden = paddle.nn.functional.relu(paddle.static.nn.fc(x, 16))
    loss = paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y))
    scheduler = paddle.optimizer.lr.StepDecay(0.05, 2)
    paddle.optimizer.Adam(scheduler).minimize(loss)
assert type(main) is paddle.base.framework.Program
cpu, ipu = paddle.static.Scope(), paddle.static.Scope()
executor = paddle.static.Executor(paddle.IPUPlace())
for scope in (cpu, ipu):
    with paddle.static.scope_guard(scope):
        executor.run(startup)
names = [parameter.name for parameter in main.all_parameters()]
for name in names:
    start = np.array(cpu.find_var(name).get_tensor())
    ipu.find_var(name).get_tensor().set(start, paddle.CPUPlace())
strategy = paddle.static.IpuStrategy()
compiler = paddle.static.IpuCompiledProgram(main, ipu, strategy)
program = compiler.compile(["x", "y"], [loss])
assert program.lr_scheduler is scheduler and program.lr_var.name == scheduler._var_name
rng = np.random.default_rng(0)
for _ in range(5):
    feed = {"x": rng.standard_normal((4, 8), "float32"), "y": rng.random((4, 1), "float32")}
    with paddle.static.scope_guard(cpu):
        (expected,) = executor.run(main, feed=feed, fetch_list=[loss])
    (got,) = executor.run(program, feed=feed, fetch_list=[loss.name])
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    scheduler.step()
compiler._backend.weights_to_host()
for name in names:
    got, expected = (np.array(scope.find_var(name).get_tensor()) for scope in (ipu, cpu))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
print("equal")
"""


@pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2.6 builds nothing else, flag or no flag"
)
def test_a_program_of_the_legacy_mode_trains(run_python: Any) -> None:
    assert run_python(TRAIN, FLAGS_enable_pir_api="0").stdout.strip().endswith("equal")
