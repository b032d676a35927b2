"""PopART's debug contexts: a name for what is built, with the names of what it is part of.

A `DebugContext` is a text here, its path, so that every ``debugContext`` takes it. No Poplar
writes what a `DebugInfo` keeps: it has an id, and its path goes before the names inside it.
"""

from __future__ import annotations

import itertools
from typing import Any, overload

_ids = itertools.count(1)


class SourceLocation:
    """A place in a program, for Poplar's debug information, which no one writes here.

    Args:
        functionName: the function.
        fileName: its file.
        lineNumber: the line, from 1.
    """

    def __init__(self, functionName: str, fileName: str, lineNumber: int) -> None:
        self._where = (functionName, fileName, lineNumber)

    def __repr__(self) -> str:
        return "SourceLocation({!r}, {!r}, {})".format(*self._where)


class DebugContext(str):
    """What names a tensor or an operator: ``outer/inner`` inside a `DebugInfo` of ``outer``.

    ``DebugContext()``, ``DebugContext(name[, loc])`` or ``DebugContext(debugInfo, name[, loc])``.
    The place defaults to the line that calls the builder.

    Raises:
        TypeError: other arguments.
    """

    @overload
    def __new__(cls) -> DebugContext: ...
    @overload
    def __new__(cls, name: str, loc: SourceLocation = ...) -> DebugContext: ...
    @overload
    def __new__(
        cls, debugInfo: DebugInfo, name: str, loc: SourceLocation = ...
    ) -> DebugContext: ...
    def __new__(cls, *args: Any, **keywords: Any) -> DebugContext:
        inside = bool(args) and isinstance(args[0], DebugInfo)
        names = ("debugInfo", "name", "loc") if inside else ("name", "loc")
        names = ("debugInfo", "name", "loc") if "debugInfo" in keywords else names
        given = dict(zip(names, args, strict=False))
        kinds = {"debugInfo": DebugInfo, "name": str, "loc": SourceLocation}
        fits = (
            len(args) <= len(names)
            and not given.keys() & keywords.keys()
            and keywords.keys() <= set(names)
        )
        given |= keywords
        fits = fits and all(isinstance(value, kinds[name]) for name, value in given.items())
        if not fits or (given and "name" not in given):
            raise TypeError(
                "__init__(): incompatible constructor arguments. DebugContext takes (), (name: "
                "str[, loc: SourceLocation]) or (debugInfo: DebugInfo, name: str[, loc: "
                f"SourceLocation]), got {args} {keywords}"
            )
        name = given.get("name", "")
        outer = given["debugInfo"]._path if "debugInfo" in given else ""
        return super().__new__(cls, "/".join(part for part in (outer, name) if part))


class DebugInfo:
    """What contexts are inside of: a context of its own and values that no one writes here.

    Args:
        debugContext: what it is about.
        layer: which of Graphcore's libraries it belongs to, such as ``popart``.
    """

    def __init__(self, debugContext: str, layer: str) -> None:
        if not isinstance(debugContext, str) or not isinstance(layer, str):
            raise TypeError(
                "__init__(): incompatible constructor arguments. DebugInfo takes (debugContext: "
                f"DebugContext, layer: str), got {debugContext!r}, {layer!r}"
            )
        self._path = str(debugContext)
        self._id = next(_ids)
        self._values: dict[str, str] = {"layer": layer}

    def setValue(self, name: str, value: str) -> bool:
        """Keeps a value by name and says whether it is new; a name keeps its first value."""
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                "setValue(): incompatible function arguments. It takes (name: str, value: str), "
                f"got {name!r}, {value!r}"
            )
        if name in self._values:
            return False
        self._values[name] = value
        return True

    def getId(self) -> int:
        """A number that no other of this process has."""
        return self._id
