"""The table of translators: one for each Paddle operator, by its phi name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from paddle_ipu.ops.context import Array, TranslationContext

Translator = Callable[["TranslationContext"], "str | Sequence[str | None] | Array"]
Function = TypeVar("Function", bound=Translator)


@dataclass(frozen=True, slots=True)
class Row:
    """A translator and its declaration.

    Attributes:
        name: the phi name.
        translate: emits PopART operators for the context's node and returns the tensor of each
            result in order, None for one that is not available; or, for an operator whose only
            result is known at compile time, its value as an array.
        emits: the PopART operators it may emit, as ``domain.Type`` without ``ai.onnx.``.
        limits: what it refuses, for the documentation; "" for nothing.
    """

    name: str
    translate: Translator
    emits: tuple[str, ...]
    limits: str = ""


_TRANSLATORS: dict[str, Row] = {}
_CUSTOM: dict[str, Row] = {}


def translator(
    *names: str, emits: tuple[str, ...], limits: str = ""
) -> Callable[[Function], Function]:
    """Registers a function as the translator of operators.

    Args:
        *names: phi names.
        emits: the PopART operators it may emit, as in `Row`.
        limits: what it refuses, as in `Row`.

    Raises:
        ValueError: one of them has a translator.
    """

    def register(function: Function) -> Function:
        for name in names:
            if name in _TRANSLATORS:
                raise ValueError(f"{name} already has a translator: {_TRANSLATORS[name]}")
            _TRANSLATORS[name] = Row(name, function, emits, limits)
        return function

    return register


def custom_translator(name: str) -> Callable[[Translator], Translator]:
    """Registers the translator of a custom operator, which Paddle does not have.

    Raises:
        ValueError: it has a translator.
    """

    def register(function: Translator) -> Translator:
        if name in _CUSTOM:
            raise ValueError(f"{name} already has a translator: {_CUSTOM[name]}")
        _CUSTOM[name] = Row(name, function, ())
        return function

    return register


def find_translator(op_type: str) -> Row | None:
    """The translator of an operator, None if there is none.

    An in-place form (``relu_``) shares that of the plain one.
    """
    plain = op_type.removesuffix("_")
    return _TRANSLATORS.get(op_type) or _TRANSLATORS.get(plain) or _CUSTOM.get(op_type)


def translated_operators() -> list[Row]:
    """The translators of Paddle's own operators, sorted by name."""
    return [_TRANSLATORS[name] for name in sorted(_TRANSLATORS)]
