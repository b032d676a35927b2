"""What ``paddle_ipu.report`` returns: a report at a prompt, in a notebook, as a chart, in files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from paddle_ipu.cost_model.memory import CATEGORIES, IpuMemory
from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.queueing import Serving
from paddle_ipu.cost_model.report.as_json import report_as_json
from paddle_ipu.cost_model.report.comparison import Comparison
from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.costliest import costliest_operators
from paddle_ipu.cost_model.report.differences import differences
from paddle_ipu.cost_model.report.directory import (
    json_of,
    page_of,
    text_of,
    trace_of,
    write_directory,
    write_form,
)
from paddle_ipu.cost_model.report.figures import Figures, figures_of, read_figures
from paddle_ipu.cost_model.report.terminal import headline, printable, short_summary
from paddle_ipu.errors import ReportError, meant
from paddle_ipu.notebook.charts import axes_of
from paddle_ipu.notebook.html_table import html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Chart = Literal["operators", "memory"]
"""What :meth:`PredictedReport.plot` draws: cycles of kinds of operators, or memory of each IPU."""

_CHARTS: tuple[str, ...] = get_args(Chart)
_OPERATORS = 10
_LABEL = 32
"""Characters of a label."""


@dataclass(frozen=True, repr=False)
class PredictedReport:
    """Memory and speed of a program on a machine; nothing in it was measured.

    ``print`` shows what ``paddle-ipu report`` prints, a prompt or a notebook the most important
    part of it.

    Attributes:
        contents: everything that is known, as objects.
    """

    contents: Report

    @property
    def prediction(self) -> Prediction:
        """Memory and cycles, as objects."""
        return self.contents.prediction

    @property
    def fits(self) -> bool:
        """Whether every IPU holds its part."""
        return self.prediction.memory.fits

    @property
    def throughput(self) -> float:
        """Rows a second, all replicas together."""
        return self.prediction.cycles.throughput

    @property
    def interval(self) -> tuple[float, float]:
        """Rows a second between which 80 % of the belief lies."""
        return self.contents.interval.low, self.contents.interval.high

    @property
    def latency(self) -> float:
        """Seconds that a micro-batch takes through the device in inference; 0 in training."""
        return self.prediction.cycles.latency

    @property
    def serving(self) -> Serving | None:
        """What requests wait that come at the given rate; None where none was given."""
        return self.contents.serving

    def __str__(self) -> str:
        return text_of(self.contents)

    def __repr__(self) -> str:
        return printable(short_summary(self.prediction, self.contents.interval))

    def _repr_html_(self) -> str:
        ipus = [
            (
                f"{ipu.ipu}",
                f"{ipu.per_tile / ipu.tile_capacity:.1%}",
                f"{size(ipu.per_tile)} of {size(ipu.tile_capacity)}",
                "" if ipu.fits else size(ipu.over),
            )
            for ipu in self.prediction.memory.ipus
        ]
        operators = [
            (f"{row.share:.1%}", f"{row.cycles:,.0f}", f"{row.count}", row.name, row.where)
            for row in costliest_operators(self.prediction, _OPERATORS)
        ]
        caption = "\n".join(headline(self.prediction, self.contents.interval))
        return html_table(("IPU", "of its fullest tile", "bytes", "lacks"), ipus, caption) + (
            html_table(("of the time", "cycles of a micro-batch", "how many", "operator", "where"),
                       operators, "operators that take longest")
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, as ``paddle-ipu report --json`` writes it."""
        return report_as_json(self.contents)

    def to_json(self) -> str:
        """``to_dict()`` as JSON text."""
        return json_of(self.contents)

    def to_html(self) -> str:
        """One page that needs no other file and no network."""
        return page_of(self.contents)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes ``to_html()`` to a file.

        Raises:
            ReportError: it cannot be written.
        """
        write_form(Path(path), self.to_html())

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline, for ui.perfetto.dev or chrome://tracing.

        Raises:
            ReportError: it cannot be written.
        """
        write_form(Path(path), trace_of(self.contents))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the page, the JSON, the trace and the text into a folder.

        Raises:
            ReportError: the folder cannot be made or written to.
        """
        write_directory(self.contents, Path(folder))

    def compare(self, other: PredictedReport | str | os.PathLike[str]) -> Comparison:
        """What grew and what shrank from this report to another, of the whole and by layer.

        Args:
            other: a report, or the path of one: the JSON of ``paddle-ipu report --json``, or the
                folder of `save`.

        Raises:
            ReportError: the path cannot be read, is no report, or one of a later version.
        """
        after = (
            other._figures() if isinstance(other, PredictedReport) else read_figures(Path(other))
        )
        return Comparison(differences(self._figures(), after))

    def _figures(self) -> Figures:
        return figures_of(self.to_dict(), self.contents.name or "program")

    def plot(self, chart: Chart = "operators", axes: Axes | None = None) -> Axes:
        """A chart, by Matplotlib.

        Args:
            chart: ``operators``: the kinds of operators that take longest. ``memory``: what each
                IPU holds at its peak, and what it could.
            axes: to draw on; those of a new figure where None.

        Raises:
            ReportError: no such chart, or Matplotlib is not installed.
        """
        if chart not in _CHARTS:
            known = " and ".join(map(repr, _CHARTS))
            message = f"plot() draws {known}, got {chart!r}."
            raise ReportError(message + meant(chart, _CHARTS))
        drawn = axes_of(axes)
        if chart == "memory":
            _draw_memory(drawn, self.prediction)
        else:
            _draw_operators(drawn, self.prediction)
        return drawn


def _draw_operators(axes: Axes, prediction: Prediction) -> None:
    rows = costliest_operators(prediction, _OPERATORS)[::-1]
    # Of a path its end, which tells lines apart. Dollar signs in it are no formulas.
    names = [f"{row.count} x {row.name}\n{row.where[-_LABEL:]}".rstrip() for row in rows]
    axes.barh(range(len(rows)), [row.cycles for row in rows])
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.set_xlabel("cycles of a micro-batch")
    rate = prediction.cycles.throughput
    axes.set_title(f"Predicted for {prediction.machine.name}: {rate:,.0f} rows/s", parse_math=False)


def _draw_memory(axes: Axes, prediction: Prediction) -> None:
    ipus = prediction.memory.ipus
    places = range(len(ipus))
    parts = [_fullest_tile(ipu) for ipu in ipus]
    below = [0.0] * len(ipus)
    for category in CATEGORIES:
        kilobytes = [part.get(category, 0.0) / 1e3 for part in parts]
        if any(kilobytes):
            axes.bar(places, kilobytes, bottom=below, label=category)
            below = [low + high for low, high in zip(below, kilobytes, strict=True)]
    axes.hlines(
        [ipu.tile_capacity / 1e3 for ipu in ipus],
        [place - 0.45 for place in places],
        [place + 0.45 for place in places],
        colors="black", linestyles="dashed", label="capacity",
    )  # fmt: skip
    axes.set_xticks(places, [f"IPU {ipu.ipu}" for ipu in ipus])
    axes.set_ylabel("kB of the fullest tile at the peak")
    state = "fits" if prediction.memory.fits else "does not fit"
    axes.set_title(f"Predicted for {prediction.machine.name}: {state}", parse_math=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _fullest_tile(ipu: IpuMemory) -> dict[str, float]:
    """Bytes of the fullest tile by category: code as everywhere, more than a share of the rest."""
    code = ipu.categories.get("code", 0) * ipu.tile_capacity / ipu.capacity
    others = sum(ipu.categories.values()) - ipu.categories.get("code", 0)
    scale = (ipu.per_tile - code) / (others or 1)
    return {name: size * scale for name, size in ipu.categories.items()} | {"code": code}
