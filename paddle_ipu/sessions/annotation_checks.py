"""Checks of what a program's operators are annotated with: the attributes that scripts set.

PopART reads them as it makes its operators, whether or not an anchor needs these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.options.table import PARTIALS_TYPES
from paddle_ipu.popart import serialized_products
from paddle_ipu.popart.annotations import (
    AVAILABLE_MEMORY,
    EXCLUDE_PATTERNS,
    EXECUTION_PHASE,
    INPLACE_NAMES,
    INPLACE_PRIORITIES,
    MATMUL_FACTOR,
    MATMUL_MODE,
    MATMUL_PRECISION,
    PARTIALS_TYPE,
    RECOMPUTE,
    VIRTUAL_GRAPH,
)
from paddle_ipu.popart.collectives import COLLECTIVES, COMM_GROUP
from paddle_ipu.popart.enums import (
    CommGroupType,
    RecomputationType,
    RecomputeType,
    VirtualGraphMode,
)
from paddle_ipu.popart.op_schema import ONNX
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.patterns import EXCLUDABLE
from paddle_ipu.popart.program import dims_of, needed_tensors
from paddle_ipu.popart.schema import debug_name

_MEMORY_OPTION = "availableMemoryProportion"
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "MultiConv"})


def check_annotations(graph: ir.Graph, options: SessionOptions) -> None:
    """Checks the annotations of all operators, those in subgraphs too.

    Raises:
        popart_exception: PopART makes no operator of one.
        ValueError: an option of convolutions that is no number.
    """
    for node in graph.all_nodes():
        _check_excluded_patterns(node)
        _check_inplace_preferences(node)
        domain, kind = node.domain or ONNX, node.op_type
        if (domain, kind) == (ONNX, "MatMul"):
            _check_serialization(node)
        if domain == ONNX and kind in ("MatMul", "Gemm"):
            _check_product_partials(node, options)
        if kind in _CONVOLUTIONS:
            _check_convolution(node, options)
        if kind in COLLECTIVES:
            _check_group(node)
        if kind == "Call" and options.enablePipelining:
            _check_body_placed(node)


def check_recomputation(graph: ir.Graph, options: SessionOptions) -> None:
    """Checks that operators are marked as recomputed only where no option chooses them.

    Raises:
        popart_exception: they are marked, and an option or the pipeline chooses, too.
    """
    marked = [
        debug_name(node)
        for node in graph
        if RECOMPUTE in node.attributes
        and node.attributes[RECOMPUTE].value == int(RecomputeType.Recompute)
    ]
    if not marked:
        return
    if options.implicitPipeliningEnabled():
        raise popart_exception(
            "When pipelining is enabled, user annotation for recomputation is not allowed. Leave "
            f"out recomputeOutput, as on {marked[0]}, and set autoRecomputation to Pipeline"
        )
    chosen = options.autoRecomputation != RecomputationType.NoRecompute
    if chosen and options.executionPhaseSettings.phases < 2:
        error = popart_exception("A mixture of auto and manual recomputation is not supported")
        error.add_note(
            f"autoRecomputation is {options.autoRecomputation.name}, and {marked[0]} is marked as "
            "recomputed. Do one of the two."
        )
        raise error


def check_execution_phases(graph: ir.Graph, options: SessionOptions) -> None:
    """Checks that operators are in phases that there are, where the program has any.

    Raises:
        popart_exception: one is in none of them.
    """
    phases = int(options.executionPhaseSettings.phases)
    if options.virtualGraphMode is not VirtualGraphMode.ExecutionPhases or phases < 2:
        return
    for node in graph:
        phase = node.attributes.get(EXECUTION_PHASE)
        if phase is not None and phase.as_int() >= phases and node.op_type != "Constant":
            raise popart_exception(
                f"[StreamingMemory] Maximum phase is {phases - 1}, but op {debug_name(node)} has "
                f"phase {phase.as_int()}."
            )


def check_ranks_of_serialized_products(
    graph: ir.Graph, options: SessionOptions, wanted: Collection[str]
) -> None:
    """Checks that ``setSerializeMatMul`` cuts no product of tensors with many axes.

    PopART cuts what is left of the main graph when it is pruned.

    Args:
        graph: the program.
        options: of the session.
        wanted: what a run needs: the loss, the tensors of the anchors, new values of variables.

    Raises:
        popart_exception: it cuts one.
    """
    if not options.enableSerializedMatmuls:
        return
    cut = [node for node in graph if MATMUL_MODE in node.attributes and node.op_type == "MatMul"]
    needed = needed_tensors(graph, wanted) if cut else frozenset()
    for node in cut:
        if node.outputs[0].name not in needed:
            continue
        mode, factor = _serialization(node)
        operands = [value for value in node.inputs[:2] if value is not None]
        dims = [dims_of(value) for value in operands]
        at = serialized_products.of_too_many_axes(mode, factor, dims[0], dims[1])
        if at is not None:
            shown = [
                f"{v.name}, shape {_shown(d)} rank {len(d)}"
                for v, d in zip(operands, dims, strict=True)
            ]
            raise popart_exception(
                f"\nFor matrix multiplication:\n{debug_name(node)} \nLHS tensor {shown[0]} \n"
                f"RHS tensor {shown[1]} \n"
                f"serialization setting {serialized_products.CUTS[mode].setting}\n"
                f"Factor = {factor} \n{('LHS', 'RHS')[at]} Input: {operands[at].name} must have "
                "rank 2 or 3 for matmul serialization. \n"
                "Please squeeze or reshape for serialization."
            )


def _shown(dims: Sequence[int]) -> str:
    return f"[{' '.join(map(str, dims))}]"


def _check_excluded_patterns(node: ir.Node) -> None:
    if EXCLUDE_PATTERNS not in node.attributes:
        return
    for name in node.attributes[EXCLUDE_PATTERNS].as_strings():
        if name not in EXCLUDABLE:
            raise popart_exception(
                f"Invalid pattern name '{name}' in Op::excludePatterns of {debug_name(node)}. "
                f"Patterns are {', '.join(sorted(EXCLUDABLE))}."
            )


def _check_inplace_preferences(node: ir.Node) -> None:
    names, priorities = map(node.attributes.get, (INPLACE_NAMES, INPLACE_PRIORITIES))
    if names is None and priorities is None:
        return
    if names is None or priorities is None:
        only = INPLACE_PRIORITIES if names is None else INPLACE_NAMES
        raise popart_exception(
            f"Either BOTH or NEITHER of the fields {INPLACE_NAMES} and {INPLACE_PRIORITIES} must "
            f"be set, but only {only} is set, on {debug_name(node)}. setInplacePreferences sets "
            "both."
        )
    if len(priorities.value) != len(names.value):
        raise popart_exception(
            f"For fields {INPLACE_PRIORITIES} and {INPLACE_NAMES}, the number of elements must be "
            f"the same [ {len(priorities.value)} != {len(names.value)} ]. They are of "
            f"{debug_name(node)}."
        )


def _serialization(node: ir.Node) -> tuple[str, int]:
    """The mode and the factor of a product that has a mode."""
    for name in (MATMUL_FACTOR, MATMUL_PRECISION):
        if name not in node.attributes:
            raise popart_exception(
                f"no attribute key {name}. {debug_name(node)} has {MATMUL_MODE}; "
                "setSerializeMatMul sets all three."
            )
    return node.attributes[MATMUL_MODE].as_string(), node.attributes[MATMUL_FACTOR].as_int()


def _check_serialization(node: ir.Node) -> None:
    if MATMUL_MODE not in node.attributes:
        return
    mode, factor = _serialization(node)
    if mode not in serialized_products.MODES:
        raise popart_exception(
            f"Unsupport matmul serialisation mode {mode}. Modes are "
            f"{', '.join(serialized_products.MODES)}. It is of {debug_name(node)}."
        )
    left, right = (() if value is None else dims_of(value) for value in node.inputs[:2])
    if why := serialized_products.uneven(mode, factor, left, right):
        raise popart_exception(f"{why} It is of {debug_name(node)}.")


def _check_product_partials(node: ir.Node, options: SessionOptions) -> None:
    text, where = options.partialsTypeMatMuls, "SessionOptions.partialsTypeMatMuls"
    if node.op_type == "MatMul" and PARTIALS_TYPE in node.attributes:
        text, where = node.attributes[PARTIALS_TYPE].as_string(), "setPartialsType"
    elif not text:
        return
    if text.lower() not in PARTIALS_TYPES:
        raise popart_exception(
            f"Unable to get option 'partialsTypeMatMul' from string '{text}'. Possible values are "
            f"'float' and 'half' in any letter case. It is of {where}, for {debug_name(node)}."
        )


def _check_convolution(node: ir.Node, options: SessionOptions) -> None:
    """What PopART asks of a convolution's own settings, else of those of the session."""
    given = options.convolutionOptions
    partials = _own(node, PARTIALS_TYPE, "partialsTypes")
    if not partials and "partialsType" in given:
        partials = [given["partialsType"]]
    for text in map(str, partials):
        if text.lower() not in PARTIALS_TYPES:
            raise popart_exception(
                f"Bad partialsType '{text.lower()}', of setPartialsType or convolutionOptions for "
                f"{debug_name(node)}. Types are 'float' and 'half'."
            )
    shares = _own(node, AVAILABLE_MEMORY, "availableMemoryProportions")
    if not shares and _MEMORY_OPTION in given:
        shares = [_number(given[_MEMORY_OPTION])]
    for share in map(float, shares):
        if not 0 < share <= 1:
            raise popart_exception(
                f"availableMemoryProportion must be in (0,1]. Got {share:g}, of "
                "setAvailableMemoryProportion or convolutionOptions for "
                f"{debug_name(node)}."
            )


def _own(node: ir.Node, name: str, of_several: str) -> Sequence[str | float]:
    """What a convolution has of a setting, for each of its convolutions."""
    attribute = node.attributes.get(name, node.attributes.get(of_several))
    if attribute is None:
        return ()
    value = attribute.value
    return value if isinstance(value, (list, tuple)) else (value,)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"stof: convolutionOptions['{_MEMORY_OPTION}'] is {text!r}; expected a number "
            "in (0,1], as a text"
        ) from None


def _check_group(node: ir.Node) -> None:
    attribute = node.attributes.get(COMM_GROUP)
    group = () if attribute is None else attribute.as_ints()
    if group and len(group) != 2:
        raise popart_exception(
            f"Invalid commGroup data for collective op {debug_name(node)}: {list(group)}, expected "
            "a type and a size"
        )
    if group and group[0] not in map(int, CommGroupType):
        raise popart_exception(
            f"Unknown commGroup type for collective op {debug_name(node)}: {group[0]}. Types are "
            f"{', '.join(f'{int(kind)} ({kind.name})' for kind in CommGroupType)}"
        )


def _check_body_placed(node: ir.Node) -> None:
    """In a pipeline, a called subgraph is where the call is."""
    place = node.attributes.get(VIRTUAL_GRAPH)
    body = next((a for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH), None)
    if place is None or body is None:
        return
    for inner in body.as_graph():
        own = inner.attributes.get(VIRTUAL_GRAPH)
        if inner.op_type == "Constant":
            continue
        if own is None:
            raise popart_exception(
                f'Op {debug_name(inner)} in subgraph "{body.as_graph().name}" does not have a '
                "virtual graph id. When pipelining, subgraph ops must have a virtual graph id set."
            )
        if own.as_int() != place.as_int():
            raise popart_exception(
                f"The virtual graph id ({own.as_int()}) for Op {debug_name(inner)} in subgraph "
                f'"{body.as_graph().name}" does not match the virtual graph id ({place.as_int()}) '
                "of the calling op. When pipelining, subgraph ops must have a virtual graph id "
                "matching the calling op. If you are trying to call the same subgraph from "
                "different pipeline stages, you will need to create a separate subgraph for each "
                "virtual graph."
            )
