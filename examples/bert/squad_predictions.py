"""From the network's logits to answers: the n best spans of each question, in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.bert.files import write_json
from examples.bert.squad import Question, SquadFeatures

ANSWERS_FILE = "squad_prediction.json"
N_BEST_FILE = "squad_nbest.json"
NULL_ODDS_FILE = "squad_null_odds.json"

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Candidate:
    """An answer, empty for "the context does not tell", its logits and its share of the n best."""

    text: str
    start_logit: float
    end_logit: float
    probability: float


@dataclass(frozen=True)
class Predictions:
    """By question id: the answer, the n best candidates, and the score of "no answer".

    ``null_odds`` is the score of no answer less that of the best answer, 0 where no span is one; a
    question of SQuAD 2.0 is left unanswered where it exceeds the threshold.
    """

    answers: dict[str, str]
    n_best: dict[str, list[Candidate]]
    null_odds: dict[str, float]


def predict(
    questions: Sequence[Question],
    features: SquadFeatures,
    start_logits: Floats,
    end_logits: Floats,
    *,
    has_unanswerable: bool,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    null_score_diff_threshold: float = 0.0,
) -> Predictions:
    """The best spans of every question over all its windows.

    ``start_logits`` and ``end_logits`` are ``[N, L]``, one row for each window. A span begins in
    the window that holds its first token best, ends no earlier than it begins and has at most
    ``max_answer_length`` tokens. With ``has_unanswerable`` the CLS logits, of the window where they
    are lowest, stand for no answer.
    """
    expected = features.input_ids.shape
    for name, logits in (("start_logits", start_logits), ("end_logits", end_logits)):
        if logits.shape != expected:
            raise ValueError(f"{name}: expected {list(expected)}, got {list(logits.shape)}")
    windows: dict[int, list[int]] = {}
    for row, number in enumerate(features.question_numbers.tolist()):
        windows.setdefault(number, []).append(row)
    result = Predictions({}, {}, {})
    for number, question in enumerate(questions):
        rows = windows.get(number, [])
        spans = [
            span
            for row in rows
            for span in _window_spans(
                features, row, start_logits[row], end_logits[row], n_best_size, max_answer_length
            )
        ]
        null = min(
            ((float(start_logits[row, 0]), float(end_logits[row, 0])) for row in rows), key=sum
        )
        _add(
            result, question, spans, null, has_unanswerable, n_best_size, null_score_diff_threshold
        )
    return result


def write_predictions(predictions: Predictions, folder: Path) -> None:
    """Write answers, n best and null odds, a JSON file each, into ``folder``."""
    write_json(folder / ANSWERS_FILE, predictions.answers)
    n_best = {
        name: [asdict(candidate) for candidate in candidates]
        for name, candidates in predictions.n_best.items()
    }
    write_json(folder / N_BEST_FILE, n_best)
    write_json(folder / NULL_ODDS_FILE, predictions.null_odds)


Span = tuple[float, float, int, int]  # start logit, end logit, first character, one after the last


def _window_spans(
    features: SquadFeatures, row: int, starts: Floats, ends: Floats, count: int, longest: int
) -> list[Span]:
    """All spans between the ``count`` best starts and the ``count`` best ends of a window."""
    offsets = features.offsets[row]
    is_context = offsets[:, 0] >= 0
    begin, end = np.meshgrid(_best(starts, count), _best(ends, count), indexing="ij")
    fits = is_context[begin] & is_context[end] & features.is_best_window[row][begin]
    fits &= (end >= begin) & (end - begin < longest)
    return [
        (float(starts[b]), float(ends[e]), int(offsets[b, 0]), int(offsets[e, 1]))
        for b, e in zip(begin[fits].tolist(), end[fits].tolist(), strict=True)
    ]


def _best(logits: Floats, count: int) -> NDArray[np.intp]:
    return np.argsort(-logits, kind="stable")[:count]


def _add(
    result: Predictions,
    question: Question,
    spans: list[Span],
    null: tuple[float, float],
    has_unanswerable: bool,
    count: int,
    threshold: float,
) -> None:
    spans = sorted(spans, key=lambda span: -(span[0] + span[1]))
    candidates: list[tuple[str, float, float]] = []
    for start, end, first, last in spans:
        text = question.context[first:last]
        if len(candidates) < count and text not in (f[0] for f in candidates):
            candidates.append((text, start, end))
    best = candidates[0] if candidates else None
    if has_unanswerable or best is None:
        candidates.append(("", *null))
    scores = np.array([start + end for _, start, end in candidates])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    result.n_best[question.id] = [
        Candidate(*entry, float(share)) for entry, share in zip(candidates, shares, strict=True)
    ]
    odds = sum(null) - (best[1] + best[2] if best else 0.0)
    result.null_odds[question.id] = odds
    unanswered = best is None or (has_unanswerable and odds > threshold)
    result.answers[question.id] = "" if unanswered or best is None else best[0]
