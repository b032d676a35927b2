"""Names of intermediate values work in Paddle's own executor too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates


@pytest.fixture(autouse=True)
def _static_mode() -> Iterator[None]:
    paddle.enable_static()
    yield
    paddle.disable_static()


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


def test_a_name_that_nothing_has_is_paddles_to_refuse() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        paddle.static.data("x", [1], "float32")
    with pytest.raises(Exception, match="fetch"):
        paddle.static.Executor(paddle.CPUPlace()).run(
            main, feed={"x": np.ones(1, np.float32)}, fetch_list=["nothing"]
        )
