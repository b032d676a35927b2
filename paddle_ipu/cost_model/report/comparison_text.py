"""A comparison of two reports as text, and the cells that its tables share."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.report.differences import Change, Differences, LayerChanges
from paddle_ipu.cost_model.report.figures import Figures
from paddle_ipu.cost_model.report.terminal import duration, printable

HEAD = ("before", "after", "change", "")
_LAYERS = 15
_LAYERS_IN_SHORT = 3


def comparison_text(found: Differences) -> str:
    """What the terminal shows: settings, totals, the layers that changed most."""
    return _text(found, _LAYERS)


def short_comparison(found: Differences) -> str:
    """What a prompt shows: the same with fewer layers."""
    return _text(found, _LAYERS_IN_SHORT)


def titles(found: Differences) -> list[str]:
    """The two reports, a line each."""
    return [f"before  {_title(found.before)}", f"after   {_title(found.after)}"]


def remarks(found: Differences) -> list[str]:
    """What does not compare: layers of one report only, programs without a common layer."""
    lines = []
    if found.share_no_layer:
        lines.append("no layer of one is in the other: these are reports of two programs")
    for name, layers in (("before", found.gone), ("after", found.new)):
        if layers:
            lines.append(f"only {name}: {', '.join(map(layer_name, layers))}")
    return lines


def settings_rows(found: Differences) -> list[tuple[str, str, str]]:
    """(name, before, after) of the settings that differ."""
    return [(name, _setting(a), _setting(b)) for name, a, b in found.settings]


def cells(change: Change) -> tuple[str, str, str, str]:
    """Before, after, the change, and the change as a share: the columns of ``HEAD``."""
    before = "" if change.before is None else _amount(change.before, change.unit)
    after = "" if change.after is None else _amount(change.after, change.unit)
    if not change.differs:
        return before, after, "same", ""
    amount = ("+" if change.amount > 0 else "-") + _amount(abs(change.amount), change.unit)
    return before, after, amount, _share(change)


def unchanged(layers: LayerChanges) -> str:
    """How many layers did not change, "" where all did."""
    return f"{layers.unchanged} layer(s) unchanged" if layers.unchanged else ""


def layer_name(layer: str) -> str:
    """A layer's path in words."""
    return layer or "in no layer"


def _text(found: Differences, most: int) -> str:
    lines = [*titles(found), *remarks(found)]
    settings = settings_rows(found)
    if settings:
        width = max(len(name) for name, _, _ in settings)
        lines += ["", "what differs of the program, its strategy and the machine"]
        lines += [f"  {name:<{width}}  {a} -> {b}" for name, a, b in settings]
    totals = [(*cells(total), total.name) for total in found.totals]
    lines += ["", *_columns([(*HEAD, "predicted, not measured"), *totals])]
    for layers in found.layers:
        lines += ["", f"layers by {layers.title}", *_layer_lines(layers, most)]
    return printable("\n".join(lines))


def _layer_lines(layers: LayerChanges, most: int) -> list[str]:
    shown = [(*cells(row), layer_name(row.name)) for row in layers.changes[:most]]
    lines = _columns([(*HEAD, "layer"), *shown]) if shown else []
    left = len(layers.changes) - len(shown)
    if left:
        lines.append(f"  {left} more changed less")
    same = unchanged(layers)
    return [*lines, f"  {same}"] if same else lines


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with numbers to the right; the last column is a name."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for *numbers, name in rows:
        aligned = [f"{text:>{width}}" for text, width in zip(numbers, widths, strict=True)]
        lines.append(("  " + "  ".join([*aligned, name])).rstrip())
    return lines


def _title(figures: Figures) -> str:
    kind = "training" if figures.training else "inference"
    of = f"{figures.name}, " if figures.name and figures.name != figures.source else ""
    full = f"fullest tile {figures.fullest_share:.1%} full"
    return f"{figures.source}: {of}{kind} on {figures.machine}, {full}"


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    if unit == "s":
        return duration(value)
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{shown} rows/s" if unit == "rows/s" else shown


def _share(change: Change) -> str:
    if change.before is None:
        return "new"
    if change.after is None:
        return "gone"
    return f"{change.amount / change.before:+.1%}" if change.before else ""


def _setting(value: object) -> str:
    if value is None or value == "":
        return "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"
