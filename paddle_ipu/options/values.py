"""The kinds of value a strategy option holds: how one is checked, merged and written to PopART."""

from __future__ import annotations

import difflib
import math
import numbers
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeGuard

from paddle_ipu.errors import OptionError

Status = Literal["effective", "recorded"]

#: (type name, member name), e.g. ("TileSet", "IO") -> PopART's enum member.
EnumLookup = Callable[[str, str], object]

#: A value as it is stored: a bool, a number, a string, a list, a dict or a function.
Stored = Any

UINT64_MAX = 2**64 - 1


class Mismatch(Exception):  # noqa: N818 - never leaves this package
    """A value does not fit. The text says which part of it, and is empty for a plain scalar."""


class Valid(ABC):
    """The values that an option accepts. Immutable; one instance can serve several options.

    Attributes:
        kind: the name of the kind, for documentation.
        value_type: what `get_option` returns as ``type``.
    """

    kind: ClassVar[str]
    value_type: ClassVar[str]
    """What `get_option` returns as ``type``."""

    @abstractmethod
    def describe(self) -> str:
        """The values in words, to follow "expected"."""

    @abstractmethod
    def check(self, value: object) -> Stored:
        """Checks a value that a user sets.

        Returns:
            The value in the form that is stored.

        Raises:
            Mismatch: it does not fit.
        """

    def example(self, value: object, default: Stored) -> Stored:
        """A value that fits, for the error message: near the rejected `value`, else `default`."""
        return default

    def merge(self, old: Stored, new: Stored) -> Stored:
        """The stored value after setting `new` over `old`; neither is modified."""
        return new

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        """Writes a value to a PopART settings object.

        Args:
            target: the object.
            attribute: the name of its attribute.
            value: the stored value.
            enum: looks up members of PopART's enums.
        """
        setattr(target, attribute, value)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python's or NumPy's, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def nearest(value: object, names: Sequence[str], default: Stored) -> Stored:
    """The most similar of some names, for an error message.

    Args:
        value: the rejected value; case does not matter.
        names: the accepted names.
        default: the result if none is similar.
    """
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
    return by_lower[close[0]] if close and isinstance(value, str) else default


@dataclass(frozen=True)
class Flag(Valid):
    """True or False. An int is refused: it may be a count meant for another option."""

    kind: ClassVar[str] = "bool"
    value_type: ClassVar[str] = "bool"

    def describe(self) -> str:
        return "a bool, True or False"

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise Mismatch
        return value

    def example(self, value: object, default: Stored) -> bool:
        words = {"true": True, "false": False}
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        return bool(value) if is_whole(value) else bool(default)


@dataclass(frozen=True)
class Whole(Valid):
    """An integer in [low, high]."""

    low: int = 0
    high: int = UINT64_MAX
    kind: ClassVar[str] = "uint64"
    value_type: ClassVar[str] = "uint64"

    def describe(self) -> str:
        powers = {2**bits - 1: f"2**{bits} - 1" for bits in (31, 63, 64)}
        return f"an int in [{self.low}, {powers.get(self.high, self.high)}]"

    def check(self, value: object) -> int:
        if not is_whole(value) or not self.low <= value <= self.high:
            raise Mismatch
        return int(value)

    def example(self, value: object, default: Stored) -> Stored:
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if is_whole(value) or (isinstance(value, float) and value.is_integer()):
            return min(max(int(value), self.low), self.high)
        return max(default, self.low)


@dataclass(frozen=True)
class Members(Valid):
    """A member of a PopART enum, by number or PopART's name; ``names[number]`` is the name."""

    type_name: str
    names: tuple[str, ...]
    kind: ClassVar[str] = "enum"
    value_type: ClassVar[str] = "uint64"

    def describe(self) -> str:
        members = ", ".join(f"{i} ({n!r})" for i, n in enumerate(self.names))
        return f"an int or its name, one of {members}"

    def check(self, value: object) -> int:
        if isinstance(value, str) and value in self.names:
            return self.names.index(value)
        if not is_whole(value) or not 0 <= value < len(self.names):
            raise Mismatch
        return int(value)

    def example(self, value: object, default: Stored) -> Stored:
        return nearest(value, self.names, default)

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        setattr(target, attribute, enum(self.type_name, self.names[value]))


@dataclass(frozen=True)
class Number(Valid):
    """A finite double in [low, high], or in (low, high] with ``above``; an int is widened."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    kind: ClassVar[str] = "double"
    value_type: ClassVar[str] = "double"

    def describe(self) -> str:
        if self.high != math.inf:
            return f"a number in {'(' if self.above else '['}{self.low:g}, {self.high:g}]"
        if self.low != -math.inf:
            return f"a finite number {'>' if self.above else '>='} {self.low:g}"
        return "a finite number"

    def check(self, value: object) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise Mismatch
        try:
            number = float(value)
        except OverflowError:
            raise Mismatch("it overflows a double") from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise Mismatch
        if self.above and number == self.low:
            raise Mismatch
        # get_option promises the number that was set, so one that a double rounds is refused.
        if number != value:
            raise Mismatch("a double cannot hold it exactly")
        return number


@dataclass(frozen=True)
class Text(Valid):
    """A string, one of ``choices`` where there are any; with ``any_case`` however it is spelt."""

    choices: tuple[str, ...] = ()
    any_case: bool = False
    kind: ClassVar[str] = "string"
    value_type: ClassVar[str] = "string"

    def describe(self) -> str:
        if not self.choices:
            return "a string"
        cases = " in any letter case" if self.any_case else ""
        return "a string, one of " + ", ".join(repr(choice) for choice in self.choices) + cases

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            raise Mismatch
        spelt = value.lower() if self.any_case else value
        if self.choices and spelt not in self.choices:
            raise Mismatch
        return spelt

    def example(self, value: object, default: Stored) -> Stored:
        return nearest(value, self.choices, default)


@dataclass(frozen=True)
class Items(Valid):
    """A list (tuple, set) whose items all fit ``item``; setting it again adds what is new."""

    item: Text | Members
    sample: str | int
    container: type[list[Any]] | type[set[Any]] = list
    upper: bool = False
    """Whether PopART spells the strings in capitals."""
    kind: ClassVar[str] = "list"
    value_type: ClassVar[str] = "vector"

    def describe(self) -> str:
        return f"a list, each item {self.item.describe()}"

    def check(self, value: object) -> list[Any]:
        if not isinstance(value, list | tuple | set | frozenset):
            raise Mismatch
        items = []
        for item in value:
            try:
                items.append(self.item.check(item))
            except Mismatch:
                raise Mismatch(f"item {item!r} does not fit") from None
        # A set has no order of its own; the stored list must not depend on hashing.
        return sorted(items) if isinstance(value, set | frozenset) else items

    def example(self, value: object, default: Stored) -> list[Any]:
        items = value if isinstance(value, list | tuple) else [value]
        return [self.item.example(item, self.sample) for item in items] or [self.sample]

    def merge(self, old: Stored, new: Stored) -> list[Any]:
        return list(dict.fromkeys([*old, *new]))

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        item = self.item
        if isinstance(item, Members):
            value = [enum(item.type_name, item.names[number]) for number in value]
        elif self.upper:
            value = [text.upper() for text in value]
        setattr(target, attribute, self.container(value))


class KeyedValid(Valid):
    """Base of the dict options: setting a key again replaces its value, other keys stay."""

    kind: ClassVar[str] = "dict"
    value_type: ClassVar[str] = "map"

    def merge(self, old: Stored, new: Stored) -> Stored:
        return {**old, **new}


def _dict_of(value: object, known: Collection[str]) -> dict[str, Any]:
    """A copy of a dict with known keys."""
    if not isinstance(value, dict):
        raise Mismatch
    for key in value:
        if key not in known:
            raise Mismatch(f"key {key!r} is not one of {', '.join(known)}")
    return dict(value)


@dataclass(frozen=True)
class StringMap(KeyedValid):
    """Poplar options: any key, or one of ``keys``, with a string or an int; PopART gets strings."""

    keys: tuple[str, ...] = ()

    def describe(self) -> str:
        if self.keys:
            return "a dict with strings or ints under " + ", ".join(map(repr, self.keys))
        return "a dict from strings to strings or ints"

    def check(self, value: object) -> dict[str, str | int]:
        if not isinstance(value, dict):
            raise Mismatch
        for key, entry in value.items():
            if not isinstance(key, str):
                raise Mismatch(f"key {key!r} is not a string")
            if self.keys and key not in self.keys:
                raise Mismatch(f"key {key!r} is not one of {', '.join(self.keys)}")
            if isinstance(entry, bool):
                raise Mismatch(f"key {key!r} holds {entry}: Poplar reads 'true' or 'false'")
            if not isinstance(entry, str) and not is_whole(entry):
                raise Mismatch(f"key {key!r} holds {entry!r}: write it as a string")
        return dict(value)

    def example(self, value: object, default: Stored) -> dict[str, str]:
        return {self.keys[0] if self.keys else "name": "value"}

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        setattr(target, attribute, {key: str(entry) for key, entry in value.items()})


@dataclass(frozen=True)
class FlagMap(KeyedValid):
    """Bools under fixed keys; ``fields`` gives PopART's field for each."""

    fields: Mapping[str, str]

    def describe(self) -> str:
        return "a dict with bools under " + ", ".join(f"'{key}'" for key in self.fields)

    def check(self, value: object) -> dict[str, bool]:
        flags = _dict_of(value, self.fields)
        for key, entry in flags.items():
            if not isinstance(entry, bool):
                raise Mismatch(f"key {key!r} holds {entry!r}, which is no bool")
        return flags

    def example(self, value: object, default: Stored) -> dict[str, bool]:
        return {next(iter(self.fields)): True}

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        settings = getattr(target, attribute)
        for key, entry in value.items():
            setattr(settings, self.fields[key], entry)


@dataclass(frozen=True)
class Fragment(Valid):
    """``{schedule: [virtual graphs left out]}``, one schedule; setting it again replaces it."""

    schedule: Members
    kind: ClassVar[str] = "dict"
    value_type: ClassVar[str] = "map"

    def describe(self) -> str:
        names = ", ".join(f"{i} ({n!r})" for i, n in enumerate(self.schedule.names))
        return f"a dict with one schedule, {names}, and the list of virtual graphs it leaves out"

    def check(self, value: object) -> dict[int, list[int]]:
        if not isinstance(value, dict):
            raise Mismatch
        if len(value) != 1:
            raise Mismatch(f"it holds {len(value)} schedules")
        ((schedule, excluded),) = value.items()
        try:
            number = self.schedule.check(schedule)
        except Mismatch:
            raise Mismatch(f"{schedule!r} is no schedule") from None
        if not isinstance(excluded, list | tuple) or not all(
            is_whole(graph) and graph >= 0 for graph in excluded
        ):
            raise Mismatch(f"{excluded!r} is no list of virtual graph numbers")
        return {number: [int(graph) for graph in excluded]}

    def example(self, value: object, default: Stored) -> dict[int, list[int]]:
        return {3: [0]}

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        settings = getattr(target, attribute)
        for number, excluded in value.items():
            self.schedule.record(settings, "schedule", number, enum)
            settings.excludedVirtualGraphs = list(excluded)


@dataclass(frozen=True)
class OperatorMapping(Valid):
    """One custom operator: which PopART operator a Paddle operator becomes."""

    kind: ClassVar[str] = "dict"
    value_type: ClassVar[str] = "map"
    keys: ClassVar[tuple[str, ...]] = ("paddle_op", "popart_op", "domain", "version")

    def describe(self) -> str:
        strings = ", ".join(map(repr, self.keys[:3]))
        return f"a dict with strings under {strings} and an int >= 1 under 'version'"

    def check(self, value: object) -> dict[str, str | int]:
        mapping = _dict_of(value, self.keys)
        for key in self.keys:
            if key not in mapping:
                raise Mismatch(f"key {key!r} is missing")
            entry = mapping[key]
            good = is_whole(entry) and entry >= 1 if key == "version" else isinstance(entry, str)
            if not good or entry == "":
                raise Mismatch(f"key {key!r} holds {entry!r}")
        if "." in mapping["paddle_op"]:
            # PIR prints the dialect in front, which no program has in the type.
            bare = mapping["paddle_op"].rpartition(".")[2]
            raise Mismatch(f"key 'paddle_op' holds {mapping['paddle_op']!r}, write {bare!r}")
        return mapping

    def example(self, value: object, default: Stored) -> dict[str, str | int]:
        return {"paddle_op": "relu_x", "popart_op": "ReluX", "domain": "custom.ops", "version": 1}


@dataclass(frozen=True)
class Location(KeyedValid):
    """Where a family of tensors is kept, as PopART's TensorLocationSettings."""

    kind: ClassVar[str] = "location"
    counts: ClassVar[dict[str, str]] = {
        "min_elements_for_off_chip": "minElementsForOffChip",
        "min_elements_for_replicated_tensor_sharding": "minElementsForReplicatedTensorSharding",
    }
    #: key -> (field of TensorLocation, enum type, member for 0, member for 1)
    switches: ClassVar[dict[str, tuple[str, str, str, str]]] = {
        "on_chip": ("storage", "TensorStorage", "OffChip", "OnChip"),
        "use_replicated_tensor_sharding": (
            "replicatedTensorSharding",
            "ReplicatedTensorSharding",
            "Off",
            "On",
        ),
        "use_io_tiles_to_load": ("loadTileSet", "TileSet", "Compute", "IO"),
        "use_io_tiles_to_store": ("storageTileSet", "TileSet", "Compute", "IO"),
    }
    #: key -> member of CommGroupType; the key's number is the size of a group of replicas.
    domains: ClassVar[dict[str, str]] = {
        "sharding_domain_with_all": "All",
        "sharding_domain_with_consecutive": "Consecutive",
        "sharding_domain_with_orthogonal": "Orthogonal",
    }

    def describe(self) -> str:
        return (
            f"a dict with 0 or 1 under {', '.join(map(repr, self.switches))}, "
            f"an int >= 0 under {', '.join(map(repr, [*self.counts, *self.domains]))}"
        )

    def check(self, value: object) -> dict[str, int]:
        settings = _dict_of(value, (*self.switches, *self.counts, *self.domains))
        for key, entry in settings.items():
            if key in self.switches:
                # 1.0 == 1, so the type is asked too.
                good = (isinstance(entry, bool) or is_whole(entry)) and entry in (0, 1)
            else:
                good = is_whole(entry) and 0 <= entry <= UINT64_MAX
            if not good:
                raise Mismatch(f"key {key!r} holds {entry!r}")
        return settings

    def example(self, value: object, default: Stored) -> dict[str, int]:
        return {"on_chip": 0, "use_replicated_tensor_sharding": 1}

    def record(self, target: object, attribute: str, value: Stored, enum: EnumLookup) -> None:
        settings = getattr(target, attribute)
        for key, entry in value.items():
            if key in self.counts:
                setattr(settings, self.counts[key], entry)
            elif key in self.switches:
                name, type_name, off, on = self.switches[key]
                setattr(settings.location, name, enum(type_name, on if entry else off))
            else:
                domain = settings.location.shardingDomain
                domain.type = enum("CommGroupType", self.domains[key])
                domain.replicaGroupSize = entry


@dataclass(frozen=True)
class ProgressLogger(Valid):
    """A function called with (progress, total) while a program compiles; None takes it off."""

    kind: ClassVar[str] = "callable"
    value_type: ClassVar[str] = "callable"

    def describe(self) -> str:
        return "a callable taking (progress: int, total: int), or None"

    def check(self, value: object) -> object:
        if value is not None and not callable(value):
            raise Mismatch
        return value

    def example(self, value: object, default: Stored) -> Stored:
        return print


@dataclass(frozen=True)
class ReadOnly(Valid):
    """A list that only other calls change."""

    instead: str
    kind: ClassVar[str] = "list"
    value_type: ClassVar[str] = "vector"

    def describe(self) -> str:
        return f"no value: it is read only, {self.instead} adds to it"

    def check(self, value: object) -> Stored:
        raise Mismatch


@dataclass(frozen=True)
class Option:
    """One row of the table of options.

    Attributes:
        name: what ``set_options`` takes.
        valid: its values.
        default: its value while nobody has set it.
        meaning: a sentence for the documentation.
        status: ``effective`` (changes what is compiled or run) or ``recorded`` (written to the
            PopART program for hardware; changes no number).
        group: a heading of the documentation.
        seam: where PopART takes it; a name under ``SessionOptions.`` is a field there.
    """

    name: str
    valid: Valid
    default: Stored
    meaning: str
    status: Status
    group: str
    seam: str = ""

    @property
    def kind(self) -> str:
        """bool, uint64, enum, double, string, list, dict, callable or location."""
        return self.valid.kind

    def check(self, value: object) -> Stored:
        """The value as it is stored.

        Raises:
            OptionError: it does not fit; the message says what was got and what is expected.
        """
        try:
            return self.valid.check(value)
        except Mismatch as mismatch:
            detail = f" ({mismatch})" if str(mismatch) else ""
            message = (
                f"Option '{self.name}': got {reprlib.repr(value)} of type "
                f"{type(value).__name__}{detail}, expected {self.valid.describe()}."
            )
            if not isinstance(self.valid, ReadOnly):
                example = self.valid.example(value, self.default)
                shown = getattr(example, "__name__", None) or repr(example)
                message += f" Write for example set_options({{'{self.name}': {shown}}})."
            raise OptionError(message) from None
