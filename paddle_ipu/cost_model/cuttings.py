"""The micro-batches and cuts of a program that plans for machines of one kind of IPU share."""

from __future__ import annotations

import math

from paddle_ipu.cost_model.liveness import StageLiveness
from paddle_ipu.cost_model.machines import Processor
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.placement import Cuts, Cutter
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.scaling import with_rows

_FIRST = (1.0, 0.75, 0.5, 0.25, 0.0)
"""The first IPU's share of the time of the others, where its memory is too small for more."""
_CROSSING = (math.inf, 1.5)
"""How many times the fewest bytes a cut crosses at most; fewer for long pipelines, whose stages
stash them."""
_GROWTH = (0.7, 0.5)
"""The first stage's time over the last one's, in training: early stages stash most."""
_FIRST_OF_GROWING = (1.0, 0.5)
_LONG, _GROWING = 16, 8
"""IPUs of a pipeline above which its cuts are tried that cross little, and that grow."""
_KEPT = 128
"""Schedules that are kept at most."""


class Cuttings:
    """A program cut for an IPU; nothing is computed before it is asked for.

    Attributes:
        program: as it was read.
        pricing: of its operators.
        lacking: what placements lack at least, whatever the machine, by what a plan calls them.
    """

    def __init__(self, program: Program, processor: Processor) -> None:
        self.program = program
        self.pricing = Pricing(processor)
        self.lacking: dict[tuple[object, ...], int] = {}
        self._resized: dict[int, Program] = {}
        self._cuts: dict[tuple[int, bool], list[Cuts]] = {}
        self._cutters: dict[bool, Cutter] = {}
        self._lives: dict[tuple[int, Cuts | None, str], dict[int, StageLiveness]] = {}

    def with_rows(self, rows: int) -> Program:
        """The program with micro-batches of so many rows."""
        if rows not in self._resized:
            self._resized[rows] = with_rows(self.program, rows)
        return self._resized[rows]

    def cuts(self, ipus: int, recompute: bool) -> list[Cuts]:
        """For so many IPUs: the fastest first, then those that leave memory where it is short."""
        key = (ipus, recompute)
        if key not in self._cuts:
            if recompute not in self._cutters:
                self._cutters[recompute] = Cutter(self.program, self.pricing, recompute)
            cutter = self._cutters[recompute]
            training = self.program.settings.training
            shapes = [(1.0, first) for first in (_FIRST if ipus > 2 else _FIRST[:1])]
            if training and ipus > _GROWING:
                shapes += [(growth, first) for growth in _GROWTH for first in _FIRST_OF_GROWING]
            splits = [
                cutter.balanced(ipus, first, crossing, growth)
                for crossing in (_CROSSING if ipus > _LONG else _CROSSING[:1])
                for growth, first in shapes
            ]
            self._cuts[key] = list(dict.fromkeys(c for c in splits if c is not None))
        return self._cuts[key]

    def livenesses(self, placed: Program, cuts: Cuts | None) -> dict[int, StageLiveness]:
        """The liveness of each stage of the program, as it was placed by `cuts`."""
        key = (placed.rows, cuts, placed.settings.recomputation)
        if key not in self._lives:
            if len(self._lives) == _KEPT:
                self._lives.clear()
            self._lives[key] = livenesses(placed)
        return self._lives[key]
