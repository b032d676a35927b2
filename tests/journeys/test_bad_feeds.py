"""Bad feeds and fetches of a run: one clear error, and program and scope as they were."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import (
    FeedError,
    FetchError,
    InvalidProgramError,
)
from tests.journeys.training.side_by_side import (
    Pair,
    mlp,
    pair,
    rows,
    sgd,
    snapshot,
)

pytestmark = pytest.mark.usefixtures("static_mode")


NO_NUMBERS: tuple[tuple[Any, str], ...] = (
    ("abc", "a string"),
    (b"abc", "bytes"),
    ([["a"] * 8] * 4, "a list of strings"),
    (np.array(["a" * 40]), "an array of strings"),
    (np.array([b"a"]), "an array of bytes"),
    (np.array([1, None]), "an array of Python objects: numbers and None"),
    (np.array(["2026-01-01"], "M8[D]"), "an array of dates"),
    (np.zeros(2, [("a", "f4")]), "an array of records"),
    ({"a": 1}, "a dict"),
    (object(), "an object"),
    (([1.0, None],), "a tuple of numbers and None"),
    ([[1.0], [1.0, 2.0]], "a list whose parts differ in length"),
)
"""What may be fed by mistake, and what the message calls it."""


@pytest.fixture(scope="module")
def inference() -> Pair:
    """An MLP for inference, compiled once."""
    return pair(mlp(None), is_training=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": np.zeros(1)}, "feed 'z' is not declared: .* with the feeds 'x', 'y'. Name it in"),
        (
            {"z": np.zeros(1), "w": np.zeros(1)},
            "feeds 'z', 'w' are not declared: .* Name them in .*, or leave them out",
        ),
        ({"y": None}, "feed 'y' is missing: every feed the program was compiled with"),
        ({"x": None, "y": None}, "feeds 'x', 'y' are missing: every feed the program was compiled"),
        (
            {"x": np.zeros((4, 7), np.float32)},
            r"feed 'x': got an array of shape \[4, 7\], expected \[4, 8\]: one micro-batch is "
            r"\[4, 8\]",
        ),
        (
            {"x": np.zeros((4, 8, 1), np.float32)[:2]},
            r"feed 'x': got an array of shape \[2, 8, 1\], expected \[4, 8\]",
        ),
        (
            {"x": np.zeros(31, np.float32)},
            r"feed 'x': got an array of shape \[31\], expected \[4, 8\]",
        ),
        (
            {"x": np.zeros((8, 4), np.float32)},
            r"feed 'x': got an array of shape \[8, 4\], expected \[4, 8\]",
        ),
        (
            {"x": np.zeros((3, 8), np.float32)},
            r"feed 'x': got an array of shape \[3, 8\], expected 4 rows = micro-batch 4. Feed the",
        ),
        (
            {"x": np.full((4, 8), 0.1)},
            r"feed 'x': got dtype float64, expected float32. Convert it, for instance with "
            r"array.astype\('float32'\)",
        ),
        ({"y": np.zeros((4, 1), np.float32)}, "feed 'y': got dtype float32, expected int64"),
        (
            {"y": np.full((4, 1), 2**31)},
            "feed 'y' holds 2147483648, which does not fit the 32-bit integers of an IPU",
        ),
        ({"x": ...}, "feed 'x' is None: expected an array of float32 in every run"),
        *(
            ({"x": fed}, f"^feed 'x': got {told}, expected an array of float32\\.$")
            for fed, told in NO_NUMBERS
        ),
    ],
)
def test_feeds_are_checked_at_each_run(
    inference: Pair, change: Mapping[str, Any], message: str
) -> None:
    given = {**rows(4), **change}
    feed = {
        name: None if array is ... else array for name, array in given.items() if array is not None
    }
    before = snapshot(inference.ipu, inference.built.parameters)
    with pytest.raises(FeedError, match=message):
        inference.on_ipu(feed)
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(inference.ipu.find_var(name).get_tensor()), array)
    assert inference.on_ipu(rows(4))[0].shape == ()


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ([{}, {}], "feed must be a dict of arrays, got a list of 2: an IPU program takes the rows"),
        ("x", "feed must be a dict of arrays by name, got str"),
        ({0: 1.0}, "feed has a key of type int: its keys are the feeds' names, 'x', 'y'"),
    ],
)
def test_a_feed_that_is_no_dict(inference: Pair, feed: Any, message: str) -> None:
    with pytest.raises(FeedError, match=message):
        paddle.static.Executor(paddle.IPUPlace()).run(inference.program, feed=feed, fetch_list=[])


def test_nearly_right_names_of_feeds_and_fetches_are_told() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        ids = paddle.static.data("input_ids", [4, 8], "float32")
        paddle.static.data("labels", [4, 1], "int64")
        total = paddle.sum(ids)
        other = paddle.sum(total)
    meant = re.escape(f"Did you mean {total.name!r}?")
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=4)
    compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
    with pytest.raises(FeedError, match=r"feed_list names 'input_id'.*Did you mean 'input_ids'\?$"):
        compiler.compile(["input_id"], [total])
    with pytest.raises(FetchError, match=f"names nothing in the program.* {meant}"):
        compiler.compile(["input_ids"], [total.name[:-1]])
    program = compiler.compile(["input_ids"], [total])
    executor = paddle.static.Executor(paddle.CPUPlace())
    rows_of_ids = np.ones((4, 8), np.float32)
    with pytest.raises(FeedError, match=r"feed 'inputs_ids' is not decl.* mean 'input_ids'\?$"):
        executor.run(program, feed={"inputs_ids": rows_of_ids}, fetch_list=[total])
    with pytest.raises(FetchError, match=f"was not compiled.* {meant}$"):
        executor.run(program, {"input_ids": rows_of_ids}, fetch_list=[total.name.upper()])
    # The name of a variable is Paddle's, and nobody misspelt it.
    with pytest.raises(FetchError, match=r"was not compiled.* in compile\(fetch_list=...\)\.$"):
        executor.run(program, {"input_ids": rows_of_ids}, fetch_list=[other])
    assert executor.run(program, feed={"input_ids": rows_of_ids}, fetch_list=[total]) == [32]


def test_the_fetches_of_nested_lists_are_compiled_in_order() -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2], "float32")
        doubled, tripled = x * 2, x * 3
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=2)
    compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
    program = compiler.compile(["x"], [[doubled], (tripled,)])
    assert repr(program).startswith(
        "<IpuProgram: feeds x float32 [2] for each micro-batch, fetches "
    )
    table = program._repr_html_()
    assert "IpuProgram of 1 micro-batch(es) a run" in table
    for cell in ("feed", "x", "float32", "[2]", "fetch", *program.fetches):
        assert f">{cell}</td>" in table
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": np.array([1, 2], np.float32)}
    twice, thrice = executor.run(program, feed=feed, fetch_list=[[doubled], (tripled,)])
    np.testing.assert_array_equal(twice, [2, 4])
    np.testing.assert_array_equal(thrice, [3, 6])


def test_a_fetch_that_is_neither_a_variable_nor_a_name(inference: Pair) -> None:
    message = (
        r"expected a variable of a program, or its name, got 3 of type int\. Feeds and fetches"
    )
    executor = paddle.static.Executor(paddle.IPUPlace())
    with pytest.raises(InvalidProgramError, match=message):
        executor.run(inference.program, feed=rows(4), fetch_list=[3])
    with pytest.raises(InvalidProgramError, match=message):
        inference.compiler.compile(["x"], [3])


def test_a_fetch_that_was_not_compiled(inference: Pair) -> None:
    with pytest.raises(
        FetchError,
        match=r"fetch 'linear_0.w_0' was not compiled: .* Name it in compile\(fetch_list=...\)",
    ):
        inference.on_ipu(rows(4), ["linear_0.w_0"])


def test_rows_that_do_not_make_up_a_step() -> None:
    both = pair(
        mlp(sgd),
        {"batches_per_step": 3, "enable_gradient_accumulation": True, "accumulation_factor": 2},
    )
    before = snapshot(both.ipu, both.built.parameters)
    with pytest.raises(
        FeedError,
        match="expected 24 rows = micro-batch 4 x batches_per_step 3 x accumulation_factor 2",
    ):
        both.on_ipu(rows(20))
    both.weights_to_host()
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(both.ipu.find_var(name).get_tensor()), array)
