"""Poplar's autoReport settings: where a session's report goes, and which of Poplar's are not made.

Engine options come from a program, from ``POPLAR_ENGINE_OPTIONS``, which goes before it, and from
``poprun --autoreport-dir``, which gives each instance a folder of its number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.errors import OptionError
from paddle_ipu.instances.instance import AUTOREPORT, this_instance

ENVIRONMENT = "POPLAR_ENGINE_OPTIONS"
ALLOW_OUT_OF_MEMORY = "debug.allowOutOfMemory"
_PREFIX = "autoReport."
_ALL, _DIRECTORY = "autoReport.all", "autoReport.directory"
_GRAPH, _EXECUTION = "autoReport.outputGraphProfile", "autoReport.outputExecutionProfile"

# The option -> the file that Poplar writes for it: a binary form of Graphcore's.
_POPLARS = {
    _GRAPH: "profile.pop",
    _EXECUTION: "profile.pop",
    "autoReport.outputArchive": "archive.a",
    "autoReport.outputDebugInfo": "debug.cbor",
    "autoReport.outputLoweredVars": "lowered variables",
    "autoReport.outputSerializedGraph": "serialized_graph.capnp",
}
_OF_RUNS = ("autoReport.executionProfileProgramRunCount", "autoReport.streamAtEachRun")
_KNOWN = (_ALL, _DIRECTORY, *_POPLARS, *_OF_RUNS)


@dataclass(frozen=True, slots=True)
class AutoReport:
    """Where the reports of this process go, each session's in a folder of its name.

    Attributes:
        not_written: files that Poplar would write and that the IPU Model has nothing for.
    """

    directory: Path
    not_written: tuple[str, ...]


def engine_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    """A program's engine options with those of the environment over them.

    Raises:
        OptionError: ``POPLAR_ENGINE_OPTIONS`` is no JSON object of texts, numbers and booleans.
    """
    text = environment.get(ENVIRONMENT, "")
    try:
        own = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{ENVIRONMENT} is no JSON object: {error}") from error
    if not isinstance(own, dict) or any(isinstance(v, (dict, list)) for v in own.values()):
        raise OptionError(
            f"{ENVIRONMENT} is no JSON object of texts, numbers and booleans: {text!r}"
        )
    return {name: _text(value) for name, value in {**given, **own}.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def allows_out_of_memory(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether ``debug.allowOutOfMemory`` is on."""
    options = engine_options(given, environment)
    return _flag(ALLOW_OUT_OF_MEMORY, options.get(ALLOW_OUT_OF_MEMORY, "false"))


def auto_report(given: Mapping[str, Any], environment: Mapping[str, str]) -> AutoReport | None:
    """What the settings ask for; None where they ask for no report.

    Args:
        given: a program's engine options.
        environment: of the process.

    Raises:
        OptionError: an unknown autoReport option, a value that is none, or two directories.
    """
    options = engine_options(given, environment)
    settings = {name: value for name, value in options.items() if name.startswith(_PREFIX)}
    unknown = sorted(settings.keys() - set(_KNOWN))
    if unknown:
        raise OptionError(
            f"unknown engine option {', '.join(unknown)}; those of autoReport are "
            + ", ".join(_KNOWN)
        )
    instances = environment.get(AUTOREPORT, "")
    if instances:
        if _DIRECTORY in settings:
            raise OptionError(
                f"{_DIRECTORY} is {settings[_DIRECTORY]!r} in the engine options, but poprun "
                f"--autoreport-dir says {instances!r}: leave one of them out"
            )
        settings.setdefault(_ALL, "false" if settings else "true")
        settings[_DIRECTORY] = str(Path(instances) / str(this_instance(environment).index))
    everything = _flag(_ALL, settings.get(_ALL, "false"))
    wanted = {n: _flag(n, settings[n]) if n in settings else everything for n in _POPLARS}
    if not (wanted[_GRAPH] or wanted[_EXECUTION]):
        return None
    missing = dict.fromkeys(file for name, file in _POPLARS.items() if wanted[name])
    return AutoReport(Path(settings.get(_DIRECTORY, ".")), tuple(missing))


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise OptionError(f"engine option {name} takes true or false, got {value!r}")
    return value.lower() == "true"
