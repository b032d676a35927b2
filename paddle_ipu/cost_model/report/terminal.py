"""A prediction as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from paddle_ipu.cost_model.advice import Advice
from paddle_ipu.cost_model.insights import Insight
from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.queueing import Serving
from paddle_ipu.cost_model.report.costliest import costliest_operators
from paddle_ipu.cost_model.uncertainty import CHECKED, Interval

_OPERATORS = 10
_OPERATORS_IN_SHORT = 5
_TENSORS = 5
_INFLUENCES = 4
_WIDTH = 24

# Names come from programs and models: no terminal is to obey them.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """A text with its control characters, line feeds excepted, written out."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def summary(
    prediction: Prediction,
    advice: Sequence[Advice] = (),
    insights: Sequence[Insight] = (),
    interval: Interval | None = None,
    serving: Serving | None = None,
) -> str:
    """Machine, throughput, pipeline, memory, the costliest operators and what would help."""
    lines = headline(prediction, interval)
    if serving is not None:
        lines.append(served(serving))
    lines += ["", *_pipeline(prediction), ""]
    lines += _memory(prediction)
    lines += ["", *_operators(prediction, _OPERATORS)]
    if advice:
        lines += ["", "what would save memory on that IPU, by IpuStrategy.set_options:"]
        lines += [
            f"  {size(item.saves):>8}  {item}" + ("; it fits then" if item.fits else "")
            for item in advice
        ]
        if not any(item.fits for item in advice):
            lines.append(
                "none of them is enough by itself; `paddle-ipu plan` tries several together"
            )
    if insights:
        fits = prediction.memory.fits
        once = "" if fits else ", once it fits"
        lines += ["", f"what would make it faster{once}, by IpuStrategy.set_options:"]
        lines += [_faster(insight, fits) for insight in insights]
    if interval is not None and interval.influences:
        lines += ["", *_influences(interval)]
    return "\n".join(lines)


def short_summary(prediction: Prediction, interval: Interval | None = None) -> str:
    """What a prompt shows: machine, throughput, the fullest tiles, the costliest operators."""
    lines = [*headline(prediction, interval), "", *_tiles(prediction)]
    return "\n".join([*lines, "", *_operators(prediction, _OPERATORS_IN_SHORT)])


def headline(prediction: Prediction, interval: Interval | None = None) -> list[str]:
    """Lines with the machine, rows a second, and what of the program has no price."""
    program, machine, cycles = prediction.program, prediction.machine, prediction.cycles
    settings = program.settings
    processor = machine.processor
    kind = "training" if settings.training else "inference"
    lines = [
        f"{kind} on {machine.name}: {settings.ipus} IPU(s) of {processor.tiles} tiles at "
        f"{processor.clock / 1e9:.3g} GHz, {settings.replicas} replica(s); predicted, not measured",
        f"throughput    {cycles.throughput:,.0f} rows/s; a run of {_rows(program.samples)} takes "
        f"{duration(cycles.seconds)}",
        f"utilisation   {cycles.utilisation:.1%} of the peak of the matrix units",
    ]
    if interval is not None:
        between = f"{interval.low:,.0f} to {interval.high:,.0f} rows/s"
        lines[2:2] = [
            f"80 % interval {between}, by what is assumed and left out",
            f"checked       {CHECKED}",
        ]
    if cycles.latency:
        lines.insert(2, f"latency       {duration(cycles.latency)} for {_rows(program.rows)}")
    if cycles.unpriced:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(cycles.unpriced.items()))
        lines.append(f"no cost row   {names}: priced by the bytes they read and write")
    return lines


def _rows(number: int) -> str:
    return f"{number:,} row" if number == 1 else f"{number:,} rows"


def served(serving: Serving) -> str:
    """A line with what requests wait, or that they wait ever longer."""
    asked = f"serving       {serving.requests:,.4g} requests/s of a row each: "
    largest = f"at most {serving.largest:,.0f} requests/s"
    if not serving.percentiles:
        return f"{asked}too many, the queue grows or hardly shrinks; {largest}"
    times = ", ".join(f"p{p * 100:.0f} {duration(s)}" for p, s in serving.percentiles.items())
    return f"{asked}{times}; busy {serving.busy:.0%} of the time, {largest}"


def _influences(interval: Interval) -> list[str]:
    lines = ["what the rate hangs on most:"]
    for influence in interval.influences[:_INFLUENCES]:
        ends = ", ".join(
            f"{rate - 1:+.1%} with {factor:g} times it"
            for factor, rate in zip(influence.factors, influence.rates, strict=True)
        )
        lines.append(f"  {influence.name:<20} {ends}; {influence.kind}")
    return lines


def _faster(insight: Insight, fits: bool) -> str:
    option = f"{{{insight.option}}}: " if insight.option else ""
    most = "at most " if insight.bound else ""
    note = "; does not fit" if fits and not insight.fits else ""
    if insight.latency:
        note = f", latency {duration(insight.latency)}{note}"
    gain = f"{insight.gain:+.1%}" if insight.gain < 1 else f"x {1 + insight.gain:.1f}"
    return f"  {gain:>8}  {option}{insight.change}; {most}{insight.throughput:,.0f} rows/s{note}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them: s, ms or us."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _pipeline(prediction: Prediction) -> list[str]:
    cycles = prediction.cycles
    lines = [
        "stage  IPU     forward    backward   recompute    of it exchange  (thousand cycles a "
        "micro-batch)"
    ]
    for stage in cycles.stages:
        exchange = sum(
            c.exchange + c.sync for c in (stage.forward, stage.backward, stage.recompute)
        )
        mark = (
            "  <- the others wait for it"
            if (stage.stage == cycles.critical and len(cycles.stages) > 1)
            else ""
        )
        lines.append(
            f"{stage.stage:>5}  {stage.ipu:>3}  {stage.forward.cycles / 1e3:>10,.0f}  "
            f"{stage.backward.cycles / 1e3:>10,.0f}  {stage.recompute.cycles / 1e3:>10,.0f}  "
            f"{exchange / 1e3:>16,.0f}{mark}"
        )
    parts = ", ".join(
        f"{name} {value / cycles.per_update:.1%}" for name, value in cycles.phases.items() if value
    )
    lines.append(f"waiting (bubble and imbalance) {cycles.bubble:.1%}; time on the IPUs: {parts}")
    share = cycles.host / cycles.seconds if cycles.seconds else 0.0
    lines.append(f"the host's call {share:.1%} of a run, {duration(cycles.host)}")
    update = sum(cycles.update.values())
    if update:
        clock = prediction.machine.processor.clock
        parts = ", ".join(f"{n} {v / update:.0%}" for n, v in cycles.update.items() if v)
        lines.append(f"the weight update {duration(update / clock)}: {parts}")
    return lines


def _tiles(prediction: Prediction) -> list[str]:
    lines = ["memory of the fullest tile of each IPU"]
    for ipu in prediction.memory.ipus:
        share = ipu.per_tile / ipu.tile_capacity
        filled = min(_WIDTH, round(share * _WIDTH))
        bar = "#" * filled + "." * (_WIDTH - filled)
        state = "" if ipu.fits else f"  lacks {size(ipu.over)}"
        lines.append(
            f"  IPU {ipu.ipu:<3} {bar} {share:>6.1%}  {size(ipu.per_tile):>7} of "
            f"{size(ipu.tile_capacity)}{state}"
        )
    return lines


def _memory(prediction: Prediction) -> list[str]:
    lines = _tiles(prediction)
    worst = prediction.memory.worst
    total = sum(worst.categories.values()) or 1
    lines.append(f"IPU {worst.ipu} at its peak:")
    for name, count in sorted(worst.categories.items(), key=lambda item: -item[1]):
        if count:
            lines.append(f"  {name:<16} {size(count):>8}  {count / total:>6.1%}")
    if prediction.memory.off_chip:
        lines.append(f"streaming memory of a replica: {size(prediction.memory.off_chip)}")
    if any(worst.layers):
        lines.append("its tensors by layer:")
        for layer, count in list(worst.layers.items())[:_TENSORS]:
            lines.append(f"  {size(count):>8}  {layer or 'in no layer'}")
    lines.append("its largest tensors:")
    for holding in worst.holdings[:_TENSORS]:
        where = holding.origin.where
        place = f"  {where}" if where else ""
        lines.append(f"  {size(holding.bytes):>8}  {holding.category:<16} {holding.name}{place}")
    return lines


def _operators(prediction: Prediction, most: int) -> list[str]:
    lines = ["operators that take longest (both directions, all IPUs)"]
    rows = costliest_operators(prediction, most)
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        line = f"  {row.share:>6.1%}  {row.count:>4} x {row.name:<{width}}  {row.where}"
        lines.append(line.rstrip())
    return lines
