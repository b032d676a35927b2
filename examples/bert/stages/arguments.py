"""The command line of a stage script, made from :class:`Settings` and the table of presets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from examples.bert.stages.device import Device
from examples.bert.stages.presets import PRESETS, Stage, presets_of
from examples.bert.stages.settings import Settings


def parse(
    program: str, description: str, stages: tuple[Stage, ...], arguments: Sequence[str] | None
) -> tuple[Device, Settings]:
    """(device, settings): the preset's values, overridden by the command line.

    Exits with code 2 and a usage line where an argument is wrong.
    """
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--device", choices=("ipu", "cpu"), default="ipu", help="ipu, or Paddle's CPU executor"
    )
    parser.add_argument(
        "--preset", choices=presets_of(stages), help="settings to start from (default: none)"
    )
    parser.add_argument("--task", choices=("PRETRAINING", "SQUAD"), help=argparse.SUPPRESS)
    kinds = get_type_hints(Settings)
    for field in fields(Settings):
        kind = kinds[field.name]
        assert field.default is not MISSING
        default = f" (default: {field.default})" if field.default != "" else ""
        about = (field.metadata["about"] + default).replace("%", "%%")
        add = parser.add_argument
        if kind is bool:
            add(f"--{field.name}", type=truth, nargs="?", const=True, metavar="BOOL", help=about)
        else:
            add(f"--{field.name}", type=kind, metavar=kind.__name__.upper(), help=about)
    options = vars(parser.parse_args(arguments))
    expected = "PRETRAINING" if "phase1" in stages else "SQUAD"
    if options.pop("task") not in (None, expected):
        parser.error(f"--task: this script is for {expected}")
    device, preset = options.pop("device"), options.pop("preset")
    values: dict[str, Any] = dict(PRESETS[preset]) if preset else {}
    values |= {name: value for name, value in options.items() if value is not None}
    settings = Settings(**values)
    try:
        settings.check()
    except ValueError as error:
        parser.error(str(error))
    return device, settings


def truth(text: str) -> bool:
    """True or False, in the words of the published scripts: True, yes, on, 1 and their likes."""
    word = text.lower()
    if word in ("y", "yes", "t", "true", "on", "1"):
        return True
    if word in ("n", "no", "f", "false", "off", "0"):
        return False
    raise argparse.ArgumentTypeError(f"expected True or False, got {text!r}")
