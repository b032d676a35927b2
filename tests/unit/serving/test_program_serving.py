"""Programs with ``enable_model_runtime_executor``: threads that share steps of one program."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import (
    BackendUnavailableError,
    FeedError,
    FetchError,
    IndexRangeError,
    OptionError,
    ServingError,
)
from paddle_ipu.serving import BatchingRunner

Array = np.ndarray[Any, Any]
ROWS = 4

pytestmark = pytest.mark.usefixtures("static_mode")


class Built:
    """An embedding of `ids` with a layer on it and on `x`; its rows do not meet."""

    def __init__(self, rows: int = -1) -> None:
        self.main, start = paddle.static.Program(), paddle.static.Program()
        self.scope = paddle.static.Scope()
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.program_guard(self.main, start), paddle.utils.unique_name.guard():
            ids = paddle.static.data("ids", [rows, 1], "int64")
            x = paddle.static.data("x", [rows, 3], "float32")
            words = paddle.nn.Embedding(7, 5)(ids).reshape([0, 5])
            self.y = paddle.nn.functional.softmax(
                paddle.nn.Linear(5, 2)(words) + paddle.nn.Linear(3, 2)(x)
            )
            self.top = self.y.argmax(axis=1)
            self.mean = self.y.mean()
        with paddle.static.scope_guard(self.scope):
            self.executor.run(start)

    def compiled(self, fetches: list[Any], **options: Any) -> Any:
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=ROWS)
        strategy.set_options({"enable_model_runtime_executor": True, **options})
        compiler = paddle.static.IpuCompiledProgram(self.main, self.scope, strategy)
        return compiler.compile(["ids", "x"], fetches)

    def on_cpu(self, feed: dict[str, Any], fetches: list[Any]) -> list[Array]:
        with paddle.static.scope_guard(self.scope):
            found: list[Array] = self.executor.run(self.main, feed=feed, fetch_list=fetches)
        return found


def feed(rows: int, seed: int = 0) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    return {
        "ids": draw.integers(0, 7, (rows, 1)),
        "x": draw.normal(size=(rows, 3)).astype("float32"),
    }


def assert_same(got: list[Array], expected: list[Array]) -> None:
    for array, other in zip(got, expected, strict=True):
        assert (array.shape, array.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-6)


def test_runs_of_several_threads_share_steps() -> None:
    built = Built()
    program = built.compiled([built.y, built.top], timeout_ms=2.0)

    def ask(turn: int) -> None:
        given = feed(1 + turn % 6, turn)
        got = built.executor.run(program, feed=given, fetch_list=[built.top, built.y, built.top])
        rows[turn] = given, got

    turns = 40
    rows: dict[int, Any] = {}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(turns)))
    everything = {
        name: np.concatenate([rows[turn][0][name] for turn in range(turns)])
        for name in ("ids", "x")
    }
    y, top = built.on_cpu(everything, [built.y, built.top])
    for position, expected in enumerate((top, y, top)):
        got = np.concatenate([rows[turn][1][position] for turn in range(turns)])
        assert_same([got], [expected])
    # Asked for one by one they would be as many steps as there are parts of at most 4 rows.
    assert program.report().steps < sum(-(-(1 + turn % 6) // ROWS) for turn in range(turns))
    with pytest.raises(FetchError, match="'mean' was not compiled"):
        program.run(feed(1), ["mean"])


def test_several_micro_batches_a_step() -> None:
    built = Built()
    options = {"enable_replicated_graphs": True, "replicated_graph_count": 2, "num_ipus": 2}
    program = built.compiled([built.y], timeout_ms=1.0, batches_per_step=3, **options)
    for rows in (1, 24, 30):
        assert_same(program.run(feed(rows), [built.y]), built.on_cpu(feed(rows), [built.y]))
    assert program.report().steps == 4
    whole = built.compiled([built.y, built.mean], batches_per_step=3, **options)
    given = feed(ROWS)
    for got in (whole.run(given, [built.y, built.mean]) for _ in range(2)):
        assert_same(got, built.on_cpu(given, [built.y, built.mean]))


def test_without_a_timeout_every_run_is_a_whole_micro_batch() -> None:
    built = Built()
    program = built.compiled([built.y, built.mean], num_buffers=1)
    given = feed(ROWS)
    with ThreadPoolExecutor(3) as pool:
        for got in pool.map(lambda _: program.run(given, [built.y, built.mean]), range(6)):
            assert_same(got, built.on_cpu(given, [built.y, built.mean]))
    (dense,) = program.run(given, [built.y], return_numpy=False)
    assert_same([np.array(dense)], built.on_cpu(given, [built.y]))
    with pytest.raises(
        FeedError,
        match=r"feed 'ids': got an array of shape \[3, 1\], expected \[4, 1\]: without "
        "auto-batching every run .* timeout_ms turns auto-batching on",
    ):
        program.run(feed(3), [built.y])


def test_wrong_runs_harm_nobody_else() -> None:
    built = Built()
    program = built.compiled([built.y], timeout_ms=150.0)
    wrong = [
        ({"x": feed(1)["x"]}, FeedError, "feed 'ids' is missing"),
        ({**feed(1), "z": 0}, FeedError, "feed 'z' is not declared: .*'ids', 'x'"),
        ({**feed(1), "x": None}, FeedError, "feed 'x' is None"),
        ({**feed(2), "x": feed(1)["x"]}, FeedError, "differ in their number of rows: 'ids' has 2"),
        ({**feed(1), "x": np.ones((1, 4), "float32")}, FeedError, r"'x': got .* \[rows, 3\]"),
        ({**feed(1), "x": np.ones((1, 3), "int64")}, FeedError, "got dtype int64, expected float"),
        ({**feed(1), "ids": np.array([[1 << 40]])}, FeedError, "does not fit the 32-bit integers"),
    ]
    with ThreadPoolExecutor(1) as pool:
        good = pool.submit(program.run, feed(2), [built.y])
        for given, kind, message in wrong:
            with pytest.raises(kind, match=message):
                program.run(given, [built.y])
        assert_same(good.result(20), built.on_cpu(feed(2), [built.y]))
        unfit = {**feed(1), "ids": np.array([[7]])}
        shared = pool.submit(program.run, feed(2), [built.y])
        time.sleep(0.02)
        # A row that the operators refuse fails the batch it is in, and no other.
        with pytest.raises(IndexRangeError, match="7"):
            program.run(unfit, [built.y])
        with pytest.raises(IndexRangeError, match="7"):
            shared.result(20)
    assert_same(program.run(feed(4), [built.y]), built.on_cpu(feed(4), [built.y]))


def test_what_cannot_be_shared_is_refused() -> None:
    built = Built()
    with pytest.raises(
        ServingError, match=r"enable_model_runtime_executor: output '.*' has shape \[\], which"
    ):
        built.compiled([built.y, built.mean], timeout_ms=1.0)
    with pytest.raises(OptionError, match="serves inference, and is_training is True: steps that"):
        built.compiled([built.y], is_training=True)
    other = paddle.static.Program()
    with paddle.static.program_guard(other, paddle.static.Program()):
        x = paddle.static.data("x", [-1, 3])
        scale = paddle.static.data("scale", [1])
        y = x * scale
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=ROWS)
    program = paddle.static.IpuCompiledProgram(other, ipu_strategy=strategy)
    compiled = program.compile(["x", "scale"], [y])
    with pytest.raises(
        ServingError, match=r"must begin with as many rows .* 'x' is \[4, 3\], 'scale' is \[1\]"
    ):
        BatchingRunner(compiled)


def test_a_program_whose_runs_share_steps_can_be_verified() -> None:
    built = Built()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=ROWS)
    strategy.set_options({"enable_model_runtime_executor": True, "timeout_ms": 1.0})
    with paddle.static.scope_guard(built.scope):
        report = paddle_ipu.verify(built.main, feed(ROWS), [built.y], ipu_strategy=strategy)
    assert len(report.fetches) == 1


def test_a_program_for_a_runner_of_ones_own() -> None:
    built = Built()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=ROWS)
    compiler = paddle.static.IpuCompiledProgram(built.main, built.scope, strategy)
    program = compiler.compile(["ids", "x"], [built.y, built.mean])
    with pytest.raises(OptionError, match="knows its inputs and its micro-batch of 4 rows"):
        BatchingRunner(program, micro_batch=8, shared_outputs=[program_name(program, 1)])
    name = program_name(program, 0)
    with BatchingRunner(program, shared_outputs=[program_name(program, 1)]) as runner:
        answer = runner.run(feed(3), outputs=[name])
        assert_same([answer[name]], built.on_cpu(feed(3), [built.y]))


def program_name(program: Any, position: int) -> str:
    return list(program.fetches)[position]


def test_a_reset_ends_the_threads_and_so_does_letting_go_of_the_program() -> None:
    before = set(threading.enumerate())
    built = Built()
    program = built.compiled([built.y], timeout_ms=1.0)
    program.run(feed(1), [built.y])
    assert len(set(threading.enumerate()) - before) == 2
    program.backend.reset()
    assert set(threading.enumerate()) <= before
    with pytest.raises(BackendUnavailableError, match="it was reset. Compile the program again"):
        program.run(feed(1), [built.y])
    program = built.compiled([built.y], timeout_ms=1.0)
    program.run(feed(1), [built.y])
    del program
    gc.collect()
    ends = time.monotonic() + 20
    while not set(threading.enumerate()) <= before:
        assert time.monotonic() < ends
        time.sleep(0.001)


@pytest.mark.thorough
def test_the_first_compilation_leaves_numpys_random_numbers_alone(run_python: Any) -> None:
    run_python(
        """
import numpy as np
np.random.seed(3)
expected = np.random.rand(2)
np.random.seed(3)
import paddle_ipu.xla
np.testing.assert_array_equal(np.random.rand(2), expected)
"""
    )
