"""ONNX models and integers that a session cannot take: errors of PopART's kind, never numbers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from paddle_ipu import popart
from paddle_ipu.errors import LoweringError, popart_exception, popart_runtime_error
from paddle_ipu.xla.step.executable import Executable
from tests.differential.files import onnx_seeds
from tests.unit.sessions.session_programs import builder

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WIDE = 2**40
ENDLESS = 2**63 - 1


def model(
    nodes: Sequence[onnx.NodeProto],
    output: tuple[str, int] = ("y", TensorProto.FLOAT),
    initializers: Mapping[str, Any] | None = None,
    dims: Sequence[int] = (2, 3),
    input_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model of one input ``x`` and one output, whose shape is left open."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", input_type, dims)],
        [helper.make_tensor_value_info(*output, ["a", "b"][: len(dims)])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def constant(name: str, value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))


def infer(proto: onnx.ModelProto | bytes | str, x: Any = X, output: str = "y") -> Any:
    given = proto.SerializeToString() if isinstance(proto, onnx.ModelProto) else proto
    session = popart.InferenceSession(
        given,
        popart.DataFlow(1, {output: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    return anchors[output]


# Files


def external_data_of(folder: Path, length: int = 2) -> str:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], initializers={"w": X})
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="w", size_threshold=0)
    (folder / "w").write_bytes(b"1" * length)
    return str(folder / "m.onnx")


def without_length(folder: Path) -> str:
    path = external_data_of(folder, 40)
    proto = onnx.load(path, load_external_data=False)
    known = proto.graph.initializer[0].external_data
    known.remove(next(entry for entry in known if entry.key == "length"))
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (external_data_of, "(exceeds available data|2 bytes, expected 24)"),
        (without_length, r"'w' has 40 bytes, expected 24 for FLOAT\[2, 3\]"),
    ],
)  # fmt: skip
def test_what_is_no_model(damaged: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(popart_exception, match=f"^Invalid ONNX Model : .*{message}"):
        infer(damaged(tmp_path))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"no model\n" + bytes(92), r"no model.n" + r".x00" * 91 + r"\.\.\."),
        (model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()[:30], ".*Relu.*"),
        ("no/such/file.onnx", "no/such/file.onnx"),
    ],
    ids=["text", "cut", "no file"],
)
def test_what_is_neither_a_model_nor_a_file(content: bytes | str, shown: str) -> None:
    told = (
        rf"^Failed to load a ModelProto from the string '{shown}'.\nCheck that it is either a "
        "valid path to an existing onnx model file, or is a valid onnx ModelProto string.\n"
        "(Error parsing message|.*No such file or directory)"
    )
    with pytest.raises(popart_exception, match=told):
        infer(content)
    with pytest.raises(popart_exception, match="^Failed to load a ModelProto from the string"):
        popart.Builder(content)


def test_a_negative_dimension() -> None:
    with pytest.raises(popart_exception, match=r"it has shape \[-2, 3\], which uses an unknown"):
        infer(model([helper.make_node("Relu", ["x"], ["y"])], dims=(-2, 3)))


def test_an_element_type_that_onnx_does_not_have() -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], initializers={"w": X})
    proto.graph.initializer[0].data_type = 64
    with pytest.raises(popart_exception, match=r"^Invalid ONNX Model : "):
        infer(proto)


def test_a_tensor_with_more_numbers_than_its_shape_says() -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], initializers={"w": X})
    proto.graph.initializer[0].raw_data = b"1" * 25
    with pytest.raises(popart_exception, match=r"'w' has 25 bytes, expected 24 for FLOAT\[2, 3\]"):
        infer(proto)


def test_an_operand_of_another_rank() -> None:
    nodes = [constant("s", [[0]]), helper.make_node("Slice", ["x", "s", "s"], ["y"])]
    with pytest.raises(popart_exception, match=r"ai\.onnx\.Slice.* contradict each other"):
        infer(model(nodes))


VAST = 2**40


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([constant("s", [VAST, 2, 3]), helper.make_node("Expand", ["x", "s"], ["y"])],
         [VAST, 2, 3]),
        ([constant("s", [2**62, 2**62, 2, 3]), helper.make_node("Expand", ["x", "s"], ["y"])],
         [2**62, 2**62, 2, 3]),
        ([constant("d", VAST), constant("v", np.array([0, 1], np.float32)),
          helper.make_node("OneHot", ["x", "d", "v"], ["y"])], [2, 3, VAST]),
        ([helper.make_node("RandomNormal", [], ["y"], shape=[VAST])], [VAST]),
    ],
    ids=["terabytes", "overflow", "depth", "random"],
)  # fmt: skip
def test_a_tensor_that_no_machine_holds(nodes: Sequence[onnx.NodeProto], shape: list[int]) -> None:
    told = rf"^Tensor 'y' is FLOAT {re.escape(str(shape))}, which has \d+ elements; .* 2\^40 bytes"
    with pytest.raises(popart_exception, match=told):
        infer(model(nodes))


@pytest.mark.parametrize(
    ("node", "shape"),
    [(helper.make_node("RandomNormal", [], ["y"], shape=[-5, 2]), "[-5 2]"),
     (helper.make_node("ConstantOfShape", ["s"], ["y"]), "[-5 2]")],
    ids=["random", "constant"],
)  # fmt: skip
def test_a_result_of_a_negative_size(node: onnx.NodeProto, shape: str) -> None:
    told = (
        rf"^Output 'y' of node 'ai.onnx.{node.op_type}:\d+' has invalid shape, {re.escape(shape)}. "
        "Values must be non-negative in each shape dimension.$"
    )
    with pytest.raises(popart_exception, match=told):
        infer(model([constant("s", [-5, 2]), node]))


@pytest.mark.parametrize("is_inside", [False, True])
def test_strings_that_an_operator_makes(is_inside: bool) -> None:
    cast = helper.make_node("Cast", ["x"], ["text"], to=TensorProto.STRING)
    back = helper.make_node("Cast", ["text"], ["y"], to=TensorProto.FLOAT)
    nodes = [cast, back]
    if is_inside:
        output = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
        block = helper.make_graph(nodes, "block", [], output)
        chosen = helper.make_node("If", ["yes"], ["y"], then_branch=block, else_branch=block)
        nodes = [constant("yes", True), chosen]
    with pytest.raises(popart_exception, match="The data type STRING is not supported in Poplar"):
        infer(model(nodes))


@pytest.fixture
def small_constants() -> Iterator[None]:
    """JAX warns of constants of a KB, which is an error in tests."""
    before = jax.config.jax_captured_constants_warn_bytes
    jax.config.update("jax_captured_constants_warn_bytes", 1000)
    yield
    jax.config.update("jax_captured_constants_warn_bytes", before)


@pytest.mark.usefixtures("small_constants")
def test_a_mean_of_windows_has_no_constant_of_its_size() -> None:
    """The numbers of elements in windows were one: 4 GB for a file of 169 bytes."""
    pool = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[40, 40], pads=[39] * 4)
    x = np.ones((1, 1, 2, 3), np.float32)
    mean = infer(model([pool], dims=(1, 1, 2, 3)), x)
    np.testing.assert_array_equal(mean, np.ones((1, 1, 41, 42)))


def test_subgraphs_too_deep_for_what_compiles_them() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    yes = make.addInputTensor("BOOL", [], "yes")
    names = [f"y{number}" for number in range(66)]
    graph = make.model.graph
    outer = {"x": graph.inputs[0], "yes": graph.inputs[1]}
    assert (x, yes) == ("x", "yes")

    def relu(name: str) -> ir.Node:
        return ir.node("Relu", [outer["x"]], outputs=[typed(name)])

    def typed(name: str) -> ir.Value:
        return ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))

    node = relu("innermost")
    for name in names:
        other = relu(f"{name}.other")
        blocks = [ir.Graph([], list(each.outputs), nodes=[each]) for each in (node, other)]
        node = ir.node(
            "If", [outer["yes"]], {"then_branch": blocks[0], "else_branch": blocks[1]},
            outputs=[typed(name)],
        )  # fmt: skip
    graph.append(node)
    graph.outputs.append(node.outputs[0])
    with pytest.raises(popart_exception, match="in subgraphs, 66 deep, and at most 64 can be comp"):
        infer(make.model, output=names[-1])


def test_a_step_that_this_machine_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")

    monkeypatch.setattr(Executable, "_run", full)
    with pytest.raises(
        popart_runtime_error, match="not the memory for a step: .* 8 bytes. Run few"
    ):
        infer(model([helper.make_node("Relu", ["x"], ["y"])]))


def test_anchors_that_this_machine_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [constant("s", [2**31, 2, 3]), helper.make_node("Expand", ["x", "s"], ["y"])]
    session = popart.InferenceSession(
        model(nodes).SerializeToString(),
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )

    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 48.0 GiB")

    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(popart_runtime_error, match="anchor y: Unable to allocate .* less often"):
        session.initAnchorArrays()


def test_more_blocks_than_compile_in_seconds() -> None:
    """A file of 258 KB, which would compile for minutes."""
    with pytest.raises(popart_exception, match="4094 subgraphs .*, and at most 1024 can be compil"):
        infer(onnx_seeds.nested(11, both=True))


def test_all_operators_that_popart_only_writes_are_listed() -> None:
    nodes = [
        helper.make_node("Hardmax", ["x"], ["h"]),
        helper.make_node("LpNormalization", ["h"], ["y"]),
    ]
    listed = "^No class for ai.onnx.Hardmax:11, ai.onnx.LpNormalization:1$"
    with pytest.raises(popart_exception, match=listed):
        infer(model(nodes))


def test_all_operators_that_nobody_knows_are_listed() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    first = make.customOp("Foo", 1, "mine", [make.aiOnnx.abs([x])], {})[0]
    second = make.customOp("Bar", 1, "mine", [x], {})[0]
    # Custom operators have no types, which ONNX would ask of an output.
    make.addOutputTensor(first)
    make.addOutputTensor(second)
    with pytest.raises(popart_exception, match=r"^No class for mine\.Bar:1, mine\.Foo:1\. PopART"):
        infer(make.getModelProto(), output=first)


def test_onnxs_own_complaint_about_types_names_the_operator() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    complaint = r"^Op\(ai.onnx.BitShift:11, inputs=\[x, x\], .* has unsupported type"
    with pytest.raises(popart_exception, match=complaint):
        make.aiOnnx.bitshift([x, x], "LEFT")


def test_an_operator_without_a_name_is_called_by_its_type() -> None:
    make = builder()
    x, least = make.addInputTensor("FLOAT", [2, 3], "x"), make.addInputTensor("FLOAT", [], "least")
    y = make.aiOnnxOpset11.clip([x, least])
    with pytest.raises(LoweringError, match=r"^ai\.onnx\.Clip: input 1, min, must be a constant"):
        infer(make.getModelProto(), output=y)


def test_an_abort_without_a_condition_passes_through_a_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 3], "x")
    y = make.aiOnnx.abs([x])
    make.aiGraphcore.abort([])
    with (
        caplog.at_level(logging.INFO, "jax"),
        pytest.raises(popart_runtime_error, match="^Abort Program$"),
    ):
        infer(make.getModelProto(), output=y)
    # JAX's own account of it is left out.
    assert not [record for record in caplog.records if record.name.startswith("jax")]


# Integers beyond 32 bits


@pytest.mark.parametrize(
    ("nodes", "initializers"),
    [
        ([constant("w", [WIDE]), helper.make_node("Add", ["x", "w"], ["y"])], {}),
        ([constant("w", [-WIDE]), helper.make_node("Where", ["p", "x", "w"], ["y"])],
         {"p": [True]}),
        ([constant("w", [WIDE]), helper.make_node("Cast", ["w"], ["n"], to=TensorProto.INT32),
          helper.make_node("Cast", ["n"], ["m"], to=TensorProto.INT64),
          helper.make_node("Add", ["x", "m"], ["y"])], {}),
        ([helper.make_node("Add", ["x", "w"], ["y"])], {"w": [1, WIDE]}),
    ],
)  # fmt: skip
def test_a_constant_that_does_not_fit(
    nodes: Sequence[onnx.NodeProto], initializers: Mapping[str, Any]
) -> None:
    proto = model(nodes, ("y", TensorProto.INT64), initializers, (2,), TensorProto.INT64)
    with pytest.raises(
        popart_exception, match=r"Tensor w holds .*10995\d+, which the device's INT32 cannot hold"
    ):
        infer(proto, np.zeros(2, np.int64))


def test_a_weight_that_does_not_fit() -> None:
    make = builder()
    x = make.addInputTensor("INT64", [2], "x")
    w = make.addInitializedInputTensor(np.zeros(2, np.int64), "w")
    y = make.aiOnnx.add([x, w])
    settings = popart.SessionOptions()
    settings.constantWeights = False
    session = popart.InferenceSession(
        make.model,
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=settings,
    )
    session.prepareDevice()
    session.writeWeights(popart.PyWeightsIO({w: np.array([3, WIDE])}))
    with pytest.raises(popart_exception, match=r"Tensor w holds 3\.\.1099511627776, which"):
        session.weightsFromHost()


def test_constants_that_are_folded_may_be_wide() -> None:
    nodes = [
        constant("a", [WIDE]),
        constant("b", [WIDE // 4]),
        helper.make_node("Div", ["a", "b"], ["c"]),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    np.testing.assert_array_equal(infer(model(nodes)), 4 * X)


@pytest.mark.parametrize(
    ("nodes", "initializers"),
    [
        ([constant("end", [ENDLESS])], {}),
        ([constant("e", ENDLESS), helper.make_node("Unsqueeze", ["e"], ["f"], axes=[0]),
          helper.make_node("Cast", ["f"], ["end"], to=TensorProto.INT64)], {}),
        ([], {"end": [ENDLESS]}),
        ([helper.make_node("Unsqueeze", ["e"], ["end"], axes=[0])], {"e": ENDLESS}),
    ],
)  # fmt: skip
def test_a_slice_may_end_at_the_largest_number(
    nodes: Sequence[onnx.NodeProto], initializers: Mapping[str, Any]
) -> None:
    slicing = helper.make_node("Slice", ["x", "start", "end"], ["y"])
    proto = model([constant("start", [1]), *nodes, slicing], initializers=initializers)
    np.testing.assert_array_equal(infer(proto), X[1:])


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_loop_may_say_endless(is_constant: bool) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["c", "x"], ["next"]),
            helper.make_node("ReduceSum", ["next"], ["s"], keepdims=0),
            helper.make_node("Less", ["s", "limit"], ["going"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("k", TensorProto.BOOL, []),
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 3]),
        ],
    )
    nodes = [
        constant("limit", np.float32(50)),
        constant("yes", True),
        *([constant("most", ENDLESS)] if is_constant else []),
        helper.make_node("Loop", ["most", "yes", "x"], ["y"], body=body),
    ]
    initializers = {} if is_constant else {"most": ENDLESS}
    # The sum of x is 15: below 50 it grows to 30, 45 and 60.
    np.testing.assert_array_equal(infer(model(nodes, initializers=initializers)), 4 * X)
