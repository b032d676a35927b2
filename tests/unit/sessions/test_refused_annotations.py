"""Annotations of operators that PopART's sessions refuse when they are made."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, device, flow, infer, options

Annotate = Callable[[popart.Builder, str], None]


def _product(make: popart.Builder, left: list[int], right: list[int]) -> str:
    x = make.addInputTensor("FLOAT", left, "x")
    w = make.addInitializedInputTensor(np.ones(right, np.float32), "w")
    return str(make.aiOnnx.matmul([x, w]))


@pytest.mark.parametrize(
    ("mode", "factor", "told"),
    [
        ("none", 3, None),
        ("input_channels", 2, None),
        ("reducing_dim", 3, None),
        ("output_channels", 5, None),
        (
            "output_channels",
            0,
            "0. Serialisation factor must be a non-zero positive integer. It is",
        ),
        (
            "input_channels",
            3,
            "3 for input channels dim 4. input_channels dim should be a multiple",
        ),
        ("reducing_dim", 4, "4 for reducing dimension 6. reducing_dim dim should be a multiple of"),
        ("output_channels", 2, "2 for output channels dim 5. output_channels dim should be a mult"),
    ],
)
def test_how_a_product_may_be_serialised(mode: str, factor: int, told: str | None) -> None:
    make = builder()
    y = _product(make, [2, 4, 6], [6, 5])
    make.setSerializeMatMul({y}, mode, factor)
    if told is None:
        infer(make.getModelProto(), {y: "All"})
        return
    with pytest.raises(popart_exception, match=f"^Invalid serialisation factor {told}"):
        infer(make.getModelProto(), {y: "All"})


def test_a_vector_is_a_matrix_of_one_column() -> None:
    make = builder()
    y = _product(make, [4, 6], [6])
    make.setSerializeMatMul({y}, "output_channels", 2)
    with pytest.raises(popart_exception, match=r"^Invalid .* 2 for output channels dim 1\."):
        infer(make.getModelProto(), {y: "All"})


def test_a_serialised_product_has_operands_of_three_axes_at_most() -> None:
    make = builder()
    y = _product(make, [2, 3, 4, 6], [6, 5])
    z = make.aiOnnx.neg([make.addInputTensor("FLOAT", [2], "z")])
    make.setSerializeMatMul({y}, "reducing_dim", 2)
    # What no anchor needs is pruned before products are cut.
    infer(make.getModelProto(), {z: "All"})
    told = (
        "\nFor matrix multiplication:\nOp(ai.onnx.MatMul:9, inputs=[x, w], outputs=[MatMul:0]) \n"
        "LHS tensor x, shape [2 3 4 6] rank 4 \nRHS tensor w, shape [6 5] rank 2 \n"
        "serialization setting ReducingDim\nFactor = 2 \nLHS Input: x must have rank 2 or 3 for "
        "matmul serialization. \nPlease squeeze or reshape for serialization."
    )
    with pytest.raises(popart_exception, match=f"^{re.escape(told)}$"):
        infer(make.getModelProto(), {y: "All"})
    whole = builder()
    y = _product(whole, [2, 3, 4, 6], [6, 5])
    whole.setSerializeMatMul({y}, "reducing_dim", 1)
    infer(whole.getModelProto(), {y: "All"})


def _attributes(**values: Any) -> Annotate:
    def annotate(make: popart.Builder, y: str) -> None:
        for name, value in values.items():
            make.addNodeAttribute(name, value, {y})

    return annotate


@pytest.mark.parametrize(
    ("annotate", "told"),
    [
        (
            _attributes(__serialize_matmul_mode="rows", __serialize_matmul_factor=1,
                        __serialize_matmul_precision=0),
            "^Unsupport matmul serialisation mode rows. Modes are input_channels, reducing_dim, "
            "output_channels, none. It is of Op",
        ),
        (
            _attributes(__serialize_matmul_mode="reducing_dim"),
            r"^no attribute key __serialize_matmul_factor. Op\(.*setSerializeMatMul sets all",
        ),
        (
            lambda make, y: make.setPartialsType(y, "quarter"),
            "^Unable to get option 'partialsTypeMatMul' from string 'quarter'. Possible values are "
            "'float' and 'half' in any letter case. It is of setPartialsType, for Op",
        ),
        (lambda make, y: make.setPartialsType(y, "Half"), None),
        (
            _attributes(__inplace_op_names=["MatMulInplace"]),
            "^Either BOTH or NEITHER of the fields __inplace_op_names and __inplace_op_priorities "
            "must be set, but only __inplace_op_names is set, on Op",
        ),
        (
            _attributes(__inplace_op_priorities=[1.0]),
            "must be set, but only __inplace_op_priorities is set",
        ),
        (
            _attributes(__inplace_op_names=["A", "B"], __inplace_op_priorities=[1.0]),
            "^For fields __inplace_op_priorities and __inplace_op_names, the number of elements "
            r"must be the same \[ 1 != 2 \]. They are of Op",
        ),
        (lambda make, y: make.setInplacePreferences(y, {"A": 1.0}), None),
    ],
)  # fmt: skip
def test_annotations_of_a_product(annotate: Annotate, told: str | None) -> None:
    make = builder()
    y = _product(make, [2, 4], [4, 6])
    annotate(make, y)
    if told is None:
        infer(make.getModelProto(), {y: "All"})
        return
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {y: "All"})


def test_types_of_partial_sums_matter_to_what_reads_them() -> None:
    """A program without products is not asked for their type, nor a product with its own."""
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 2], "x")
    y = make.aiOnnx.neg([x])
    session_options = options(
        partialsTypeMatMuls="quarter", convolutionOptions={"partialsType": "quarter"}
    )
    infer(make.getModelProto(), {y: "All"}, settings=session_options)
    z = make.aiOnnx.matmul([x, y])
    make.setPartialsType(z, "HALF")
    infer(make.getModelProto(), {z: "All"}, settings=session_options)
    z = make.aiOnnx.matmul([x, z])
    told = "'partialsTypeMatMul' from string 'quarter'.*It is of SessionOptions.partialsTypeMatMuls"
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {z: "All"}, settings=session_options)


def _convolution(make: popart.Builder) -> str:
    x = make.addInputTensor("FLOAT", [1, 2, 4, 4], "x")
    w = make.addInitializedInputTensor(np.ones([2, 2, 3, 3], np.float32), "w")
    return str(make.aiOnnx.conv([x, w], [1, 1], 1, [3, 3], [1, 1, 1, 1], [1, 1]))


@pytest.mark.parametrize(
    ("given", "annotate", "error", "told"),
    [
        ({"partialsType": "HALF", "availableMemoryProportion": "0.5"}, None, None, ""),
        ({"partialsType": "Quarter"}, None, popart_exception, "^Bad partialsType 'quarter', of "),
        (
            {},
            lambda make, y: make.setPartialsType(y, "quarter"),
            popart_exception,
            r"^Bad partialsType 'quarter', of setPartialsType or convolutionOptions for Op\(",
        ),
        ({"partialsType": "quarter"}, lambda make, y: make.setPartialsType(y, "half"), None, ""),
        (
            {"availableMemoryProportion": "0"},
            None,
            popart_exception,
            r"^availableMemoryProportion must be in \(0,1\]. Got 0, of setAvailableMemoryProportion"
            r" or convolutionOptions for Op\(",
        ),
        (
            {"availableMemoryProportion": "half"},
            None,
            ValueError,
            r"^stof: convolutionOptions\['availableMemoryProportion'\] is 'half'; expected a numb",
        ),
        (
            {},
            _attributes(__available_memory=1.5),
            popart_exception,
            r"^availableMemoryProportion must be in \(0,1\]. Got 1.5",
        ),
    ],
)
def test_settings_of_a_convolution(
    given: dict[str, str],
    annotate: Annotate | None,
    error: type[Exception] | None,
    told: str,
) -> None:
    make = builder()
    y = _convolution(make)
    if annotate is not None:
        annotate(make, y)
    session_options = options(convolutionOptions=given)
    if error is None:
        infer(make.getModelProto(), {y: "All"}, settings=session_options)
        return
    with pytest.raises(error, match=told):
        infer(make.getModelProto(), {y: "All"}, settings=session_options)


def test_settings_of_several_convolutions() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 2, 4, 4], "x")
    w = make.addInitializedInputTensor(np.ones([2, 2, 3, 3], np.float32), "w")
    found = make.aiGraphcore.multiconv([[x, w], [x, w]], partialsTypes=["half", "quarter"])
    with pytest.raises(popart_exception, match="^Bad partialsType 'quarter'"):
        infer(make.getModelProto(), dict.fromkeys(found, "All"))


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ([1], r"^Invalid commGroup data for collective op Op\(.*\[1\], expected a type and a size"),
        ([9, 2], r"^Unknown commGroup type for collective op Op\(.*: 9. Types are 0 \(All\), 1 "),
    ],
)
def test_groups_of_a_collective(group: list[int], told: str) -> None:
    make = builder()
    y = make.aiGraphcore.replicatedallreduce([make.addInputTensor("FLOAT", [2], "x")])
    make.addNodeAttribute("__collectiveCommGroup", group, {y})
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {y: "All"})


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        (1, None),
        (
            None,
            r'^Op Op\(.*Neg.*\) in subgraph ".*" does not have a virtual graph id. When pipelining,'
            " subgraph ops must have a virtual graph id set.$",
        ),
        (
            0,
            r"^The virtual graph id \(0\) for Op Op\(.*Neg.*\) in subgraph .* does not match the "
            r"virtual graph id \(1\) of the calling op. When pipelining, .* for each virtual graph",
        ),
    ],
)
def test_a_called_subgraph_of_a_pipeline_is_where_the_call_is(
    inside: int | None, told: str | None
) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    body = make.createSubgraphBuilder()
    inner = body.aiOnnx.neg([body.addInputTensor("FLOAT", [2])])
    if inside is not None:
        body.virtualGraph(inner, inside)
    body.addOutputTensor(inner)
    with make.virtualGraph(0):
        h = make.aiOnnx.sqrt([x])
    with make.virtualGraph(1):
        y = make.aiGraphcore.call([h], 1, body)[0]

    def session() -> popart.InferenceSession:
        return popart.InferenceSession(
            make.getModelProto(),
            flow(2, {y: "All"}),
            device(2),
            userOptions=options(
                enablePipelining=True, virtualGraphMode=popart.VirtualGraphMode.Manual
            ),
        )

    if told is None:
        session()
        return
    with pytest.raises(popart_exception, match=told):
        session()


def test_a_pipeline_of_explicit_operators_may_be_marked_for_recomputation() -> None:
    """PopART refuses marks where it schedules the pipeline itself."""
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    with make.virtualGraph(0), make.recomputeOutput(popart.RecomputeType.Recompute):
        h = make.aiOnnx.sqrt([x])
    with make.virtualGraph(1):
        y = make.aiOnnx.neg([h])
    session_options = options(
        enablePipelining=True, virtualGraphMode=popart.VirtualGraphMode.Manual
    )
    made: list[Any] = [make.getModelProto(), flow(2, {y: "All"}), device(2)]
    with pytest.raises(popart_exception, match="user annotation for recomputation is not allowed"):
        popart.InferenceSession(*made, userOptions=session_options)
    session_options.enableExplicitIR(True)
    popart.InferenceSession(*made, userOptions=session_options)
