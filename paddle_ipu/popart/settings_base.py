"""Records with fixed, type-checked fields, as PopART's bound structures have."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar

from paddle_ipu.popart.older_names import why_gone


class StringMap(dict[str, str]):
    """A str -> str mapping that turns values into strings, as PopART's option maps do."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(values or {})

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(str(key), str(value))

    def update(self, *args: Any, **keywords: Any) -> None:
        """Like dict.update, values turned into strings."""
        for key, value in dict(*args, **keywords).items():
            self[key] = value


@dataclasses.dataclass
class Settings:
    """Base of the records: only declared fields can be set, only to values of their type.

    Raises:
        AttributeError: the name is no field; close names are suggested.
        TypeError: the value is not of the field's type.
    """

    _kinds_by_class: ClassVar[dict[type, dict[str, type | None]]] = {}

    @classmethod
    def _field_kinds(cls) -> dict[str, type | None]:
        kinds = Settings._kinds_by_class.get(cls)
        if kinds is None:
            kinds = {}
            for field in dataclasses.fields(cls):
                optional = field.metadata.get("optional", False)
                kinds[field.name] = None if optional else type(default_of(field))
            Settings._kinds_by_class[cls] = kinds
        return kinds

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            return
        kinds = self._field_kinds()
        if name not in kinds:
            close = difflib.get_close_matches(name, kinds, n=3)
            hint = why_gone(f"{type(self).__name__}.{name}")
            if close and not hint:
                hint = f". Did you mean {' or '.join(close)}?"
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")
        object.__setattr__(self, name, self._converted(name, kinds[name], value))

    def _converted(self, name: str, kind: type | None, value: Any) -> Any:
        if kind is None or type(value) is kind:
            return value
        fits: bool
        if kind is StringMap:
            fits = isinstance(value, Mapping)
        elif kind is float:
            fits = isinstance(value, (int, float))
        elif kind is int:
            fits = isinstance(value, int) and not isinstance(value, Enum)
        elif kind is list:
            fits = isinstance(value, (list, tuple))
        elif kind is set:
            fits = isinstance(value, (set, frozenset, list, tuple))
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise TypeError(
                f"{type(self).__name__}.{name} takes {kind.__name__}, got {value!r} of type "
                f"{type(value).__name__}"
            )
        if isinstance(value, kind):
            return value
        convert: Callable[[Any], Any] = kind
        return convert(value)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default value of a dataclass field."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
