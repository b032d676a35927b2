"""Reports and measurements tell of the layers of a model, in Paddle's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.dialect.node_origin import NodeOrigin, folded

SCRIPT = """
import numpy as np
import paddle

paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [2, 8, 16], "float32")
    layer = paddle.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
    loss = paddle.nn.TransformerEncoder(layer, 2)(x).mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(startup)
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(is_training=True, micro_batch_size=2)
program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [loss])
for _ in range(2):
    executor.run(program, feed={"x": np.ones([2, 8, 16], np.float32)}, fetch_list=[loss])
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def report(script: str, *options: str) -> None:
    assert main(["report", *options, script, "pod4"]) == 0


def test_a_report_names_layers_and_paddles_operators(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report(script)
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert f"2 x MatMul layers.*.linear1, {script}:10" in words
    assert "layer_norm (GroupNormalization) layers.*.norm1" in words
    assert "its tensors by layer:" in text


def test_the_forms_of_a_report_have_layers(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(script, "--directory", str(tmp_path / "all"))
    found = json.loads((tmp_path / "all" / "report.json").read_text())
    products = {row["layer"] for row in found["operators"] if row["op_type"] == "MatMul"}
    assert {"layers.0.linear1", "layers.1.self_attn.q_proj"} <= products
    norms = [row["operator"] for row in found["operators"] if row["layer"] == "layers.0.norm1"]
    assert set(norms) == {"layer_norm"}
    at = found["nodes"]["columns"].index("layer")
    assert {row[at] for row in found["nodes"]["rows"]} >= products
    (ipu,) = found["memory"]["ipus"]
    assert ipu["layers"]["layers.*.linear1"] > 0
    assert any(held["layer"] == "layers.0.linear1" for held in ipu["tensors"])
    trace = json.loads((tmp_path / "all" / "trace.json").read_text())
    assert any(e["args"].get("layer") == "layers.0.linear2" for e in trace["traceEvents"])


def test_measured_layers_stand_beside_their_prediction(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    report(script, "--measure", "1", "--json", str(path))
    found = json.loads(path.read_text())
    layers = {row["layer"]: row for row in found["measured_layers"]}
    at = {name: place for place, name in enumerate(found["nodes"]["columns"])}
    cycles = sum(
        row[at["forward"]] + row[at["backward"]] + row[at["recompute"]]
        for row in found["nodes"]["rows"]
        if row[at["layer"]] in ("layers.0.linear1", "layers.1.linear1")
    )
    seconds = sum(
        line["seconds"]
        for line in found["measured"]["lines"]
        if line["layer"] in ("layers.0.linear1", "layers.1.linear1")
    )
    # One micro-batch a run; nodes have cycles to a tenth.
    clock = found["machine"]["processor"]["clock"]
    assert layers["layers.*.linear1"]["predicted"] == pytest.approx(cycles / clock, rel=1e-3)
    assert layers["layers.*.linear1"]["measured"] == pytest.approx(seconds)
    measured = [row["measured"] for row in found["measured_layers"]]
    assert measured == sorted(measured, reverse=True)
    text = capsys.readouterr().out
    title = "layers, side by side: a run predicted for POD4, and measured on this machine"
    table = text[text.index(title) :].splitlines()
    assert {line.split()[-1] for line in table} >= {"layers.*.linear1", "layers.*.norm2"}


def test_measured_times_are_of_layers(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    report(script, "--measure", "1", "--json", "-")
    lines = json.loads(capsys.readouterr().out)["measured"]["lines"]
    assert {line["layer"] for line in lines if line["popart"] == "MatMul"} >= {
        "layers.0.linear1",
        "layers.1.linear1",
    }


@pytest.mark.parametrize(
    ("operator", "popart", "name"),
    [
        ("matmul", "MatMul", "MatMul"),
        ("layer_norm", "GroupNormalization", "layer_norm (GroupNormalization)"),
        ("", "Identity", "Identity"),
    ],
)
def test_names(operator: str, popart: str, name: str) -> None:
    assert NodeOrigin(operator).name(popart) == name


def test_folded_paths() -> None:
    assert folded("encoder.layers.11.norm1") == "encoder.layers.*.norm1"
    assert folded("") == ""
