"""What PopART cannot do with a pattern off: operators and gradients that only a pattern replaces.

Other patterns make a program faster and change no result, on or off, but for `joined_losses`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.annotations import EXCLUDE_PATTERNS
from paddle_ipu.popart.patterns import ALL_NAMES, Patterns
from paddle_ipu.popart.schema import schema_of_node

_OPERATORS: Mapping[str, str] = {
    "ConvTranspose": "ConvTranspose",
    "Cosh": "CoshOp",
    "PackedDataBlock": "PackedDataBlock",
    "RandomNormalLike": "RandomNormalLikeOpPattern",
    "RandomUniformLike": "RandomUniformLikeOpPattern",
    "Scan": "ScanToLoop",
    "Upsample": "UpsampleToResize",
}
"""Operator -> the pattern that replaces it."""


@dataclass(frozen=True, slots=True)
class _Gradient:
    """The operator that makes the gradient of one input.

    Attributes:
        operator: its type, in ai.graphcore.
        patterns: those of which one has to replace it, or the operator before it.
        said: the name in PopART's own message about it; "" where it has none.
        called: how that message calls the pattern.
    """

    operator: str
    patterns: tuple[str, ...]
    said: str = ""
    called: str = ""

    @property
    def message(self) -> str:
        """What PopART says where the operator is left."""
        if self.said:
            return f'{self.said} should be optimised out, "{self.called}" pattern is required'
        return _left(f"ai.graphcore.{self.operator}:1", self.patterns[-1])


def _left(operator: str, pattern: str) -> str:
    return (
        f"Could not create opx for '{operator}'. This op should have been removed by pattern "
        f"{pattern}"
    )


def _advice(node: ir.Node) -> str:
    return (
        f". It is of {node.op_type} ({node.name}): turn the pattern on, and leave it out of "
        "excludePatterns"
    )


def _unary(name: str, said: bool = False) -> tuple[_Gradient]:
    pattern = f"{name}GradOp"
    return (_Gradient(f"{name}Grad", (pattern,), pattern if said else "", pattern),)


_MATMUL = (
    _Gradient("MatMulLhsGrad", ("MatMulLhsGradOp",)),
    _Gradient("MatMulRhsGrad", ("MatMulRhsGradOp",)),
)

_GRADIENTS: Mapping[str, tuple[_Gradient | None, ...]] = {
    **{name: _unary(name) for name in ("Abs", "Cos", "Exp", "Expm1", "Log1p", "Reciprocal")},
    "Atan2": (
        _Gradient("Atan2Arg0Grad", ("Atan2Arg0GradOp",)),
        _Gradient("Atan2Arg1Grad", ("Atan2Arg1GradOp",)),
    ),
    "Conv": (_Gradient("ConvDataGrad", ("ConvDataGrad",)),),
    "Div": (
        _Gradient("DivArg0Grad", ("DivArg0GradOp",), "DivArg0Grad", "DivArg0Grad"),
        _Gradient("DivArg1Grad", ("DivArg1GradOp",), "DivArg1Grad", "DivArg1GradOp"),
    ),
    "Fmod": (_Gradient("FmodArg0Grad", ("FmodArg0GradOp",), "FmodArg0Grad", "FmodArg0Grad"),),
    "Gemm": _MATMUL,
    "Log": _unary("Log", said=True),
    "MatMul": _MATMUL,
    "Mul": (
        _Gradient("MulArg0Grad", ("MulArgGradOp",), "MulArg0GradOp", "MulArgGradOp"),
        _Gradient("MulArg1Grad", ("MulArgGradOp",), "MulArg1GradOp", "MulArgGradOp"),
    ),
    "Pow": (
        _Gradient("PowArg0Grad", ("PowArg0GradOp",), "PowArg0Grad", "PowArg0GradOp"),
        _Gradient("PowArg1Grad", ("PowArg1GradOp",), "PowArg1Grad", "PowArg1GradOp"),
    ),
    "Sin": _unary("Sin", said=True),
    # A Split that is replaced by slices has no gradient of its own.
    "Split": (_Gradient("SplitGrad", ("SplitOp", "SplitGradOpToConcat")),),
    "Sqrt": _unary("Sqrt"),
    "Sub": (None, _Gradient("SubArg1Grad", ("SubtractArg1GradOp",))),
}
"""Operator -> what makes the gradient of each input, where only patterns replace that."""


def _excluded(node: ir.Node) -> Collection[str]:
    attribute = node.attributes.get(EXCLUDE_PATTERNS)
    return () if attribute is None else attribute.as_strings()


def joined_losses(
    graph: ir.Graph, patterns: Patterns, differentiated: Collection[str]
) -> frozenset[str]:
    """Results of the Nll that PopART differentiates together with the softmax before them.

    It does so where nothing else differentiates that softmax. The gradients are the same, but for
    labels that are no class.

    Args:
        graph: the program.
        patterns: of the session.
        differentiated: tensors of the program, without its subgraphs, that have a gradient.
    """
    joined: set[str] = set()
    if not patterns.isPatternEnabled("SoftmaxGradDirect"):
        return frozenset()
    for node in graph.all_nodes():
        if node.op_type != "Nll" or "SoftmaxGradDirect" in _excluded(node):
            continue
        probabilities = node.inputs[0]
        maker = None if probabilities is None else probabilities.producer()
        if probabilities is None or maker is None or maker.op_type != "Softmax":
            continue
        readers = {use.node for use in probabilities.uses()} - {node}
        outputs = {str(value.name) for reader in readers for value in reader.outputs}
        if outputs.isdisjoint(differentiated):
            joined.add(str(node.outputs[0].name))
    return frozenset(joined)


def check_pattern_effects(
    graph: ir.Graph,
    patterns: Patterns,
    differentiated: Collection[str],
    wanted: Collection[str],
) -> None:
    """Checks that patterns replace all that PopART has no code for.

    Args:
        graph: the program.
        patterns: of the session.
        differentiated: tensors that have a gradient.
        wanted: tensors of which the gradient is used: trained weights, and those anchored.

    Raises:
        popart_exception: an operator, or one that makes a gradient, is left.
    """
    used = set(wanted)
    enabled = {name for name in ALL_NAMES if patterns.isPatternEnabled(name)}
    for node in graph:
        on = enabled.difference(_excluded(node))
        pattern = _OPERATORS.get(node.op_type)
        if pattern is not None and pattern not in on:
            schema = schema_of_node(node)
            name = node.op_type if schema is None else schema.identifier
            raise popart_exception(_left(name, pattern) + _advice(node))
        inputs = [None if value is None else str(value.name) for value in node.inputs]
        outputs = [str(value.name) for value in node.outputs]
        if used.isdisjoint(filter(None, inputs)):
            continue
        used.update(outputs)
        if not any(name in differentiated for name in outputs):
            continue
        for read, gradient in zip(inputs, _GRADIENTS.get(node.op_type, ()), strict=False):
            if gradient is None or read not in used or read not in differentiated:
                continue
            if on.isdisjoint(gradient.patterns):
                raise popart_exception(gradient.message + _advice(node))
