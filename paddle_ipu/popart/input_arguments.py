"""The forms in which a Builder's methods that add inputs take their arguments, as PopART's do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paddle_ipu.popart.options import InputSettings
from paddle_ipu.popart.tensorinfo import TensorInfo
from paddle_ipu.popart.variable_settings import VariableSettings

Array = np.ndarray[Any, Any]


def input_arguments(
    args: Sequence[Any], keywords: dict[str, Any]
) -> tuple[TensorInfo, InputSettings | None, str]:
    """Sorts out the two forms of addInputTensor."""
    rest, given = list(args), dict(keywords)
    wrong = TypeError(
        "addInputTensor(): incompatible function arguments. The following argument types are "
        "supported: (tensorInfo: TensorInfo, settings: InputSettings = None, debugContext: str = "
        "''), (dataType: str, shape: list[int], settings: InputSettings = None, debugContext: str "
        f"= ''). Invoked with: {args}, {keywords}"
    )
    first = rest.pop(0) if rest else given.pop("tensorInfo", given.pop("dataType", None))
    by_name = isinstance(first, str)
    if by_name:
        shape = rest.pop(0) if rest else given.pop("shape", None)
        if isinstance(shape, (str, bytes)) or not isinstance(shape, (Sequence, np.ndarray)):
            raise wrong
        info = TensorInfo(first, list(shape))
    elif isinstance(first, TensorInfo):
        info = first
    else:
        raise wrong
    settings = given.pop("settings", None)
    if rest and isinstance(rest[0], InputSettings):
        settings = rest.pop(0)
    name = rest.pop(0) if rest else given.pop("debugContext", "")
    if rest or given or not isinstance(name, str):
        raise wrong
    return info, None if by_name else settings, name


def initialized_input(
    value: Array, settings: VariableSettings | str | None, label: str
) -> tuple[Array, VariableSettings | None, str]:
    """Sorts out the two forms of addInitializedInputTensor; the array is contiguous.

    Raises:
        TypeError: other arguments.
    """
    given, name = settings, label
    if isinstance(settings, str) and not label:
        given, name = None, settings
    if not isinstance(name, str) or not isinstance(given, (VariableSettings, type(None))):
        raise TypeError(
            "addInitializedInputTensor(): incompatible function arguments. It takes (initVal: "
            "numpy.ndarray, debugContext: str = '') or (initVal: numpy.ndarray, variableSettings: "
            "VariableSettings, debugContext: str = ''), got "
            f"({type(value).__name__}, {settings!r}, {label!r})"
        )
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            "addInitializedInputTensor(): incompatible function arguments: initVal must be a "
            f"numpy array, got {type(value).__name__}"
        )
    array = np.asarray(value)
    # A contiguous one stays the caller's own.
    return array if array.flags.c_contiguous else np.ascontiguousarray(array), given, name
