"""The strategy's options of precision reach a Paddle program."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

import paddle_ipu

paddle_ipu.activate()

Array = np.ndarray[Any, Any]

_rng = np.random.default_rng(0)
X = _rng.normal(size=(2, 4, 512)).astype(np.float32)
W = _rng.normal(size=(512, 4)).astype(np.float32)


def _product(**options: Any) -> Array:
    """Products of both micro-batches of the same rows with constant weights."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [4, 512], "float32")
        out = paddle.matmul(x, paddle.static.data("w", [512, 4], "float32"))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"enable_fp16": True, "batches_per_step": 2, **options})
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
        ["x", "w"], [out]
    )
    feed = {"x": np.concatenate([X[0], X[0]]), "w": np.concatenate([W, W])}
    (found,) = paddle.static.Executor(paddle.IPUPlace()).run(program, feed=feed, fetch_list=[out])
    return np.asarray(found)


def test_half_partials_and_stochastic_rounding() -> None:
    plain = _product()
    np.testing.assert_array_equal(plain[0], plain[1])
    summed = _product(enable_half_partial=True)
    assert (summed != plain).any()
    np.testing.assert_allclose(summed.astype(np.float32), plain.astype(np.float32), atol=0.5)
    np.testing.assert_array_equal(_product(partials_type_matmuls="half"), summed)
    rounding = {"enable_stochastic_rounding": True, "random_seed": 5}
    first = _product(**rounding)
    np.testing.assert_array_equal(_product(**rounding), first)
    assert (first[0] != first[1]).any()
    places = np.spacing(np.abs(plain).astype(np.float16)).astype(np.float32)
    assert (np.abs(first.astype(np.float32) - plain.astype(np.float32)) <= places).all()
