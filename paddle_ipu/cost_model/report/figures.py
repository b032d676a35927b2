"""What of a report is compared: its figures, read from the JSON that ``report --json`` writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from paddle_ipu.cost_model.memory import PASSING
from paddle_ipu.cost_model.report.as_json import VERSION
from paddle_ipu.cost_model.report.directory import JSON
from paddle_ipu.dialect.node_origin import folded
from paddle_ipu.errors import ReportError


@dataclass(slots=True)
class LayerFigures:
    """What one layer takes on all IPUs; layers that differ in a number only are one.

    Attributes:
        cycles: of a micro-batch, both directions.
        always: bytes of its tensors that live through the whole step.
        passing: bytes of its other tensors at the peaks.
    """

    cycles: float = 0.0
    always: float = 0.0
    passing: float = 0.0


@dataclass(frozen=True)
class Figures:
    """The figures of a report.

    Attributes:
        source: what the report is called where it is compared: a path, or the program's name.
        settings: what a prediction depends on, by name: machine, rows, options, fitted constants.
        throughput: rows a second, all replicas together.
        latency: seconds; 0 in training.
        update_cycles: from one weight update to the next; of a micro-batch in inference.
        fullest_tile: bytes.
        fullest_share: of what that tile has.
        always: bytes of all IPUs that live through the whole step.
        passing: bytes of all IPUs that do not, each at its peak.
        off_chip: bytes in streaming memory.
        layers: by folded path, "" for what is in no layer.
    """

    source: str
    name: str
    machine: str
    training: bool
    settings: Mapping[str, Any]
    throughput: float
    latency: float
    update_cycles: float
    fullest_tile: float
    fullest_share: float
    always: float
    passing: float
    off_chip: float
    layers: Mapping[str, LayerFigures]


def read_figures(path: Path) -> Figures:
    """The figures of a report that was written to a file, or into a folder with all forms.

    Raises:
        ReportError: it cannot be read, is no report, or one of a later version.
    """
    file = path / JSON if path.is_dir() else path
    try:
        record = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        where = f"{path} has no {JSON}" if file != path else f"{path}: {error.strerror or error}"
        raise ReportError(f"{where}. {_EXPECTED}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{file} is no JSON: {error}. {_EXPECTED}") from error
    return figures_of(record, str(path))


def _refuse_constant(name: str) -> NoReturn:
    """Of NaN and infinity, which Python's JSON has, and no other's; no report has them."""
    raise ValueError(f"{name} is no number of JSON")


_EXPECTED = (
    "Expected the JSON of `paddle-ipu report --json FILE`, or the folder of `paddle-ipu report "
    "--directory FOLDER`."
)


def figures_of(record: object, source: str) -> Figures:
    """The figures of a report.

    Args:
        record: of :func:`report_as_json`, perhaps read from a file.
        source: what messages and comparisons call it.

    Raises:
        ReportError: it is no report, or one of a later version.
    """
    fields = _Fields(record, source, "")
    version = fields.value("version", int)
    if version > VERSION:
        raise ReportError(
            f"{source} is a report of version {version}, and this paddle_ipu reads versions up to "
            f"{VERSION}. Compare with the paddle_ipu that wrote it, or write it again with this."
        )
    program, machine = fields.inner("program"), fields.inner("machine")
    settings, memory = program.inner("settings"), fields.inner("memory")
    ipus = list(memory.items("ipus"))
    if not ipus:
        raise memory.refused("ipus", "a list of IPUs", [])
    fullest = max((ipu.inner("tile") for ipu in ipus), key=lambda tile: tile.number("peak"))
    capacity = fullest.number("capacity")
    categories = [ipu.inner("categories").numbers() for ipu in ipus]
    passing = sum(sum(found.get(name, 0.0) for name in PASSING) for found in categories)
    return Figures(
        source=source,
        name=fields.value("name", str),
        machine=machine.value("name", str),
        training=settings.value("training", bool),
        settings={
            "program": fields.value("name", str),
            "operators": program.value("operators", int),
            "weights": program.value("weights", int),
            "machine": machine.value("name", str),
            "rows of a micro-batch": program.value("rows", int),
            "rows of a run": program.value("samples", int),
            "update rule": program.record.get("rule"),
            **settings.record,
            **fields.inner("constants").numbers(),
        },
        throughput=fields.number("throughput"),
        latency=fields.number("latency"),
        update_cycles=fields.inner("cycles").number("update"),
        fullest_tile=fullest.number("peak"),
        fullest_share=fullest.number("peak") / capacity if capacity else 0.0,
        always=sum(sum(found.values()) for found in categories) - passing,
        passing=passing,
        off_chip=memory.number("off_chip"),
        layers=_layers(fields, ipus),
    )


def _layers(fields: _Fields, ipus: list[_Fields]) -> dict[str, LayerFigures]:
    layers: dict[str, LayerFigures] = {}

    def of(name: str) -> LayerFigures:
        return layers.setdefault(folded(name), LayerFigures())

    for row in fields.items("operators"):
        found = of(row.value("layer", str))
        found.cycles += row.number("forward") + row.number("backward")
    for ipu in ipus:
        for name, size in ipu.inner("layers").numbers().items():
            of(name).passing += size
        for name, size in ipu.inner("always_layers").numbers().items():
            of(name).always += size
            of(name).passing -= size
    return layers


Value = TypeVar("Value", int, str, bool)


class _Fields:
    """An object of a report's JSON, whose values are checked as they are read.

    Args:
        record: what stands there.
        source: what the report is called.
        path: where in the report it stands; "" for all of it.
    """

    def __init__(self, record: object, source: str, path: str) -> None:
        self._source, self._path = source, path
        if not isinstance(record, dict):
            raise self.refused("", "an object", record)
        self.record: dict[str, Any] = record

    def value(self, name: str, kind: type[Value]) -> Value:
        """A value of this very type: a truth value is no number."""
        found = self.record.get(name)
        if type(found) is not kind:
            raise self.refused(name, _KINDS[kind], found)
        return found

    def number(self, name: str) -> float:
        """A finite number."""
        found = self.record.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.refused(name, "a number", found)
        if not abs(found) <= sys.float_info.max:
            raise self.refused(name, "a finite number", found)
        return float(found)

    def numbers(self) -> dict[str, float]:
        """All values, which are numbers."""
        return {name: self.number(name) for name in self.record}

    def inner(self, name: str) -> _Fields:
        """An object."""
        return _Fields(self.record.get(name), self._source, self._at(name))

    def items(self, name: str) -> Iterator[_Fields]:
        """The objects of a list."""
        found = self.record.get(name)
        if not isinstance(found, list):
            raise self.refused(name, "a list", found)
        for at, item in enumerate(found):
            yield _Fields(item, self._source, f"{self._at(name)}[{at}]")

    def _at(self, name: str) -> str:
        return ".".join(filter(None, (self._path, name)))

    def refused(self, name: str, expected: str, got: object) -> ReportError:
        """The error about a value."""
        where = self._at(name) or "the whole"
        shown = "nothing" if got is None else f"{got!r:.40}"
        return ReportError(
            f"{self._source} is no report of paddle-ipu: {where} is {shown}, expected {expected}. "
            f"{_EXPECTED}"
        )


_KINDS = {int: "a whole number", str: "a text", bool: "true or false"}
