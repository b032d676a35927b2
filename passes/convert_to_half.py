"""Converts operators to half: all of them with ``enable_fp16``, else those that AMP annotated.

    x, w float32: y = matmul(x, w)  ->  x, w float16: y = matmul(x, w), y float16

A program that reads inputs or weights in half is taken as converted by its author and stays as it
is; a single half value, such as a mask, does not count. AMP's entry points cannot convert a PIR
program, so they annotate each operator with its dtype (``annotations.AMP``); casts are inserted
between half and float32.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import AMP
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.new_nodes import new_node

_LOG = logging.getLogger("paddle_ipu")
_FULL = ir.DataType.FLOAT
_HALF: Mapping[str, ir.DataType] = {
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
}

_NUMBERS = frozenset({
    "atol", "end", "fill_value", "max", "min", "p", "pad_value", "rtol", "scale", "start", "step",
    "stop", "value",
})  # fmt: skip
"""Operands that are settings of the operator, not data, if they are constants."""

_BATCH_NORMS = frozenset({"batch_norm", "batch_norm_"})
_STATISTICS = ("mean", "variance")


class ConvertToHalf:
    """Retypes values and inserts casts between half and float32."""

    name = "convert_to_half"
    requires = ("forward only",)
    ensures = ("precisions set",)

    def run(self, compilation: Compilation) -> bool:
        graph = compilation.graph
        marked = {id(n): str(dialect.attribute(n, AMP, "")) for n in dialect.walk(graph)}
        if any(mark in _HALF for mark in marked.values()):
            conversion = _Conversion(graph, marked, inputs_too=False)
            conversion.run()
            _keep_states(compilation, conversion)
            _tell_of_wide_weights(compilation)
            return True
        if _is_converted(graph) or not compilation.options["enable_fp16"]:
            _tell_of_wide_weights(compilation)
            return False
        everything = {key: mark or "float16" for key, mark in marked.items()}
        conversion = _Conversion(
            graph, everything, inputs_too=True, kept=compilation.state_writes()
        )
        conversion.run()
        _keep_states(compilation, conversion)
        return True


def _is_converted(graph: ir.Graph) -> bool:
    """Whether a feed or a weight is half, or is read through a cast to half."""
    casts = (
        use.node.outputs[0]
        for value in graph.inputs
        for use in value.uses()
        if use.node.op_type == "cast"
        and value.dtype is not None
        and value.dtype.is_floating_point()
    )
    return any(value.dtype in _HALF.values() for value in (*graph.inputs, *casts))


def _tell_of_wide_weights(compilation: Compilation) -> None:
    """Says once that ``enable_fp16`` leaves weights in float32, as the author's cast does."""
    if not compilation.options["enable_fp16"]:
        return
    wide = sorted(
        str(value.name)
        for value in compilation.graph.inputs
        if value.dtype == _FULL
        and value.meta.get(dialect.ROLE) == dialect.PARAMETER
        and any(
            use.node.op_type == "cast" and use.node.outputs[0].dtype in _HALF.values()
            for use in value.uses()
        )
    )
    if wide:
        _warn_once(len(wide), wide[0])


@functools.cache
def _warn_once(number: int, example: str) -> None:
    _LOG.warning(
        "enable_fp16 leaves the program as cast_model_to_fp16 made it: it computes in half, and %d "
        "weights, %s among them, stay float32, since this Paddle keeps those that an optimizer "
        "updates so (2.4's cast_parameters_to_fp16 made them half). For half weights leave "
        "cast_model_to_fp16 out: enable_fp16 alone converts the whole program.",
        number,
        example,
    )


def _keep_states(compilation: Compilation, conversion: _Conversion) -> None:
    """Casts what is written to a variable to the variable's dtype."""
    graph = compilation.graph
    variables = {str(value.name): value for value in graph.inputs}
    outputs = {str(value.name): value for value in graph.outputs}
    for name, written in compilation.state_writes().items():
        value, dtype = outputs[written], variables[name].dtype
        if value.dtype != dtype and dtype is not None:
            cast = conversion._cast(value, dtype, None)
            graph.outputs.append(cast)
            compilation.writes[name] = str(cast.name)


def _statistics(graph: ir.Graph) -> set[str]:
    """The running statistics of batch normalisations, which Paddle keeps in float32."""
    return {
        str(value.name)
        for node in graph
        if node.op_type in _BATCH_NORMS
        for name, value in dialect.operands(node)
        if name in _STATISTICS and value is not None
    }


class _Conversion:
    """The conversion of one graph or block, which records casts and retyped values."""

    def __init__(
        self,
        graph: ir.Graph,
        wanted: Mapping[int, str],
        *,
        inputs_too: bool,
        kept: Collection[str] = (),
    ) -> None:
        self._graph = graph
        self._wanted = wanted
        self._all = inputs_too
        self._kept = set(kept) | _statistics(graph)
        self._casts: dict[tuple[int, ir.DataType], ir.Value] = {}
        self._retyped: set[int] = set()

    def run(self) -> None:
        for value in self._graph.inputs:
            self._convert_input(value)
        for node in list(self._graph):
            if node.op_type in dialect.CONSTANT_OPS:
                continue
            if dialect.blocks(node):
                self._convert_blocks(node)
                continue
            half = _HALF.get(self._wanted[id(node)])
            if str(node.op_type).startswith("increment"):
                # A counter in half would not go beyond 2048.
                half = None
            if any(v is not None and dialect.is_array(v) for v in (*node.inputs, *node.outputs)):
                # All elements of an array have the same dtype.
                half = _HALF["float16"] if self._all else None
            self._convert_operands(node, half)
            if half is not None:
                self._convert_results(node, half)

    def _convert_input(self, value: ir.Value) -> None:
        """Retypes a weight that AMP annotated; of an all-half program every input."""
        half = _HALF["float16"] if self._all else _HALF.get(str(value.meta.get(AMP)))
        if value.name in self._kept:
            return
        if half is not None and value.dtype == _FULL:
            self._retype(value, half)

    def _convert_operands(self, node: ir.Node, half: ir.DataType | None) -> None:
        for index, (name, value) in enumerate(list(dialect.operands(node))):
            if (
                value is None
                or dialect.is_array(value)
                or (name in _NUMBERS and dialect.constant(value) is not None)
            ):
                continue
            is_ours = value.dtype == _FULL or id(value) in self._retyped
            wanted = half or _FULL
            if node.op_type in _BATCH_NORMS and name in _STATISTICS:
                wanted = _FULL
            if is_ours and value.dtype != wanted:
                node.replace_input_with(index, self._cast(value, wanted, node))

    def _convert_results(self, node: ir.Node, half: ir.DataType) -> None:
        only_first = node.op_type in _BATCH_NORMS
        for value in node.outputs[:1] if only_first else node.outputs:
            if value.dtype == _FULL:
                self._retype(value, half)
        for name in ("dtype", "out_dtype"):
            if dialect.attribute(node, name) == "float32":
                node.attributes[name] = ir.AttrString(name, self._wanted[id(node)])

    def _convert_blocks(self, node: ir.Node) -> None:
        """Converts blocks; their operands and results are half if the whole program is."""
        half = _HALF["float16"] if self._all else None
        self._convert_operands(node, half)
        for block in dialect.blocks(node):
            inside = _Conversion(block, self._wanted, inputs_too=self._all)
            inside.run()
            for at, value in enumerate(block.outputs):
                is_ours = value.dtype == _FULL or id(value) in inside._retyped
                if is_ours and not dialect.is_array(value) and value.dtype != (half or _FULL):
                    block.outputs[at] = inside._cast(value, half or _FULL, None)
        for value in node.outputs:
            if half is not None and value.dtype == _FULL:
                self._retype(value, half)

    def _retype(self, value: ir.Value, dtype: ir.DataType) -> None:
        tensor_type = ir.TensorType(dtype)
        value.type = ir.SequenceType(tensor_type) if dialect.is_array(value) else tensor_type
        self._retyped.add(id(value))

    def _cast(self, value: ir.Value, dtype: ir.DataType, reader: ir.Node | None) -> ir.Value:
        """A cast of the value, shared by its readers; without `reader` at the end of the graph."""
        key = (id(value), dtype)
        if key not in self._casts:
            name = next((n for n, half in _HALF.items() if half is dtype), "float32")
            result = ir.Value(
                name=f"{value.name}.cast_{name}", shape=value.shape, type=ir.TensorType(dtype)
            )
            near, dtype_of = reader or value.producer(), dialect.make_attribute("dtype", name)
            node = new_node("cast", [value], result, near, [dtype_of])
            if reader is None:
                self._graph.append(node)
            else:
                self._graph.insert_before(reader, node)
            self._casts[key] = result
        return self._casts[key]
