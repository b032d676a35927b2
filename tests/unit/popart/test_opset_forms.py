"""The forms of operators that ai.onnx's operator sets 6 to 10 have: built, imported and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.opsets import ONNX_NAMESPACES, operator_methods
from paddle_ipu.popart.schema import schema_of, schemas_of_opset
from tests.unit.sessions.session_programs import infer, run

X = np.array([[[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]]], np.float32)
Y = np.array([2.0, 3.0], np.float32)


@pytest.mark.parametrize("opset", range(6, 12))
def test_each_form_is_the_one_that_onnx_gives_the_opset(opset: int) -> None:
    for schema in schemas_of_opset("ai.onnx", opset):
        known = onnx.defs.get_schema(schema.op_type, opset, "")
        assert schema.version == known.since_version, schema.identifier


@pytest.mark.parametrize(
    ("opset", "method", "there"),
    [
        (6, "sin", False),
        (7, "sin", True),
        (8, "where", False),
        (9, "where", True),
        (9, "mod", False),
        (10, "mod", True),
        (10, "round", False),
        (11, "round", True),
    ],
)
def test_a_namespace_has_the_operators_of_its_opset(opset: int, method: str, there: bool) -> None:
    assert (method in operator_methods(ONNX_NAMESPACES[opset])) is there
    namespace = getattr(Builder(), f"aiOnnxOpset{opset}")
    if not there:
        with pytest.raises(AttributeError, match=f"ai.onnx opset {opset} has no operator method"):
            getattr(namespace, method)


def _apply(ops: Any, x: str, y: str, form: str) -> str | list[str]:
    forms = {
        "add": lambda: ops.add([x, y], axis=1, broadcast=1),
        "sub": lambda: ops.sub([x, y], 1, 1),
        "mul": lambda: ops.mul([x, y], axis=-2, broadcast=1),
        "div": lambda: ops.div([x, y], axis=1, broadcast=1),
        "pow": lambda: ops.pow([x, y], axis=1, broadcast=1),
        "greater": lambda: ops.greater([x, y], axis=1, broadcast=1),
        "max": lambda: ops.max([x, x]),
        "clip": lambda: ops.clip([x], max=2.0, min=-1.0),
        "clip below": lambda: ops.clip([x], min=0.0),
        "slice": lambda: ops.slice([x], [3, 2], [1, 0], [2, 1]),
        "pad": lambda: ops.pad([x], [0, 1, 0, 0, 0, 2], value=7.0),
        "pad edge": lambda: ops.pad([x], [0, 0, 1, 0, 0, 1], "edge"),
        "topk": lambda: ops.topk([x], 2),
        "dropout": lambda: ops.dropout([x], 1, 0, 0.25)[0],
        "softmax": lambda: ops.softmax([x], 1),
        "flatten": lambda: ops.flatten([x], 2),
    }
    result: str | list[str] = forms[form]()
    return result


_SOFTMAX = np.exp(X) / np.exp(X).sum((1, 2), keepdims=True)
OPSET_6: dict[str, Any] = {
    "add": X + Y[:, None],
    "sub": X - Y[:, None],
    "mul": X * Y[:, None],
    "div": X / Y[:, None],
    "pow": X ** Y[:, None],
    "greater": Y[:, None] < X,
    "max": X,
    "clip": X.clip(-1, 2),
    "clip below": X.clip(0),
    "slice": X[:, 0:2, 1:3],
    "pad": np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=7.0),
    "pad edge": np.pad(X, [(0, 0), (0, 0), (1, 1)], "edge"),
    "topk": (np.sort(X)[..., :0:-1], np.argsort(X)[..., :0:-1]),
    "dropout": X,
    "softmax": _SOFTMAX,
    "flatten": X.reshape(2, 3),
}


@pytest.mark.parametrize("form", OPSET_6)
def test_forms_of_opset_6(form: str, tmp_path: Path) -> None:
    """From the builder's model, and from a file."""
    make = Builder(opsets={"ai.onnx": 6})
    x, y = make.addInputTensor("FLOAT", [1, 2, 3], "x"), make.addInputTensor("FLOAT", [2], "y")
    made = _apply(make.aiOnnx, x, y, form)
    names = [made] if isinstance(made, str) else made
    expected = OPSET_6[form] if isinstance(OPSET_6[form], tuple) else (OPSET_6[form],)
    file = tmp_path / "model.onnx"
    for name in names:
        make.addOutputTensor(name)
    make.saveModelProto(file)
    onnx.checker.check_model(str(file), full_check=True)
    for model in (make.model, str(file)):
        got = run(infer(model, dict.fromkeys(names, "All")), {"x": X, "y": Y})
        for name, array in zip(names, expected, strict=True):
            assert got[name].shape == array.shape
            np.testing.assert_allclose(got[name], array, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ops: ops.add(["x", "y"]), "takes inputs of one shape unless 'broadcast' is 1"),
        (lambda ops: ops.add(["x", "y"], 2, 1), r"cannot lay \[2\] into \[1, 2, 3\] at axis 2"),
        (lambda ops: ops.add(["y", "x"], broadcast=1), r"cannot lay \[1, 2, 3\] into \[2\]"),
        (
            lambda ops: ops.max(["x", "y"]),
            "do not all the same type & shape, with opid.version = 6",
        ),
        (lambda ops: ops.topk(["x"], 4), r"k is \[4\], expected one value in 0..3"),
    ],
)
def test_what_opset_6_does_not_take(call: Any, message: str) -> None:
    make = Builder(opsets={"ai.onnx": 6})
    make.addInputTensor("FLOAT", [1, 2, 3], "x")
    make.addInputTensor("FLOAT", [2], "y")
    with pytest.raises(popart_exception, match=message):
        call(make.aiOnnx)


@pytest.mark.parametrize(
    ("opset", "identifier"),
    [
        (6, "ai.onnx.TopK:1"),
        (9, "ai.onnx.TopK:1"),
        (10, "ai.onnx.TopK:10"),
        (11, "ai.onnx.TopK:11"),
        (None, "ai.onnx.TopK:11"),
    ],
)
def test_an_opset_decides_which_form_is_meant(opset: int | None, identifier: str) -> None:
    schema = schema_of("", "TopK", opset)
    assert schema is not None
    assert schema.identifier == identifier


def test_an_error_names_the_form() -> None:
    make = Builder(opsets={"ai.onnx": 7})
    x = make.addInputTensor("FLOAT", [2, 3])
    y = make.addInputTensor("FLOAT", [2, 4])
    with pytest.raises(popart_exception, match=r"on 'Op\(ai.onnx.Equal:7"):
        a, b = (make.aiOnnx.cast([name], "INT32") for name in (x, y))
        make.aiOnnx.equal([a, b])


@pytest.mark.parametrize(
    ("opset", "build", "name"),
    [
        (11, lambda ops, x: ops.hardmax([x]), "ai.onnx.Hardmax:11"),
        (10, lambda ops, x: ops.hardmax([x]), "ai.onnx.Hardmax:1"),
        (11, lambda ops, x: ops.nonzero([x]), "ai.onnx.NonZero:9"),
        (11, lambda ops, x: ops.logical_xor([ops.cast([x], "BOOL")] * 2), "ai.onnx.Xor:7"),
        (9, lambda ops, x: ops.size([x]), "ai.onnx.Size:1"),
        (11, lambda ops, x: ops.unique([x], 1)[0], "ai.onnx.Unique:11"),
        (6, lambda ops, x: ops.less([x, x]), "ai.onnx.Less:1"),
    ],
)
def test_a_session_refuses_what_popart_does_not_implement(
    opset: int, build: Any, name: str
) -> None:
    make = Builder(opsets={"ai.onnx": opset})
    x = make.addInputTensor("FLOAT", [2, 3], "x")
    y = build(make.aiOnnx, x)
    for model in (make.model, make.getModelProto()):
        with pytest.raises(popart_exception, match=f"No class for {name}$"):
            infer(model, {y: "All"})


def test_onnx_types_what_popart_does_not_implement() -> None:
    make = Builder(opsets={"ai.onnx": 11})
    x = make.addInputTensor("FLOAT", [2, 3, 3])
    assert make.getTensorShape(make.aiOnnx.det([x])) == [2]
    assert make.getTensorDtypeString(make.aiOnnx.size([x])) == "int64"
    with pytest.raises(popart_exception, match="NonZero:0 is not an known tensor"):
        make.getTensorShape(make.aiOnnx.nonzero([x]))
    vector = make.addInputTensor("FLOAT", [3])
    with pytest.raises(popart_exception, match=r"Op\(ai.onnx.Det:11, inputs=\[input/1\]"):
        make.aiOnnx.det([vector])


def test_a_session_refuses_strings() -> None:
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.STRING)
    kinds = {"x": onnx.TensorProto.FLOAT, "y": onnx.TensorProto.STRING}
    infos = [onnx.helper.make_tensor_value_info(name, kind, [2]) for name, kind in kinds.items()]
    graph = onnx.helper.make_graph([node], "strings", infos[:1], infos[1:])
    opsets = [onnx.helper.make_opsetid("", 11)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=4)
    with pytest.raises(popart_exception, match="The data type STRING is not supported in Poplar"):
        infer(model.SerializeToString(), {"y": "All"})


@pytest.mark.parametrize("name", ["Gradient___x", "mine/Accum___x"])
def test_a_session_refuses_names_that_popart_keeps_for_its_own(name: str) -> None:
    make = Builder()
    x = make.addInputTensor("FLOAT", [2], name)
    y = make.aiOnnxOpset11.neg([x])
    prefix = name.removeprefix("mine/").removesuffix("x")
    message = f"Provided tensor {name} has an invalid name: clash with reserved prefix {prefix}$"
    with pytest.raises(popart_exception, match=message):
        infer(make.model, {y: "All"})


def test_an_invalid_model_is_refused() -> None:
    make = Builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    make.addOutputTensor(make.aiOnnxOpset11.neg([x]))
    proto = onnx.load_model_from_string(make.getModelProto())
    proto.graph.node[0].input[0] = "nowhere"
    with pytest.raises(popart_exception, match=r"Invalid ONNX Model : .*nowhere"):
        Builder(proto.SerializeToString())


@pytest.mark.parametrize(("opset", "spatial"), [(6, 0), (7, 0), (7, 1), (9, 1)])
def test_batch_normalisation_by_channel_or_by_element(opset: int, spatial: int) -> None:
    make = Builder(opsets={"ai.onnx": opset})
    random = np.random.default_rng(opset)
    data = random.standard_normal((2, 3, 4)).astype(np.float32)
    shape = (3,) if spatial else (3, 4)
    parameters = [random.uniform(0.5, 2, shape).astype(np.float32) for _ in range(4)]
    x = make.addInputTensor("FLOAT", [2, 3, 4], "x")
    names = [make.addInitializedInputTensor(array) for array in parameters]
    arguments = {} if opset == 9 else {"spatial": spatial}
    y = make.aiOnnx.batchnormalization([x, *names], 1, epsilon=1e-3, **arguments)[0]
    scale, bias, mean, variance = (a[:, None] if spatial else a for a in parameters)
    wanted = (data - mean) / np.sqrt(variance + 1e-3) * scale + bias
    got = run(infer(make.model, {y: "All"}), {"x": data})[y]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_parameters_of_each_element_have_its_shape() -> None:
    make = Builder(opsets={"ai.onnx": 7})
    x = make.addInputTensor("FLOAT", [2, 3, 4], "x")
    parameters = [make.addInitializedInputTensor(np.ones(3, np.float32)) for _ in range(4)]
    message = r"tensor scale \(\[3\]\) to be \[3 4\] to match all but dimension 0 of X \(\[2 3 4\]"
    with pytest.raises(popart_exception, match=message):
        make.aiOnnx.batchnormalization([x, *parameters], 1, spatial=0)
