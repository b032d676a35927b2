"""A view's strides, offset and factor lead to the numbers that the operators would give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.rewrites.views import view_of

Array = np.ndarray[Any, Any]


class Chain:
    """Operators after one another, with what NumPy makes of the same."""

    def __init__(self, *dims: int) -> None:
        self.array = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
        self.base, self.start = self.array, self._value("x", self.array)
        self.value = self.start

    def _value(self, name: str, array: Array) -> ir.Value:
        return ir.Value(
            name=name, shape=ir.Shape(array.shape), type=ir.TensorType(ir.DataType.FLOAT)
        )

    def _constant(self, array: Array) -> ir.Value:
        tensor = ir.tensor(array)
        value = ir.Value(
            name="constant",
            shape=ir.Shape(array.shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[value])
        return value

    def then(
        self,
        op_type: str,
        array: Array,
        constants: list[Any] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> None:
        """An operator that makes `array` of the value so far."""
        inputs = [self.value, *(self._constant(np.asarray(item)) for item in constants or [])]
        made = ir.convenience.convert_attributes(attributes)
        self.value, self.array = self._value(op_type, array), array
        ir.Node(domain, op_type, inputs, made, outputs=[self.value])

    def transpose(self, *perm: int) -> None:
        self.then("Transpose", self.array.transpose(perm), perm=list(perm))

    def reshape(self, *dims: int) -> None:
        self.then("Reshape", self.array.reshape(dims), [np.array(dims, np.int64)])

    def slice(self, axis: int, start: int, end: int, step: int) -> None:
        part = [slice(None)] * self.array.ndim
        part[axis] = slice(start, end, step)
        numbers = [np.array([number], np.int64) for number in (start, end, axis, step)]
        self.then("Slice", self.array[tuple(part)], numbers)

    def split(self, axis: int, sizes: list[int], which: int) -> None:
        parts = np.split(self.array, np.cumsum(sizes)[:-1], axis)
        results = [self._value(f"part{i}", part) for i, part in enumerate(parts)]
        made = ir.convenience.convert_attributes({"axis": axis, "split": sizes})
        ir.Node("", "Split", [self.value], made, outputs=results)
        self.value, self.array = results[which], parts[which]

    def scale(self, by: float) -> None:
        self.then("Mul", self.array * np.float32(by), [np.float32(by)])

    def check(self) -> ir.Value:
        """What the view says gives the array; its tensor."""
        found, source = view_of(self.value), self.base
        if found.tensor is not self.start:
            return found.tensor
        flat = np.ascontiguousarray(source).reshape(-1)[found.offset :]
        read = np.lib.stride_tricks.as_strided(
            flat, self.array.shape, [4 * stride for stride in found.strides]
        )
        np.testing.assert_allclose(np.float32(found.factor) * read, self.array, rtol=1e-6)
        return found.tensor


def test_query_of_one_product_for_q_k_and_v() -> None:
    chain = Chain(2, 5, 24)
    chain.reshape(2, 5, 3, 2, 4)
    chain.transpose(2, 0, 3, 1, 4)
    chain.slice(0, 1, 2, 1)
    chain.reshape(2, 2, 5, 4)
    chain.scale(0.5)
    assert chain.check() is chain.start
    view = view_of(chain.value)
    assert (view.strides, view.offset, view.factor) == ((120, 4, 24, 1), 8, 0.5)


def test_key_of_a_split() -> None:
    chain = Chain(2, 5, 24)
    chain.split(2, [8, 8, 8], 1)
    chain.reshape(2, 5, 2, 4)
    chain.transpose(0, 2, 3, 1)
    assert chain.check() is chain.start
    view = view_of(chain.value)
    assert (view.strides, view.offset) == ((120, 4, 1, 24), 8)


def test_factors_on_the_way() -> None:
    chain = Chain(2, 3)
    chain.scale(0.5)
    chain.then("Identity", chain.array)
    chain.then("Scale", 3 * chain.array, domain="ai.graphcore", scale=3.0)
    chain.then("Div", chain.array / 2, [np.float32(2)])
    assert chain.check() is chain.start
    assert view_of(chain.value).factor == 0.75


def test_axes_that_are_put_together_end_a_view() -> None:
    chain = Chain(2, 3, 4)
    chain.transpose(1, 0, 2)
    turned = chain.value
    chain.reshape(6, 4)
    whole = chain.value
    chain.transpose(1, 0)
    assert chain.check() is whole
    assert view_of(turned).tensor is chain.start


@pytest.mark.parametrize("dims", [(4, 6), (6, 4), (24,), (2, 3, 4), (1, 24, 1), (3, 8)])
@pytest.mark.parametrize("reshaped", [(4, 6), (2, 2, 6), (2, 3, 4), (4, 3, 2), (3, 2, 4), (8, 3)])
def test_any_reshape(dims: tuple[int, ...], reshaped: tuple[int, ...]) -> None:
    chain = Chain(*dims)
    chain.reshape(*reshaped)
    chain.check()


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_chain(data: st.DataObject) -> None:
    chain = Chain(*data.draw(st.lists(st.sampled_from([1, 2, 4, 6, 12]), min_size=1, max_size=3)))
    for _ in range(data.draw(st.integers(1, 6))):
        dims = chain.array.shape
        kind = data.draw(st.sampled_from(["transpose", "split axis", "slice", "parts", "one"]))
        axis = data.draw(st.integers(0, len(dims) - 1))
        if kind == "transpose":
            chain.transpose(*data.draw(st.permutations(range(len(dims)))))
        elif kind == "split axis":
            factor = data.draw(st.sampled_from([n for n in (1, 2, 3) if dims[axis] % n == 0]))
            chain.reshape(*dims[:axis], factor, dims[axis] // factor, *dims[axis + 1 :])
        elif kind == "slice" and dims[axis] > 1:
            start = data.draw(st.integers(0, dims[axis] - 1))
            end = data.draw(st.integers(start + 1, dims[axis] - (start == 0)))
            chain.slice(axis, start, end, data.draw(st.integers(1, 2)))
        elif kind == "parts" and dims[axis] > 1:
            first = data.draw(st.integers(1, dims[axis] - 1))
            chain.split(axis, [first, dims[axis] - first], data.draw(st.integers(0, 1)))
        else:
            chain.reshape(*([dim for dim in dims if dim != 1] or [1]))
    assert chain.check() is chain.start
