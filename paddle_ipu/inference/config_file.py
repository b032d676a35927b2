"""Reads the file of ``Config.load_ipu_config``: one ``key,value`` on a line, no code.

    ipu_device_num,2
    ipu_enable_fp16,True
    ipu_custom_ops_info,[[custom_relu,Relu,custom.ops,1]]
    ipu_custom_patterns,[[AccumulatePriorityPattern,False]]

Spaces and a byte order mark are ignored. Keys are the arguments of ``enable_ipu``,
``set_ipu_config`` and ``set_ipu_custom_info``.
"""

from __future__ import annotations

import os
import re
from typing import Any

from paddle_ipu.errors import OptionError
from paddle_ipu.inference.settings import CONTAINERS, SCALARS, unknown_setting
from paddle_ipu.options.values import Flag, Number, Stored

_LARGEST = 1 << 20
_ROW = re.compile(r"\[([^\[\]]*)\]")
_ROWS = re.compile(r"\[(\[[^\[\]]*\](,\[[^\[\]]*\])*)?\]")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a file, by name.

    Raises:
        OptionError: the file is missing or cannot be read, or a line is malformed or has an
            unknown key; the message gives the line.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise OptionError(
            f"load_ipu_config: {shown}: cannot be read: {error.strerror or error}. Give the path "
            "of a file with one key,value on a line."
        ) from error
    if len(content) > _LARGEST:
        raise OptionError(f"load_ipu_config: {shown}: larger than 1 MiB, which no config file is.")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise OptionError(
            f"load_ipu_config: {shown}: byte {error.start} is no text (UTF-8). Give the path of a "
            "file with one key,value on a line."
        ) from error
    values: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        where = f"load_ipu_config: {shown}, line {number}"
        key, comma, text = line.replace(" ", "").partition(",")
        if not comma:
            raise OptionError(
                f"{where}: {line!r} has no comma; expected key,value, for instance "
                f"{key if key in SCALARS else 'ipu_device_num'},1. Blank lines are none."
            )
        if key in values:
            raise OptionError(f"{where}: {key} was given before. Leave one of the lines out.")
        values[key] = _value(key, text, where)
    return values


def _value(key: str, text: str, where: str) -> Stored:
    if key in CONTAINERS:
        rows = _rows(key, text, where)
        return _pairs(rows, where) if key == "ipu_custom_patterns" else rows
    if key not in SCALARS:
        raise unknown_setting(key, where)
    valid, default = SCALARS[key]
    if isinstance(valid, Flag):
        if text.lower() not in ("true", "false", "1", "0"):
            raise OptionError(f"{where}: {key} is {text!r}, expected True or False (or 1 or 0).")
        return text.lower() in ("true", "1")
    kind = float if isinstance(valid, Number) else int
    try:
        return kind(text)
    except ValueError:
        raise OptionError(
            f"{where}: {key} is {text!r}, expected {valid.describe()}, for instance {default}."
        ) from None


def _rows(key: str, text: str, where: str) -> list[list[str]]:
    if not _ROWS.fullmatch(text):
        example = "[[custom_relu,Relu,custom.ops,1]]" if "ops" in key else "[[PreUniRepl,True]]"
        raise OptionError(
            f"{where}: {key} is {text!r}, expected a list of lists, for instance {example}."
        )
    return [row.split(",") for row in _ROW.findall(text[1:-1])]


def _pairs(rows: list[list[str]], where: str) -> dict[str, bool]:
    patterns = {}
    for row in rows:
        if len(row) != 2 or row[1] not in ("True", "False"):
            raise OptionError(
                f"{where}: ipu_custom_patterns has [{','.join(row)}], expected the name of a "
                "pattern and True or False, for instance [PreUniRepl,True]."
            )
        patterns[row[0]] = row[1] == "True"
    return patterns
