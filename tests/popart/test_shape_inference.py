"""Shapes and element types of outputs, against ONNX's own inference where ONNX has the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


quick = settings(max_examples=40, deadline=None)


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


Call = Callable[[Builder, dict[str, str]], Any]


def _inputs(builder: Builder) -> dict[str, str]:
    shapes: dict[str, tuple[str, list[int]]] = {
        "x23": ("FLOAT", [2, 3]),
        "x34": ("FLOAT", [3, 4]),
        "x234": ("FLOAT", [2, 3, 4]),
        "half": ("FLOAT16", [2, 3]),
        "int": ("INT32", [2, 3]),
        "flag": ("BOOL", [2, 3]),
        "scalar": ("FLOAT", []),
        "image": ("FLOAT", [1, 4, 5, 5]),
        "kernel": ("FLOAT", [4, 2, 3, 3]),
        "c4": ("FLOAT", [4]),
        "c3": ("FLOAT", [3]),
        "label": ("INT32", [2, 5]),
    }
    return {name: builder.addInputTensor(*shape, name) for name, shape in shapes.items()}


ERRORS: list[tuple[str, Call, str]] = [
    (
        "matmul",
        lambda b, i: b.aiOnnx.matmul([i["x34"], i["x34"]]),
        r"^Op\(ai.onnx.MatMul:9, inputs=\[x34, x34\], outputs=\[MatMul:0\]\) contracting "
        r"dimensions unequal: lhs 'x34' \[3 4\], rhs 'x34' \[3 4\]$",
    ),
    ("matmul of a scalar", lambda b, i: b.aiOnnx.matmul([i["scalar"], i["x34"]]), "take scalars"),
    (
        "mixed types",
        lambda b, i: b.aiOnnx.add([i["x23"], i["half"]]),
        r"incompatible types: input 0 'x23' is FLOAT   \[2 3\] and input 1 'half' is FLOAT16 "
        r"\[2 3\]. Cast one of them$",
    ),
    (
        "a wrong type",
        lambda b, i: b.aiOnnx.sqrt([i["int"]]),
        r"input 0 'int' is INT32   \[2 3\], expected one of BFLOAT16, DOUBLE, FLOAT, FLOAT16$",
    ),
    ("gemm", lambda b, i: b.aiOnnx.gemm([i["x23"], i["x23"]]), "contracting dimensions unequal"),
    (
        "gemm bias",
        lambda b, i: b.aiOnnx.gemm([i["x23"], i["x34"], i["x23"]]),
        r"broadcast",
    ),
    ("gemm rank", lambda b, i: b.aiOnnx.gemm([i["x234"], i["x23"]]), "of rank 3, expected rank 2"),
    ("axis", lambda b, i: b.aiOnnx.argmax([i["x23"]], 2), r"axis 2 is out of range .* -2\.\.1$"),
    ("softmax axis", lambda b, i: b.aiOnnx.softmax([i["x23"]], 3), r"expected -2\.\.2$"),
    (
        "repeated axes",
        lambda b, i: b.aiOnnx.reducesum([i["x23"]], [1, -1]),
        r"axes \[1, -1\] name a dimension twice",
    ),
    (
        "reshape at run time",
        lambda b, i: b.aiOnnx.reshape([i["x23"], i["int"]]),
        r"the 'shape' Tensor 'int' must be of type Constant. It is computed at run time",
    ),
    (
        "reshape",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [4])]),
        r"cannot reshape \[2 3\] of 6 elements to \[4\]",
    ),
    (
        "reshape with two unknowns",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [-1, -1])]),
        "may hold one -1",
    ),
    (
        "reshape with a 0 too far",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [2, 3, 0])]),
        "past the rank",
    ),
    (
        "perm",
        lambda b, i: b.aiOnnx.transpose([i["x23"]], [0, 0]),
        r"perm \[0, 0\] is no permutation of the 2 dimensions",
    ),
    ("squeeze", lambda b, i: b.aiOnnx.squeeze([i["x23"]], [0]), "its size is not 1"),
    (
        "concat",
        lambda b, i: b.aiOnnx.concat([i["x23"], i["x34"]], 0),
        r"input 1 'x34' \[3 4\] does not match input 0 \[2 3\] in all but axis 0",
    ),
    ("split", lambda b, i: b.aiOnnx.split([i["x23"]], 2, 1), "into 2 equal parts. Give 'split'"),
    (
        "split sizes",
        lambda b, i: b.aiOnnx.split([i["x23"]], 2, 1, [1, 1]),
        r"split \[1, 1\] does not cut axis 1",
    ),
    (
        "slice lengths",
        lambda b, i: b.aiOnnx.slice([i["x23"], ints(b, [0]), ints(b, [1, 1])]),
        "differ in length",
    ),
    (
        "slice step",
        lambda b, i: b.aiOnnx.slice(
            [i["x23"], ints(b, [0]), ints(b, [1]), ints(b, [0]), ints(b, [0])]
        ),
        "the step of axis 0 is 0",
    ),
    (
        "tile at run time",
        lambda b, i: b.aiOnnx.tile([i["x23"], i["int"]]),
        r"the 'Repeats' Tensor 'int' must be of type Constant",
    ),
    ("tile", lambda b, i: b.aiOnnx.tile([i["x23"], ints(b, [2])]), "one count for each of the 2"),
    ("pads", lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [1])]), "a begin and an end for each"),
    (
        "pads that cut",
        lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [-3, 0, 0, 0])]),
        "cut more than there is",
    ),
    (
        "pad mode",
        lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [0, 0, 0, 0])], "wrap"),
        "mode is 'wrap', expected constant, reflect or edge",
    ),
    (
        "depth",
        lambda b, i: b.aiOnnx.onehot([i["int"], ints(b, [0]), ints(b, [0, 1])]),
        "depth must be one positive value",
    ),
    (
        "one-hot values",
        lambda b, i: b.aiOnnx.onehot([i["int"], ints(b, [2]), ints(b, [1])]),
        "off_value, on_value",
    ),
    ("k", lambda b, i: b.aiOnnx.topk([i["x23"], ints(b, [4])]), r"k is \[4\], expected one value"),
    ("cumsum axis", lambda b, i: b.aiOnnx.cumsum([i["x23"], ints(b, [0, 1])]), "must be one value"),
    ("bound", lambda b, i: b.aiOnnx.clip([i["x23"], i["c3"]]), "the bound 'c3' must be a scalar"),
    (
        "ratio",
        lambda b, i: b.aiOnnx.dropout([i["x23"]], 1, 1.0),
        r"ratio value 1.0 is not valid. Please use a value in the interval \[0,1\)",
    ),
    (
        "one value",
        lambda b, i: b.aiOnnx.constantofshape([ints(b, [2])], np.zeros(2, np.float32)),
        "value must hold one element",
    ),
    (
        "conv groups",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]]),
        r"group 1 does not fit: data \[1 4 5 5\] has 4 channels, weights \[4 2 3 3\] take 2",
    ),
    (
        "kernel shape",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, kernel_shape=[2, 2]),
        r"kernel_shape \[2, 2\] differs from the weights' \[3, 3\]",
    ),
    (
        "conv bias",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"], i["c3"]], group=2),
        r"the bias must have shape \[4\]",
    ),
    (
        "strides",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, strides=[1]),
        "^Length of strides vector 1 != number of spatial dims 2$",
    ),
    (
        "zero stride",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, strides=[1, 0]),
        "^Strides invalid. 0 stride at index 1$",
    ),
    (
        "conv pads",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, pads=[1, 1]),
        r"^Padding vector \(length 2\) does not have 2 values for each spatial dimension 2$",
    ),
    (
        "dilations",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], [1], 2),
        "^Length of dilations vector 1 != number of spatial dims 2$",
    ),
    (
        "window",
        lambda b, i: b.aiOnnx.averagepool([i["image"]], [9, 9]),
        r"has invalid output shape, \[-3, -3\]: the window \[9, 9\] is larger than the padded inp",
    ),
    (
        "pool kernel",
        lambda b, i: b.aiOnnx.averagepool([i["image"]], [2]),
        "must have one size for each of the 2 spatial dimensions",
    ),
    (
        "batch norm rank",
        lambda b, i: b.aiOnnx.batchnormalization([i["x23"], *[i["c3"]] * 4], 1),
        "^batch norm requires X to have a rank >= 3.  x has rank 2$",
    ),
    (
        "batch norm shape",
        lambda b, i: b.aiOnnx.batchnormalization([i["image"], i["c4"], i["c3"], *[i["c4"]] * 2], 1),
        r"^expected shape of batch norm input tensor B \(\[3\]\) to be \[4\] to match dimension 1 "
        r"of X \(\[1 4 5 5\]\)$",
    ),
    (
        "batch norm outputs",
        lambda b, i: b.aiOnnx.batchnormalization([i["image"], *[i["c4"]] * 4], 3),
        r"has 1 output \(inference\) or 5 \(training\), 3 asked for",
    ),
    (
        "groups",
        lambda b, i: b.aiGraphcore.groupnormalization([i["image"], i["c4"], i["c4"]], 3),
        "num_groups 3 does not divide the 4 channels",
    ),
    (
        "group norm scale",
        lambda b, i: b.aiGraphcore.groupnormalization([i["image"], i["c3"], i["c4"]], 2),
        r"the scale must have shape \[4\]",
    ),
    (
        "labels",
        lambda b, i: b.aiGraphcore.nllloss([i["x234"], i["label"]]),
        r"^The label tensor \(INT32   \[2 5\]\) must have shape \[2 3\] to match all but the final "
        r"dimension of the probabilities tensor \(FLOAT   \[2 3 4\]\) in Op\(ai.graphcore.Nll:1",
    ),
    (
        "label type",
        lambda b, i: b.aiGraphcore.nllloss([i["x234"], i["x23"]]),
        "Expected the label tensor NllOp to be an integer data type",
    ),
    (
        "probabilities",
        lambda b, i: b.aiGraphcore.nllloss([i["scalar"], i["label"]]),
        "Invalid shape for prob tensor",
    ),
    (
        "reduction",
        lambda b, i: b.aiGraphcore.identityloss([i["x23"]], "Max"),
        "reduction is 'Max', expected Sum, Mean or None",
    ),
]


@pytest.mark.parametrize(
    ("call", "message"), [row[1:] for row in ERRORS], ids=[r[0] for r in ERRORS]
)
def test_messages(call: Call, message: str) -> None:
    builder = new()
    with pytest.raises(popart_exception, match=message):
        call(builder, _inputs(builder))


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
