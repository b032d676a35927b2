"""The models of ``inference.py`` as ONNX, in onnxruntime and in OpenVINO."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from inference_models import Arrays

OPSET = 20
"""The first with GELU, which has layer norms, too."""


def export(prefix: Path, batch: int) -> Path:
    """The project's own export for a batch, Graphcore's operators as those of a newer opset."""
    import onnx
    from onnx import helper, version_converter

    import paddle_ipu

    path = prefix.with_name(f"{prefix.name}-{batch}.onnx")
    paddle_ipu.export(str(prefix), path, batch_size=batch)
    model = version_converter.convert_version(onnx.load(str(path)), OPSET)
    nodes = []
    for node in model.graph.node:
        if node.op_type == "GroupNormalization":
            epsilon = [each for each in node.attribute if each.name == "epsilon"]
            del node.output[1:], node.attribute[:]
            node.attribute.extend([*epsilon, helper.make_attribute("axis", -1)])
            node.op_type, node.domain = "LayerNormalization", ""
        elif node.op_type == "GeluErf":
            node.op_type, node.domain = "Gelu", ""
        elif node.op_type == "Swish":
            gate = f"{node.output[0]}.sigmoid"
            nodes.append(helper.make_node("Sigmoid", node.input, [gate]))
            node = helper.make_node("Mul", [node.input[0], gate], node.output)
        nodes.append(node)
    del model.graph.node[:], model.opset_import[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("", OPSET))
    model.ir_version = 9
    onnx.save(model, str(path))
    return path


def in_onnxruntime(prefix: Path, batch: int, feeds: Arrays) -> Callable[[], np.ndarray]:
    """A session's run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    session = onnxruntime.InferenceSession(
        str(export(prefix, batch)), options, providers=["CPUExecutionProvider"]
    )
    kinds = {"tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(float)": "float32"}
    given = {i.name: feeds[i.name].astype(kinds[i.type]) for i in session.get_inputs()}
    return lambda: session.run(None, given)[0]


def in_openvino(prefix: Path, batch: int, feeds: Arrays) -> Callable[[], np.ndarray]:
    """An inference request; float32, since OpenVINO would take bfloat16 where the processor can."""
    import openvino

    settings: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": os.cpu_count() or 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.Core().compile_model(str(export(prefix, batch)), "CPU", settings)
    request = model.create_infer_request()
    given = {
        each.any_name: feeds[each.any_name].astype(each.element_type.to_dtype())
        for each in model.inputs
    }
    return lambda: request.infer(given, share_inputs=True, share_outputs=True)[0]
