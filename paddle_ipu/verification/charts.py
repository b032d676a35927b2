"""Small pictures for the page of a verification, as SVG inside the HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.verification.ranges import ValueRange

_FROM, _TO = -40, 24
"""The binades of a histogram; what lies beyond is in its first and last bar."""
_BAR, _HEIGHT = 2, 22
_WIDTH = (_TO - _FROM) * _BAR


def histogram(values: ValueRange) -> str:
    """The magnitudes of a tensor's values by binade, in the colours of what half makes of them."""
    bars: dict[int, int] = {}
    for exponent, count in values.exponents.items():
        place = min(max(exponent, _FROM), _TO - 1)
        bars[place] = bars.get(place, 0) + count
    most = max(bars.values(), default=1)
    shapes = [
        f'<rect class="{_zone(exponent)}" x="{(exponent - _FROM) * _BAR}" '
        f'y="{_HEIGHT - (height := max(1, round(_HEIGHT * count / most)))}" width="{_BAR}" '
        f'height="{height}"/>'
        for exponent, count in sorted(bars.items())
    ]
    lines = "".join(f'<path d="M{(at - _FROM) * _BAR} 0V{_HEIGHT}"/>' for at in (-24, -14, 16))
    title = (
        f"{values.size} values: {values.zero} are 0, {values.nan} NaN, {values.infinite} infinite; "
        f"others from {values.smallest:.3g} to {values.largest:.3g}. In half {values.overflow} "
        f"overflow, {values.underflow} become 0, {values.subnormal} are subnormal."
    )
    return (
        f'<svg class="h" width="{_WIDTH}" height="{_HEIGHT}" role="img"><title>{title}</title>'
        f"{lines}{''.join(shapes)}</svg>"
    )


def _zone(exponent: int) -> str:
    if exponent >= 16 or exponent < -25:
        return "lost"
    return "weak" if exponent < -14 else "held"


def curve(values: Sequence[float | None], title: str) -> str:
    """A line through the finite values over the steps; on a logarithmic scale where it has to."""
    width, height = 420, 90
    points = [
        (step, float(value))
        for step, value in enumerate(values)
        if value is not None and np.isfinite(value)
    ]
    if len(points) < 2:
        return ""
    numbers = np.asarray([value for _, value in points])
    logarithmic = bool(numbers.min() > 0 and numbers.max() > 100 * numbers.min())
    heights = np.log10(numbers) if logarithmic else numbers
    low, high = float(heights.min()), float(heights.max())
    unit = (high - low) or 1.0
    across = max(len(values) - 1, 1)
    places = [
        (10 + (width - 20) * step / across, height - 20 - (height - 30) * (y - low) / unit)
        for (step, _), y in zip(points, heights.tolist(), strict=True)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    scale = ", logarithmic" if logarithmic else ""
    end = "" if len(points) == len(values) else "; then it is not finite"
    return (
        f'<figure><svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title} over the steps"><polyline points="{path}"/></svg>'
        f"<figcaption>{title}: {numbers[0]:.4g} to {numbers[-1]:.4g}{scale}{end}"
        "</figcaption></figure>"
    )
