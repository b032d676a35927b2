"""Matplotlib, which charts alone need: imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle_ipu.errors import ReportError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_of(given: Axes | None) -> Axes:
    """The axes that a chart is drawn on: those that were given, or those of a new pyplot figure.

    Raises:
        ReportError: Matplotlib is not installed.
    """
    if given is not None:
        return given
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ReportError(
            f"plot() needs Matplotlib, which cannot be imported here ({error}): "
            "pip install 'paddle_ipu[plots]' brings it."
        ) from error
    return pyplot.figure(layout="constrained").add_subplot()
