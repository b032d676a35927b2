"""Names of intermediate values work in Paddle's own executor too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates

pytestmark = pytest.mark.usefixtures("static_mode")


def test_the_cpu_executor_fetches_by_the_name_of_a_value() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [2, 3], "float32")
        y = x * 2.0
        z = y + 1.0
    exe = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": np.ones((2, 3), np.float32)}
    by_name = exe.run(main, feed=feed, fetch_list=[z.name, y])
    np.testing.assert_array_equal(by_name[0], np.full((2, 3), 3.0, np.float32))
    np.testing.assert_array_equal(by_name[1], np.full((2, 3), 2.0, np.float32))
    (positional,) = exe.run(main, feed, z.name)
    np.testing.assert_array_equal(positional, by_name[0])
    with paddle.static.program_guard(main):
        (of_default,) = exe.run(feed=feed, fetch_list=[z.name])
    np.testing.assert_array_equal(of_default, by_name[0])


def test_the_ipu_fetches_from_a_clone_by_a_name_asked_later() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [2, 3], "float32")
        y = x * 2.0
        loss = paddle.mean(y)
    clone = main.clone().clone()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False)
    program = paddle.static.IpuCompiledProgram(clone, ipu_strategy=strategy).compile(
        ["x"], [loss.name, y.name]
    )
    got = paddle.static.Executor(paddle.IPUPlace()).run(
        program, feed={"x": np.ones((2, 3), np.float32)}, fetch_list=[y.name, loss.name]
    )
    np.testing.assert_array_equal(got[0], np.full((2, 3), 2.0, np.float32))
    assert float(got[1]) == 2.0
    assert all(array.flags.writeable for array in got)


def test_a_name_that_nothing_has_is_paddles_to_refuse() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        paddle.static.data("x", [1], "float32")
    with pytest.raises(Exception, match="fetch|nothing not in VariableScope"):
        paddle.static.Executor(paddle.CPUPlace()).run(
            main, feed={"x": np.ones(1, np.float32)}, fetch_list=["nothing"]
        )


def test_legacy_programs_keep_their_own_names(run_python: Callable[..., object]) -> None:
    run_python(
        "import numpy as np, paddle, paddle_ipu\n"
        "paddle.enable_static()\n"
        "main = paddle.static.Program()\n"
        "with paddle.static.program_guard(main, paddle.static.Program()):\n"
        "    x = paddle.static.data('x', [2], 'float32')\n"
        "    y = x + x\n"
        "exe = paddle.static.Executor(paddle.CPUPlace())\n"
        "for program in (main, paddle.static.CompiledProgram(main)):\n"
        "    (out,) = exe.run(program, {'x': np.ones(2, np.float32)}, [y.name])\n"
        "    assert out.tolist() == [2.0, 2.0]\n",
        FLAGS_enable_pir_api="0",
    )
