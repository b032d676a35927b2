"""Damage to a protobuf message by its fields: other numbers, names, missing and repeated parts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, EncodeError

_INTEGERS = (0, 1, -1, 2, -2, 3, 7, 8, 64, 2**20, 2**30, 2**31 - 1, -(2**31), 2**40, 2**62,
             2**63 - 1, -(2**63))  # fmt: skip
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, 1e300, float("nan"), float("inf"),
           float("-inf"))  # fmt: skip
_TEXTS = ("", "x", "\0", "@EMPTY@", "../../../etc/passwd", "a/b", "x" * 3000, "feed", "fetch",
          "while", "conditional_block", "If", "Loop", "Constant", "int64", "NaN")  # fmt: skip

Field = tuple[Any, Any]
"""(message, descriptor of a field)."""


def damage(
    content: bytes, choose: random.Random, kind: type[Any], words: Sequence[str] = ()
) -> bytes:
    """One field of the message is changed; what is no such message stays as it is.

    Args:
        content: the bytes of a message.
        choose: the generator.
        kind: the class of the message.
        words: names of operators, some of which stand in the place of strings.
    """
    try:
        return _damaged(content, choose, kind, words)
    except (DecodeError, EncodeError):
        # It is none, or it would be nested more deeply than protobuf takes.
        return content


def _damaged(content: bytes, choose: random.Random, kind: type[Any], words: Sequence[str]) -> bytes:
    message = kind.FromString(content)
    fields = list(_fields(message))
    if not fields:
        return content
    owner, field = choose.choice(fields)
    if choose.random() < 0.4:
        # Large lists of numbers would otherwise get most edits.
        name = choose.choice(sorted({field.name for _, field in fields}))
        owner, field = choose.choice([each for each in fields if each[1].name == name])
    change = _change_repeated if _is_repeated(field) else _change
    change(owner, field, _Around(fields, choose, words))
    return bytes(message.SerializePartialToString())


def _is_repeated(field: Any) -> bool:
    # `is_repeated` is newer than the oldest protobuf, `label` older than the newest.
    return bool(field.default_value == [])


def _fields(message: Any) -> Iterator[Field]:
    """Every field that is set, in this message and those in it."""
    waiting = [message]
    while waiting:
        each = waiting.pop()
        for field, value in each.ListFields():
            yield each, field
            if field.type == field.TYPE_MESSAGE:
                waiting.extend(value if _is_repeated(field) else [value])


@dataclass(frozen=True, slots=True)
class _Around:
    """What an edit chooses from: all fields of the message, the generator, names of operators."""

    fields: Sequence[Field]
    choose: random.Random
    words: Sequence[str]


def _value(field: Any, around: _Around) -> Any:
    """A value of the field's type: a telling one, or one of another place."""
    choose = around.choose
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        texts = [
            text
            for owner, other in choose.sample(around.fields, min(len(around.fields), 40))
            if other.type == field.type
            for text in (getattr(owner, other.name) if _is_repeated(other)
                         else [getattr(owner, other.name)])
        ]  # fmt: skip
        found = choose.choice([choose.choice([*_TEXTS, *around.words]), *texts[:3]])
        if field.type == field.TYPE_BYTES and isinstance(found, str):
            return found.encode()
        return found
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return choose.choice(_FLOATS)
    if field.type == field.TYPE_BOOL:
        return choose.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return choose.choice([each.number for each in field.enum_type.values])
    low, high = _LIMITS.get(field.type, (-(2**63), 2**63 - 1))
    return choose.choice([n for n in _INTEGERS if low <= n <= high])


_LIMITS = {
    5: (-(2**31), 2**31 - 1),
    13: (0, 2**32 - 1),
    4: (0, 2**64 - 1),
    17: (-(2**31), 2**31 - 1),
}
"""Field type -> what it holds: int32, uint32, uint64, sint32."""


def _change(owner: Any, field: Any, around: _Around) -> None:
    choose = around.choose
    if choose.random() < 0.2:
        owner.ClearField(field.name)
    elif field.type != field.TYPE_MESSAGE:
        try:
            setattr(owner, field.name, _value(field, around))
        except (TypeError, ValueError):
            owner.ClearField(field.name)
    else:
        found = choose.choice(_messages_like(field, around.fields))
        # A copy: it may hold the place where it goes.
        getattr(owner, field.name).CopyFrom(_copied(found))


def _change_repeated(owner: Any, field: Any, around: _Around) -> None:
    choose = around.choose
    items = getattr(owner, field.name)
    at = choose.randrange(len(items))
    action = choose.choice(("delete", "repeat", "swap", "replace", "replace", "append", "clear"))
    if action == "delete":
        del items[at]
    elif action == "clear":
        owner.ClearField(field.name)
    elif action == "repeat":
        kept = list(items)
        kept[at:at] = [kept[at]] * choose.choice((1, 1, 2, 70, 500))
        _set(owner, field, kept)
    elif action == "swap":
        kept, other = list(items), choose.randrange(len(items))
        kept[at], kept[other] = kept[other], kept[at]
        _set(owner, field, kept)
    elif field.type == field.TYPE_MESSAGE:
        found = _copied(choose.choice(_messages_like(field, around.fields)))
        if action == "replace":
            items[at].CopyFrom(found)
        else:
            items.add().CopyFrom(found)
    else:
        try:
            value = _value(field, around)
            if action == "replace":
                items[at] = value
            else:
                items.append(value)
        except (TypeError, ValueError):
            del items[at]


def _copied(message: Any) -> Any:
    return type(message).FromString(message.SerializePartialToString())


def _set(owner: Any, field: Any, kept: Sequence[Any]) -> None:
    copies = kept
    if field.type == field.TYPE_MESSAGE:
        copies = [_copied(each) for each in kept]
    owner.ClearField(field.name)
    getattr(owner, field.name).extend(copies)


def _messages_like(field: Any, fields: Sequence[Field]) -> list[Any]:
    """Messages of a field's type, wherever they stand."""
    wanted = field.message_type.full_name
    found: list[Any] = []
    for owner, other in fields:
        if other.type == other.TYPE_MESSAGE and other.message_type.full_name == wanted:
            value = getattr(owner, other.name)
            found.extend(value if _is_repeated(other) else [value])
    return found
