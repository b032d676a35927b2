"""The table of translators: one for each Paddle operator, found by its phi name."""

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
    """A translator and what it says of itself.

    Attributes:
        name: the phi name.
        translate: emits PopART operators for the context's node and returns the tensor of each
            result in order, None for one that is not offered; or, for an operator whose only
            result is known while translating, that result as an array.
        emits: the PopART operators it may emit, as ``domain.Type`` without ``ai.onnx.``.
        limits: what it refuses, in words, "" for nothing.
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
    """Registers a function as the translator of the operators `names`; a second one raises.

    Args:
        names: phi names.
        emits: PopART operators, as `Row` has them.
        limits: what the translator refuses.
    """

    def register(function: Function) -> Function:
        for name in names:
            if name in _TRANSLATORS:
                raise ValueError(f"{name} already has a translator: {_TRANSLATORS[name]}")
            _TRANSLATORS[name] = Row(name, function, emits, limits)
        return function

    return register


def custom_translator(name: str) -> Callable[[Translator], Translator]:
    """Registers the translator of a custom operator, which no Paddle has; a second one raises."""

    def register(function: Translator) -> Translator:
        if name in _CUSTOM:
            raise ValueError(f"{name} already has a translator: {_CUSTOM[name]}")
        _CUSTOM[name] = Row(name, function, ())
        return function

    return register


def find_translator(op_type: str) -> Row | None:
    """The translator of `op_type`; an in-place form (``relu_``) has that of the plain one."""
    plain = op_type.removesuffix("_")
    return _TRANSLATORS.get(op_type) or _TRANSLATORS.get(plain) or _CUSTOM.get(op_type)


def translated_operators() -> list[Row]:
    """Every row of an operator of Paddle's own, sorted by name."""
    return [_TRANSLATORS[name] for name in sorted(_TRANSLATORS)]
