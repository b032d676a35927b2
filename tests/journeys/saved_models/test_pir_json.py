"""Saved PIR programs, read without Paddle, are what Paddle's own reader makes of them."""

from __future__ import annotations

import json
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from pathlib import Path
from typing import Any

import onnx_ir as ir
import paddle
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import ModelFileError, NotSupported
from paddle_ipu.frontend import pir, pir_json
from paddle_ipu.frontend.control_flow import MOST_NESTED
from paddle_ipu.frontend.operand_names import OPERAND_NAMES, operand_names
from tests.journeys.saved_models.models import NAMES, program_file

needs_pir = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2 has no PIR programs"
)
SAVED = [name for name in NAMES if name.startswith("paddle_3")]


def as_text(graph: Any) -> list[str]:
    """Values and nodes, those of blocks included, without the handle of what each was read from."""
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    values = [f"{value} {dict(value.meta)}" for value in graph.inputs]
    made = [f"{value} {dict(value.meta)}" for node in nodes for value in node.outputs]
    return values + made + [f"{node} {_told(node)}" for node in nodes]


def _told(node: ir.Node) -> dict[str, Any]:
    return {key: value for key, value in node.meta.items() if key != dialect.MADE_FROM}


def by_paddle(path: Path) -> Any:
    from paddle.base import core

    program = paddle.static.Program()
    core.deserialize_pir_program(str(path), program)
    return program


@needs_pir
@pytest.mark.parametrize("name", SAVED)
def test_both_readers_give_one_graph(name: str, static_mode: None) -> None:
    path = program_file(name)
    ours = pir_json.parse(path.read_bytes(), str(path))
    assert as_text(pir.read(ours)) == as_text(pir.read(by_paddle(path)))


@needs_pir
def test_control_flow_infinity_lists_and_omitted_operands(
    static_program: Any, tmp_path: Path
) -> None:
    x = paddle.static.data("x", [-1, 4], "float32")
    count = paddle.static.data("count", [1], "int64")
    y = paddle.clip(x, -float("inf"), 1.0)
    branch = paddle.static.nn.cond(paddle.sum(x) > 0, lambda: x + 1, lambda: x * 2)
    loop = paddle.static.nn.while_loop(lambda i, v: i < 10, lambda i, v: [i + 1, v * 2], [count, y])
    size = paddle.nn.functional.interpolate(paddle.reshape(x, [1, 1, -1, 4]), scale_factor=2)
    fetches = [
        branch,
        loop[1],
        size,
        *paddle.topk(x, 2),
        *paddle.unbind(paddle.reshape(y, [2, -1])),
    ]
    from paddle.base import core

    path = tmp_path / "m.json"
    for number, value in enumerate(fetches):
        paddle._pir_ops.fetch(value, f"fetch_{number}", number)
    core.serialize_pir_program(static_program, str(path), True, True, True)
    ours = pir_json.parse(path.read_bytes(), str(path))
    assert as_text(pir.read(ours)) == as_text(pir.read(by_paddle(path)))


@needs_pir
def test_the_operands_names_are_paddles(static_mode: None, tmp_path: Path) -> None:
    """Of every operator that this Paddle has, and of its in-place form."""
    from paddle.base import core

    if not paddle.__version__.startswith("3.3"):
        pytest.skip("the table is that of Paddle 3.3")
    names = {form for name in OPERAND_NAMES for form in (name.removesuffix("_"), name, f"{name}_")}
    known = sorted(name for name in names if hasattr(paddle._C_ops, name))
    ops = [{"#": f"1.{name}", "A": [], "I": [], "O": [], "OA": []} for name in known]
    block = {"#": "block_0", "args": [], "ops": ops}
    document = {
        "base_code": {"magic": "pir", "trainable": True, "version": 4},
        "program": {"regions": [{"#": "region_0", "blocks": [block]}]},
    }
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document))
    program = paddle.static.Program()
    core.deserialize_pir_program(str(path), program)
    found = {
        op.name().partition(".")[2]: tuple(op.get_input_names())
        for op in program.global_block().ops
    }
    assert found == {name: operand_names(name) for name in known}
    assert len(known) > 500


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_versions_differ_in_their_number(version: int) -> None:
    document = json.loads(program_file("paddle_3_3/mlp").read_bytes())
    newest = as_text(pir.read(pir_json.parse(json.dumps(document).encode())))
    document["base_code"]["version"] = version
    found = pir_json.parse(json.dumps(document).encode())
    assert found.version == version
    assert as_text(pir.read(found)) == newest


def changed(change: Any) -> bytes:
    document = json.loads(program_file("paddle_3_3/mlp").read_bytes())
    change(document["program"]["regions"][0]["blocks"][0]["ops"])
    return json.dumps(document).encode()


def test_placement_in_a_file_is_read() -> None:
    annotation = {"N": "ipu_index", "AT": {"#": "0.a_i32", "D": 1}}
    graph = pir.read(pir_json.parse(changed(lambda ops: ops[5]["A"].append(annotation))))
    (node,) = [node for node in graph if "ipu_index" in node.attributes]
    assert node.attributes["ipu_index"].value == 1


def test_a_type_that_is_no_dense_tensor_is_refused() -> None:
    content = changed(lambda ops: ops[5]["O"][0]["TT"].update({"#": "1.t_sparse_coo_tensor"}))
    with pytest.raises(NotSupported, match=r"operator 5 .* type 1\.t_sparse_coo_tensor; programs"):
        pir_json.parse(content)


def test_a_list_no_attribute_can_hold_is_refused() -> None:
    mixed = [{"#": "0.a_str", "D": "x"}, {"#": "0.a_i32", "D": 1}]
    attribute = {"N": "mixed", "AT": {"#": "0.a_array", "D": mixed}}
    content = changed(lambda ops: ops[5]["A"].append(attribute))
    with pytest.raises(NotSupported, match="attribute 'mixed' is the list .* cannot hold"):
        pir_json.parse(content)


def nested(depth: int) -> bytes:
    """A program of conditions, each in the one before it."""
    block = '{"#": "b", "args": [], "ops": [%s]}'
    condition = '{"#": "1.if", "A": [], "I": [], "O": [], "regions": [{"#": "r", "blocks": [%s]}]}'
    text = block % ""
    for _ in range(depth):
        text = block % (condition % text)
    base = '{"magic": "pir", "version": 4}'
    program = f'{{"regions": [{{"#": "r", "blocks": [{text}]}}]}}'
    return f'{{"base_code": {base}, "program": {program}}}'.encode()


@pytest.mark.parametrize("depth", [MOST_NESTED + 1, 160, 5000])
def test_blocks_in_blocks_are_bounded(depth: int) -> None:
    """What reads a program goes down by recursion; a RecursionError would be no ModelFileError."""
    assert len(pir_json.parse(nested(100)).global_block().ops) == 1
    told = "is nested in more than 128 blocks|no valid JSON .maximum recursion depth exceeded"
    with pytest.raises(ModelFileError, match=told):
        pir_json.parse(nested(depth))
