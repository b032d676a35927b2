"""Fixtures that run a lowering beside NumPy and Paddle's CPU, and kernels at each vector length."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paddle_ipu.xla.lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.registry import LoweringContext, find_lowering

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Paddle's import warns about its C++ extension tools.
    import paddle


from tests.unit.xla.older_kernels import OLDER

_LANES = [lanes for lanes in (8, 16) if lanes <= library.lanes()]


@pytest.fixture(scope="module", params=_LANES or [0])
def vector_lanes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs with each length of vectors that this processor has; skips where kernels have none."""
    if not request.param:
        pytest.skip(f"no kernel here: {library.why_not() or 'no AVX2'}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "lanes", lambda: request.param)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out comparisons with kernels that this Paddle has in an older form."""
    for item in items:
        since = OLDER.get(item.name) if item.path.parent == Path(__file__).parent else None
        if since is not None and not since.holds(paddle.__version__):
            item.add_marker(pytest.mark.skip(reason=f"{since.because} before {since.version}"))


class Lowered:
    """One PopART operator with its attributes, called on NumPy arrays inside ``jax.jit``.

    Inputs whose position is in `constant` reach the lowering as NumPy arrays, others as tracers.
    """

    def __init__(
        self,
        op_type: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "ai.onnx",
        constant: Sequence[int] = (),
        num_outputs: int = 1,
        training: bool = True,
        seed: int = 0,
        dtypes: Sequence[str | None] = (),
    ) -> None:
        rule = find_lowering(domain, op_type)
        assert rule is not None, f"{domain}.{op_type} has no lowering"
        self._rule = rule
        self._attributes = dict(attributes or {})
        self._constant = frozenset(constant)
        self._context = LoweringContext(
            domain,
            op_type,
            "node",
            training,
            lambda: jax.random.key(seed),
            num_outputs,
            dtypes=dtypes,
        )

    def constants(self, *inputs: Any) -> Any:
        """The lowering's own answer, outside any trace, when every input is constant."""
        names = [f"input {index}" for index in range(len(inputs))]
        context = replace(self._context, input_ids=names)
        return self._rule(context, list(inputs), self._attributes)

    def _split(self, inputs: Sequence[Any]) -> tuple[list[Any], Callable[..., Any]]:
        traced = [
            index
            for index, value in enumerate(inputs)
            if value is not None and index not in self._constant
        ]

        def call(*values: Any) -> Any:
            everything = list(inputs)
            for index, value in zip(traced, values, strict=True):
                everything[index] = value
            return self._rule(self._context, everything, self._attributes)

        return [inputs[index] for index in traced], call

    def __call__(self, *inputs: Any) -> Any:
        """The output, or a tuple of outputs, as NumPy arrays."""
        values, call = self._split(inputs)
        out = jax.jit(call)(*values)
        if isinstance(out, tuple | list):
            return tuple(np.asarray(one) for one in out)
        return np.asarray(out)

    def text(self, *inputs: Any) -> str:
        """What is given to XLA."""
        values, call = self._split(inputs)
        return str(jax.jit(call).lower(*values).as_text())

    def gradients(self, *inputs: Any, cotangent: Any = None) -> list[Any]:
        """Gradients of the first output with respect to every floating input that is traced."""
        values, call = self._split(inputs)
        floating = [i for i, v in enumerate(values) if np.issubdtype(v.dtype, np.floating)]

        def of_floating(*chosen: Any) -> Any:
            everything = list(values)
            for index, value in zip(floating, chosen, strict=True):
                everything[index] = value
            out = call(*everything)
            return out[0] if isinstance(out, tuple | list) else out

        def pulled_back(*chosen: Any) -> Any:
            out, pull = jax.vjp(of_floating, *chosen)
            seed = jnp.ones_like(out) if cotangent is None else jnp.asarray(cotangent)
            return pull(seed)

        return [np.asarray(g) for g in jax.jit(pulled_back)(*(values[i] for i in floating))]


def paddle_on_cpu(
    function: Callable[..., Any], inputs: Sequence[Any], cotangent: Any = None
) -> tuple[Any, list[Any]]:
    """(output, gradients of the floating inputs) of a Paddle function in dygraph on the CPU."""
    tensors = [paddle.to_tensor(value, place=paddle.CPUPlace()) for value in inputs]
    floating = [t for t, v in zip(tensors, inputs, strict=True) if v.dtype == np.float32]
    for tensor in floating:
        tensor.stop_gradient = False
    out = function(*tensors)
    seed = None if cotangent is None else [paddle.to_tensor(cotangent)]
    gradients = paddle.grad([out], floating, seed)
    return out.numpy(), [gradient.numpy() for gradient in gradients]


@pytest.fixture(scope="session")
def same_as_paddle() -> Callable[..., None]:
    """Compares output and gradients of a lowering with a Paddle function on traced inputs."""

    def compare(
        lowered: Lowered,
        function: Callable[..., Any],
        *inputs: Any,
        constants: Sequence[Any] = (),
        rtol: float = 1e-5,
        atol: float = 1e-6,
    ) -> None:
        ours = lowered(*inputs, *constants)
        ours = ours[0] if isinstance(ours, tuple) else ours
        weights = np.random.default_rng(7).uniform(0.5, 2, ours.shape).astype(np.float32)
        expected, expected_gradients = paddle_on_cpu(function, inputs, weights)
        np.testing.assert_allclose(ours, expected, rtol, atol)
        gradients = lowered.gradients(*inputs, *constants, cotangent=weights)
        assert len(gradients) == len(expected_gradients)
        for gradient, wanted in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(gradient, wanted, rtol, atol)

    return compare


@pytest.fixture(scope="session")
def lowered() -> type[Lowered]:
    """The class that runs one lowering."""
    return Lowered
