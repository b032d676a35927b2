"""Paddle's programs as their readers see them: the parts of Paddle's classes that are used here.

The first half is PIR's, which ``paddle.pir`` and ``pir_json`` have; the second is the messages of
framework.proto, which protobuf makes at run time.
"""

# ruff: noqa: N802 - protobuf's names

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# PIR.


class PirType(Protocol):
    """The type of a value."""

    def as_vec_type(self) -> PirListType | None:
        """Itself where it is that of a list, else None."""


class PirTensorType(Protocol):
    """The type of a tensor.

    Attributes:
        dtype: the element type.
        shape: the dimensions; -1 is one known only at run time.
    """

    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> Sequence[int]: ...


class PirListType(Protocol):
    """The type of a list of tensors."""

    def as_list(self) -> Sequence[PirTensorType]:
        """The members' types."""


class PirValue(PirTensorType, Protocol):
    """A result, an operand, or the absence of one.

    Attributes:
        stop_gradient: no gradient passes it.
        id: its identity, equal for equal values.
    """

    stop_gradient: bool

    @property
    def id(self) -> Hashable: ...
    def initialized(self) -> bool:
        """Whether there is a value."""

    def type(self) -> PirType: ...
    def is_dense_tensor_array_type(self) -> bool: ...


class PirOperation(Protocol):
    """An operator; ``attrs()`` has its attributes as Python values."""

    def name(self) -> str: ...
    def attrs(self) -> dict[str, Any]: ...
    def operands_source(self) -> Sequence[PirValue]: ...
    def operand_source(self, index: int, /) -> PirValue: ...
    def results(self) -> Sequence[PirValue]: ...
    def result(self, index: int, /) -> PirValue: ...
    def blocks(self) -> Iterable[PirBlock]: ...
    def get_input_names(self) -> Sequence[str]: ...


class PirBlock(Protocol):
    """A sequence of operators.

    Attributes:
        ops: the operators, in the order they run.
    """

    @property
    def ops(self) -> Sequence[PirOperation]: ...
    def args(self) -> Sequence[PirValue]:
        """The block's arguments, in a loop's body for instance."""


class PirProgram(Protocol):
    """``paddle.pir.Program``."""

    def global_block(self) -> PirBlock: ...


# Messages of framework.proto.


class Repeated(Protocol[T]):
    """A repeated field."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[T]: ...
    def __getitem__(self, index: int, /) -> T: ...
    def __setitem__(self, index: int, value: T, /) -> None: ...
    def __delitem__(self, index: slice, /) -> None: ...
    def extend(self, items: Iterable[T], /) -> None: ...
    def add(self, **fields: object) -> T:
        """Appends a message with these fields."""


class TensorDesc(Protocol):
    """``VarType.TensorDesc``."""

    data_type: int
    dims: Repeated[int]


class TensorArrayDesc(Protocol):
    """``VarType.DenseTensorArrayDesc``."""

    tensor: TensorDesc


class FieldDescriptor(Protocol):
    """What protobuf knows of a field."""

    name: str


class MessageDescriptor(Protocol):
    """What protobuf knows of a message."""

    fields_by_number: Mapping[int, FieldDescriptor]


class VarType(Protocol):
    """``VarType``; Paddle 2.6 and 3 call the field of a dense tensor otherwise."""

    type: int
    selected_rows: TensorDesc
    tensor_array: TensorArrayDesc
    DESCRIPTOR: MessageDescriptor

    def HasField(self, name: str, /) -> bool: ...


class VarDesc(Protocol):
    """A variable."""

    name: str
    type: VarType
    persistable: bool
    need_check_feed: bool
    is_parameter: bool
    stop_gradient: bool

    def CopyFrom(self, other: VarDesc, /) -> None: ...


class Scalar(Protocol):
    """A number of one of three kinds."""

    type: int
    b: bool
    i: int
    r: float


class AttributeDesc(Protocol):
    """``OpDesc.Attr``: a field for each kind of value; `type` says which one counts."""

    name: str
    type: int
    i: int
    f: float
    s: str
    b: bool
    l: int  # noqa: E741 - framework.proto's name
    ints: Repeated[int]
    longs: Repeated[int]
    strings: Repeated[str]
    block_idx: int
    blocks_idx: Repeated[int]
    var_name: str
    vars_name: Repeated[str]
    scalar: Scalar
    scalars: Repeated[Scalar]


class SlotDesc(Protocol):
    """``OpDesc.Var``: a slot of an operator and the variables in it."""

    parameter: str
    arguments: Repeated[str]


class OpDesc(Protocol):
    """An operator."""

    type: str
    inputs: Repeated[SlotDesc]
    outputs: Repeated[SlotDesc]
    attrs: Repeated[AttributeDesc]

    def CopyFrom(self, other: OpDesc, /) -> None: ...


class BlockDesc(Protocol):
    """A block; its number is its place in the program."""

    idx: int
    parent_idx: int
    vars: Repeated[VarDesc]
    ops: Repeated[OpDesc]


class VersionDesc(Protocol):
    """major * 1000000 + minor * 1000 + patch of Paddle; of an operator, a number of its own."""

    version: int


class OpVersionPair(Protocol):
    """An operator's version."""

    op_name: str
    op_version: VersionDesc


class OpVersionMap(Protocol):
    """The versions of a program's operators."""

    pair: Repeated[OpVersionPair]


class ProgramDesc(Protocol):
    """A program."""

    blocks: Repeated[BlockDesc]
    version: VersionDesc
    op_version_map: OpVersionMap

    def IsInitialized(self) -> bool: ...
    def SerializeToString(self) -> bytes: ...
    def FindInitializationErrors(self) -> Sequence[str]: ...
    def CopyFrom(self, other: ProgramDesc, /) -> None: ...
