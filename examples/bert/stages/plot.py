"""The loss plot of a stage, from its log."""

from __future__ import annotations

import logging
from pathlib import Path

from examples.bert.files import writing
from examples.bert.stages.log import LOG_FILE, read_log

PLOT_FILE = "losses.png"


def plot_log(folder: Path) -> Path | None:
    """Write ``losses.png`` beside ``log.jsonl``: each loss and each accuracy by step.

    Returns the file, None where the log has no line.
    """
    records = read_log(folder / LOG_FILE)
    if not records:
        return None
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its font cache
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    steps = [record["global_step"] for record in records]
    for axes, kind in ((upper, "loss"), (lower, "accuracy")):
        for name in (n for n in records[0] if n.startswith(kind)):
            axes.plot(steps, [record[name] for record in records], marker=".", label=name)
        axes.set_ylabel(f"{kind} (nats)" if kind == "loss" else kind)
        axes.legend()
        axes.grid(alpha=0.3)
    lower.set_xlabel("step")
    target = folder / PLOT_FILE
    with writing(target) as stream:
        figure.savefig(stream, format="png", dpi=120)
    return target
