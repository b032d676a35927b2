"""Exact match and F1 of answers to SQuAD, as the official scripts of 1.1 and 2.0 define them."""

from __future__ import annotations

import argparse
import json
import math
import re
import string
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.bert.files import DataError, read_json, write_json
from examples.bert.squad import Question, SquadData, read_squad

DESCRIPTION = """\
Score answers to SQuAD: exact match and F1 in percent, as the official scripts of version 1.1 and
2.0 define them. DATA is the file of questions; its version decides.

PREDICTIONS is a JSON object of question ids and answers, "" for "the context does not tell".
"""

EPILOG = """\
exit codes: 0 scored; 2 wrong arguments or unusable files
"""

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles a, an, the, one blank between words."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(gold: str, answer: str) -> float:
    """1 where both are the same after :func:`normalise`, else 0."""
    return float(normalise(gold) == normalise(answer))


def f1(gold: str, answer: str, *, empty_matches: bool) -> float:
    """Harmonic mean of precision and recall of the words after :func:`normalise`.

    Where one side has no words SQuAD 2.0 (``empty_matches``) gives 1 if both have none, else 0;
    SQuAD 1.1 gives 0.
    """
    expected, got = normalise(gold).split(), normalise(answer).split()
    if not expected or not got:
        return float(empty_matches and expected == got)
    shared = sum((Counter(expected) & Counter(got)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(got), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


@dataclass(frozen=True)
class Scores:
    """Percentages over all questions, and for SQuAD 2.0 over those with and without an answer.

    ``best_exact`` and ``best_f1`` are what the threshold on ``null_odds`` could reach at most,
    ``best_exact_threshold`` and ``best_f1_threshold`` the thresholds; None without ``null_odds``.
    """

    exact: float
    f1: float
    total: int
    has_answer: tuple[float, float, int] | None = None
    no_answer: tuple[float, float, int] | None = None
    best_exact: float | None = None
    best_exact_threshold: float | None = None
    best_f1: float | None = None
    best_f1_threshold: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The values under the official scripts' names, those that exist."""
        is_version_2 = self.has_answer is not None or self.no_answer is not None
        exact = "exact" if is_version_2 else "exact_match"
        values: dict[str, float] = {exact: self.exact, "f1": self.f1, "total": self.total}
        for name, part in (("HasAns", self.has_answer), ("NoAns", self.no_answer)):
            if part is not None:
                keys = (f"{name}_exact", f"{name}_f1", f"{name}_total")
                values |= dict(zip(keys, part, strict=True))
        best = {
            "best_exact": self.best_exact,
            "best_exact_thresh": self.best_exact_threshold,
            "best_f1": self.best_f1,
            "best_f1_thresh": self.best_f1_threshold,
        }
        return values | {name: value for name, value in best.items() if value is not None}


def score(
    data: SquadData,
    answers: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    no_answer_threshold: float = math.inf,
) -> Scores:
    """Score the answers to all questions of ``data``; the best of several gold answers counts.

    In SQuAD 1.1 a question without an answer counts 0. In SQuAD 2.0 each question needs one, empty
    for "the context does not tell", and where ``null_odds`` are given, an answer whose value
    exceeds ``no_answer_threshold`` counts as empty.

    Raises:
        DataError: SQuAD 2.0, and ``answers`` or ``null_odds`` lack a question.
    """
    questions = data.questions
    version_2 = data.has_unanswerable
    if version_2:
        _need_all(questions, answers, "answers")
    if null_odds is not None:
        _need_all(questions, null_odds, "the scores of no answer")
    exact, overlap = [], []
    for question in questions:
        answer = answers.get(question.id)
        golds = _golds(question, version_2)
        exact.append(0.0 if answer is None else max(exact_match(g, answer) for g in golds))
        overlap.append(
            0.0 if answer is None else max(f1(g, answer, empty_matches=version_2) for g in golds)
        )
    if not version_2:
        return Scores(_percent(exact), _percent(overlap), len(questions))
    answerable = [bool(q.answers) for q in questions]
    best: tuple[float | None, ...] = (None,) * 4
    raw_exact, raw_overlap = exact, overlap
    if null_odds is not None:
        odds = [null_odds[q.id] for q in questions]
        empty = [not answers[q.id] for q in questions]
        best = (
            *_best_threshold(raw_exact, odds, answerable, empty),
            *_best_threshold(raw_overlap, odds, answerable, empty),
        )
        exact = _with_threshold(raw_exact, odds, answerable, no_answer_threshold)
        overlap = _with_threshold(raw_overlap, odds, answerable, no_answer_threshold)
    parts: list[tuple[float, float, int] | None] = []
    for wanted in (True, False):
        numbers = [i for i, has_answer in enumerate(answerable) if has_answer == wanted]
        parts.append(
            (
                _percent([exact[i] for i in numbers]),
                _percent([overlap[i] for i in numbers]),
                len(numbers),
            )
            if numbers
            else None
        )
    return Scores(_percent(exact), _percent(overlap), len(questions), parts[0], parts[1], *best)


def _golds(question: Question, version_2: bool) -> list[str]:
    texts = [a.text for a in question.answers]
    if version_2:
        texts = [text for text in texts if normalise(text)]
    return texts or [""]


def _need_all(questions: Sequence[Question], values: Mapping[str, object], what: str) -> None:
    missing = [q.id for q in questions if q.id not in values]
    if missing:
        raise DataError(
            f"expected {what} for all {len(questions)} questions, missing: {len(missing)}, "
            f"the first: {missing[0]}"
        )


def _percent(values: Sequence[float]) -> float:
    return 100.0 * sum(values) / len(values)


def _with_threshold(
    scores: Sequence[float], odds: Sequence[float], answerable: Sequence[bool], threshold: float
) -> list[float]:
    return [
        float(not has_answer) if value > threshold else score
        for score, value, has_answer in zip(scores, odds, answerable, strict=True)
    ]


def _best_threshold(
    scores: Sequence[float],
    odds: Sequence[float],
    answerable: Sequence[bool],
    empty: Sequence[bool],
) -> tuple[float, float]:
    """The best percentage, and the odds up to which answers are then kept.

    Starts with no answers at all, worth the unanswerable questions, and keeps them one by one.
    """
    current = best = float(sum(not has_answer for has_answer in answerable))
    threshold = 0.0
    for number in sorted(range(len(scores)), key=lambda i: odds[i]):
        if answerable[number]:
            current += scores[number]
        elif not empty[number]:
            current -= 1.0
        if current > best:
            best, threshold = current, odds[number]
    return 100.0 * best / len(scores), threshold


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)
    try:
        data = read_squad(options.data)
        answers = _read_answers(options.predictions, data)
        null_odds = None
        if options.na_prob_file is not None:
            null_odds = _read_odds(options.na_prob_file, data)
        values = score(data, answers, null_odds, options.na_prob_thresh).as_dict()
        if options.out_file is not None:
            write_json(options.out_file, values)
    except (DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    missing = sum(question.id not in answers for question in data.questions)
    if missing:
        print(f"warning: {missing} questions have no answer, they count 0", file=sys.stderr)
    print(json.dumps(values, indent=2))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options, under the names of the official script of 2.0."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.bert.squad_score",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="SQuAD's JSON, for example dev-v2.0.json")
    add("predictions", type=Path, metavar="PREDICTIONS", help="JSON of answers by question id")
    add("--out-file", "-o", type=Path, help="write the scores there too")
    add(
        "--na-prob-file",
        "-n",
        type=Path,
        help="JSON of scores of no answer by question id: adds the best thresholds (SQuAD 2.0)",
    )
    add(
        "--na-prob-thresh",
        "-t",
        type=float,
        default=1.0,
        help="answers whose score of no answer is above count as empty (default: 1.0)",
    )
    return parser.parse_args(arguments)


def _read_answers(path: Path, data: SquadData) -> dict[str, str]:
    content = read_json(path, "answers by question id (JSON)")
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise DataError(f"{path}: expected an object of question ids and answers, all of them text")
    if not any(question.id in content for question in data.questions):
        raise DataError(f"{path}: expected answers to these questions, got none of their ids")
    return content


def _read_odds(path: Path, data: SquadData) -> dict[str, float]:
    content = read_json(path, "scores of no answer by question id (JSON)")
    if not isinstance(content, dict) or not all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in content.values()
    ):
        raise DataError(f"{path}: expected an object of question ids and numbers")
    if not data.has_unanswerable:
        raise DataError(f"{path}: scores of no answer are for SQuAD 2.0, the data is SQuAD 1.1")
    return content


if __name__ == "__main__":
    sys.exit(main())
