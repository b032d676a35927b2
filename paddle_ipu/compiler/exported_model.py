"""The ONNX file of a PopART program: names and dtypes of its inputs and outputs, checks, files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from paddle_ipu import popart
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import WeightsOf, translate_program
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import FetchError, InvalidProgramError, ModelFileError
from paddle_ipu.ops.translate import Translation
from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.popart.graph_types import INLINE_LIMIT, complete_file, written_model
from paddle_ipu.popart.standard_operators import OPSET, not_standard

_SMALL = 1024
"""Bytes of the smallest weight that goes there."""


@dataclass(frozen=True, slots=True)
class ExportedTensor:
    """An input or output of an exported model: its name, shape and NumPy's name of its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written; ``str`` gives it as text.

    Attributes:
        path: the model.
        data: the file beside it with the weights, None where they are in the model.
        inputs: what it is fed.
        outputs: what it gives.
        operators: ``domain.Type`` of each operator -> how often it is there; without domain those
            of ONNX.
        weights: bytes of the weights.
        portable: Graphcore's SDK can run it; not where it has later operators than PopART's.
        not_standard: the operators that keep it off other ONNX runtimes.
        opset: the operator set of ONNX's own operators; PopART takes them up to 11.
    """

    path: Path
    data: Path | None
    inputs: Sequence[ExportedTensor]
    outputs: Sequence[ExportedTensor]
    operators: Mapping[str, int]
    weights: int
    portable: bool
    not_standard: Sequence[str]
    opset: int

    def __str__(self) -> str:
        place = f"{self.path}" + (f", weights in {self.data}" if self.data else "")
        lines = [f"written: {place} ({self.weights:,} bytes of weights)"]
        lines += [f"  input   {tensor}" for tensor in self.inputs]
        lines += [f"  output  {tensor}" for tensor in self.outputs]
        later = f", of ONNX's set {self.opset}" if self.opset > OPSET else ""
        lines.append(f"operators: {sum(self.operators.values())}{later}")
        lines.append(f"Graphcore's SDK: {'yes' if self.portable else 'no'}")
        if self.not_standard:
            lines.append("other ONNX runtimes: no, they lack " + ", ".join(self.not_standard))
        else:
            lines.append("other ONNX runtimes: yes, every operator is ONNX's own")
        return "\n".join(lines)


@dataclass(slots=True)
class ExportedModel:
    """A model to be written.

    Attributes:
        model: the PopART program.
        translation: its tensors for the names of the Paddle program.
        compilation: the dialect graph behind all passes.
        declared: feed -> dtype in the Paddle program.
        anchors: fetch -> tensor.
    """

    model: ir.Model
    translation: Translation
    compilation: Compilation
    declared: Mapping[str, str]
    anchors: Mapping[str, str]

    def users(self, operators: Sequence[str]) -> str:
        """The user's line of the first of some operators, as the end of a sentence."""
        types = {name.partition(" (")[0] for name in operators}
        for tensor, node in self.translation.origins.items():
            maker = self._makers.get(tensor)
            if maker is not None and f"{maker.domain or 'ai.onnx'}.{maker.op_type}" in types:
                return f". The first comes from {dialect.describe(node)}."
        return "."

    @property
    def _makers(self) -> dict[str, ir.Node]:
        return {str(value.name): node for node in self.model.graph for value in node.outputs}

    def name_nodes(self) -> None:
        """Puts the path of its layer in front of the name of each operator."""
        makers = self._makers
        for tensor, node in self.translation.origins.items():
            maker, layer = makers.get(tensor), dialect.layer_of(node)
            if maker is not None and layer and not str(maker.name).startswith(f"{layer}/"):
                maker.name = f"{layer}/{maker.name}"

    def restore_inputs(self) -> None:
        """Gives inputs the dtypes of the Paddle program; a cast makes what an IPU has instead."""
        graph = self.model.graph
        for feed, tensor in self.translation.feeds.items():
            value = next(v for v in graph.inputs if v.name == tensor)
            wanted = _dtype(self.declared[feed])
            if value.dtype is None or value.dtype == wanted:
                continue
            uses = list(value.uses())
            narrow = ir.node("Cast", [value], {"to": int(value.dtype)}, name=f"{feed}/narrow")
            inside = narrow.outputs[0]
            inside.name, inside.type, inside.shape = f"{tensor}/narrow", value.type, value.shape
            for use in uses:
                use.node.replace_input_with(use.idx, inside)
            value.type = ir.TensorType(wanted)
            graph.insert_before(graph[0], narrow)

    def give_names(
        self, feeds: Sequence[str], fetches: Mapping[str, str], paddles_dtypes: bool
    ) -> None:
        """Gives inputs and outputs the names, and outputs the dtypes, of the Paddle program.

        Args:
            feeds: the inputs.
            fetches: name of an output -> the fetch that it is.
            paddles_dtypes: whether outputs have the Paddle program's dtypes.
        """
        graph, fed = self.model.graph, self.translation.feeds
        # A program may have none of ONNX's own operators but those that are added here.
        graph.opset_imports.setdefault("", OPSET)
        values = {str(value.name): value for value in (*graph.inputs, *graph.initializers.values())}
        values.update((str(v.name), v) for node in graph for v in node.outputs)
        inputs = {fed[name]: name for name in feeds if name in fed}
        results = [
            (name, values[self.anchors[fetch]], self._fetched_dtype(fetch))
            for name, fetch in fetches.items()
        ]
        for name in (*inputs.values(), *fetches):
            if name in values and name not in inputs:
                _rename(graph, values[name], f"{name}/inner")
        for tensor, name in inputs.items():
            values[tensor].name = name
        graph.inputs[:] = [values[tensor] for tensor in inputs]
        graph.outputs[:] = [
            _copied(graph, value, name, dtype if paddles_dtypes else None)
            for name, value, dtype in results
        ]

    def _fetched_dtype(self, fetch: str) -> ir.DataType | None:
        value = self.compilation.value(fetch)
        return None if value is None else _dtype(dialect.dtype_name(value))


def _dtype(name: str) -> ir.DataType:
    found = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    return ir.DataType.from_numpy(found)


def _copied(graph: ir.Graph, value: ir.Value, name: str, dtype: ir.DataType | None) -> ir.Value:
    """A tensor under another name, cast where a dtype is given that it does not have."""
    if dtype is None or dtype == value.dtype:
        node, kind = ir.node("Identity", [value], name=f"{name}/output"), value.type
    else:
        node = ir.node("Cast", [value], {"to": int(dtype)}, name=f"{name}/output")
        kind = ir.TensorType(dtype)
    copy = node.outputs[0]
    copy.name, copy.shape, copy.type = name, value.shape, kind
    graph.append(node)
    return copy


def _rename(graph: ir.Graph, value: ir.Value, name: str) -> None:
    if value.name in graph.initializers:
        graph.initializers.pop(str(value.name))
        value.name = name
        graph.initializers[name] = value
    else:
        value.name = name


def model_to_export(
    source: Source, weights_of: WeightsOf, in_64_bits: bool = False
) -> ExportedModel:
    """The PopART program of a Paddle program.

    Args:
        source: the program; it stays as it is.
        weights_of: reads the weights.
        in_64_bits: int64 is INT64; else INT32, as PopART has it.

    Raises:
        OptionError: other rows than the feeds' own batch has.
        NotSupported: operators without a translator.
        FeedError, FetchError: names that are not in the program, or gradients.
    """
    if not source.fetches:
        raise FetchError("export: fetch_list is empty; name what the model is to give.")
    translated = translate_program(popart, source, weights_of, in_64_bits=in_64_bits)
    for name, anchor in translated.anchors.items():
        if anchor.startswith(GRADIENT_PREFIX):
            raise FetchError(
                f"export: {name!r} is a gradient; what is written is the forward program."
            )
    model = translated.translation.builder.model
    return ExportedModel(
        model,
        translated.translation,
        translated.compilation,
        translated.declared_dtypes,
        translated.anchors,
    )


# -- the file -------------------------------------------------------------------------------------


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file to write.

    Raises:
        ModelFileError: it is a folder, or in a folder that does not exist.
    """
    target = Path(path)
    if target.is_dir():
        raise ModelFileError(f"{target} is a folder; give the name of the .onnx file.")
    if not target.parent.is_dir():
        raise ModelFileError(f"{target} cannot be written: there is no folder {target.parent}.")
    return target


def write(exported: ExportedModel, target: Path, external_data_from: int) -> ExportReport:
    """Writes a model.

    Args:
        exported: the model.
        target: the file.
        external_data_from: bytes of weights from which on they go to a file beside it.

    Raises:
        ModelFileError: the file cannot be written.
        InvalidProgramError: the model is not valid ONNX.
    """
    model = exported.model
    _strip(model)
    arrays = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    sizes = [tensor.nbytes for tensor in arrays]
    outside = sum(sizes) >= min(external_data_from, INLINE_LIMIT)
    outside = outside and max(sizes, default=0) >= _SMALL
    try:
        with written_model(target) as (place, name):
            data = name if outside else None
            ir.save(model, place, external_data=data, size_threshold_bytes=_SMALL)
            complete_file(place)
            onnx.checker.check_model(str(place), full_check=data is None)
    except OSError as error:
        raise ModelFileError(
            f"{target} cannot be written: {error.strerror or error}. Choose another place."
        ) from error
    except onnx.checker.ValidationError as error:
        raise InvalidProgramError(
            f"the exported model is no valid ONNX: {error}. The fault is paddle_ipu's: report it."
        ) from error
    return _report(exported, target, None if data is None else target.parent / data, sum(sizes))


def _strip(model: ir.Model) -> None:
    """Leaves out what PopART records on nodes, which ONNX's operators do not have."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for name in [name for name in node.attributes if name.startswith("__")]:
            node.attributes.pop(name)


def _report(exported: ExportedModel, target: Path, data: Path | None, weights: int) -> ExportReport:
    model = exported.model
    opset = int(model.graph.opset_imports[""])
    counted = Counter(
        f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for node in ir.traversal.RecursiveGraphIterator(model.graph)
    )
    return ExportReport(
        target,
        data,
        [_tensor(value) for value in model.graph.inputs if value.name not in
         model.graph.initializers],
        [_tensor(value) for value in model.graph.outputs],
        dict(sorted(counted.items())),
        weights,
        exported.translation.portable and opset <= OPSET,
        not_standard(model),
        opset,
    )  # fmt: skip


def _tensor(value: ir.Value) -> ExportedTensor:
    shape = () if value.shape is None else tuple(int(dim) for dim in value.shape.numpy())
    dtype = "" if value.dtype is None else value.dtype.numpy().name
    return ExportedTensor(str(value.name), shape, dtype)
