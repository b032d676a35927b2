"""Matrix products against NumPy, their gradients against Paddle, and the program they become."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.operating_system import processors


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((4, 3), (3,)),
        ((4, 3), (3, 2)),
        ((2, 4, 3), (3, 2)),
        ((4, 3), (5, 3, 2)),
        ((2, 1, 4, 3), (1, 5, 3, 2)),
        ((2, 5, 4, 3), (2, 5, 3, 6)),
    ],
)
def test_matmul(lowered: Any, same_as_paddle: Any, first: Any, second: Any) -> None:
    same_as_paddle(lowered("MatMul"), paddle.matmul, normal(*first), normal(*second))


@settings(max_examples=16)
@given(
    trans_a=st.booleans(),
    trans_b=st.booleans(),
    alpha=st.sampled_from([None, 0.5]),
    beta=st.sampled_from([None, 2.0]),
    bias=st.sampled_from([None, (), (5,), (3, 1), (3, 5)]),
)
def test_gemm(lowered: Any, trans_a: bool, trans_b: bool, alpha: Any, beta: Any, bias: Any) -> None:
    a = normal(4, 3) if trans_a else normal(3, 4)
    b = normal(5, 4) if trans_b else normal(4, 5)
    attributes = {"transA": int(trans_a), "transB": int(trans_b), "alpha": alpha, "beta": beta}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    c = None if bias is None else np.asarray(normal(*bias), np.float32)
    expected = (alpha or 1) * (a.T if trans_a else a) @ (b.T if trans_b else b)
    if c is not None:
        expected = expected + (beta or 1) * c
    out = lowered("Gemm", attributes)(*([a, b] if c is None else [a, b, c]))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_gemm_gradients(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("Gemm", {"transB": 1, "alpha": 0.5, "beta": 2.0}),
        lambda a, b, c: 0.5 * paddle.matmul(a, b, transpose_y=True) + 2 * c,
        normal(3, 4),
        normal(5, 4),
        normal(5),
    )


def test_a_dense_layer_is_one_product_forward_and_two_backward(lowered: Any) -> None:
    """[B, S, H] x [H, O]: three GEMMs, and no gradient or weight is copied to transpose it."""
    matmul = lowered("MatMul")

    def step(x: Any, w: Any) -> Any:
        out, pull = jax.vjp(lambda *both: matmul._rule(matmul._context, both, {}), x, w)
        return out, pull(out)

    program = jax.jit(step).lower(normal(2, 8, 20), normal(20, 24)).compile().as_text()
    lines = [line for line in program.splitlines() if " = " in line]
    assert sum(" dot(" in line for line in lines) == 3
    moved = [line for line in lines if " transpose(" in line or " copy(" in line]
    assert all(" = f32[20,16]" in line for line in moved), "only x may be transposed"


@pytest.mark.parametrize(
    ("rows", "is_narrow", "feature"),
    [
        (2 * 64, True, "amx_bf16"),
        (2 * 64, True, "avx512_bf16"),
        (2 * 63, False, "avx512_bf16"),
        (2 * 64, False, "avx512f"),
    ],
)
def test_products_of_bfloat16_by_the_processors_own_instructions(
    lowered: Any, monkeypatch: pytest.MonkeyPatch, rows: int, is_narrow: bool, feature: str
) -> None:
    """They are no less exact than in float32: each product is, and sums are kept in float32."""
    monkeypatch.setattr(processors, "features", lambda: {feature})
    matmul = lowered("MatMul", dtypes=["bfloat16", "bfloat16"])
    x, w, seed = (
        np.asarray(array).astype(ml_dtypes.bfloat16).astype(np.float32)
        for array in (normal(2, rows // 2, 96), normal(96, 40), normal(2, rows // 2, 40))
    )

    def step(x: Any, w: Any) -> Any:
        out, pull = jax.vjp(lambda *both: matmul._rule(matmul._context, both, {}), x, w)
        return out, *pull(jax.numpy.asarray(seed))

    assert ("bf16[" in str(jax.make_jaxpr(step)(x, w))) == is_narrow
    long, wide, wider = (each.astype(np.float64) for each in (x, w, seed))
    expected = long @ wide, wider @ wide.T, long.reshape(rows, -1).T @ wider.reshape(rows, -1)
    for found, wanted in zip(jax.jit(step)(x, w), expected, strict=True):
        assert found.dtype == np.float32
        assert np.linalg.norm(found - wanted) < 1e-6 * np.linalg.norm(wanted)


def test_matmul_broadcasts_batches_of_unlike_rank(lowered: Any) -> None:
    x, w = normal(2, 1, 4, 3), normal(5, 3, 2)
    np.testing.assert_allclose(lowered("MatMul")(x, w), x @ w, rtol=1e-5, atol=1e-6)


def test_matmul_of_integers(lowered: Any) -> None:
    x, w = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)
    np.testing.assert_array_equal(lowered("MatMul")(x, w), x @ w)


def test_matmul_with_the_transposed_embedding_table(lowered: Any) -> None:
    matmul, transpose = lowered("MatMul"), lowered("Transpose", {"perm": [1, 0]})
    hidden, table, seed = normal(6, 4), normal(9, 4), normal(6, 9)

    def logits(h: Any, t: Any) -> Any:
        turned = transpose._rule(transpose._context, [t], {"perm": [1, 0]})
        return matmul._rule(matmul._context, [h, turned], {})

    out, pull = jax.vjp(jax.jit(logits), hidden, table)
    np.testing.assert_allclose(out, hidden @ table.T, rtol=1e-5, atol=1e-6)
    of_hidden, of_table = pull(seed)
    np.testing.assert_allclose(of_hidden, seed @ table, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_table, seed.T @ hidden, rtol=1e-5, atol=1e-5)
