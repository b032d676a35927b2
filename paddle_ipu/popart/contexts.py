"""The context managers that a Builder gives; entered twice, they restore what they found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class AttributeContextManager:
    """Puts an attribute on the nodes made inside it.

    Args:
        scope: the builder's attributes of new nodes, by name.
        name: the attribute.
        value: gives its value, from the one outside, or None there.
    """

    def __init__(self, scope: dict[str, Any], name: str, value: Callable[[Any], Any]) -> None:
        self._scope, self._name, self._value = scope, name, value
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        outer = self._scope.get(self._name)
        self._outer.append(outer)
        self._scope[self._name] = self._value(outer)

    def __exit__(self, *exception: object) -> None:
        outer = self._outer.pop()
        if outer is None:
            del self._scope[self._name]
        else:
            self._scope[self._name] = outer


class KeyValueContextManager(AttributeContextManager):
    """Puts pairs of texts on the nodes made inside it; keys of an outer one keep their values.

    Args:
        scope: the builder's attributes of new nodes, by name.
        name: the attribute.
        pairs: the texts.
    """

    def __init__(self, scope: dict[str, Any], name: str, pairs: Mapping[Any, Any]) -> None:
        def merged(outer: list[str] | None) -> list[str]:
            flat = outer or []
            # Pairs are written in key order, as in PopART.
            found = {str(key): str(value) for key, value in pairs.items()}
            found.update(zip(flat[::2], flat[1::2], strict=True))
            return [item for pair in sorted(found.items()) for item in pair]

        super().__init__(scope, name, merged)


class NameContextManager:
    """Puts a name before the ids and node names made inside it.

    Args:
        scopes: the builder's names.
        name: the name.
    """

    def __init__(self, scopes: list[str], name: str) -> None:
        self._scopes, self._name = scopes, name

    def __enter__(self) -> None:
        self._scopes.append(self._name)

    def __exit__(self, *exception: object) -> None:
        self._scopes.pop()
