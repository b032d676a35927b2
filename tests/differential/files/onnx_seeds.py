"""Small ONNX models, sound ones, that damaged ones are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_RNG = np.random.default_rng(5)


def _weights(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto], x: Sequence[int], y: Sequence[int], **initializers: Any
) -> bytes:
    info = helper.make_tensor_value_info
    kept = [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items()]
    graph = helper.make_graph(
        list(nodes), "graph", [info("x", FLOAT, x)], [info("y", FLOAT, y)], kept
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    return bytes(made.SerializeToString())


def _graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]
) -> onnx.GraphProto:
    info = helper.make_tensor_value_info
    return helper.make_graph(
        list(nodes), "block", [info(*i) for i in inputs], [info(*o) for o in outputs]
    )


def _convolution() -> bytes:
    node = helper.make_node
    return _model(
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
            node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"], epsilon=1e-5),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", ["p"], ["f"], axis=1),
            node("Gemm", ["f", "g"], ["y"], transB=1, alpha=0.5),
        ],
        (1, 2, 4, 4), (1, 3),
        w=_weights(4, 2, 3, 3), b=np.ones(4, np.float32), s=np.full(4, 2, np.float32),
        g=_weights(3, 16),
    )  # fmt: skip


def _shapes() -> bytes:
    node = helper.make_node
    return _model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["rows"], axis=0),
            node("Unsqueeze", ["rows"], ["first"], axes=[0]),
            node("Concat", ["first", "rest"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["r"]),
            node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
            node("Slice", ["t", "starts", "ends", "axes", "steps"], ["s"]),
            node("Pad", ["s", "pads"], ["p"]),
            node("Split", ["p"], ["u", "v"], axis=2, split=[1, 2]),
            node("Expand", ["u", "wide"], ["e"]),
            node("Tile", ["v", "times"], ["w"]),
            node("ReduceSum", ["e"], ["a"], axes=[1, 2], keepdims=0),
            node("ReduceMean", ["w"], ["b"], axes=[-1, 1], keepdims=0),
            node("Add", ["a", "b"], ["y"]),
        ],
        (2, 6), (2,),
        zero=np.int64(0), rest=np.array([3, 2]), starts=np.array([0]), ends=np.array([2**31 - 1]),
        axes=np.array([2]), steps=np.array([2]), pads=np.array([0, 0, 0, 0, 0, 1]),
        wide=np.array([2, 2, 4]), times=np.array([1, 2, 1]),
    )  # fmt: skip


def _ordering() -> bytes:
    node = helper.make_node
    return _model(
        [
            node("Constant", [], ["k"], value=numpy_helper.from_array(np.array([2]))),
            node("TopK", ["x", "k"], ["top", "at"], axis=-1),
            node("Gather", ["x", "at"], ["g"], axis=1),
            node("OneHot", ["at", "depth", "values"], ["hot"], axis=-1),
            node("ScatterElements", ["x", "at", "top"], ["s"], axis=1),
            node("CumSum", ["s", "axis"], ["c"]),
            node("ReduceMax", ["g"], ["m"], axes=[0, 1, 2], keepdims=0),
            node("ReduceMin", ["hot"], ["h"], axes=[0, 1, 2], keepdims=0),
            node("Softmax", ["c"], ["p"], axis=1),
            node("Mul", ["p", "m"], ["q"]),
            node("Add", ["q", "h"], ["y"]),
        ],
        (3, 5), (3, 5),
        depth=np.int64(5), values=np.array([0, 1], np.float32), axis=np.int64(1),
    )  # fmt: skip


def _recurrent() -> bytes:
    node = helper.make_node
    return _model(
        [
            node("LSTM", ["x", "w", "r", "b"], ["all", "last"], hidden_size=3),
            node("Squeeze", ["all"], ["s"], axes=[1]),
            node("ConvTranspose", ["s", "k"], ["t"], strides=[2], output_padding=[1]),
            node("Resize", ["t", "roi", "scales"], ["z"], mode="nearest"),
            node("ReduceL2", ["z"], ["l"], axes=[2], keepdims=0),
            node("MatMul", ["l", "m"], ["y"]),
        ],
        (4, 2, 3), (4, 2),
        w=_weights(1, 12, 3), r=_weights(1, 12, 3), b=_weights(1, 24), k=_weights(2, 2, 3),
        roi=np.zeros(0, np.float32), scales=np.array([1, 1, 2], np.float32), m=_weights(2, 2),
    )  # fmt: skip


def _control_flow() -> bytes:
    node = helper.make_node
    then = _graph([node("Neg", ["x"], ["a"])], [], [("a", FLOAT, [2, 3])])
    otherwise = _graph([node("Add", ["x", "w"], ["o"])], [], [("o", FLOAT, [2, 3])])
    body = _graph(
        [
            node("Add", ["c", "w"], ["next"]),
            node("ReduceSum", ["next"], ["s"], keepdims=0),
            node("Less", ["s", "limit"], ["going"]),
        ],
        [("i", INT64, []), ("on", BOOL, []), ("c", FLOAT, [2, 3])],
        [("going", BOOL, []), ("next", FLOAT, [2, 3])],
    )
    return _model(
        [
            node("ReduceMax", ["x"], ["most"], keepdims=0),
            node("Greater", ["most", "limit"], ["is"]),
            node("If", ["is"], ["chosen"], then_branch=then, else_branch=otherwise),
            node("Loop", ["times", "yes", "chosen"], ["y"], body=body),
        ],
        (2, 3), (2, 3),
        w=_weights(2, 3), limit=np.float32(9), times=np.int64(4), yes=np.array(True),
    )  # fmt: skip


_MODELS: Sequence[Callable[[], bytes]] = (
    _convolution, _shapes, _ordering, _recurrent, _control_flow,
)  # fmt: skip


def models() -> dict[str, bytes]:
    """Name -> a model; each runs."""
    return {make.__name__.strip("_"): make() for make in _MODELS}


def nested(depth: int, both: bool) -> bytes:
    """A model of If operators, each in one branch, or in both, of the one around it."""
    node = helper.make_node
    output = [("o", FLOAT, [2, 3])]
    inner = other = _graph([node("Neg", ["x"], ["o"])], [], output)
    for _ in range(depth):
        around = node("If", ["yes"], ["o"], then_branch=inner,
                      else_branch=inner if both else other)  # fmt: skip
        graph = onnx.GraphProto(name="block")
        graph.node.append(around)
        graph.output.append(inner.output[0])
        inner = graph
    model = onnx.ModelProto.FromString(_model([], (2, 3), (2, 3), yes=np.array(True)))
    model.graph.node.append(inner.node[0])
    model.graph.node.append(node("Abs", ["o"], ["y"]))
    return bytes(model.SerializeToString())
