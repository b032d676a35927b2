"""What keeps a Paddle program from running on an IPU, found without compiling it.

The program is read, rewritten and translated as ``compile`` would, but what stops a compilation
becomes a finding here, and the next operator is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from paddle_ipu import popart
from paddle_ipu.compiler.custom_ops import known_custom_ops
from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.node_origin import folded
from paddle_ipu.errors import PaddleIpuError
from paddle_ipu.frontend import programs
from paddle_ipu.ops.registry import find_translator
from paddle_ipu.ops.translate import translate
from paddle_ipu.ops.untranslated import reason_of
from paddle_ipu.options.strategy import CoreIpuStrategy, StrategyValues
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.extract_forward import is_backward
from paddle_ipu.passes.pass_base import Compilation, run_passes
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.passes.support.update_operators import is_update

if TYPE_CHECKING:
    import paddle

ERROR, WARNING, NOTE = "error", "warning", "note"

KINDS: Mapping[str, tuple[str, str]] = {
    "unsupported": (ERROR, "operators without a translator (cpu_fallback would run them)"),
    "refused": (ERROR, "uses of operators that are refused"),
    "program": (ERROR, "what else stops the compilation"),
    "dynamic shape": (ERROR, "shapes that are not static"),
    "not portable": (WARNING, "what keeps the program off IPU hardware (the IPU Model runs it)"),
    "int64": (NOTE, "64-bit integers, which an IPU computes in 32 bits (the IPU Model in 64)"),
    "half": (WARNING, "numbers that half precision (enable_fp16) cannot hold"),
}
"""Kind of finding -> (how bad it is, its heading)."""

_INT32 = np.iinfo(np.int32)
_LARGEST_HALF = float(np.finfo(np.float16).max)
_SMALLEST_HALF = 2.0**-25
_ARITHMETIC = frozenset(
    "add subtract multiply scale pow elementwise_pow sum cumsum prod cumprod matmul "
    "bitwise_left_shift increment square".split()
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that matters for porting the program.

    Attributes:
        kind: a key of `KINDS`.
        what: the operator, feed or option.
        message: what is wrong with it, and what to do.
        places: ``file:line (layer)`` of the user's calls, without repetition.
        count: how many operators of the program it concerns.
    """

    kind: str
    what: str
    message: str
    places: Sequence[str] = ()
    count: int = 1

    @property
    def level(self) -> str:
        """``error`` stops a compilation, ``warning`` and ``note`` do not."""
        return KINDS[self.kind][0]


@dataclass(slots=True)
class PortingReport:
    """All findings about one program; ``str`` gives them as text.

    Attributes:
        name: what was checked.
        operators: how many forward operators the program has.
        training: it has an optimizer.
        findings: in the order of `KINDS`.
    """

    name: str
    operators: int
    training: bool
    findings: list[Finding] = field(default_factory=list)

    @property
    def compiles(self) -> bool:
        """True when nothing that was found stops a compilation."""
        return all(finding.level != ERROR for finding in self.findings)

    @property
    def portable(self) -> bool:
        """True when, as far as can be seen here, Graphcore's SDK runs the program too."""
        return self.compiles and all(finding.kind != "not portable" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.compiles:
            return "It does not compile as it is."
        if not self.portable:
            return "It compiles for the IPU Model; it is not portable to IPU hardware."
        return "It compiles, and is portable to IPU hardware."

    def to_json(self) -> str:
        """The report as one JSON object."""
        plain = {
            "name": self.name,
            "operators": self.operators,
            "training": self.training,
            "compiles": self.compiles,
            "portable": self.portable,
            "findings": [{**asdict(finding), "level": finding.level} for finding in self.findings],
        }
        return json.dumps(plain, indent=2)

    def __str__(self) -> str:
        kind = "training" if self.training else "inference"
        lines = [f"{self.name}: {kind}, {self.operators} forward operators"]
        for name, (level, heading) in KINDS.items():
            findings = [finding for finding in self.findings if finding.kind == name]
            if findings:
                lines += ["", f"{level}: {heading}"]
                lines += [line for finding in findings for line in _text(finding)]
        return "\n".join([*lines, "", self.verdict])


def _text(finding: Finding) -> Iterable[str]:
    times = f" ({finding.count}x)" if finding.count > 1 else ""
    message = f": {finding.message}" if finding.message else ""
    yield f"  {finding.what}{times}{message}"
    for place in finding.places[:_PLACES]:
        yield f"      at {place}"
    if len(finding.places) > _PLACES:
        yield f"      and {len(finding.places) - _PLACES} more"


_PLACES = 5


def check_program(
    program: paddle.static.Program,
    *,
    name: str = "program",
    feeds: Sequence[str] | None = None,
    fetches: Sequence[str] | None = None,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    half: bool = False,
) -> PortingReport:
    """Looks for everything that keeps a program off an IPU.

    Args:
        program: a program that ``IpuCompiledProgram`` takes.
        name: how the report calls it.
        feeds: names of the feeds; all that the program declares by default.
        fetches: names of the fetches; by default all that nothing reads.
        ipu_strategy: a ``paddle.static.IpuStrategy``; by default one that trains where the program
            has an optimizer.
        half: look for numbers that half precision cannot hold.

    Returns:
        The report: every finding, whether the program compiles, and whether hardware could run it.
    """
    try:
        graph = programs.read(program)
    except PaddleIpuError as error:
        return PortingReport(name, 0, False, [Finding("program", "the program", str(error))])
    findings: list[Finding] = _dynamic_shapes(graph)
    training = any(is_update(node) for node in graph)
    values = (CoreIpuStrategy() if ipu_strategy is None else ipu_strategy._ipu_strategy).snapshot()
    if ipu_strategy is None:
        values = values.changed(is_training=training)
    training = bool(values["is_training"])
    findings += _forward_graph(graph, values, feeds, fetches)
    findings += _translated(graph, values)
    findings += _wide_integers(graph)
    if half or values["enable_fp16"]:
        findings += _beyond_half(graph)
    order = list(KINDS)
    findings.sort(key=lambda finding: order.index(finding.kind))
    count = sum(1 for node in graph if node.op_type not in dialect.CONSTANT_OPS)
    return PortingReport(name, count, training, findings)


def _dynamic_shapes(graph: ir.Graph) -> list[Finding]:
    """Feeds with more than a dynamic batch; they get sizes of 1, so that the rest is checked."""
    findings = []
    for value in graph.inputs:
        dims = dialect.dims_of(value)
        if value.meta[dialect.ROLE] == dialect.FEED and -1 in dims[1:]:
            findings.append(
                Finding(
                    "dynamic shape",
                    f"feed {value.name!r}",
                    f"has shape {dims}; only the first dimension, the batch, may be dynamic. Give "
                    "paddle.static.data the sizes, and pad or bucket what is fed.",
                )
            )
            value.shape = ir.Shape(
                [dims[0] if dims[0] > 0 else None, *(max(d, 1) for d in dims[1:])]
            )
    return findings


def _forward_graph(
    graph: ir.Graph,
    values: StrategyValues,
    feeds: Sequence[str] | None,
    fetches: Sequence[str] | None,
) -> list[Finding]:
    """Runs the passes, which leave the forward graph; what one refuses is a finding."""
    declared = [str(v.name) for v in graph.inputs if v.meta[dialect.ROLE] == dialect.FEED]
    leaves = _leaves(graph)
    compilation = Compilation(
        graph,
        declared if feeds is None else feeds,
        leaves if fetches is None else fetches,
        values,
    )
    findings = []
    for step in (CheckMicroBatch(), *PIPELINE):
        try:
            run_passes([step], compilation)
        except PaddleIpuError as error:
            findings.append(Finding("program", step.name.replace("_", " "), str(error)))
            if step.name == "extract_optimizer":
                # The forward part is checked without the optimizer too.
                compilation.options = values.changed(is_training=False)
                compilation.fetches = leaves
    return findings


def _leaves(graph: ir.Graph) -> list[str]:
    """Forward results that nothing but backward and optimizer operators reads."""
    after = _after_forward(graph)
    return [
        str(value.name)
        for node in graph
        if id(node) not in after and node.op_type not in dialect.CONSTANT_OPS
        for value in node.outputs
        if value.type is not None
        and not dialect.is_array(value)
        and all(id(use.node) in after for use in value.uses())
    ]


def _after_forward(graph: ir.Graph) -> set[int]:
    """Backward and optimizer operators, and all that depends on one."""
    after: set[int] = set()
    for node in graph:
        makers = (value.producer() for value in node.inputs if value is not None)
        if is_update(node) or is_backward(node) or any(id(maker) in after for maker in makers):
            after.add(id(node))
    return after


def _translated(graph: ir.Graph, values: StrategyValues) -> list[Finding]:
    """Translates every operator; a refusal is a finding, and so is what is not portable."""
    inputs = {str(value.name): value for value in graph.inputs}
    fallback = bool(values["cpu_fallback"])
    refused: dict[tuple[str, str, str], list[ir.Node]] = {}

    def refuse(node: ir.Node, error: Exception) -> None:
        op_type = str(node.op_type)
        if find_translator(op_type) is not None:
            key = ("refused", op_type, _without_place(node, error))
        elif (fallback or op_type in values.custom_ops) and _on_device(node):
            key = ("not portable", op_type, "runs on Paddle's CPU kernel, on the host")
        else:
            key = ("unsupported", op_type, reason_of(op_type))
        refused.setdefault(key, []).append(node)

    def zeros(name: str) -> np.ndarray[Any, Any]:
        value = inputs[name]
        # A view of one zero: weights take no memory here.
        zero = np.zeros((), dialect.dtype_name(value))
        return np.broadcast_to(zero, [max(dim, 1) for dim in dialect.dims_of(value)])

    try:
        translation = translate(
            graph, popart, zeros, custom_ops=known_custom_ops(values.custom_ops), refused=refuse
        )
    except PaddleIpuError as error:
        return [*_findings(refused), Finding("program", "translation", str(error))]
    off_hardware: dict[tuple[str, str, str], list[ir.Node]] = {}
    for node in ir.traversal.RecursiveGraphIterator(translation.builder.model.graph):
        if node.domain == "ai.paddle_ipu":
            origin = translation.origins.get(str(node.outputs[0].name))
            if origin is not None:
                message = f"needs ai.paddle_ipu.{node.op_type}"
                key = ("not portable", str(origin.op_type), message)
                off_hardware.setdefault(key, []).append(origin)
    return [*_findings(refused), *_findings(off_hardware)]


def _on_device(node: ir.Node) -> bool:
    """Whether a device has the dtypes of an operator's results."""
    results = (value for value in node.outputs if value.dtype is not None)
    return all(dialect.dtype_name(value) in dialect.POPART_DTYPES for value in results)


def _without_place(node: ir.Node, error: Exception) -> str:
    """The message without the operator's name and line, which the finding has."""
    return str(error).removeprefix(f"{dialect.describe(node)}: ")


def _findings(nodes: Mapping[tuple[str, str, str], Sequence[ir.Node]]) -> list[Finding]:
    return [
        Finding(kind, what, message, places_of(of_kind), len({id(node) for node in of_kind}))
        for (kind, what, message), of_kind in sorted(nodes.items())
    ]


def places_of(nodes: Iterable[ir.Node]) -> list[str]:
    """Where operators come from, for a reader: line and layer, without repetition."""
    return list(dict.fromkeys(place for node in nodes if (place := _place(node))))


def _place(node: ir.Node) -> str:
    """The user's line and the layer; for a constant without them, those of its reader."""
    if (place := _line_and_layer(node)) or node.op_type not in dialect.CONSTANT_OPS:
        return place
    readers = (_line_and_layer(use.node) for value in node.outputs for use in value.uses())
    return next((line for line in readers if line), "")


def _line_and_layer(node: ir.Node) -> str:
    """``file:line (layer)``; layers that differ in a number only are one place."""
    return dialect.described(dialect.source_of(node), "", folded(dialect.layer_of(node))).strip()


def _wide_integers(graph: ir.Graph) -> list[Finding]:
    """64-bit feeds, which the host checks, and arithmetic, which may overflow."""
    findings = [
        Finding(
            "int64",
            f"feed {value.name!r}",
            "values must fit 32 bits on an IPU.",
        )
        for value in graph.inputs
        if value.meta[dialect.ROLE] == dialect.FEED and dialect.dtype_name(value) == "int64"
    ]
    nodes: dict[tuple[str, str, str], list[ir.Node]] = {}
    for node in graph:
        wide = any(dialect.dtype_name(v) == "int64" for v in node.outputs if v.type is not None)
        if wide and str(node.op_type).removesuffix("_") in _ARITHMETIC:
            message = "results beyond 2147483647 wrap around on an IPU."
            nodes.setdefault(("int64", str(node.op_type), message), []).append(node)
    return findings + _findings(nodes)


def _beyond_half(graph: ir.Graph) -> list[Finding]:
    """Constants and attributes that overflow or vanish in half."""
    nodes: dict[tuple[str, str, str], list[ir.Node]] = {}
    for node in graph:
        for what, number in _numbers(node):
            if abs(number) > _LARGEST_HALF and np.isfinite(number):
                message = f"{what} is {number:g}, which is infinite in half (at most 65504)."
            elif 0 < abs(number) < _SMALLEST_HALF:
                message = f"{what} is {number:g}, which is zero in half."
            else:
                continue
            nodes.setdefault(("half", str(node.op_type), message), []).append(node)
    return _findings(nodes)


def _numbers(node: ir.Node) -> Iterable[tuple[str, float]]:
    """(name, value) of the numbers written in a floating operator."""
    if not any(
        v.type is not None and dialect.dtype_name(v).startswith(("float", "bfloat"))
        for v in node.outputs
    ):
        return
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.FLOAT:
            yield name, float(attribute.value)
        elif attribute.type == ir.AttributeType.FLOATS:
            for number in attribute.value:
                yield name, float(number)
