"""ONNX files that leave attributes out, against onnxruntime, which takes the standard's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from paddle_ipu import popart

# A dev extra, which an environment made before it was one lacks.
onnxruntime = pytest.importorskip("onnxruntime")

_RNG = np.random.default_rng(0)


def _floats(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


_IMAGE = _floats(1, 4, 4, 6)
_CHANNELS = [_floats(4), _floats(4), _floats(4), np.abs(_floats(4)) + 0.5]
CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "ArgMax": ([_floats(3, 4)], {}),
    "ArgMin": ([_floats(3, 4)], {}),
    "BatchNormalization": ([_IMAGE, *_CHANNELS], {}),
    "CumSum": ([_floats(3, 4), np.asarray(1)], {}),
    "DepthToSpace": ([_IMAGE], {"blocksize": 2}),
    "Elu": ([_floats(5)], {}),
    "Flatten": ([_floats(2, 3, 4)], {}),
    "Gather": ([_floats(3, 4), np.asarray([2, 0])], {}),
    "Gemm": ([_floats(3, 4), _floats(4, 2), _floats(2)], {}),
    "HardSigmoid": ([_floats(5)], {}),
    "InstanceNormalization": ([_IMAGE, *_CHANNELS[:2]], {}),
    "LRN": ([_IMAGE], {"size": 3}),
    "LeakyRelu": ([_floats(5)], {}),
    "LogSoftmax": ([_floats(3, 4)], {}),
    "Mod": ([np.asarray([5, -7], np.int32), np.asarray([3, 3], np.int32)], {}),
    "OneHot": ([np.asarray([1, 0]), np.asarray(3), np.float32([0, 1])], {}),
    "ReduceMax": ([_floats(3, 4)], {}),
    "ReduceSum": ([_floats(3, 4)], {"axes": [1]}),
    "ScatterElements": ([_floats(3, 4), np.asarray([[2, 0]]), _floats(1, 2)], {}),
    "Selu": ([_floats(5)], {}),
    "Shrink": ([_floats(5)], {}),
    "Softmax": ([_floats(3, 4)], {}),
    "ThresholdedRelu": ([_floats(5)], {}),
    "Transpose": ([_floats(2, 3, 4)], {}),
}


@pytest.mark.parametrize("op_type", CASES)
def test_an_attribute_that_is_left_out_has_the_standards_default(op_type: str) -> None:
    inputs, required = CASES[op_type]
    names = [f"x{at}" for at in range(len(inputs))]
    x, *rest = (np.asarray(array) for array in inputs)
    node = helper.make_node(op_type, names, ["y"], **required)
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(
                names[0], helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
            )
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in zip(names[1:], rest, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    peer = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = peer.run(None, {names[0]: x})
    model = onnx.shape_inference.infer_shapes(model)
    session = popart.InferenceSession(
        model.SerializeToString(),
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({names[0]: x}, anchors))
    np.testing.assert_allclose(anchors["y"], expected, rtol=1e-5, atol=1e-6)
