"""int64 of a Paddle program has 64 bits on the IPU Model, wherever it comes from and goes to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest
from paddle.static import InputSpec

import paddle_ipu
from paddle_ipu.errors import FeedError

pytestmark = pytest.mark.usefixtures("static_mode")

FAR = 2**40
IDS = np.asarray([[1, -FAR], [3, 2**33], [FAR, 0], [7, 5]])


def _program(build: Callable[[Any], Any]) -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        out = build(paddle.static.data("n", [-1, 2], "int64"))
    return main, out


def _compiled(
    build: Callable[[Any], Any], options: dict[str, Any] | None = None, **graph: Any
) -> tuple[Any, Any]:
    main, out = _program(build)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=2, **graph)
    strategy.set_options(options or {})
    compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
    return compiler.compile(["n"], [out]), out


def _squares(n: Any) -> Any:
    return n * n + n


def test_batches_and_replicas_keep_64_bits() -> None:
    program, out = _compiled(_squares, {"batches_per_step": 2})
    (got,) = program.run({"n": IDS}, [out])
    np.testing.assert_array_equal(got.reshape(-1, 2), IDS * IDS + IDS)
    replicas = {"enable_replicated_graphs": True, "replicated_graph_count": 2}
    program, out = _compiled(_squares, replicas, num_ipus=2)
    (got,) = program.run({"n": IDS}, [out])
    np.testing.assert_array_equal(got.reshape(-1, 2), IDS * IDS + IDS)


def test_the_report_says_that_hardware_has_32_bits() -> None:
    program, _ = _compiled(_squares)
    report = program.report()
    assert report.in_64_bits == 3
    assert "integers of 64 bits: 3 tensors, which hardware computes in 32" in str(report)
    program, _ = _compiled(lambda n: paddle.ones([4, 3])[n])
    assert program.report().in_64_bits == 0
    assert "64 bits" not in str(program.report())


def test_the_users_jax_stays_as_it_is() -> None:
    program, out = _compiled(_squares)
    program.run({"n": IDS[:2]}, [out])
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    assert jnp.asarray(np.asarray([1])).dtype == np.int32
    assert jnp.zeros(1).dtype == np.float32


def test_the_executable_cache_gives_the_same_program(tmp_path: Path) -> None:
    options = {"enable_engine_caching": True, "cache_path": str(tmp_path)}
    for cache in ("compiled", "loaded"):
        program, out = _compiled(_squares, options)
        (got,) = program.run({"n": IDS[:2]}, [out])
        np.testing.assert_array_equal(got, IDS[:2] * IDS[:2] + IDS[:2])
        assert program.report().cache == cache


def test_a_saved_model_keeps_64_bits(tmp_path: Path) -> None:
    paddle.disable_static()
    layer = _Squares()
    paddle.jit.save(layer, str(tmp_path / "model"), [InputSpec([2, 2], "int64", "n")])
    paddle.enable_static()
    (model,) = (path for path in tmp_path.iterdir() if path.suffix in (".json", ".pdmodel"))
    config = paddle.inference.Config(str(model), str(tmp_path / "model.pdiparams"))
    config.enable_ipu()
    predictor = paddle.inference.create_predictor(config)
    (name,) = predictor.get_input_names()
    predictor.get_input_handle(name).copy_from_cpu(IDS[:2])
    predictor.run()
    (name,) = predictor.get_output_names()
    got = predictor.get_output_handle(name).copy_to_cpu()
    np.testing.assert_array_equal(got, IDS[:2] * IDS[:2])


class _Squares(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        one = paddle.nn.initializer.Constant(1.0)
        self.one = self.create_parameter([1], default_initializer=one)

    def forward(self, n: Any) -> Any:
        return n * n * paddle.cast(self.one, "int64")


def test_verify_agrees_with_paddle() -> None:
    main, out = _program(_squares)
    report = paddle_ipu.verify(main, {"n": IDS[:2]}, [out], every_operator=True)
    assert report.ok, report


def test_ids_that_only_pick_elements_are_refused_beyond_32_bits() -> None:
    program, out = _compiled(lambda n: paddle.ones([4, 3])[n])
    with pytest.raises(
        FeedError,
        match=r"feed 'n' holds 4294967296, which does not fit the 32-bit integers of an IPU. The "
        "IPU Model has 64 bits for what a program computes with, and 32 for feeds that only pick "
        "elements, as ids and labels do",
    ):
        program.run({"n": np.asarray([[2**32, 0], [0, 0]])}, [out])
