"""Things to choose from: each has a name, what makes it, and settings with the values they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Choice:
    """One drawn thing, as data: a layer, an optimizer, a scheduler.

    Attributes:
        name: its key in a table.
        settings: those that are not as in the table's first column.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.settings.items())})"
        )

    def simpler(self) -> Iterator[Choice]:
        """The same with one setting less."""
        for key in self.settings:
            yield replace(
                self, settings={name: v for name, v in self.settings.items() if name != key}
            )


@dataclass(frozen=True)
class Kind:
    """A row of a table.

    Attributes:
        make: makes it, of the context that the table's callers give and of every setting.
        values: setting -> the values it takes; the first is the simplest one.
    """

    make: Callable[..., Any]
    values: Mapping[str, tuple[Any, ...]]


class Table(dict[str, Kind]):
    """Kinds by name."""

    def row(self, name: str, **values: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Any]:
        """A decorator that adds what it decorates."""

        def add(make: Callable[..., Any]) -> Callable[..., Any]:
            self[name] = Kind(make, values)
            return make

        return add

    def draw(self, rng: np.random.Generator, names: tuple[str, ...] = ()) -> Choice:
        """A kind, of `names` or of all, with settings; about half of them are the first ones."""
        name = pick(rng, names or tuple(self))
        settings = {}
        for key, values in self[name].values.items():
            drawn = pick(rng, values) if rng.random() < 0.6 else values[0]
            if drawn is not values[0]:
                settings[key] = drawn
        return Choice(name, settings)

    def make(self, choice: Choice, *context: Any) -> Any:
        """What a choice names."""
        kind = self[choice.name]
        first = {key: values[0] for key, values in kind.values.items()}
        return kind.make(*context, **{**first, **choice.settings})


def pick(rng: np.random.Generator, values: tuple[Any, ...]) -> Any:
    """One of several values, which stay as they are."""
    return values[int(rng.integers(len(values)))]
