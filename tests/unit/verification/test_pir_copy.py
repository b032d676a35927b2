"""Copies of PIR programs: names of list members, variables of other programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import FetchError
from paddle_ipu.verification import pir_copy

pytestmark = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2.6 has no PIR programs"
)


def test_members_of_lists_have_one_name_each(static_program: Any) -> None:
    x = paddle.static.data("x", [-1, 6, 8], "float32")
    first, second = paddle.split(x, 2, axis=-1)
    paddle.concat([second, first], axis=-1)
    copy = pir_copy.PirCopy.of(static_program, without_dropout=False)
    names = [name for name, _ in pir_copy.named_values(copy.program)]
    assert len(set(names)) == len(names)
    parts = [name for name in names if name.startswith("split_with_num")]
    assert [name.rpartition(".")[2] for name in parts] == ["0", "1"]
    assert "x" in names


def test_a_variable_of_another_program_is_refused(static_program: Any) -> None:
    mean = paddle.static.data("x", [4], "float32").mean()
    copy = pir_copy.PirCopy.of(paddle.static.Program(), without_dropout=False)
    with pytest.raises(FetchError, match=r"variable of another program, made by pd_op\.mean"):
        copy.fetch_name(mean)


def test_intermediates_are_taken_before_they_are_written_over(static_program: Any) -> None:
    hidden = paddle.exp(paddle.static.data("x", [2, 3], "float32"))
    paddle.assign(hidden * 2.0, hidden)
    copy = pir_copy.PirCopy.of(static_program, without_dropout=False)
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    name = copy.fetch_name(hidden)
    for factor in (1.0, 2.0):
        pruned = copy.pruned([name], training=False)
        wanted = pruned.as_computed(name) if factor == 1.0 else pruned.value(name)
        (value,) = paddle.static.Executor(paddle.CPUPlace()).run(
            pruned.program, feed={"x": x}, fetch_list=[wanted]
        )
        np.testing.assert_allclose(value, factor * np.exp(x), rtol=1e-6)
