"""Programs in bfloat16: Paddle's bits in and out, its AMP levels, float32 copies of weights."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import paddle
import pytest
from paddle.nn import functional

import paddle_ipu
from paddle_ipu.errors import FeedError

paddle_ipu.activate()

WITH_PIR = not str(paddle.__version__).startswith("2.6.")
only_pir = pytest.mark.skipif(not WITH_PIR, reason="Paddle 2.6 has few bfloat16 kernels on the CPU")

Array = np.ndarray[Any, Any]
BFLOAT16: Any = ml_dtypes.bfloat16

X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def _bits(values: Array) -> Array:
    return np.asarray(values).astype(BFLOAT16).view(np.uint16)


class Forward:
    """A program of one feed ``x`` [4, 8], whose results both devices give."""

    def __init__(self, dtype: str, make: Callable[[Any], list[Any]]) -> None:
        paddle.enable_static()
        self.scope = paddle.static.Scope()
        self.main = paddle.static.Program()
        with paddle.static.program_guard(self.main):
            self.results = make(paddle.static.data("x", [4, 8], dtype))

    def ipu(self, feed: Array, **keywords: Any) -> list[Any]:
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=False)
        program = paddle.static.IpuCompiledProgram(self.main, self.scope, strategy).compile(
            ["x"], self.results
        )
        executor = paddle.static.Executor(paddle.IPUPlace())
        found: list[Any] = executor.run(
            program, feed={"x": feed}, fetch_list=self.results, **keywords
        )
        return found

    def cpu(self, feed: Array) -> list[Array]:
        executor = paddle.static.Executor(paddle.CPUPlace())
        found: list[Array] = executor.run(self.main, feed={"x": feed}, fetch_list=self.results)
        return found


def test_feeds_and_fetches_are_bits_as_on_the_cpu() -> None:
    program = Forward("bfloat16", lambda x: [x.astype("float32") * 2, x])
    wide, same = program.ipu(_bits(X))
    on_cpu = program.cpu(_bits(X))
    np.testing.assert_array_equal(wide, 2 * X.astype(BFLOAT16).astype(np.float32))
    assert same.dtype == np.uint16
    for got, expected in zip((wide, same), on_cpu, strict=True):
        np.testing.assert_array_equal(got, expected)
    # Numbers of ml_dtypes' type are taken as well, other numbers are not.
    np.testing.assert_array_equal(program.ipu(X.astype(BFLOAT16))[1], same)
    with pytest.raises(FeedError, match="got dtype float32, expected bfloat16"):
        program.ipu(X)


def test_a_dense_tensor_holds_bfloat16() -> None:
    (tensor,) = Forward("float32", lambda x: [x.astype("bfloat16")]).ipu(X, return_numpy=False)
    assert re.search("BF16|bfloat16", str(tensor._dtype()))
    np.testing.assert_array_equal(np.array(tensor), _bits(X))


def test_casts_are_those_of_ml_dtypes() -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32)
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    values = np.where(np.isnan(values) | tiny, 1.5, values).astype(np.float32).reshape(-1, 4, 8)
    program = Forward("float32", lambda x: [x.astype("bfloat16"), x.astype("bfloat16") + 0.0])
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"batches_per_step": len(values)})
    compiled = paddle.static.IpuCompiledProgram(program.main, program.scope, strategy).compile(
        ["x"], program.results
    )
    got = paddle.static.Executor(paddle.IPUPlace()).run(
        compiled, feed={"x": values.reshape(-1, 8)}, fetch_list=program.results
    )
    with np.errstate(over="ignore"):
        expected = _bits(values)
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[1] & 0x7FFF, expected & 0x7FFF)


@only_pir
def test_operators_are_right_to_the_last_place() -> None:
    """NumPy is the oracle: Paddle's CPU kernels need a processor that has bfloat16."""

    def make(x: Any) -> list[Any]:
        return [
            x + x, x * x, x - 0.3, functional.relu(x), paddle.matmul(x, x, transpose_y=True),
            functional.softmax(x), functional.gelu(x), paddle.sqrt(paddle.abs(x)),
        ]  # fmt: skip

    x = X.astype(BFLOAT16).astype(np.float64)
    e = np.exp(x)
    all_expected = [
        x + x, x * x, x - float(BFLOAT16(0.3)), np.maximum(x, 0), x @ x.T,
        e / e.sum(-1, keepdims=True),
        x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2, np.sqrt(np.abs(x)),
    ]  # fmt: skip
    program = Forward("bfloat16", make)
    for got, expected in zip(program.ipu(_bits(X)), all_expected, strict=True):
        assert got.dtype == np.uint16
        # The places of one sign are neighbouring words.
        assert np.abs(got.astype(np.int32) - _bits(expected).astype(np.int32)).max() <= 1


class Trained:
    """A small model decorated and trained; the scope then has what the device had."""

    def __init__(
        self,
        level: str,
        steps: int = 6,
        rate: float = 0.01,
        dtype: str = "bfloat16",
        **decoration: Any,
    ) -> None:
        paddle.enable_static()
        paddle.seed(3)
        self.scope = paddle.static.Scope()
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.program_guard(self.main, startup),
            paddle.utils.unique_name.guard(),
            paddle.static.scope_guard(self.scope),
        ):
            x = paddle.static.data("x", [4, 8], "float32")
            hidden = functional.gelu(paddle.static.nn.fc(x, 16))
            loss = paddle.mean(paddle.square(paddle.static.nn.fc(hidden, 3)))
            optimizer = paddle.static.amp.decorate(
                paddle.optimizer.Adam(rate), level=level, dtype=dtype, use_amp_guard=False,
                **decoration,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                optimizer.minimize(loss, startup)
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            self.main_weights = self.weights()
            if level == "O2":
                optimizer.amp_init(paddle.CPUPlace(), scope=self.scope)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True)
        ipu = paddle.static.IpuCompiledProgram(self.main, self.scope, strategy)
        program = ipu.compile(["x"], [loss])
        self.losses = []
        for _ in range(steps):
            (value,) = executor.run(program, feed={"x": X}, fetch_list=[loss])
            wide = value.view(BFLOAT16) if value.dtype == np.uint16 else value
            self.losses.append(float(np.asarray(wide, np.float32).reshape(())))
        self.loss_dtype = value.dtype
        ipu._backend.weights_to_host()

    def weights(self) -> dict[str, Array]:
        """The weights as float32: a parameter's copy where it has one."""
        found = self.variables()
        return {
            name: found.get(f"{name}_fp32_master_0", array)
            for name, array in found.items()
            if re.fullmatch(r"fc_\d+\.[wb]_0", name)
        }

    def variables(self) -> dict[str, Array]:
        names = [v.name for v in self.main.list_vars() if v.persistable]
        return {
            name: np.array(self.scope.find_var(name).get_tensor())
            for name in names
            if self.scope.find_var(name)
        }


def test_level_o1_computes_products_in_bfloat16() -> None:
    mixed = Trained("O1")
    # The mean, on Paddle's black list, is float32.
    assert mixed.loss_dtype == np.float32
    assert mixed.losses[-1] < 0.8 * mixed.losses[0]
    weights = mixed.weights()
    assert {array.dtype.name for array in weights.values()} == {"float32"}
    assert len(weights) == 4


def test_level_o2_is_bfloat16_throughout() -> None:
    pure, mixed = Trained("O2"), Trained("O1")
    assert pure.loss_dtype == np.uint16
    assert pure.losses[-1] < 0.8 * pure.losses[0]
    np.testing.assert_allclose(pure.losses, mixed.losses, rtol=0.03)


def test_float32_copies_take_updates_that_half_would_lose() -> None:
    """Adam's steps of 1e-6 are far below a place of weights of about 0.1."""
    trained = Trained("O2", rate=1e-6, steps=3)
    for name, after in trained.weights().items():
        moved = np.abs(after - trained.main_weights[name])
        assert after.dtype == np.float32
        assert (moved > 0).mean() > 0.9, name
        assert moved.max() < 4e-6, name


@pytest.mark.skipif(WITH_PIR, reason="a PIR parameter is its own float32 copy")
def test_half_weights_follow_float32_copies() -> None:
    variables = Trained("O2", rate=1e-4, steps=3).variables()
    masters = {n: a for n, a in variables.items() if n.endswith("_fp32_master_0")}
    assert len(masters) == 4
    for name, master in masters.items():
        half = variables[name.removesuffix("_fp32_master_0")]
        assert half.dtype == np.uint16
        np.testing.assert_array_equal(half, _bits(master))
        assert (half.view(BFLOAT16).astype(np.float32) != master).any()
