"""Shapes and element types of outputs, against ONNX's own inference where ONNX has the operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.enums import ReductionType
from paddle_ipu.popart.shape_inference.shaping import slice_range

OPSETS = {"ai.onnx": 11, "ai.graphcore": 1}

Dims = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def new() -> Builder:
    return Builder(opsets=OPSETS)


def assert_as_onnx(builder: Builder) -> None:
    """Every node output has the type that onnx.shape_inference gives it from the inputs alone."""
    proto = onnx.load_model_from_string(builder.getModelProto())
    del proto.graph.value_info[:]
    onnx.checker.check_model(proto)
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    found = {item.name: item.type.tensor_type for item in inferred.graph.value_info}
    for name in builder.getValueTensorIds():
        info = builder.info(name)
        dims = [dim.dim_value for dim in found[name].shape.dim]
        assert (name, info.shape(), int(info.dtype)) == (name, dims, found[name].elem_type)


def ints(builder: Builder, values: list[int]) -> str:
    return str(builder.aiOnnx.constant(np.array(values, np.int64)))


quick = settings(max_examples=40)


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    full = draw(Dims)
    shapes = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :]
        shapes.append([1 if draw(st.booleans()) else dim for dim in kept])
    return shapes[0], shapes[1]


@quick
@given(
    broadcastable(), st.sampled_from(["add", "sub", "mul", "div", "pow", "equal", "less", "max"])
)
def test_broadcasting(shapes: tuple[list[int], list[int]], name: str) -> None:
    builder = new()
    a, b = (builder.addInputTensor("FLOAT", shape) for shape in shapes)
    getattr(builder.aiOnnx, name)([a, b])
    assert_as_onnx(builder)
    expected = list(np.broadcast_shapes(*shapes))
    assert builder.getTensorShape(builder.getValueTensorIds()[0]) == expected


@quick
@given(Dims, Dims)
def test_broadcasting_fails_where_numpys_does(left: list[int], right: list[int]) -> None:
    builder = new()
    a, b = (builder.addInputTensor("FLOAT", shape) for shape in (left, right))
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(popart_exception) as caught:
            builder.aiOnnx.add([a, b])
        assert caught.value.args[0] == (
            "np broadcasting failed on 'Op(ai.onnx.Add:7, inputs=[input, input/1], "
            f"outputs=[Add:0])', frames {left} and {right} are not aligned"
        )
    else:
        assert builder.getTensorShape(builder.aiOnnx.add([a, b])) == list(expected)


@quick
@given(Dims, Dims)
def test_matmul_is_numpys(left: list[int], right: list[int]) -> None:
    builder = new()
    a, b = (builder.addInputTensor("FLOAT", shape) for shape in (left, right))
    try:
        expected = np.matmul(np.zeros(left), np.zeros(right)).shape
    except ValueError:
        with pytest.raises(popart_exception, match="contracting dimensions unequal|broadcasting"):
            builder.aiOnnx.matmul([a, b])
    else:
        assert builder.getTensorShape(builder.aiOnnx.matmul([a, b])) == list(expected)
        assert_as_onnx(builder)


REDUCTIONS = (
    "reducemean reducesum reducemax reducemin reduceprod reducesumsquare reducel1 reducel2 "
    "reducelogsum reducelogsumexp"
)


@quick
@given(Dims, st.data(), st.sampled_from(REDUCTIONS.split()), st.booleans())
def test_reductions(dims: list[int], data: st.DataObject, name: str, keep: bool) -> None:
    rank = len(dims)
    axes = data.draw(
        st.none() | st.lists(st.integers(-rank, rank - 1), min_size=1, unique_by=lambda a: a % rank)
    )
    builder = new()
    x = builder.addInputTensor("FLOAT", dims)
    y = getattr(builder.aiOnnx, name)([x], axes, int(keep))
    assert_as_onnx(builder)
    axis = None if axes is None else tuple(axes)
    assert builder.getTensorShape(y) == list(np.zeros(dims).sum(axis, keepdims=keep).shape)


@quick
@given(Dims, st.data())
def test_operators_along_an_axis(dims: list[int], data: st.DataObject) -> None:
    rank = len(dims)
    axis = data.draw(st.integers(-rank, rank - 1))
    builder = new()
    x = builder.addInputTensor("FLOAT", dims)
    ops = builder.aiOnnx
    ops.softmax([x], axis)
    ops.logsoftmax([x], axis)
    ops.argmax([x], axis, data.draw(st.integers(0, 1)))
    ops.argmin([x], axis)
    ops.flatten([x], axis)
    ops.cumsum([x, ops.constant(np.array(axis, np.int64))])
    ops.topk([x, ints(builder, [data.draw(st.integers(1, dims[axis]))])], axis)
    ops.split([x], dims[axis], axis)
    ops.concat([x, x, x], axis)
    indices = builder.addInputTensor(
        "INT32", data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    )
    ops.gather([x, indices], axis)
    ops.onehot([indices, ints(builder, [5]), ops.constant(np.array([0, 1], np.float32))], 0)
    assert_as_onnx(builder)


@quick
@given(Dims, st.data())
def test_moving_dimensions(dims: list[int], data: st.DataObject) -> None:
    rank = len(dims)
    builder = new()
    x = builder.addInputTensor("FLOAT16", dims)
    ops = builder.aiOnnx
    perm = data.draw(st.permutations(range(rank)))
    y = ops.transpose([x], perm)
    assert builder.getTensorShape(y) == [dims[axis] for axis in perm]
    assert builder.getTensorShape(ops.transpose([x])) == dims[::-1]
    axes = data.draw(
        st.lists(
            st.integers(-rank - 2, rank + 1),
            min_size=2,
            max_size=2,
            unique_by=lambda a: a % (rank + 2),
        )
    )
    z = ops.unsqueeze([x], axes)
    assert builder.getTensorShape(z) == list(np.expand_dims(np.zeros(dims), tuple(axes)).shape)
    assert builder.getTensorShape(ops.squeeze([z], axes)) == dims
    assert builder.getTensorShape(ops.squeeze([x])) == [dim for dim in dims if dim != 1]
    repeats = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    assert builder.getTensorShape(ops.tile([x, ints(builder, repeats)])) == list(
        np.tile(np.zeros(dims), repeats).shape
    )
    assert builder.getTensorShape(ops.expand([x, ints(builder, [2, *dims])])) == [2, *dims]
    ops.shape([x])
    assert_as_onnx(builder)


@quick
@given(Dims, st.data())
def test_reshape(dims: list[int], data: st.DataObject) -> None:
    total = int(np.prod(dims))
    wanted = data.draw(st.permutations(dims))
    if data.draw(st.booleans()):
        wanted[data.draw(st.integers(0, len(dims) - 1))] = -1
    builder = new()
    x = builder.addInputTensor("INT64", dims)
    y = builder.aiOnnx.reshape([x, ints(builder, wanted)])
    assert int(np.prod(builder.getTensorShape(y))) == total
    kept = builder.aiOnnx.reshape([x, ints(builder, [0, -1])])
    assert builder.getTensorShape(kept)[0] == dims[0]
    assert_as_onnx(builder)


@quick
@given(Dims, st.data())
def test_slice(dims: list[int], data: st.DataObject) -> None:
    rank = len(dims)
    axes = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    bound = st.integers(-6, 6)
    cuts = [
        (data.draw(bound), data.draw(bound), data.draw(st.sampled_from([1, 2, -1, -2])))
        for _ in axes
    ]
    builder = new()
    x = builder.addInputTensor("FLOAT", dims)
    inputs = [x, *(ints(builder, [cut[at] for cut in cuts]) for at in (0, 1))]
    inputs += [ints(builder, axes), ints(builder, [cut[2] for cut in cuts])]
    y = builder.aiOnnx.slice(inputs)
    if all(step > 0 for *_, step in cuts):
        index: list[slice] = [slice(None)] * rank
        for axis, cut in zip(axes, cuts, strict=True):
            index[axis] = slice(*cut)
        assert builder.getTensorShape(y) == list(np.zeros(dims)[tuple(index)].shape)
    assert_as_onnx(builder)


@quick
@given(st.integers(1, 5), st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([1, 2, -1, -2]))
def test_slice_takes_elements_within_bounds(size: int, start: int, end: int, step: int) -> None:
    taken = slice_range(size, start, end, step)
    assert all(0 <= index < size for index in taken)
    if step > 0:
        assert list(taken) == list(range(size)[start:end:step])


@quick
@given(Dims, st.data())
def test_pad(dims: list[int], data: st.DataObject) -> None:
    pads = data.draw(st.lists(st.integers(0, 3), min_size=2 * len(dims), max_size=2 * len(dims)))
    builder = new()
    x = builder.addInputTensor("FLOAT", dims)
    y = builder.aiOnnx.pad([x, ints(builder, pads)])
    pairs = list(zip(pads[: len(dims)], pads[len(dims) :], strict=True))
    assert builder.getTensorShape(y) == list(np.pad(np.zeros(dims), pairs).shape)
    assert_as_onnx(builder)


@quick
@given(st.integers(1, 2), st.data())
def test_windows(rank: int, data: st.DataObject) -> None:
    def draw(low: int, high: int, count: int = rank) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    group = data.draw(st.sampled_from([1, 2]))
    kernel, strides, dilations = draw(1, 3), draw(1, 3), draw(1, 2)
    pads = draw(0, 2, 2 * rank)
    builder = new()
    x = builder.addInputTensor("FLOAT", [2, 4, *draw(5, 9)])
    w = builder.addInitializedInputTensor(np.zeros((6, 4 // group, *kernel), np.float32))
    bias = builder.addInitializedInputTensor(np.zeros(6, np.float32))
    ops = builder.aiOnnx
    ops.conv([x, w, bias], dilations, group, kernel, pads, strides)
    ops.conv([x, w], group=group)
    ops.globalaveragepool([x])
    ops.globalmaxpool([x])
    ops.maxpool([x], 1, kernel, 0, [], pads, 0, strides)
    ops.averagepool([x], kernel, 0, 0, pads, strides)
    assert_as_onnx(builder)


@pytest.mark.parametrize(("size", "expected"), [(7, 4), (8, 4), (9, 5)])
def test_ceil_mode(size: int, expected: int) -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [1, 1, size])
    (y,) = builder.aiOnnx.maxpool([x], 1, [2], 1, strides=[2])
    assert builder.getTensorShape(y) == [1, 1, expected]
    assert builder.getTensorShape(builder.aiOnnx.averagepool([x], [2], 1, strides=[2])) == [
        1,
        1,
        expected,
    ]
    assert_as_onnx(builder)


UNARY = (
    "abs neg relu sqrt exp log erf tanh sigmoid reciprocal floor ceil round sign sin cos tan asin "
    "acos atan sinh cosh elu selu leakyrelu hardsigmoid softplus softsign identity"
)


def test_unary_operators_keep_the_type() -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [2, 3])
    for name in UNARY.split():
        y = getattr(builder.aiOnnx, name)([x])
        assert builder.info(y) == builder.info(x)
    assert_as_onnx(builder)


def test_the_rest_of_ai_onnx() -> None:
    builder = new()
    x, y = builder.addInputTensor("FLOAT", [2, 3]), builder.addInputTensor("FLOAT", [3, 5])
    bias = builder.addInputTensor("FLOAT", [5])
    flag = builder.addInputTensor("BOOL", [2, 1])
    image = builder.addInputTensor("FLOAT", [2, 3, 4])
    channel = [builder.addInputTensor("FLOAT", [3]) for _ in range(4)]
    ops = builder.aiOnnx
    ops.gemm([x, y, bias])
    ops.gemm([y, x], 1.0, 1.0, 1, 1)
    ops.cast([x], "INT32")
    ops.cast([x], "BOOL")
    ops.where([flag, x, x])
    ops.logical_and([flag, flag])
    ops.logical_or([flag, flag])
    ops.logical_not([flag])
    ops.greater([x, x])
    ops.sum([x, x, x])
    ops.mean([x, x])
    ops.min([x, x])
    ops.mod([x, x], 1)
    low = ops.constant(np.array(0, np.float32))
    ops.clip([x, low, low])
    ops.clip([x, low])
    ops.clip([x, "", low])
    ops.dropout([x], 1)
    ops.dropout([x], 2, 0.25)
    ops.constantofshape([ints(builder, [4, 5])], np.array([2], np.int32))
    ops.batchnormalization([image, *channel], 1)
    assert_as_onnx(builder)
    # ONNX leaves the four training outputs untyped.
    training = ops.batchnormalization([image, *channel], 5)
    assert [builder.getTensorShape(item) for item in training] == [[2, 3, 4], *[[3]] * 4]


def test_shapes_are_known_through_shape_arithmetic() -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [2, 3, 4])
    ops = builder.aiOnnx
    size = ops.shape([x])
    first = ops.gather([size, ints(builder, [0])])
    wanted = ops.concat([ops.cast([first], "INT64"), ints(builder, [-1])], 0)
    assert builder.getTensorShape(ops.reshape([x, wanted])) == [2, 12]
    kept = ops.unsqueeze([ops.squeeze([ops.identity([first])], [0])], [0])
    assert builder.getTensorShape(ops.expand([ints(builder, [1]), kept])) == [2]


def test_graphcore_operators() -> None:
    builder = new()
    x, y = builder.addInputTensor("FLOAT", [2, 4]), builder.addInputTensor("FLOAT", [4])
    labels = builder.addInputTensor("INT32", [2])
    ops = builder.aiGraphcore
    for name in "gelu geluerf log1p expm1 swish detach nop round nearbyint".split():
        assert builder.getTensorShape(getattr(ops, name)([x])) == [2, 4]
    assert builder.getTensorShape(ops.scale([x], 2.0)) == [2, 4]
    assert builder.getTensorShape(ops.reverse([x], [0, 1])) == [2, 4]
    for name in "scaledadd atan2 fmod remainder".split():
        assert builder.getTensorShape(getattr(ops, name)([y, x])) == [2, 4]
    groups = ops.groupnormalization([x, y, y], 2)
    assert [builder.getTensorShape(item) for item in groups] == [[2, 4], [4], [4]]
    for reduction, expected in ((ReductionType.Mean, []), (ReductionType.NoReduction, [2])):
        assert builder.getTensorShape(ops.nllloss([x, labels], reduction)) == expected
    assert builder.getTensorShape(ops.l1loss([x], 1.0)) == []
    assert builder.getTensorShape(ops.identityloss([x], ReductionType.NoReduction)) == [2, 4]
    values, indices = ops.sort([x], 1)
    assert builder.getTensorShape(values) == builder.getTensorShape(indices) == [2, 4]
    assert builder.getTensorDtypeString(indices) == "int32"
    assert builder.getTensorShape(ops.replicatedallreduce([x])) == [2, 4]


def test_paddle_ipu_operators() -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [2, 3, 4])
    labels = builder.addInputTensor("INT64", [2, 3])
    indices = builder.addInputTensor("INT32", [5, 2])
    a, b = builder.addInputTensor("BOOL", [2, 1]), builder.addInputTensor("BOOL", [3])
    ops = builder.aiPaddleIpuOpset1
    assert builder.getTensorShape(ops.lognll([x, labels], -100)) == [2, 3]
    assert builder.getTensorShape(ops.gathernd([x, indices])) == [5, 4]
    assert builder.getTensorShape(ops.logicalxor([a, b])) == [2, 3]
    deep = builder.addInputTensor("INT32", [5, 4])
    with pytest.raises(popart_exception, match="address 4 dimensions of data"):
        ops.gathernd([x, deep])


def test_optional_inputs_are_told_by_empty_ids() -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [2])
    high = builder.aiOnnx.constant(np.array(1, np.float32))
    node = builder.node_of(builder.aiOnnx.clip([x, "", high]))
    assert node.inputs[1] is None
    with pytest.raises(popart_exception, match="Unknown tensor ''"):
        builder.aiOnnx.add([x, ""])


def test_every_value_has_its_own_type_object() -> None:
    builder = new()
    x = builder.addInputTensor("FLOAT", [2])
    y, z = builder.aiOnnx.sin([x]), builder.aiOnnx.sin([x])
    builder.node_of(y).outputs[0].dtype = ir.DataType.FLOAT16
    assert builder.getTensorDtypeString(z) == builder.getTensorDtypeString(x) == "float32"
