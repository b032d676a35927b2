"""Translates a dialect graph to a PopART program, operator by operator.

Feeds become input tensors, parameters initialised inputs. Each node is given to its translator
within the virtual graph and pipeline stage of its annotations. Operators without a translator are
reported together, before anything is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import CHECKPOINT
from paddle_ipu.errors import (
    InvalidProgramError,
    LoweringError,
    NotSupported,
    PaddleIpuError,
    UnsupportedOpError,
)
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.constant_folding import fold
from paddle_ipu.ops.context import Array, TranslationContext
from paddle_ipu.ops.registry import find_translator
from paddle_ipu.ops.untranslated import reason_of
from paddle_ipu.options.strategy import CustomOp
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.operand_ranges import OperandRange

Kind = tuple[tuple[int, ...], str]
Fallback = Callable[[ir.Node, Sequence[Kind | None]], Any]
"""Returns the kernel that runs an operator on the host, by (shape, dtype) of each input."""

Results = str | Sequence[str | None] | Array
ParameterReader = Callable[[str], Array]


@dataclass(slots=True)
class Translation:
    """A PopART program, and its correspondence to the Paddle program.

    Attributes:
        builder: PopART's builder, which holds the program.
        feeds: feed name -> input tensor.
        weights: parameter name -> weight tensor.
        tensors: name of a graph output -> tensor.
        origins: tensor -> the dialect node that emitted it.
        extensions: type of each ``ai.paddle_ipu`` operator -> the first node that emitted it.
        kernels: first result of an operator that runs on the host -> its kernel.
        operand_ranges: first result of an operator -> the ranges that a run checks its inputs by.
        matmuls: the result of each matrix product, in a set of its own.
    """

    builder: Any
    feeds: dict[str, str] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    origins: Mapping[str, ir.Node] = field(default_factory=dict)
    extensions: Mapping[str, ir.Node] = field(default_factory=dict)
    kernels: dict[str, Any] = field(default_factory=dict)
    operand_ranges: Mapping[str, Sequence[OperandRange]] = field(default_factory=dict)
    matmuls: list[set[str]] = field(default_factory=list)

    @property
    def portable(self) -> bool:
        """True when no operator of the ``ai.paddle_ipu`` domain is used."""
        return not self.extensions


def _nothing_on_host(op_type: str) -> bool:
    return False


def _place(node: ir.Node) -> str:
    """The user's line and the layer of a node."""
    return dialect.described(dialect.source_of(node) or "unknown line", "", dialect.layer_of(node))


def check_supported(
    graph: ir.Graph,
    custom_ops: Collection[str] = (),
    on_host: Callable[[str], bool] = _nothing_on_host,
) -> None:
    """Checks that every operator can be translated.

    Args:
        graph: a dialect graph.
        custom_ops: operators that the user maps to PopART's.
        on_host: whether an operator without a translator runs on the host.

    Raises:
        UnsupportedOpError: lists every operator without a translator.
    """
    missing: dict[str, list[str]] = {}
    for node in dialect.walk(graph):
        op_type = str(node.op_type)
        if op_type in dialect.CONSTANT_OPS or op_type in custom_ops:
            continue
        if find_translator(op_type) is None and not on_host(op_type):
            missing.setdefault(op_type, []).append(_place(node))
    if missing:
        lines = [
            f"  {op_type} ({len(places)}x), first at {places[0]}{_why(op_type)}"
            for op_type, places in sorted(missing.items())
        ]
        raise UnsupportedOpError(
            f"{len(missing)} operator(s) of the program have no translator:\n"
            + "\n".join(lines)
            + "\nReplace them, or run them on Paddle's CPU kernels: ipu_strategy.set_options("
            "{'cpu_fallback': True}). What a custom operator means paddle_ipu.register_custom_op "
            "says. docs/operators.md lists what there is."
        )


def _why(op_type: str) -> str:
    reason = reason_of(op_type)
    return f"\n      {reason}" if reason else ""


def translate(
    graph: ir.Graph,
    popart: Any,
    read_parameter: ParameterReader,
    place: bool = False,
    custom_ops: Mapping[str, CustomOp] | None = None,
    on_host: Callable[[str], bool] = _nothing_on_host,
    fallback: Fallback | None = None,
    writes: Mapping[str, str] | None = None,
    refused: Callable[[ir.Node, Exception], None] | None = None,
    progress: Callable[[float], None] = lambda percent: None,
    in_64_bits: bool = False,
) -> Translation:
    """Emits the PopART program of a dialect graph.

    Args:
        graph: forward operators only; feeds have static shapes.
        popart: the module with PopART's API, ours or Graphcore's.
        read_parameter: returns a parameter's value, which is kept by reference.
        place: annotate operators with virtual graphs and pipeline stages.
        custom_ops: Paddle operator -> the PopART operator that the user maps it to.
        on_host: whether `fallback` runs an operator that has no translator.
        fallback: returns the kernel that runs such an operator on the host.
        writes: parameter or state -> the graph output that is its value in the next run.
        refused: called for an operator that cannot be translated, instead of an error; its results
            become inputs of the program.
        progress: called with the percentage of operators that are translated.
        in_64_bits: int64 stays INT64; else it becomes INT32, as on the hardware.

    Raises:
        UnsupportedOpError: operators without a translator.
        NotSupported: a use of an operator that its translator refuses.
    """
    custom_ops = custom_ops or {}
    if refused is None:
        check_supported(graph, custom_ops, on_host)
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    context = TranslationContext(builder, popart, in_64_bits)
    result = Translation(builder, origins=context.origins, extensions=context.extensions)
    result.operand_ranges = context.operand_ranges
    for value in graph.inputs:
        name = str(value.name)
        if value.meta[dialect.ROLE] == dialect.FEED:
            popart_type = dialect.POPART_DTYPES.get(context.device_dtype(dialect.dtype_name(value)))
            if popart_type is None:
                raise NotSupported(
                    f"feed {name!r} is {dialect.dtype_name(value)}, and there is nothing of that "
                    f"type on an IPU, which has {', '.join(dialect.POPART_DTYPES)}. Feed a complex "
                    "number's real and imaginary parts."
                )
            tensor = builder.addInputTensor(popart_type, dialect.dims_of(value), debugContext=name)
            result.feeds[name] = str(tensor)
        else:
            array = read_parameter(name)
            tensor = builder.addInitializedInputTensor(array, debugContext=name)
            result.weights[name] = str(tensor)
        context.tensors[id(value)] = str(tensor)

    def results(context: TranslationContext, custom: CustomOp | None) -> Results:
        op_type = str(context.node.op_type)
        if custom is not None:
            return _translate_custom(context, custom)
        row = find_translator(op_type)
        if row is None:
            if fallback is None:
                raise context.refuse("there is no translator.")
            return _run_on_host(context, fallback, result.kernels)
        outputs = row.translate(context)
        if op_type in _MATMULS and isinstance(outputs, str) and not context.is_nested:
            result.matmuls.append({outputs})
        return outputs

    refusals = 0
    popart_exception = popart.popart_exception

    def emit(context: TranslationContext, nodes: Iterable[ir.Node]) -> None:
        nonlocal refusals
        for node in nodes:
            context.node = node
            before = refusals
            custom = custom_ops.get(str(node.op_type))
            with _naming_operator(node, popart_exception):
                if custom is None and fold(context):
                    continue
            try:
                with (
                    _placed(context.builder, node, place),
                    _naming_operator(node, popart_exception),
                ):
                    outputs = _checkpointed(context, results(context, custom))
            except Exception as error:
                if refused is None:
                    raise
                if refusals == before:
                    # Otherwise an operator in its blocks is the reason, and is reported already.
                    refused(node, error)
                    refusals += 1
                outputs = _placeholder_inputs(context, builder, node)
            if isinstance(outputs, np.ndarray):
                context.constants[id(node.outputs[0])] = outputs
                continue
            for value, tensor_id in zip(
                node.outputs, [outputs] if isinstance(outputs, str) else outputs, strict=False
            ):
                if tensor_id is not None:
                    context.tensors[id(value)] = context.in_own_width(tensor_id, value)

    context.emit = emit
    for number, node in enumerate(graph, 1):
        emit(context, (node,))
        progress(100 * number / len(graph))
    variables = set(result.weights.values())
    for value in graph.outputs:
        tensor_id, producer = context.tensor(value), value.producer()
        if producer is not None and tensor_id in variables:
            # A variable that is fetched unchanged: its value before the step, which updates it.
            with _placed(builder, producer, place):
                tensor_id = context.onnx.identity([tensor_id])
        result.tensors[str(value.name)] = tensor_id
    written = {str(value.name): value.producer() for value in graph.outputs}
    for name, value_name in (writes or {}).items():
        context.node = written[value_name] or context.node
        with _placed(builder, context.node, place):
            variable = result.weights[name]
            # State that AMP keeps in float32 may be in a scope whose tensors are cast to half.
            updater = context.cast(result.tensors[value_name], context.dtype(variable))
            context.graphcore.copyvarupdate([variable, updater])
    inputs = {*result.feeds.values(), *result.weights.values()}
    for tensor_id in dict.fromkeys(result.tensors.values()):
        if tensor_id not in inputs:
            builder.addOutputTensor(tensor_id)
    return result


def _checkpointed(context: TranslationContext, outputs: Results) -> Results:
    """An operator's results, kept for backward where the program says so."""
    if isinstance(outputs, np.ndarray) or not dialect.attribute(context.node, CHECKPOINT, 0):
        return outputs
    results = [outputs] if isinstance(outputs, str) else outputs
    kept = [None if r is None else str(context.builder.checkpointOutput([r])[0]) for r in results]
    context.record_origin([tensor for tensor in kept if tensor is not None])
    return kept


def _placeholder_inputs(
    context: TranslationContext, builder: Any, node: ir.Node
) -> list[str | None]:
    """Inputs in place of the results of an operator that could not be translated.

    They belong to the main graph, whose blocks can read them too.
    """
    return [
        None
        if value.dtype is None
        else str(
            builder.addInputTensor(
                dialect.POPART_DTYPES.get(context.device_dtype(dialect.dtype_name(value)), "FLOAT"),
                [max(dim, 1) for dim in dialect.dims_of(value)],
            )
        )
        for value in node.outputs
    ]


def _run_on_host(
    context: TranslationContext, fallback: Fallback, kernels: dict[str, Any]
) -> Sequence[str | None]:
    """Emits the call of an operator that Paddle's CPU kernel computes on the host."""
    node = context.node
    tensors = [None if value is None else context.tensor(value) for value in node.inputs]
    kernel = fallback(
        node,
        [None if t is None else (tuple(context.shape(t)), context.dtype(t)) for t in tensors],
    )
    kinds = [kind for kind in kernel.results if kind is not None]
    outputs = context.extension(
        "CpuKernel",
        [tensors[index] for index in kernel.operands],
        {
            "operator": str(node.op_type),
            "results": [f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in kinds],
        },
        len(kinds),
    )
    kernels[outputs[0]] = kernel
    remaining = iter(outputs)
    return [None if kind is None else next(remaining) for kind in kernel.results]


def _translate_custom(context: TranslationContext, custom: CustomOp) -> str | Sequence[str | None]:
    """Emits the PopART operator of a user's mapping, with the node's inputs and attributes."""
    node = context.node
    inputs = [value for value in node.inputs if value is not None]
    try:
        outputs = context.builder.customOp(
            opName=custom.popart_op,
            opVersion=custom.version,
            domain=custom.domain,
            inputs=[context.tensor(value) for value in inputs],
            attributes={
                name: attribute.value
                if not isinstance(attribute.value, tuple)
                else list(attribute.value)
                for name, attribute in node.attributes.items()
                if name not in _OWN_ATTRIBUTES
            },
            numOutputs=len(node.outputs),
        )
    except LoweringError as error:
        raise LoweringError(f"{dialect.describe(node)}: {error}") from error
    # Graphcore's builder does not type custom operators.
    is_typed = isinstance(context.builder, Builder)
    if is_typed and all(_agree(context, value, context.tensor(value)) for value in inputs):
        for number, (value, tensor) in enumerate(zip(node.outputs, outputs, strict=True)):
            if not _agree(context, value, tensor):
                raise context.refuse(
                    f"result {number} of {custom.domain}.{custom.popart_op} is "
                    f"{context.dtype(tensor)}{list(context.shape(tensor))}, and Paddle's operator "
                    f"gives {dialect.dtype_name(value)}{list(dialect.dims_of(value))}. What "
                    "register_custom_op or add_custom_op says must compute what the operator does."
                )
    context.record_origin(outputs)
    return [str(output) for output in outputs]


def _agree(context: TranslationContext, value: ir.Value, tensor: str) -> bool:
    """Whether a tensor has the dtype class and, as far as it is known, the shape of a value."""
    if value.dtype is None or value.shape is None:
        return True
    declared, dims = dialect.dims_of(value), list(context.shape(tensor))
    kinds = (
        _KINDS.get(name, "float") for name in (context.dtype(tensor), dialect.dtype_name(value))
    )
    same_kind = len(set(kinds)) == 1
    if np.prod(dims) == 1 and np.prod(declared) == 1:
        return same_kind
    return (
        same_kind
        and len(declared) == len(dims)
        and all(want in (-1, got) for want, got in zip(declared, dims, strict=True))
    )


_KINDS = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int", "int64": "int",
    "uint8": "uint8",
}  # fmt: skip
_MATMULS = frozenset({"matmul", "bmm"})
_OWN_ATTRIBUTES = frozenset(
    {"ipu_index", "ipu_stage", CHECKPOINT, "op_role", "input_segments", "output_segments"}
)


@contextmanager
def _naming_operator(node: ir.Node, popart_exception: type[Exception]) -> Iterator[None]:
    """Has errors name Paddle's operator and the user's source line.

    What PopART refuses is a use of Paddle's operator that is not supported. An attribute of another
    kind than the operator has, as in a damaged file, is reported as such.
    """
    try:
        yield
    except PaddleIpuError:
        raise
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise InvalidProgramError(
            f"operator {dialect.describe(node)} contradicts itself "
            f"({type(error).__name__}: {error}). The program is damaged; if Paddle runs it, the "
            "fault is paddle_ipu's: report it."
        ) from error
    except Exception as error:
        # Not those that derive from it: a broken assumption of PopART's own is no use of Paddle's.
        if type(error) is popart_exception:
            raise NotSupported(
                f"{dialect.describe(node)} is used in a way that PopART does not take: {error}. "
                "Change its operands or attributes."
            ) from error
        error.add_note(f"while translating Paddle's {dialect.describe(node)}")
        raise


@contextmanager
def _placed(builder: Any, node: ir.Node, place: bool) -> Iterator[None]:
    """Puts what is emitted on the node's virtual graph and pipeline stage."""
    with ExitStack() as scopes:
        index = dialect.attribute(node, "ipu_index")
        if place and index is not None:
            scopes.enter_context(builder.virtualGraph(index))
            stage = dialect.attribute(node, "ipu_stage")
            if stage is not None:
                scopes.enter_context(builder.pipelineStage(stage))
        yield
