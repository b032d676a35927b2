"""Operators of an exported model are named after their layers."""

from __future__ import annotations

from pathlib import Path

import onnx
import paddle

import paddle_ipu


def test_layers_stand_in_front_of_names(tmp_path: Path) -> None:
    paddle.disable_static()
    try:
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.LayerNorm(4))
        net.eval()
        spec = paddle.static.InputSpec([2, 4], "float32", "x")
        paddle.jit.save(net, str(tmp_path / "net"), input_spec=[spec])
    finally:
        paddle.enable_static()
    paddle_ipu.export(str(tmp_path / "net"), tmp_path / "net.onnx")
    names = [node.name for node in onnx.load(tmp_path / "net.onnx").graph.node]
    assert any(name.startswith("0/") for name in names)
    assert any(name.startswith("1/") for name in names)
