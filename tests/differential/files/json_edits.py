"""Damage to a JSON document: values of another type, huge ones, missing and repeated ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_DEEP = "\u0001deep"
_LEAVES: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2, 7, 64, 2**31, -(2**31) - 1, 2**40, 2**63 - 1, 2**63, -(2**63),
    2**64, 10**30, 0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), float("-inf"), "", "0",
    "x", "-1", "1e999", "\0", "\ud800", "../../etc/passwd", "x" * 5000, [], {}, [[]], [{}], [0],
    {"": 0}, _DEEP,
)  # fmt: skip

Place = tuple[Any, Any]
"""(object or array, key or index)."""


def damage(content: bytes, choose: random.Random, words: Sequence[str] = ()) -> bytes:
    """One value of the document is changed; what is no JSON, or too deep, stays as it is.

    Args:
        content: the document.
        choose: the generator.
        words: names of operators, some of which stand in the place of strings.
    """
    try:
        document = [json.loads(content)]
    except (ValueError, RecursionError):
        return content
    places = list(_places(document))[:200_000]
    if not places:
        return content
    try:
        if words and choose.random() < 0.15:
            parent, key = choose.choice([(p, k) for p, k in places if k == "#"] or places)
            parent[key] = choose.choice(words)
        else:
            choose.choice(_ACTIONS)(places, choose)
        text = json.dumps(document[0], separators=(",", ":"))
    except RecursionError:
        # As deep as an earlier edit made it, it can be read but not be written.
        return content
    if json.dumps(_DEEP) in text:
        depth = choose.choice((50, 400, 900, 3000, 100_000))
        opened, closed = choose.choice((("[", "]"), ('{"regions":[', "]}"), ('{"D":[', "]}")))
        text = text.replace(json.dumps(_DEEP), opened * depth + closed * depth)
    return text.encode("utf-8", "surrogatepass")


def _places(found: Any) -> Iterator[Place]:
    """Where values stand, by a walk that is no recursion."""
    waiting = [found]
    while waiting:
        each = waiting.pop()
        keys: Any = each.keys() if isinstance(each, dict) else range(len(each))
        for key in keys:
            yield each, key
            if isinstance(each[key], (dict, list)):
                waiting.append(each[key])


def _replace(places: Sequence[Place], choose: random.Random) -> None:
    parent, key = choose.choice(places)
    parent[key] = choose.choice(_LEAVES)


def _nudge(places: Sequence[Place], choose: random.Random) -> None:
    """A number becomes a near one, or a very large one."""
    numbers = [(p, k) for p, k in places if type(p[k]) in (int, float)]
    if numbers:
        parent, key = choose.choice(numbers)
        with_it = (-1, 0, 1, 2, -2, 1 << 20, 1 << 30, 1 << 33, 1 << 40, 1 << 62, -(1 << 40))
        parent[key] = choose.choice((parent[key] + choose.choice(with_it), -parent[key]))


def _remove(places: Sequence[Place], choose: random.Random) -> None:
    if len(places) > 1:
        # The first is the document itself.
        parent, key = choose.choice(places[1:])
        del parent[key]


def _repeat(places: Sequence[Place], choose: random.Random) -> None:
    in_lists = [(p, k) for p, k in places[1:] if isinstance(p, list)]
    if in_lists:
        parent, key = choose.choice(in_lists)
        parent[key:key] = [parent[key]] * choose.choice((1, 1, 2, 70, 2000))


def _copy(places: Sequence[Place], choose: random.Random) -> None:
    """A value stands in the place of another, which may be the one that holds it."""
    (parent, key), (other, there) = choose.choice(places), choose.choice(places)
    parent[key] = json.loads(json.dumps(other[there]))


def _copy_alike(places: Sequence[Place], choose: random.Random) -> None:
    """A value of the same key stands in the place of another: a name, a type, an operator."""
    parent, key = choose.choice(places)
    alike = [(p, k) for p, k in places if k == key and type(p[k]) is type(parent[key])]
    other, there = choose.choice(alike)
    parent[key] = json.loads(json.dumps(other[there]))


def _rename(places: Sequence[Place], choose: random.Random) -> None:
    objects = [(p, k) for p, k in places if isinstance(p, dict)]
    if objects:
        parent, key = choose.choice(objects)
        other = choose.choice((f"{key}x", "", "D", "#", choose.choice(objects)[1]))
        parent[other] = parent.pop(key)


def _swap(places: Sequence[Place], choose: random.Random) -> None:
    in_lists = [p for p, _ in places[1:] if isinstance(p, list) and len(p) > 1]
    if in_lists:
        found = choose.choice(in_lists)
        one, two = choose.randrange(len(found)), choose.randrange(len(found))
        found[one], found[two] = found[two], found[one]


_ACTIONS: Sequence[Callable[[Sequence[Place], random.Random], None]] = (
    _replace, _replace, _nudge, _nudge, _remove, _repeat, _copy, _copy_alike, _copy_alike, _rename,
    _swap,
)  # fmt: skip
