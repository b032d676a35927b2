"""SQuAD 1.1 and 2.0: questions from the JSON files, and the network's features of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.files import DataError, read_json
from examples.bert.vocabulary import SpecialIds, Vocabulary

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Answer:
    """A span of the context, and the character it begins at."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """One question about a context; ``answers`` is empty where the context does not tell."""

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class SquadData:
    """The questions of a file in its order; ``has_unanswerable`` says that it is SQuAD 2.0."""

    questions: tuple[Question, ...]
    has_unanswerable: bool


@dataclass(frozen=True)
class SquadFeatures:
    """What the network reads: N windows of L tokens, ``[CLS] question [SEP] context [SEP]``.

    ``input_ids``, ``token_type_ids``, ``position_ids``, ``attention_mask`` are int32 ``[N, L]``.
    ``start_positions`` and ``end_positions``, int32 ``[N]``, are the tokens of the first answer, or
    0, the CLS, where the window does not hold it whole. ``question_numbers``, int32 ``[N]``, says
    whose window it is. ``offsets``, int32 ``[N, L, 2]``, gives each context token's first
    character and the one after its last in the original context, -1 elsewhere.
    ``is_best_window``, bool ``[N, L]``, marks, of all windows a context token is in, the one with
    the most context on both sides.
    """

    input_ids: Integers
    token_type_ids: Integers
    position_ids: Integers
    attention_mask: Integers
    start_positions: Integers
    end_positions: Integers
    question_numbers: Integers
    offsets: Integers
    is_best_window: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.input_ids)


def read_squad(path: Path) -> SquadData:
    """Read a file of SQuAD's JSON format, versions 1.1 and 2.0.

    Raises:
        DataError: the file is missing, damaged or of another layout; a question of SQuAD 1.1 has
            no answer; an answer is not in its context where it should be.
    """
    content = read_json(path, "a SQuAD file (JSON)")
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f'{path}: expected a SQuAD file, an object with a list "data"')
    records: list[tuple[str, dict[str, Any]]] = []
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                context = paragraph["context"]
                if not isinstance(context, str):
                    raise TypeError(f"a context that is no text: {context!r}")
                records += [(context, record) for record in paragraph["qas"]]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected SQuAD's articles, paragraphs and qas: {error}"
        ) from error
    version = str(content.get("version", "")).lstrip("v")
    has_unanswerable = version.startswith("2") or any("is_impossible" in r for _, r in records)
    questions = tuple(_question(path, context, r, has_unanswerable) for context, r in records)
    if not questions:
        raise DataError(f"{path}: expected questions, found none")
    (name, times), *_ = Counter(question.id for question in questions).most_common(1)
    if times > 1:
        raise DataError(
            f"{path}: expected an id of its own for each question, got {name} {times} times"
        )
    return SquadData(questions, has_unanswerable)


def make_features(
    questions: Sequence[Question],
    vocabulary: Vocabulary,
    max_sequence_length: int = 384,
    max_query_length: int = 64,
    stride: int = 128,
) -> SquadFeatures:
    """Cut each context into windows, ``stride`` tokens from one's begin to the next one's.

    A question keeps its first ``max_query_length`` tokens; the context takes the rest.
    """
    least = max_query_length + 4
    if max_sequence_length < least:
        raise ValueError(
            f"max_sequence_length: expected at least {least} for {max_query_length} tokens of the "
            f"question, three special ones and one of the context, got {max_sequence_length}"
        )
    if stride < 1:
        raise ValueError(f"stride: expected at least 1, got {stride}")
    tokenizer = vocabulary.tokenizer
    contexts = list(dict.fromkeys(q.context for q in questions))
    encoded = tokenizer.encode_batch(contexts, add_special_tokens=False)
    tokens = {
        context: _Tokens(np.array(e.ids, np.int32), np.array(e.offsets, np.int32).reshape(-1, 2))
        for context, e in zip(contexts, encoded, strict=True)
    }
    queries = tokenizer.encode_batch([q.text for q in questions], add_special_tokens=False)
    windows = []
    for number, (question, query) in enumerate(zip(questions, queries, strict=True)):
        ids = query.ids[:max_query_length]
        capacity = max_sequence_length - len(ids) - 3
        count = len(tokens[question.context].ids)
        starts = _window_starts(count, capacity, stride)
        windows += [_Window(number, ids, start, min(capacity, count - start)) for start in starts]

    features = _empty(windows, max_sequence_length, vocabulary.special.pad)
    for row, window in enumerate(windows):
        question = questions[window.question]
        _fill(features, row, window, tokens[question.context], vocabulary.special, question.answers)
    _mark_best_windows(features, windows)
    return features


@dataclass(frozen=True)
class _Tokens:
    """A context's token ids ``[n]``, and their characters' begins and ends ``[n, 2]``."""

    ids: Integers
    offsets: Integers


@dataclass(frozen=True)
class _Window:
    """``length`` of a context's tokens from ``start`` on, behind a question's tokens."""

    question: int
    query: list[int]
    start: int
    length: int

    @property
    def slots(self) -> slice:
        """The tokens of the context in the window."""
        first = len(self.query) + 2
        return slice(first, first + self.length)


def _empty(windows: Sequence[_Window], length: int, pad: int) -> SquadFeatures:
    shape = (len(windows), length)
    return SquadFeatures(
        input_ids=np.full(shape, pad, np.int32),
        token_type_ids=np.zeros(shape, np.int32),
        position_ids=np.broadcast_to(np.arange(length, dtype=np.int32), shape),
        attention_mask=np.zeros(shape, np.int32),
        start_positions=np.zeros(len(windows), np.int32),
        end_positions=np.zeros(len(windows), np.int32),
        question_numbers=np.array([window.question for window in windows], np.int32),
        offsets=np.full((*shape, 2), -1, np.int32),
        is_best_window=np.zeros(shape, np.bool_),
    )


def _fill(
    features: SquadFeatures,
    row: int,
    window: _Window,
    tokens: _Tokens,
    special: SpecialIds,
    answers: Sequence[Answer],
) -> None:
    """Write one window, and where its answer is, if it holds it whole."""
    slots = window.slots
    end = slots.stop + 1
    part = slice(window.start, window.start + window.length)
    features.input_ids[row, : slots.start] = [special.cls, *window.query, special.sep]
    features.input_ids[row, slots] = tokens.ids[part]
    features.input_ids[row, slots.stop] = special.sep
    features.token_type_ids[row, slots.start : end] = 1
    features.attention_mask[row, :end] = 1
    features.offsets[row, slots] = tokens.offsets[part]
    span = _answer_tokens(answers[0], tokens.offsets) if answers else None
    if span is not None and part.start <= span[0] and span[1] < part.stop:
        features.start_positions[row] = span[0] - part.start + slots.start
        features.end_positions[row] = span[1] - part.start + slots.start


def _mark_best_windows(features: SquadFeatures, windows: Sequence[_Window]) -> None:
    """BERT's rule: the smaller of both sides' contexts, then a little the window's length."""
    for _, group in groupby(enumerate(windows), key=lambda item: item[1].question):
        members = list(group)
        starts = np.array([window.start for _, window in members])[:, None]
        lengths = np.array([window.length for _, window in members])[:, None]
        place = np.arange(int((starts + lengths).max())) - starts
        inside = (place >= 0) & (place < lengths)
        context = np.minimum(place, lengths - 1 - place) + 0.01 * lengths
        best = np.where(inside, context, -1.0).argmax(axis=0)
        for number, (row, window) in enumerate(members):
            part = slice(window.start, window.start + window.length)
            features.is_best_window[row, window.slots] = best[part] == number


def _window_starts(tokens: int, capacity: int, stride: int) -> list[int]:
    starts = [0]
    while starts[-1] + capacity < tokens:
        starts.append(starts[-1] + min(capacity, stride))
    return starts


def _answer_tokens(answer: Answer, offsets: Integers) -> tuple[int, int] | None:
    """First and last context token that the answer touches."""
    begin, end = answer.start, answer.start + len(answer.text)
    (touched,) = np.nonzero((offsets[:, 1] > begin) & (offsets[:, 0] < end))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def _question(path: Path, context: str, record: Any, has_unanswerable: bool) -> Question:
    """One checked question of the file."""
    try:
        name, text = str(record["id"]), str(record["question"])
        answers = tuple(Answer(str(a["text"]), int(a["answer_start"])) for a in record["answers"])
        unanswerable = bool(record.get("is_impossible", False))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: expected questions with id, question and answers (text, answer_start): "
            f"{type(error).__name__} {error}"
        ) from error
    if unanswerable:
        return Question(name, text, context, ())  # any "plausible answers" are wrong ones
    if not answers:
        how = (
            '"is_impossible": true is missing'
            if has_unanswerable
            else 'only SQuAD 2.0 has such questions, with "is_impossible": true'
        )
        raise DataError(f"{path}: question {name} has no answer; {how}")
    return Question(name, text, context, tuple(_placed(path, name, context, a) for a in answers))


def _placed(path: Path, name: str, context: str, answer: Answer) -> Answer:
    """The answer without white space around it, which does not count; checked to be there."""
    text = answer.text.strip()
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    got = context[max(0, start) : start + len(text)]
    if got != text or not text:
        raise DataError(
            f"{path}: question {name}: expected the answer {answer.text!r} at character "
            f"{answer.start} of its context, got {got!r}"
        )
    return Answer(text, start)
