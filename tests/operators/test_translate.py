"""Translation as a whole: unsupported operators, constants, placement, the marks it leaves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import paddle
import pytest

from paddle_ipu import popart
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError, NotSupported, UnsupportedOpError
from paddle_ipu.frontend import programs
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import find_translator, translator
from paddle_ipu.ops.translate import Translation, check_supported, translate
from paddle_ipu.ops.untranslated import REASONS, operators_by_reason, reason_of
from tests.tables import remove_translators


def _translated(program: Any, *outputs: str, place: bool = False) -> Translation:
    graph = programs.read(program)
    for node in graph:
        if node.op_type in outputs:
            graph.outputs.append(node.outputs[0])
    return translate(graph, popart, _no_parameter, place=place)


def _no_parameter(name: str) -> np.ndarray:
    raise AssertionError(f"the program has no parameter {name}")


def _types(translation: Translation) -> list[str]:
    return [node.op_type for node in translation.builder.model.graph]


def test_every_operator_without_a_translator_is_listed_once(
    static_program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_translators(monkeypatch, "lgamma", "erfinv")
    x = paddle.static.data("x", [2, 3], "float32")
    paddle.lgamma(x)
    paddle.lgamma(x)
    paddle.erfinv(paddle.tanh(x))
    with pytest.raises(UnsupportedOpError) as caught:
        check_supported(programs.read(static_program))
    message = str(caught.value)
    assert message.startswith("2 operator(s) of the program have no translator:")
    assert f"erfinv (1x), first at {__file__}:" in message
    assert f"lgamma (2x), first at {__file__}:" in message
    assert "docs/operators.md lists what there is" in message
    assert "tanh" not in message


def test_an_operator_without_a_translator_says_why(static_program: Any) -> None:
    x = paddle.static.data("x", [4, 4], "float32")
    paddle.vision.ops.nms(x, 0.5)
    with pytest.raises(UnsupportedOpError, match=r"nms \(1x\), first at .*\n +How many boxes it"):
        check_supported(programs.read(static_program))


def test_no_operator_with_a_reason_has_a_translator() -> None:
    assert [name for name in REASONS if find_translator(name) is not None] == []
    assert [reason for reason in operators_by_reason() if not reason.endswith(".")] == []
    assert sum(len(names) for names in operators_by_reason().values()) == len(REASONS)
    assert reason_of("all_reduce_") == REASONS["all_reduce"] != ""
    assert reason_of("relu") == ""


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("shape", [-2], r"ValueError: negative dimensions"),
        ("value", "x", r"ValueError: could not convert"),
        ("dtype", 1.5, r"TypeError: data type"),
    ],
)
def test_an_attribute_of_another_kind_is_told_as_damage(
    static_program: Any, name: str, value: Any, told: str
) -> None:
    paddle.full([2], 0.5)
    graph = programs.read(static_program)
    (node,) = (node for node in graph if node.op_type == "full")
    node.attributes[name] = dialect.make_attribute(name, value)
    with pytest.raises(InvalidProgramError, match=rf"operator full at .* contradicts .*\({told}"):
        translate(graph, popart, _no_parameter)


def test_a_constant_that_no_ipu_holds_is_refused_before_it_is_made(static_program: Any) -> None:
    paddle.full([2**40, 3], 0.5)
    message = (
        r"operator full at .*_translate.py:\d+ makes a constant of the shape \[1099511627776, 3"
    )
    with pytest.raises(InvalidProgramError, match=message):
        _translated(static_program, "full")


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda _: paddle.arange(2**40), "[1099511627776]"),
        (lambda _: paddle.arange(0.0, 2.0**40, 0.5), "[2199023255552]"),
        (lambda _: paddle.linspace(0, 1, 2**30), "[1073741824]"),
        (lambda _: paddle.logspace(0, 1, 2**30), "[1073741824]"),
        (lambda _: paddle.eye(2**20), "[1048576, 1048576]"),
        (lambda _: paddle.tril_indices(2**20, 2**20, 0), "[1048576, 1048576]"),
        (lambda _: paddle.triu_indices(2**20, 2**20, 0), "[1048576, 1048576]"),
        (lambda x: paddle.nn.functional.interpolate(x, [2**30, 2]), "[1073741824]"),
        (lambda x: paddle.nn.functional.adaptive_avg_pool2d(x, [2**20, 2**20]), "[1048576, 10"),
        (lambda x: paddle.nn.functional.unfold(x, 1, 1, 2**20), "[1, 2097154, 1, 2097154]"),
    ],
)  # fmt: skip
def test_constants_whose_size_is_in_the_program_are_refused_before_they_are_made(
    static_program: Any, make: Callable[[Any], Any], shape: str
) -> None:
    make(paddle.static.data("x", [1, 1, 2, 2], "float32"))
    *_, last = (str(node.op_type) for node in programs.read(static_program))
    with pytest.raises(
        InvalidProgramError, match=f"makes a constant of the shape {re.escape(shape)}"
    ):
        _translated(static_program, last)


def test_feeds_and_results_are_found_by_name(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "int64")
    paddle.cast(x, "float32")
    translation = _translated(static_program, "cast")
    assert translation.builder.getTensorDtypeString(translation.feeds["x"]) == "int32"
    (tensor,) = translation.tensors.values()
    assert translation.builder.getTensorDtypeString(tensor) == "float32"
    assert translation.origins[tensor].op_type == "cast"


def test_shape_arithmetic_leaves_no_operators(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3, 4], "float32")
    sizes = paddle.shape(x)
    paddle.reshape(x, [sizes[0] * sizes[1], (paddle.numel(x) // sizes[0]) // 3])
    translation = _translated(static_program, "reshape")
    assert _types(translation) == ["Constant", "Reshape"]
    (tensor,) = translation.tensors.values()
    assert translation.builder.getTensorShape(tensor) == [6, 4]


def test_a_constant_read_twice_is_emitted_once(static_program: Any) -> None:
    x = paddle.static.data("x", [2], "float32")
    paddle.exp(x * 3.0 + x * 3.0)
    assert _types(_translated(static_program, "exp")).count("Constant") == 1


def test_the_mark_of_an_extension_names_who_needs_it(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    n = paddle.static.data("n", [4, 2], "int64")
    paddle.gather_nd(x, n)
    translation = _translated(static_program, "gather_nd")
    assert not translation.portable
    assert translation.extensions["GatherNd"].op_type == "gather_nd"


def test_an_extension_takes_the_attributes_of_its_row() -> None:
    context = TranslationContext(popart.Builder(), popart)
    with pytest.raises(TypeError, match=r"ai\.paddle_ipu\.Lu has no attribute \['pivots'\]"):
        context.extension("Lu", ["x"], {"pivots": 1})


def test_a_program_without_extensions_is_portable(static_program: Any) -> None:
    paddle.tanh(paddle.static.data("x", [2, 3], "float32"))
    assert _translated(static_program, "tanh").portable


@pytest.mark.parametrize("place", [True, False])
def test_shard_and_stage_are_written_where_asked(static_program: Any, place: bool) -> None:
    x = paddle.static.data("x", [2], "float32")
    with paddle.static.ipu_shard_guard(index=1, stage=2):
        paddle.tanh(x)
    translation = _translated(static_program, "tanh", place=place)
    (node,) = translation.builder.model.graph
    written = {name: a.value for name, a in node.attributes.items() if name.startswith("__")}
    assert written == ({"__ipu_number": 1, "__pipeline_stage": 2} if place else {})


def test_an_in_place_operator_has_the_translator_of_the_plain_one() -> None:
    assert find_translator("relu_") is find_translator("relu")
    assert find_translator("nothing_") is None


def test_a_second_translator_of_one_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="relu already has a translator"):
        translator("relu", emits=("Relu",))(lambda context: "")


def test_an_operand_that_must_be_one_tensor_is_checked() -> None:
    node = ir.Node(dialect.DOMAIN, "tanh", [None])
    node.meta[dialect.INPUT_NAMES] = ("x",)
    graph = ir.Graph([], [], nodes=[node])
    with pytest.raises(NotSupported, match="tanh: operand 'x' must be one tensor, got 0"):
        translate(graph, popart, _no_parameter)
