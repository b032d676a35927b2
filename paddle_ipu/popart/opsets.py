"""The operator namespaces of a builder: one method per schema row, made from the table.

A method takes the input ids first, then `num_outputs` where PopART asks for it, then the
attributes in the row's order, then `debugContext`; all can be given by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, SupportsFloat, SupportsIndex

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import ReductionType, ScatterReduction
from paddle_ipu.popart.schema import (
    GRAPHCORE,
    ONNX,
    PADDLE_IPU,
    Attribute,
    OpSchema,
    schema_of,
    schemas_of_opset,
)
from paddle_ipu.popart.shape_inference.nn import check_window
from paddle_ipu.popart.tensorinfo import TensorInfo, dtype_from_string

OpMethod = Callable[..., Any]
REQUIRED = object()
"""The default of an argument that has none."""


class Emitter(Protocol):
    """What a namespace needs of its builder."""

    def emit(
        self,
        schema: OpSchema,
        inputs: Sequence[str],
        attributes: Sequence[ir.Attr],
        num_outputs: int,
        debug_context: str,
        opset: int,
    ) -> list[str]:
        """Appends one node and returns the ids of its outputs."""

    def info(self, tensor_id: str) -> TensorInfo:
        """The type of a tensor."""


def _integer(value: object) -> int:
    # bool counts as an integer, as it does for pybind11.
    if isinstance(value, (SupportsIndex, np.bool_)):
        return int(value)
    raise TypeError


def _number(value: object) -> float:
    # As for pybind11, whatever is one number, but no text.
    if isinstance(value, (SupportsFloat, SupportsIndex)) and not getattr(value, "ndim", 0):
        return float(value)
    raise TypeError


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _items(value: object) -> Sequence[object]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError
    return list(value)


def make_attribute(name: str, kind: str, value: Any) -> ir.Attr:
    """An ONNX attribute from a Python value; TypeError when the value is of another kind."""
    if kind == "int" or kind == "bool":
        return ir.AttrInt64(name, _integer(value))
    if kind == "float":
        return ir.AttrFloat32(name, _number(value))
    if kind == "ints":
        return ir.AttrInt64s(name, [_integer(item) for item in _items(value)])
    if kind == "floats":
        return ir.AttrFloat32s(name, [_number(item) for item in _items(value)])
    if kind == "string":
        return ir.AttrString(name, _text(value))
    if kind == "strings":
        return ir.AttrStrings(name, [_text(item) for item in _items(value)])
    if kind == "dtype":
        return ir.AttrInt64(name, int(dtype_from_string(_text(value))))
    if kind == "enum":
        return _enum_attribute(name, value)
    if kind == "comm":
        return ir.AttrInt64s(name, [int(value.type), int(value.replicaGroupSize)])
    if kind == "tensor":
        if not isinstance(value, np.ndarray):
            raise TypeError
        return ir.AttrTensor(name, ir.Tensor(np.ascontiguousarray(value).reshape(value.shape)))
    if kind == "graph":
        return ir.AttrGraph(name, value.model.graph)
    raise AssertionError(f"unknown kind {kind} of attribute {name}")


def _enum_attribute(name: str, value: Any) -> ir.Attr:
    if name == "reduction":
        if isinstance(value, ReductionType):
            return ir.AttrString(name, value.onnx_name)
        if isinstance(value, ScatterReduction):
            written = "none" if value is ScatterReduction.NoReduction else value.name.lower()
            return ir.AttrString(name, written)
        return ir.AttrString(name, _text(value))
    return ir.AttrInt64(name, int(value))


_LISTS = frozenset({"ints", "floats", "strings"})

_MOST_SHOWN = 8
"""Elements of an array that an error shows."""


def _shown(value: object) -> str:
    """A value as an error shows it: of a larger array, what it is."""
    if isinstance(value, np.ndarray) and value.size > _MOST_SHOWN:
        return f"<{value.dtype} array of shape {list(value.shape)}>"
    return repr(value)


class Parameter(NamedTuple):
    """One argument of a builder method; its default is `REQUIRED` when it must be given."""

    name: str
    kind: str
    default: object


DEBUG_ARGUMENTS = {
    "logical_if": "name",
    "call": "debugName",
    "packedDataBlock": "debugName",
    "ctcbeamsearchdecoder": "debug_context",
    "tensorremap": "debugPrefix",
}
"""What PopART calls the argument ``debugContext`` of a method, where it calls it otherwise."""

_DEBUG_PLACES = {"printtensor": 2}
"""Where PopART has it, where it is not the last one."""

_MAY_LACK_INPUTS = frozenset(
    "abort bitwiseand bitwisenot bitwiseor bitwisexnor bitwisexor bucketize groupedgather "
    "groupedscatterreduce incrementmod scatterreduce sort splinebasis splineweighting "
    "swish".split()
)
"""Methods of ai.graphcore that can be called without inputs; only Abort takes none."""

_WITHOUT_DEFAULT = {"depthtospace": "mode", "slice": "axes", "splinebasis": "degree"}
"""Arguments of ai.graphcore that must be given though the attribute has a default."""

_OTHER_DEFAULTS: dict[tuple[str, str], object] = {
    ("meanvariancenormalization", "axes"): [],
    ("stringnormalizer", "locale"): "",
}
"""Defaults of arguments that are not those of ONNX's attributes."""

_MEMBERS = {"Mean": ReductionType.Mean, "sum": ScatterReduction.Sum}
"""Members of enumerations by the text that an attribute has for them."""


def parameters_of(schema: OpSchema) -> list[Parameter]:
    """The arguments of the operator's builder method, in order.

    As with pybind11, one that must be given may follow one that need not.
    """
    method, graphcore = schema.builder_name, schema.domain == GRAPHCORE
    parameters = []
    if schema.max_inputs != 0:
        may_lack = graphcore and method in _MAY_LACK_INPUTS
        parameters.append(Parameter("args", "list[str]", [] if may_lack else REQUIRED))
    if takes_num_outputs(schema):
        parameters.append(Parameter("num_outputs", "int", REQUIRED))
    for name, attribute in schema.attributes.items():
        default: object = _OTHER_DEFAULTS.get((method, name), attribute.default)
        if attribute.required or (graphcore and _WITHOUT_DEFAULT.get(method) == name):
            default = REQUIRED
        if attribute.kind == "enum" and isinstance(default, str):
            default = _MEMBERS[default]
        parameters.append(Parameter(attribute.argument or name, attribute.kind, default))
    if schema.op_type == "Constant" and schema.version == 11:
        parameters.append(Parameter("is_value_sparse", "bool", False))
    debug = Parameter(DEBUG_ARGUMENTS.get(method, "debugContext"), "str", "")
    parameters.insert(_DEBUG_PLACES.get(method, len(parameters)), debug)
    return parameters


def takes_num_outputs(schema: OpSchema) -> bool:
    """Whether the builder method asks how many outputs are wanted."""
    return schema.counted or schema.outputs[0] != schema.outputs[1]


def returns_list(schema: OpSchema) -> bool:
    """Whether the builder method returns a list of ids instead of one id."""
    return takes_num_outputs(schema) or schema.outputs[1] != 1


def signature_of(schema: OpSchema) -> str:
    """The builder method's arguments and result, as text."""
    parts = [
        f"{name}: {kind}" + ("" if default is REQUIRED else f" = {default!r}")
        for name, kind, default in parameters_of(schema)
    ]
    return f"({', '.join(parts)}) -> {'list[str]' if returns_list(schema) else 'str'}"


def _make_method(schema: OpSchema) -> OpMethod:
    """The builder method of one row."""
    parameters = parameters_of(schema)
    signature = signature_of(schema)
    names = [parameter.name for parameter in parameters]
    defaults = [parameter.default for parameter in parameters]
    position = {name: at for at, name in enumerate(names)}
    attributes: list[tuple[int, str, Attribute]] = [
        (position[attribute.argument or name], name, attribute)
        for name, attribute in schema.attributes.items()
    ]
    debug_name = DEBUG_ARGUMENTS.get(schema.builder_name, "debugContext")
    debug_at = position[debug_name]
    args_at, count_at = position.get("args"), position.get("num_outputs")
    fixed_count, as_list = schema.outputs[0], returns_list(schema)
    sparse_at = position.get("is_value_sparse")

    def incompatible(given: Sequence[object], keywords: dict[str, object], why: str) -> TypeError:
        invoked = ", ".join(
            [_shown(value) for value in given] + [f"{k}={_shown(v)}" for k, v in keywords.items()]
        )
        return TypeError(
            f"{schema.builder_name}(): incompatible function arguments. The following argument "
            f"types are supported: {signature}. Invoked with: {invoked}. {why}"
        )

    def method(self: _Namespace, *given: object, **keywords: object) -> str | list[str] | None:
        values = list(defaults)
        if len(given) > len(values):
            raise incompatible(given, keywords, f"At most {len(values)} arguments are taken.")
        values[: len(given)] = given
        for name, value in keywords.items():
            at = position.get(name)
            if at is None:
                raise incompatible(given, keywords, f"There is no argument '{name}'.")
            if at < len(given):
                raise incompatible(given, keywords, f"'{name}' is given twice.")
            values[at] = value
        for at, value in enumerate(values):
            if value is REQUIRED:
                raise incompatible(given, keywords, f"'{names[at]}' is missing.")
        inputs = () if args_at is None else values[args_at]
        if isinstance(inputs, np.ndarray):
            inputs = inputs.tolist()
        if not isinstance(inputs, (list, tuple)) or not all(isinstance(i, str) for i in inputs):
            raise incompatible(given, keywords, "'args' must be a list of tensor ids.")
        written = []
        for at, name, attribute in attributes:
            value = values[at]
            if value is None:
                continue
            try:
                made = make_attribute(name, attribute.kind, value)
            except (TypeError, AttributeError):
                why = f"'{names[at]}' must be of kind {attribute.kind}, got {value!r}."
                raise incompatible(given, keywords, why) from None
            # PopART leaves empty vectors out where they mean the same as none.
            if attribute.kind not in _LISTS or attribute.keeps_empty or made.value:
                written.append(made)
        if sparse_at is not None and values[sparse_at]:
            raise incompatible(given, keywords, "Sparse constants are not supported.")
        count = fixed_count if count_at is None else values[count_at]
        if not isinstance(count, int) or count < 0:
            raise incompatible(given, keywords, "'num_outputs' must be a number of outputs.")
        debug_context = values[debug_at]
        if not isinstance(debug_context, str):
            raise incompatible(given, keywords, f"'{debug_name}' must be a string.")
        outputs = self._builder.emit(schema, inputs, written, count, debug_context, self.version)
        if not outputs:
            return None
        return outputs if as_list else outputs[0]

    method.__name__ = schema.builder_name
    method.__qualname__ = f"{schema.domain}.{schema.builder_name}"
    method.__doc__ = f"Appends {schema.identifier}: ``{schema.builder_name}{signature}``."
    return method


@cache
def _of_row(op_type: str) -> OpMethod:
    """The method of a row of ``ai.graphcore``, for one that is written by hand."""
    schema = schema_of(GRAPHCORE, op_type, 1)
    assert schema is not None
    return _make_method(schema)


class _Namespace:
    """Operators of one domain at one opset version."""

    domain = ""
    version = 0

    def __init__(self, builder: Emitter) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> OpMethod:
        raise AttributeError(
            f"{self.domain} opset {self.version} has no operator method '{name}'. "
            f"It has: {', '.join(operator_methods(type(self)))}"
        )

    def __str__(self) -> str:
        return f"{type(self).__name__}"


class AiOnnxOpset6(_Namespace):
    """``ai.onnx`` opset 6."""

    domain = ONNX
    version = 6


class AiOnnxOpset7(_Namespace):
    """``ai.onnx`` opset 7."""

    domain = ONNX
    version = 7


class AiOnnxOpset8(_Namespace):
    """``ai.onnx`` opset 8."""

    domain = ONNX
    version = 8


class AiOnnxOpset9(_Namespace):
    """``ai.onnx`` opset 9."""

    domain = ONNX
    version = 9


class AiOnnxOpset10(_Namespace):
    """``ai.onnx`` opset 10."""

    domain = ONNX
    version = 10


class AiOnnxOpset11(_Namespace):
    """``ai.onnx`` opset 11."""

    domain = ONNX
    version = 11


class AiGraphcoreOpset1(_Namespace):
    """``ai.graphcore`` opset 1."""

    domain = GRAPHCORE
    version = 1

    def init(
        self,
        shape: Sequence[int],
        data_type: int,
        init_type: int,
        batch_axis: int | str = -1,
        debugContext: str = "",
    ) -> object:
        """``(shape, data_type, init_type[, batch_axis], debugContext="")``: a new tensor."""
        last = (-1, batch_axis) if isinstance(batch_axis, str) else (batch_axis, debugContext)
        return _of_row("Init")(self, shape, data_type, init_type, *last)

    def reshape(self, args: str, shape: Sequence[int], debugContext: str = "") -> object:
        """One tensor in another shape; PopART takes its id, not a list of one."""
        if not isinstance(args, str):
            raise TypeError(
                "reshape(): incompatible function arguments. The following argument types are "
                "supported: (args: str, shape: ints, debugContext: str = '') -> str. Invoked with: "
                f"{args!r}, {shape!r}. 'args' must be a tensor id."
            )
        return _of_row("Reshape")(self, [args], shape, debugContext)

    def scatterreduce(
        self,
        args: Sequence[str] = (),
        axis_size: int | None = None,
        axis: int = -1,
        reduction: ScatterReduction | str = ScatterReduction.Sum,
        enable_index_broadcast: int = 1,
        debugContext: str = "",
    ) -> Any:
        """``groupedscatterreduce`` with one group; `axis_size` must be given."""
        if axis_size is None:
            raise TypeError(
                "scatterreduce(): incompatible function arguments. 'axis_size' is missing."
            )
        return self.groupedscatterreduce(
            args, axis_size, axis, reduction, 1, enable_index_broadcast, debugContext
        )

    def multiconv(
        self,
        args: Sequence[Sequence[str]],
        dilations: Sequence[Sequence[int]] = (),
        inDilations: Sequence[Sequence[int]] = (),
        pads: Sequence[Sequence[int]] = (),
        outPads: Sequence[Sequence[int]] = (),
        strides: Sequence[Sequence[int]] = (),
        availableMemoryProportions: Sequence[float] = (),
        partialsTypes: Sequence[str] = (),
        planType: str | None = None,
        perConvReservedTiles: int | None = None,
        cycleBackOff: float | None = None,
        enableConvDithering: Sequence[int] = (),
        debugContext: str = "",
    ) -> list[str]:
        """Several convolutions ``[data, weights, bias]``, the bias optional; one output of each.

        Lists have an entry for each convolution, or none.
        """
        if not args:
            raise popart_exception(
                f"MultiConvOp '{debugContext}' has no input tensors. Provide at least one set of "
                "inputs"
            )
        fault = next((len(row) for row in args if len(row) not in (2, 3)), None)
        if fault is not None:
            wanted = (
                "must have at least two inputs - data and weights"
                if fault < 2
                else "can have at most three inputs - data, weights, and bias"
            )
            raise popart_exception(f"Each convolution of MultiConvOp '{debugContext}' {wanted}")
        given = {
            "dilations": dilations,
            "inDilations": inDilations,
            "pads": pads,
            "outPads": outPads,
            "strides": strides,
        }
        for name, sets in {
            **given,
            "availableMemoryProportions": availableMemoryProportions,
            "partialsTypes": partialsTypes,
            "enableConvDithering": enableConvDithering,
        }.items():
            if len(sets) not in (0, len(args)):
                raise popart_exception(
                    f"For MultiConvOp '{debugContext}', number of {name} parameter sets "
                    f"({len(sets)}) does not match the number of input sets ({len(args)})"
                )
        for at, row in enumerate(args):
            of_one = {name: sets[at] if sets else () for name, sets in given.items()}
            check_window(
                len(self._builder.info(row[0]).dims) - 2,
                of_one["strides"],
                of_one["pads"],
                of_one["dilations"],
                of_one["inDilations"],
            )
        written: dict[str, object] = {
            name: list(itertools.chain.from_iterable(rows)) for name, rows in given.items() if rows
        }
        written["availableMemoryProportions"] = list(availableMemoryProportions) or None
        written["partialsTypes"] = list(partialsTypes) or None
        written["planType"] = planType
        written["perConvReservedTiles"] = perConvReservedTiles
        written["cycleBackOff"] = cycleBackOff
        written["enableConvDithering"] = list(enableConvDithering) or None
        schema = schema_of(GRAPHCORE, "MultiConv", self.version)
        assert schema is not None
        attributes = [
            make_attribute(name, schema.attributes[name].kind, value)
            for name, value in written.items()
            if value is not None
        ]
        inputs = [name for row in args for name in (*row, "")[:3]]
        return self._builder.emit(schema, inputs, attributes, len(args), debugContext, self.version)


class AiPaddleIpuOpset1(_Namespace):
    """``ai.paddle_ipu`` opset 1: operators PopART does not have, for the IPU Model only."""

    domain = PADDLE_IPU
    version = 1


ONNX_NAMESPACES: dict[int, type[_Namespace]] = {
    namespace.version: namespace
    for namespace in (
        AiOnnxOpset6,
        AiOnnxOpset7,
        AiOnnxOpset8,
        AiOnnxOpset9,
        AiOnnxOpset10,
        AiOnnxOpset11,
    )
}
"""The operator sets of ``ai.onnx`` that PopART has."""

NAMESPACES = (*ONNX_NAMESPACES.values(), AiGraphcoreOpset1, AiPaddleIpuOpset1)


def operator_methods(namespace: type[_Namespace]) -> list[str]:
    """Names of the operator methods of a namespace, sorted."""
    forms = schemas_of_opset(namespace.domain, namespace.version)
    return sorted(schema.builder_name for schema in forms)


def _fill(namespaces: Sequence[type[_Namespace]]) -> None:
    """Gives each namespace a method for each operator; operator sets share those of one form."""
    made: dict[str, OpMethod] = {}
    for namespace in namespaces:
        for schema in schemas_of_opset(namespace.domain, namespace.version):
            if schema.identifier not in made:
                made[schema.identifier] = _make_method(schema)
            if schema.builder_name in vars(namespace):
                continue  # written by hand above
            setattr(namespace, schema.builder_name, made[schema.identifier])


_fill(NAMESPACES)
