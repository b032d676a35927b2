"""Tries random cases on Paddle's CPU executor and on the IPU Model."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import paddle

import paddle_ipu
from tests.differential.operators import slopes
from tests.differential.operators.draw import with_other_values
from tests.differential.operators.explained import explanation
from tests.differential.operators.families import BACKWARD_STABLE, ORTHOGONAL
from tests.differential.operators.ipu_model import Outcome
from tests.differential.operators.ipu_process import IpuModel
from tests.differential.operators.neighbours import (
    has_dtype,
    last_alone,
    moved,
    retyped,
    shaken,
    without_denormals,
)
from tests.differential.operators.shrink import shrunk
from tests.differential.operators.use import Array, Case
from tests.differential.operators.verdict import (
    NOT_FINITE_IN_PADDLE_ALONE,
    Verdict,
    compare,
    flushed,
    is_all_rounding,
    is_rounding,
    narrowed,
    nearest,
    not_finite_alone,
    same_bits,
)
from tests.differential.operators.worker import NOT_TRIED, Answer, Paddle
from tests.differential.tally import Finding, Tally

BATCH = 250
OTHER_VALUES = 63
"""How often a case is tried again with other numbers: that needs no other program."""


def explore(cases: int, seed: int, *, first: int = 0) -> Tally:
    """Tries cases `first` to `first + cases` of a seed.

    Args:
        cases: how many.
        seed: of all of them.
        first: number of the first.
    """
    paddle_ipu.activate()
    paddle.enable_static()
    search = _Search(Paddle(), IpuModel(), seed)
    try:
        search.run(cases, first)
    finally:
        search.paddle.close()
        search.ipu.close()
        paddle.disable_static()
    return search.tally


class _Search:
    def __init__(self, paddles: Paddle, ipu: IpuModel, seed: int) -> None:
        self.paddle = paddles
        self.ipu = ipu
        self.tally = Tally()
        self._seed = seed
        self._shrunk: set[str] = set()
        self._reported: set[tuple[int, str]] = set()

    def run(self, cases: int, first: int) -> None:
        """Tries all cases, in batches; Paddle runs the next batch meanwhile."""
        end = first + cases
        ranges = [range(at, min(at + BATCH, end)) for at in range(first, end, BATCH)]
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(self._answers, ranges[0]) if ranges else None
            for at, numbers in enumerate(ranges):
                assert following is not None
                answers = following.result()
                if at + 1 < len(ranges):
                    following = pool.submit(self._answers, ranges[at + 1])
                self._try_batch(numbers, answers, pool)
                sys.stderr.write(f"{numbers.stop - first} cases: {dict(self.tally.outcomes)}\n")

    def _answers(self, numbers: range) -> list[list[Answer]]:
        """Paddle's answers to the case of each number, and to it with other values."""
        forms = [[a] for a in self.paddle.answers([(self._seed, number) for number in numbers])]
        others = [
            (at, with_other_values(first.case, self._seed, numbers[at], variant))
            for at, (first,) in enumerate(forms)
            if first.results and first.case is not None
            for variant in range(OTHER_VALUES)
        ]
        answers = self.paddle.answers([case for _, case in others])
        for (at, _), answer in zip(others, answers, strict=True):
            forms[at].append(answer)
        return forms

    def _try_batch(
        self, numbers: Sequence[int], forms: Sequence[Sequence[Answer]], pool: ThreadPoolExecutor
    ) -> None:
        kinds: dict[bool, list[tuple[int, list[Answer]]]] = {False: [], True: []}
        for number, form in zip(numbers, forms, strict=True):
            self.tally.subjects[form[0].subject] += 1
            answered = []
            for answer in form:
                if answer.crashed == NOT_TRIED:
                    continue
                if answer.crashed:
                    self.tally.outcomes["Paddle crashed"] += 1
                elif answer.refused or answer.case is None:
                    self.tally.outcomes["refused by Paddle"] += 1
                else:
                    answered.append(answer)
            if answered and answered[0].case is not None:
                kinds[answered[0].case.training].append((number, answered))
        for those in kinds.values():
            ours = self.ipu.outcomes(
                [[a.case for a in form if a.case is not None] for _, form in those]
            )
            for (number, form), outcomes in zip(those, ours, strict=True):
                for answer, outcome in zip(form, outcomes, strict=True):
                    self._judge(number, answer, outcome, pool)

    def _judge(
        self, number: int, answer: Answer, outcome: Outcome, pool: ThreadPoolExecutor
    ) -> None:
        verdict = compare(answer, outcome, self.paddle.random)
        if verdict.title and (number, verdict.title) not in self._reported:
            # Paddle's process is busy with the next batch; this waits for it.
            verdict = pool.submit(self._checked, answer, outcome, verdict).result()
        self.tally.outcomes[verdict.outcome] += 1
        if verdict.title and (number, verdict.title) not in self._reported:
            self._reported.add((number, verdict.title))
            self._report(number, answer, verdict, pool)

    def _checked(self, answer: Answer, outcome: Outcome, verdict: Verdict) -> Verdict:
        """The verdict, unless rounding, Paddle's undefined results or a known cause explain it."""
        case = answer.case
        assert case is not None
        if row := explanation(case, verdict.title, verdict.detail):
            return Verdict("known, to be mended" if row.is_open else "explained")
        if verdict.outcome != "differs":
            return verdict
        double, single = retyped(case, "float32", "float64"), retyped(case, "float64", "float32")
        around = [*moved(case)]
        if re.fullmatch(ORTHOGONAL, case.subject):
            around += shaken(case)
        again, normal, wide, *others = self.paddle.answers(
            [case, without_denormals(case), double, *around]
        )
        if not same_bits(again.results, answer.results):
            return Verdict("undefined in Paddle")
        # XLA's code, as an IPU, takes denormals for zeros, and float64 is computed in float32.
        narrow = self.paddle.answers([case, single, without_denormals(single)], flush=True)
        if normal.refused or narrow[0].refused:
            return Verdict("refused by Paddle")
        closest = nearest([answer, narrowed(answer), normal, *narrow], outcome)
        left = compare(closest, outcome, self.paddle.random)
        others_left = [
            compare(*flushed(each, outcome), self.paddle.random) for each in (answer, closest)
        ]
        if not all(each.title for each in (left, *others_left)):
            return Verdict("agrees, with zeros for denormals")
        if any(explanation(case, each.title, each.detail) for each in (left, *others_left)):
            return Verdict("explained")
        # Moved operands count of chains, gradients, sums, where they are rounded, and of noise.
        if (
            len(case.steps) == 1
            and wide.results
            and not has_dtype(case, "float64")
            and not re.fullmatch(BACKWARD_STABLE, case.subject)
            and not left.fetch.startswith("gradient")
            and not is_all_rounding(left.fetch, closest.results, wide.results)
        ):
            others = []
        if any(
            is_rounding(left.fetch, outcome.results, closest.results, other.results)
            for other in (wide, narrow[1], *others)
        ):
            return Verdict("agrees within Paddle's rounding")
        if len(case.steps) > 1 and not case.training and self._links_agree(case, outcome):
            return Verdict("agrees operator by operator")
        if (
            verdict.fetch.startswith("gradient")
            and NOT_FINITE_IN_PADDLE_ALONE in verdict.detail
            and self._is_slope(case, verdict.fetch, answer.results, outcome.results)
        ):
            return Verdict("agrees with differences of Paddle's results")
        return verdict

    def _is_slope(
        self, case: Case, fetch: str, paddles: Mapping[str, Array], ours: Mapping[str, Array]
    ) -> bool:
        """Whether our gradient is the slope of Paddle's results where Paddle's is not finite."""
        alone = not_finite_alone(ours[fetch], paddles[fetch])
        places = np.argwhere(alone).tolist()[: slopes.MOST]
        cases = [each for place in places for each in slopes.stepped(case, fetch, place)]
        results = [answer.results for answer in self.paddle.answers(cases)]
        if not all(results):
            return False
        found = slopes.slopes(case, fetch, places, results)
        got = np.asarray([ours[fetch][tuple(place)] for place in places])
        return slopes.is_slope(got, found)

    def _links_agree(self, case: Case, outcome: Outcome) -> bool:
        """Whether each operator of a chain agrees with Paddle's of the operands that ours has.

        Small differences grow in a chain: where it goes by a sign, or over the edge of a domain.
        """
        firsts = [
            replace(case, steps=case.steps[: at + 1], block="") for at in range(len(case.steps) - 1)
        ]
        ours = [made for (made,) in self.ipu.outcomes([[first] for first in firsts])]
        if not all(made.results for made in ours):
            return False
        given = [made.results for made in ours]
        links = [
            last_alone(replace(case, steps=case.steps[: at + 1]), given[:at])
            for at in range(len(case.steps))
        ]
        answers = self.paddle.answers(links)
        verdicts = [
            self._verdict(answer, made)
            for answer, made in zip(answers, [*ours, outcome], strict=True)
        ]
        return not any(verdict.title for verdict in verdicts)

    def _verdict(self, answer: Answer, outcome: Outcome) -> Verdict:
        if not answer.results:
            return Verdict("refused by Paddle", "refused")
        verdict = compare(answer, outcome, self.paddle.random)
        return self._checked(answer, outcome, verdict) if verdict.title else verdict

    def _report(
        self, number: int, answer: Answer, verdict: Verdict, pool: ThreadPoolExecutor
    ) -> None:
        case, detail = answer.case, verdict.detail
        assert case is not None
        if verdict.title not in self._shrunk:
            self._shrunk.add(verdict.title)
            small = pool.submit(shrunk, case, verdict.title, self._titles).result()
            if small is not case:
                (verdict,) = self._verdicts([small])
                detail = f"{verdict.detail}\nshrunk to\n{small}\nfrom"
        sys.stderr.write(f"{verdict.title}   (case {number})\n")
        self.tally.findings.append(Finding(self._seed, number, verdict.title, f"{detail}\n{case}"))

    def _titles(self, cases: Sequence[Case]) -> list[str]:
        """Of each case its finding, "" where a row explains it."""
        return [
            "" if explanation(case, verdict.title, verdict.detail) else verdict.title
            for case, verdict in zip(cases, self._verdicts(cases), strict=True)
        ]

    def _verdicts(self, cases: Sequence[Case]) -> list[Verdict]:
        answers = self.paddle.answers(cases)
        verdicts = [Verdict("refused by Paddle") for _ in cases]
        for training in (False, True):
            places = [
                at
                for at, answer in enumerate(answers)
                if answer.results and cases[at].training == training
            ]
            ours = self.ipu.outcomes([[cases[at]] for at in places])
            for at, (outcome,) in zip(places, ours, strict=True):
                verdicts[at] = compare(answers[at], outcome, self.paddle.random)
        return verdicts
