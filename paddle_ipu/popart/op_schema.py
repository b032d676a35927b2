"""What a row of the table of PopART operators is, and how one is written.

Builder methods, checks and shapes all come from these rows. An operator of ``ai.onnx`` has a row
for each form that the operator sets 6 to 11 know, told apart by the set that defined it; those of
``ai.graphcore`` follow opset 1; ``ai.paddle_ipu`` is this package's own domain, which only the
IPU Model lowers. INT64 stays INT64 in the graph as PopART's builder keeps it; PopART's devices
narrow it to INT32, so values must fit, but not in a Paddle program on the IPU Model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import Infer, InferenceContext

ONNX = "ai.onnx"
GRAPHCORE = "ai.graphcore"
PADDLE_IPU = "ai.paddle_ipu"

AttributeKind = Literal[
    "int",
    "float",
    "string",
    "ints",
    "floats",
    "strings",
    "tensor",
    "dtype",
    "bool",
    "enum",
    "comm",
    "graph",
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an operator.

    Attributes:
        kind: how the value is written. `dtype` takes PopART's type name and writes ONNX's number;
            `enum` takes an enumeration member or its number and writes the number, or, for a loss
            reduction, the string; `comm` takes a CommGroup and writes [type, size]; `bool` writes
            an int; `graph` takes the subgraph's builder.
        default: written when the caller gives nothing; None and most empty lists are not.
        required: the caller must give it.
        argument: the builder's name of the argument, where it differs from the attribute's.
        empty: of `ints`: an empty list is another value than none, and is written.
    """

    kind: AttributeKind
    default: int | float | str | Sequence[int | float | str] | None = None
    required: bool = False
    argument: str | None = None
    empty: bool = False

    @property
    def keeps_empty(self) -> bool:
        """Whether an empty list is written."""
        return self.required or self.empty


CostKind = Literal[
    "free", "view", "map", "move", "reduce", "matmul", "conv", "norm", "softmax", "pool", "gather",
    "scatter", "random", "sort", "loss", "recurrent",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpCost:
    """How `paddle_ipu.cost_model.operator_cost` prices an operator.

    Cycles of maps are those of poplibs' cycle estimators.

    Attributes:
        kind: the formula. "free" moves and computes nothing. A "view" is its first input's memory
            in another shape: Poplar's reshape, slice, concat, dimShuffle and broadcast make no
            copy, and who reads the tensor in another order pays for its exchange. A "map" computes
            each element from those in its place, smaller operands broadcast.
        half: cycles of a worker for each vector of 4 half elements.
        single: cycles of a worker for each vector of 2 float elements.
        nonlinearity: ``RecomputationType.NormOnly`` computes it again where it follows a norm.
    """

    kind: CostKind
    half: float = 1.0
    single: float = 1.0
    nonlinearity: bool = False


def activation(half: float, single: float) -> OpCost:
    """A map that is a nonlinearity."""
    return OpCost("map", half, single, nonlinearity=True)


FREE, MOVE, VIEW = OpCost("free"), OpCost("move"), OpCost("view")
UNPRICED = None
"""Of an operator of which nothing better is known than the bytes that it reads and writes."""

ALL = (-1,)
"""Every input, or every output."""


@dataclass(frozen=True, slots=True)
class GradientReads:
    """Which tensors of an operator its gradient reads, so that they are kept for backward.

    Attributes:
        inputs: positions of inputs, or `ALL`.
        outputs: positions of outputs, or `ALL`.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


READS_NOTHING = GradientReads()
READS_INPUT = GradientReads(inputs=(0,))
READS_INDICES = GradientReads(inputs=(1,))
READS_OPERANDS = GradientReads(inputs=(0, 1))
READS_OUTPUT = GradientReads(outputs=(0,))
READS_INPUT_AND_OUTPUT = GradientReads(inputs=(0,), outputs=(0,))
READS_EVERYTHING = GradientReads(ALL, ALL)
NO_GRADIENT = None
"""Of an operator that no gradient flows through, such as Detach."""


@dataclass(frozen=True, slots=True)
class OpSchema:
    """One PopART operator.

    Attributes:
        version: the operator-set version that defined this form, as PopART prints it.
        outputs: fewest and most outputs; the builder method takes `num_outputs` if they differ or
            if `counted` is set.
        attributes: by ONNX name, in the order of the builder method's arguments.
        input_dtypes: allowed element types by position, the last repeated.
        constant_inputs: positions whose value must be known when the graph is built.
        portable: PopART itself has it.
        cost: or `UNPRICED`; predictions count and name such operators.
        gradient: what its gradient reads, or `NO_GRADIENT`.
        implemented: False where PopART's builder writes the operator and its sessions refuse it.
        unnamed_inputs: positions among the fewest inputs that may have an empty name, for none.
        by_replicas: the types of its results depend on how many replicas there are, which only a
            session knows.
    """

    domain: str
    op_type: str
    builder_name: str
    min_inputs: int
    max_inputs: int | None
    outputs: tuple[int, int | None]
    attributes: MappingProxyType[str, Attribute]
    input_dtypes: tuple[frozenset[ir.DataType], ...]
    constant_inputs: tuple[int, ...]
    infer: Infer
    version: int = 1
    portable: bool = True
    cost: OpCost | None = UNPRICED
    gradient: GradientReads | None = READS_EVERYTHING
    counted: bool = False
    implemented: bool = True
    unnamed_inputs: tuple[int, ...] = ()
    by_replicas: bool = False
    identifier: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identifier", f"{self.domain}.{self.op_type}:{self.version}")

    @property
    def elementwise(self) -> bool:
        """Whether each element follows from those of all operands in its place, broadcast."""
        return self.cost is not None and self.cost.kind == "map"

    def may_be_empty(self, position: int) -> bool:
        """Whether an input's name may be empty, which leaves it out."""
        return position >= self.min_inputs or position in self.unnamed_inputs

    def implied(self, attributes: Iterable[ir.Attr]) -> frozenset[str]:
        """Names of those that PopART leaves out: ONNX's numbers and texts of their default."""
        if self.domain != ONNX:
            return frozenset()
        own = self.attributes
        return frozenset(
            item.name
            for item in attributes
            if item.name in own
            and own[item.name].kind in ("float", "string")
            and item.value == own[item.name].default
        )

    def check_arity(self, inputs: int, outputs: int) -> None:
        """Raises unless the operator takes so many inputs and gives so many outputs."""
        low, high = self.min_inputs, self.max_inputs
        if inputs < low or (high is not None and inputs > high):
            raise popart_exception(
                f"{self.op_type} has invalid number of inputs {inputs}. Must be between "
                f"{low}..{'inf' if high is None else high}"
            )
        most = self.outputs[1]
        if (outputs < 1 and most != 0) or (most is not None and outputs > most):
            raise popart_exception(
                f"{self.op_type} has an invalid number of outputs {outputs}. Must be between "
                f"0..{'inf' if most is None else most}"
            )

    def check_dtypes(self, ctx: InferenceContext) -> None:
        """Raises when an input has an element type the operator does not take."""
        last = len(self.input_dtypes) - 1
        for index, info in enumerate(ctx.inputs):
            allowed = self.input_dtypes[index if index < last else last]
            if info is not None and info.dtype not in allowed:
                names = ", ".join(sorted(dtype.name for dtype in allowed))
                raise ctx.error(
                    f"input {index} '{ctx.input_id(index)}' is {info}, expected one of {names}"
                )


_D = ir.DataType
FLOATS = frozenset({_D.FLOAT, _D.FLOAT16, _D.BFLOAT16, _D.DOUBLE})
INTS = frozenset({_D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64})
NUMBERS = FLOATS | INTS
BOOLS = frozenset({_D.BOOL})
ANY = frozenset(_D) - {_D.UNDEFINED}

NEWEST_OPSETS = {ONNX: 11, GRAPHCORE: 1, PADDLE_IPU: 1}
"""The newest operator set of each domain."""

_ROWS: dict[tuple[str, str], list[OpSchema]] = {}
_BY_BUILDER_NAME: dict[tuple[str, str], str] = {}


def register(schema: OpSchema) -> OpSchema:
    """Adds a row; a second one of the same form, or of the same builder name, raises ValueError."""
    key, named = (schema.domain, schema.op_type), (schema.domain, schema.builder_name)
    forms = _ROWS.get(key, [])
    taken = _BY_BUILDER_NAME.get(named, schema.op_type) != schema.op_type
    if taken or any(form.version == schema.version for form in forms):
        raise ValueError(
            f"{schema.domain}.{schema.op_type} ({schema.builder_name}) is listed twice"
        )
    _ROWS[key] = sorted([*forms, schema], key=lambda form: form.version)
    _BY_BUILDER_NAME[named] = schema.op_type
    return schema


def schema_of(domain: str, op_type: str, opset: int | None = None) -> OpSchema | None:
    """The row of an operator, or None; the domain "" means ``ai.onnx``.

    Args:
        opset: the operator set whose form is meant; the newest one by default.
    """
    domain = domain or ONNX
    forms = _ROWS.get((domain, op_type), ())
    known = [form for form in forms if opset is None or form.version <= opset]
    return known[-1] if known else None


def schema_of_node(node: ir.Node) -> OpSchema | None:
    """The row of a node by the operator set it was written in, or None."""
    return schema_of(node.domain, node.op_type, node.version)


def debug_name(node: ir.Node) -> str:
    """A node as PopART names operators: ``Op(name (ai.onnx.Add:7), inputs=[a], outputs=[b])``.

    The name is left out where the node has none.
    """
    schema = schema_of_node(node)
    identifier = schema.identifier if schema is not None else f"{node.domain}.{node.op_type}"
    what = f"{node.name} ({identifier})" if node.name else identifier
    inputs = ", ".join(str(value.name) for value in node.inputs if value is not None)
    outputs = ", ".join(str(value.name) for value in node.outputs)
    return f"Op({what}, inputs=[{inputs}], outputs=[{outputs}])"


def all_schemas() -> list[OpSchema]:
    """Every row, in the table's order; the forms of one operator together."""
    return [form for forms in _ROWS.values() for form in forms]


def schemas_of_opset(domain: str, opset: int) -> list[OpSchema]:
    """The form of each operator that an operator set of a domain has."""
    schemas = (schema_of(domain, op_type, opset) for owner, op_type in _ROWS if owner == domain)
    return [schema for schema in schemas if schema is not None]


Types = frozenset[ir.DataType]
Attributes = Iterable[tuple[str, Attribute]]


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of operators, by the name that nodes have of it."""

    name: str

    def row(
        self,
        op_types: str | tuple[str, ...],
        inputs: int | tuple[int, int | None],
        infer: Infer,
        dtypes: Types | tuple[Types, ...],
        cost: OpCost | None,
        gradient: GradientReads | None,
        attributes: Attributes = (),
        *,
        name: str | None = None,
        outputs: int | tuple[int, int | None] = 1,
        constants: tuple[int, ...] = (),
        version: int | tuple[int, ...] = 1,
        counted: bool = False,
        implemented: bool = True,
        unnamed: tuple[int, ...] = (),
        by_replicas: bool = False,
    ) -> None:
        """Registers the row of an operator, or equal rows of several.

        Args:
            op_types: its type, or theirs.
            inputs: how many there are, or the fewest and the most, None for any number.
            infer: the rule that types the outputs.
            dtypes: the element types of all inputs, or of each, the last repeated.
            name: of the builder method; the type in lower case by default.
            outputs: how many there are, or the fewest and the most.
            version: the operator set that defined this form, or those that defined equal ones.
            unnamed: positions among the fewest inputs that may have an empty name.

        The other arguments are attributes of `OpSchema`.

        Raises:
            ValueError: a form, or its builder method's name, is registered already.
        """
        low, high = (inputs, inputs) if isinstance(inputs, int) else inputs
        # Those that must be given come first, as in PopART's bindings.
        written = MappingProxyType(dict(sorted(attributes, key=lambda item: not item[1].required)))
        types = (op_types,) if isinstance(op_types, str) else op_types
        versions = (version,) if isinstance(version, int) else version
        for op_type, one in itertools.product(types, versions):
            register(
                OpSchema(
                    domain=self.name,
                    op_type=op_type,
                    builder_name=name or op_type.lower(),
                    min_inputs=low,
                    max_inputs=high,
                    outputs=(outputs, outputs) if isinstance(outputs, int) else outputs,
                    attributes=written,
                    input_dtypes=dtypes if isinstance(dtypes, tuple) else (dtypes,),
                    constant_inputs=constants,
                    infer=infer,
                    version=one,
                    portable=self.name != PADDLE_IPU,
                    cost=cost,
                    gradient=gradient,
                    counted=counted,
                    implemented=implemented,
                    unnamed_inputs=unnamed,
                    by_replicas=by_replicas,
                )
            )


onnx_row, graphcore_row = Domain(ONNX).row, Domain(GRAPHCORE).row
paddle_ipu_row = Domain(PADDLE_IPU).row


def int_(name: str, default: int | None = None, required: bool = False) -> tuple[str, Attribute]:
    """An integer attribute."""
    return name, Attribute("int", default, required)


def float_(name: str, default: float | None = None) -> tuple[str, Attribute]:
    """A number; required where it has no default."""
    return name, Attribute("float", default, default is None)


def ints(name: str, required: bool = False) -> tuple[str, Attribute]:
    """A list of integers."""
    return name, Attribute("ints", None, required)


def axes() -> tuple[str, Attribute]:
    """The axes of a reduction: none of them where empty, all where the attribute is absent."""
    return "axes", Attribute("ints", None, empty=True)


def reduction() -> tuple[str, Attribute]:
    """How a loss is reduced; ``Mean`` by default."""
    return "reduction", Attribute("enum", "Mean")
