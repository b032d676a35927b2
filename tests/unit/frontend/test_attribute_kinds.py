"""An attribute of the wrong kind: named with its operator, what it is and what it should be."""

from __future__ import annotations

import json
import re
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from pathlib import Path
from typing import Any

import onnx_ir as ir
import paddle
import pytest

from paddle_ipu import popart
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import array_weights, translate_program
from paddle_ipu.errors import InvalidProgramError, ModelFileError
from paddle_ipu.frontend import programs, saved_model
from paddle_ipu.frontend.attribute_kinds import wrong_attribute
from paddle_ipu.options.strategy import CoreIpuStrategy
from tests.checkout import ROOT

PIR = not paddle.__version__.startswith("2.")
MODELS = ROOT / "tests/journeys/saved_models/fixtures"
PROGRAMS = sorted(path for path in MODELS.rglob("*") if path.suffix in (".pdmodel", ".json"))


def _scaled() -> tuple[Any, Any]:
    x = paddle.static.data("x", [2, 3], "float32")
    return x, paddle.scale(x, 2.0, bias=1.0)


@pytest.mark.parametrize(
    ("operator", "attribute", "message"),
    [
        ("scale", ir.AttrString("bias", "much"), "'bias' is 'much', expected a number"),
        ("scale", ir.AttrInt64s("bias", [1, 2]), r"'bias' is .*1, 2.*, expected a number"),
        ("scale", ir.AttrString("bias", "x" * 90), r"'bias' is 'x{56}\.\.\., expected a number"),
        ("scale", ir.AttrString("ipu_index", "0"), "'ipu_index' is '0', expected a number"),
        ("full", ir.AttrInt64("shape", 1), "'shape' is 1, expected a list of numbers"),
        ("full", ir.AttrInt64("dtype", 5), "'dtype' is 5, expected a text"),
    ],
)
def test_it_is_named(operator: str, attribute: ir.Attr, message: str, static_mode: None) -> None:
    _scaled()
    graph = programs.read(paddle.static.default_main_program())
    assert wrong_attribute(graph) == ""
    node = next(node for node in graph if node.op_type == operator)
    node.attributes[attribute.name] = attribute
    found = wrong_attribute(graph)
    assert found.startswith(f"operator {operator}")
    assert re.search(message, found)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_sound_models_have_none(path: Path, static_mode: None) -> None:
    content = path.read_bytes()
    parameters = path.with_suffix(".pdiparams")
    files = saved_model.ModelFiles(content, parameters.read_bytes() if parameters.exists() else b"")
    assert wrong_attribute(saved_model.read(files).program().graph()) == ""


@pytest.mark.skipif(not PIR, reason="Paddle 2 saves no programs as JSON")
@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize(
    ("operator", "name", "kind", "data", "error", "message"),
    [
        # A pass reads this one, a translator the next.
        (
            "1.full", "value", "0.a_str", "much", InvalidProgramError,
            "operator full.*'value' is 'much', expected a number. The program is damaged",
        ),
        (
            "1.scale", "bias", "0.a_str", "much", InvalidProgramError,
            "operator scale.*'bias' is 'much', expected a number. The program is damaged",
        ),
        (
            "1.full", "shape", "1.a_intarray", [-1], ModelFileError,
            "the model in memory: an operator may have an attribute out of range.*ValueError",
        ),
    ],
)  # fmt: skip
def test_a_file_with_one(
    operator: str, name: str, kind: str, data: object, error: type[Exception], message: str,
    tmp_path: Path, static_mode: None,
) -> None:  # fmt: skip
    x, y = _scaled()
    executor = paddle.static.Executor(paddle.CPUPlace())
    paddle.static.save_inference_model(str(tmp_path / "m"), [x], [y], executor)
    document = json.loads((tmp_path / "m.json").read_bytes())
    ops = document["program"]["regions"][0]["blocks"][0]["ops"]
    damaged = next(op for op in ops if op["#"] == operator)
    written = next(each for each in damaged["A"] if each["N"] == name)
    written["AT"] = {"#": kind, "D": data}
    files = saved_model.ModelFiles(json.dumps(document).encode(), b"")
    program = saved_model.read(files).program()
    strategy = CoreIpuStrategy()
    strategy.set_options({"is_training": False})
    fetches = [target.name for target in program.fetch_targets]
    source = Source(program, strategy.snapshot(), ["x"], fetches)
    with pytest.raises(error, match=message):
        translate_program(popart, source, array_weights({}))
