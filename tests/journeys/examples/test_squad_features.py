"""SQuAD files, the features made of them, their batches and the answers found in logits."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

from examples.bert.files import DataError
from examples.bert.squad import Answer, Question, SquadFeatures, make_features, read_squad
from examples.bert.squad_batches import (
    SQUAD_FEEDS,
    prediction_batches,
    squad_feeds,
    training_batches,
)
from examples.bert.squad_predictions import predict, write_predictions
from examples.bert.vocabulary import SPECIAL_TOKENS, Vocabulary, load_vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ("the", "normans", "came", "from", "nor", "##way", "where", "did")


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    pieces = [*SPECIAL_TOKENS, *WORDS, *LETTERS, *(f"##{c}" for c in LETTERS), *".,?()-'$–"]
    path = tmp_path_factory.mktemp("squad") / "vocab.txt"
    path.write_text("\n".join(pieces), encoding="utf-8")
    return load_vocabulary(path)


CONTEXT = "The Normans came from Norway. Nörways' sons (10th–11th century), e.g. Rollo, came."


def question(answer: str = "Norway", context: str = CONTEXT, name: str = "q") -> Question:
    return Question(
        name, "Where did they come from?", context, (Answer(answer, context.index(answer)),)
    )


def words(vocabulary: Vocabulary, ids: np.ndarray) -> list[str]:
    return [vocabulary.tokenizer.id_to_token(int(i)) for i in ids]


def record(**changes: Any) -> dict[str, Any]:
    plain = {
        "id": "q1",
        "question": "From where?",
        "answers": [{"text": "Norway", "answer_start": 22}],
    }
    return {**plain, **changes}


TWICE = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [record(), record()]}]}]}


def squad_file(path: Path, *records: dict[str, Any], **top: Any) -> Path:
    paragraphs = [{"context": CONTEXT, "qas": list(records)}]
    path.write_text(json.dumps({"data": [{"title": "N", "paragraphs": paragraphs}], **top}))
    return path


def test_both_versions_are_read(tmp_path: Path) -> None:
    old = read_squad(squad_file(tmp_path / "1.json", record(), record(id="q2"), version="1.1"))
    assert not old.has_unanswerable
    assert [q.id for q in old.questions] == ["q1", "q2"]
    assert old.questions[0] == Question("q1", "From where?", CONTEXT, (Answer("Norway", 22),))
    plausible = [{"text": "Norway", "answer_start": 22}]
    no = record(id="q2", answers=[], is_impossible=True, plausible_answers=plausible)
    new = read_squad(squad_file(tmp_path / "2.json", record(is_impossible=False), no))
    assert new.has_unanswerable
    assert new.questions[1].answers == ()


def test_white_space_around_an_answer_does_not_count(tmp_path: Path) -> None:
    blank = record(answers=[{"text": " Norway ", "answer_start": 21}])
    with pytest.raises(DataError, match="q1: expected the answer ' Norwaj '"):
        read_squad(
            squad_file(
                tmp_path / "b.json", record(answers=[{"text": " Norwaj ", "answer_start": 21}])
            )
        )
    (read,) = read_squad(squad_file(tmp_path / "a.json", blank)).questions
    assert read.answers == (Answer("Norway", 22),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": []}, "question q1 has no answer; only SQuAD 2.0 has such questions"),
        (
            {"answers": [], "is_impossible": False},
            'question q1 has no answer; "is_impossible": true is missing',
        ),
        (
            {"answers": [{"text": "Sweden", "answer_start": 22}]},
            "question q1: expected the answer 'Sweden' at character 22 of its context, got 'Norw",
        ),
        ({"answers": [{"text": "", "answer_start": 22}]}, "expected the answer '' at character 22"),
        (
            {"answers": [{"text": "T", "answer_start": -3}]},
            "expected the answer 'T' at character -3",
        ),
        ({"answers": [{"text": "Norway"}]}, "KeyError 'answer_start'"),
        ({"answers": "Norway"}, "expected questions with id, question and answers"),
    ],
)
def test_questions_that_cannot_be_used_are_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_squad(squad_file(tmp_path / "train.json", record(**changes)))
    assert str(error.value).startswith(str(tmp_path / "train.json"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [{"para', "breaks off or is damaged at line 1"),
        ("[1, 2]", 'expected a SQuAD file, an object with a list "data"'),
        ('{"data": {"paragraphs": []}}', 'an object with a list "data"'),
        (
            '{"data": [{"title": "x"}]}',
            "expected SQuAD's articles, paragraphs and qas: 'paragraphs'",
        ),
        ('{"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}', "a context that is no text: 3"),
        ('{"data": [3]}', "expected SQuAD's articles, paragraphs and qas"),
        ('{"data": []}', "expected questions, found none"),
        (json.dumps(TWICE), "expected an id of its own for each question, got q1 2 times"),
    ],
)
def test_files_of_another_layout_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"x\.json: .*{message}"):
        read_squad(path)
    with pytest.raises(DataError, match=r"y\.json: .*there is no such file"):
        read_squad(tmp_path / "y.json")


def test_a_window_is_question_and_context_between_special_tokens(vocabulary: Vocabulary) -> None:
    features = make_features([question()], vocabulary, 80, 64, 20)
    assert len(features) == 1
    shown = words(vocabulary, features.input_ids[0])
    asked = ["[CLS]", "where", "did", "the", "##y", "c", "##o", "##m", "##e", "from", "?", "[SEP]"]
    told = ["the", "normans", "came", "from", "nor", "##way", ".", "nor", "##way", "##s", "'"]
    told += ["s", "##o", "##n", "##s", "(", "1", "##0", "##t", "##h", "–"]
    begin = len(asked)
    assert shown[: begin + len(told)] == asked + told
    used = int(features.attention_mask[0].sum())
    assert shown[used - 1] == "[SEP]"
    assert set(shown[used:]) == {"[PAD]"}
    np.testing.assert_array_equal(features.attention_mask[0], np.arange(80) < used)
    expected = (np.arange(80) >= begin) & (np.arange(80) < used)
    np.testing.assert_array_equal(features.token_type_ids[0], expected)
    np.testing.assert_array_equal(features.position_ids[0], np.arange(80))
    start, end = features.start_positions[0], features.end_positions[0]
    assert shown[start : end + 1] == ["nor", "##way"]
    assert start == begin + 4
    inside = features.offsets[0, :, 0] >= 0
    np.testing.assert_array_equal(inside, expected & (np.arange(80) < used - 1))
    np.testing.assert_array_equal(inside, features.is_best_window[0])
    # Offsets are into the original: its capitals and its ö.
    pieces = [CONTEXT[a:b] for a, b in features.offsets[0][inside].tolist()]
    assert pieces[:10] == ["The", "Normans", "came", "from", "Nor", "way", ".", "Nör", "way", "s"]


def test_long_contexts_are_cut_into_overlapping_windows(vocabulary: Vocabulary) -> None:
    context = " ".join(LETTERS)  # 36 tokens, one a letter
    asked = Question("q", "a b c d e", context, (Answer("k l", context.index("k")),))
    features = make_features([asked], vocabulary, 17, 3, 5)  # 3 of the question, 11 of the context
    contexts = [
        "".join(context[a:b] for a, b in row[row[:, 0] >= 0].tolist()) for row in features.offsets
    ]
    assert contexts == [
        LETTERS[0:11],
        LETTERS[5:16],
        LETTERS[10:21],
        LETTERS[15:26],
        LETTERS[20:31],
        LETTERS[25:36],
    ]
    assert words(vocabulary, features.input_ids[0])[:5] == ["[CLS]", "a", "b", "c", "[SEP]"]
    # "k l" is cut in the first window, whole in two, and not in the rest.
    assert features.start_positions.tolist() == [0, 10, 5, 0, 0, 0]
    assert features.end_positions.tolist() == [0, 11, 6, 0, 0, 0]
    best = [
        "".join(context[a:b] for a, b in row[mark].tolist())
        for row, mark in zip(features.offsets, features.is_best_window, strict=True)
    ]
    # Each letter is taken from the window whose middle is nearest, of two the first.
    assert best == ["abcdefgh", "ijklm", "nopqr", "stuvw", "xyz01", "23456789"]
    assert "".join(best) == LETTERS


def test_the_stride_is_at_most_a_window(vocabulary: Vocabulary) -> None:
    context = " ".join(LETTERS)
    features = make_features([Question("q", "a", context, ())], vocabulary, 10, 3, 128)
    assert len(features) == 6
    assert (features.start_positions == 0).all()
    assert features.is_best_window.sum() == 36


def test_sequences_too_short_for_question_and_context_are_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="max_sequence_length: expected at least 9 .* got 8"):
        make_features([question()], vocabulary, 8, 5, 2)
    with pytest.raises(ValueError, match="stride: expected at least 1, got 0"):
        make_features([question()], vocabulary, 80, 5, 0)


TEXT = st.text(st.sampled_from("abA é–İßﬁ中.,()' \n\u0301\u200d🙂\x00"), min_size=1, max_size=60)


@settings(max_examples=60)
@given(context=TEXT.filter(str.strip), data=st.data())
def test_tokens_point_into_the_original_context(
    vocabulary: Vocabulary, context: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    asked = Question("q", "b", context, (Answer(context[start:end], start),))
    features = make_features([asked], vocabulary, 200, 8, 50)
    row = features.offsets[0]
    inside = row[row[:, 0] >= 0]
    assert (inside >= 0).all()
    assert (inside[:, 1] <= len(context)).all()
    assert (np.diff(inside[:, 0]) >= 0).all()
    covered = {i for a, b in inside.tolist() for i in range(a, b)}
    # What is in no token is white space, or a character that BERT's normaliser drops.
    left = {context[i] for i in range(len(context)) if i not in covered}
    assert not left & set("abAé–İßﬁ中.,()'🙂")
    first, last = features.start_positions[0], features.end_positions[0]
    if any(i in covered for i in range(start, end)):
        assert row[first, 0] <= min(i for i in range(start, end) if i in covered)
        assert row[last, 1] > max(i for i in range(start, end) if i in covered)
        assert first <= last
    else:
        assert first == last == 0


def exact_logits(features: SquadFeatures) -> tuple[np.ndarray, np.ndarray]:
    start = np.zeros(features.input_ids.shape, np.float32)
    end = start.copy()
    rows = np.arange(len(features))
    start[rows, features.start_positions] = 9
    end[rows, features.end_positions] = 9
    return start, end


def test_perfect_logits_give_back_the_answers(vocabulary: Vocabulary) -> None:
    long = " ".join([CONTEXT] * 5)
    asked = [
        question("Nörways' sons", name="a"),
        question("10th–11th", name="b"),
        question("Rollo", context=long, name="c"),
        Question("d", "Where?", CONTEXT, ()),
        Question("e", "Where?", long, ()),
    ]
    features = make_features(asked, vocabulary, 60, 16, 20)
    assert len(features) > len(asked)
    found = predict(asked, features, *exact_logits(features), has_unanswerable=True)
    assert found.answers == {"a": "Nörways' sons", "b": "10th–11th", "c": "Rollo", "d": "", "e": ""}
    assert found.null_odds["a"] == -18
    assert found.null_odds["d"] > 0


def hand_made() -> SquadFeatures:
    """One window of six slots over the context "aa bb cc": CLS, question, SEP, three words."""
    shape = (1, 7)
    offsets = np.full((1, 7, 2), -1, np.int32)
    offsets[0, 3:6] = [[0, 2], [3, 5], [6, 8]]
    zeros = np.zeros(shape, np.int32)
    number = np.zeros(1, np.int32)
    return SquadFeatures(
        zeros, zeros, zeros, zeros, number, number, number, offsets, offsets[..., 0] >= 0
    )


ASKED = [Question("q", "?", "aa bb cc", (Answer("bb", 3),))]


def test_the_n_best_are_ranked_with_their_shares() -> None:
    start = np.array([[1.0, 50, 50, 3, 2, 0, 50]])
    end = np.array([[0.5, 50, 50, 0, 1, 4, 50]])
    found = predict(ASKED, hand_made(), start, end, has_unanswerable=False)
    # Slots outside the context count for nothing, spans that end before they begin neither.
    scores = {"aa bb cc": 7, "bb cc": 6, "cc": 4, "aa bb": 4, "aa": 3, "bb": 3}
    ranked = [(c.text, c.start_logit + c.end_logit) for c in found.n_best["q"]]
    assert dict(ranked) == scores
    assert [score for _, score in ranked] == [7, 6, 4, 4, 3, 3]
    total = sum(np.exp(score) for score in scores.values())
    for candidate in found.n_best["q"]:
        expected = np.exp(scores[candidate.text]) / total
        assert candidate.probability == pytest.approx(expected)
    assert found.answers == {"q": "aa bb cc"}
    short = predict(ASKED, hand_made(), start, end, has_unanswerable=False, max_answer_length=2)
    assert short.answers == {"q": "bb cc"}
    one = predict(ASKED, hand_made(), start, end, has_unanswerable=False, n_best_size=5)
    assert len(one.n_best["q"]) <= 5


def test_no_answer_wins_above_the_threshold() -> None:
    start = np.array([[6.0, 0, 0, 3, 2, 0, 0]])
    end = np.array([[5.0, 0, 0, 0, 1, 4, 0]])

    def answer(threshold: float) -> str:
        found = predict(
            ASKED,
            hand_made(),
            start,
            end,
            has_unanswerable=True,
            null_score_diff_threshold=threshold,
        )
        assert found.null_odds == {"q": 4.0}  # 6 + 5 less 3 + 4
        assert [c.text for c in found.n_best["q"]][-1] == ""
        return found.answers["q"]

    assert answer(0.0) == ""
    assert answer(3.99) == ""
    assert answer(4.0) == "aa bb cc"
    plain = predict(ASKED, hand_made(), start, end, has_unanswerable=False)
    assert plain.answers == {"q": "aa bb cc"}


def test_where_no_span_fits_the_answer_is_empty() -> None:
    features = hand_made()
    features.is_best_window[:] = False
    logits = np.ones((1, 7))
    for version_2 in (False, True):
        found = predict(ASKED, features, logits, logits, has_unanswerable=version_2)
        assert found.answers == {"q": ""}
        assert found.null_odds == {"q": 2.0}


def test_logits_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"end_logits: expected \[1, 7\], got \[1, 6\]"):
        predict(ASKED, hand_made(), np.ones((1, 7)), np.ones((1, 6)), has_unanswerable=True)


def test_predictions_are_written_as_json(tmp_path: Path) -> None:
    logits = np.arange(7.0)[None]
    found = predict(ASKED, hand_made(), logits, logits, has_unanswerable=True)
    write_predictions(found, tmp_path / "out")
    read = {p.stem: json.loads(p.read_text()) for p in (tmp_path / "out").iterdir()}
    assert read["squad_prediction"] == {"q": "cc"} == found.answers
    assert read["squad_null_odds"] == {"q": -10.0}
    best = read["squad_nbest"]["q"][0]
    assert set(best) == {"text", "start_logit", "end_logit", "probability"}
    assert best["text"] == "cc"


@pytest.fixture
def features(vocabulary: Vocabulary) -> SquadFeatures:
    asked = [question(name=str(n)) for n in range(7)]
    return make_features(asked, vocabulary, 40, 16, 12)


def test_feeds_have_the_published_names_and_the_additive_mask(features: SquadFeatures) -> None:
    feeds = squad_feeds(features, np.array([2, 0]))
    assert tuple(feeds) == SQUAD_FEEDS
    assert feeds["input_mask"].shape == (2, 1, 1, 40)
    assert feeds["input_mask"].dtype == np.float32
    hidden = features.attention_mask[[2, 0]] == 0
    np.testing.assert_array_equal(feeds["input_mask"][:, 0, 0], np.where(hidden, -1000, 0))
    np.testing.assert_array_equal(feeds["indices"], features.input_ids[[2, 0]])
    np.testing.assert_array_equal(feeds["start_labels"], features.start_positions[[2, 0]])


def test_training_batches_shuffle_every_epoch_and_can_go_on(features: SquadFeatures) -> None:
    size = 3
    per_epoch = len(features) // size
    batches = list(islice(training_batches(features, size, seed=1), 2 * per_epoch + 1))
    later = list(islice(training_batches(features, size, seed=1, start=per_epoch + 1), per_epoch))
    for first, second in zip(batches[per_epoch + 1 :], later, strict=True):
        for name in SQUAD_FEEDS:
            np.testing.assert_array_equal(first[name], second[name])
    rows = [tuple(row) for b in batches[:per_epoch] for row in b["indices"].tolist()]
    assert set(rows) <= {tuple(row) for row in features.input_ids.tolist()}
    assert any(
        (a["indices"] != b["indices"]).any()
        for a, b in zip(batches[:per_epoch], batches[per_epoch:], strict=False)
    )
    with pytest.raises(ValueError, match="at least one batch of 999"):
        next(training_batches(features, 999, seed=1))


def test_prediction_batches_hold_each_window_once_and_are_filled_up(
    features: SquadFeatures,
) -> None:
    size = len(features) - 2
    (first, used), (last, rest) = prediction_batches(features, size)
    assert (used, rest) == (size, 2)
    ids = np.concatenate([first["indices"], last["indices"][:rest]])
    np.testing.assert_array_equal(ids, features.input_ids)
    assert (last["indices"][rest:] == 0).all()
    assert (last["input_mask"][rest:] == -1000).all()
    assert all(len(array) == size for array in last.values())
