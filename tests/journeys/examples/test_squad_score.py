"""EM and F1 on cases computed by hand from the definitions of the official scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.bert import squad_score
from examples.bert.files import DataError
from examples.bert.squad import Answer, Question, SquadData
from examples.bert.squad_score import Scores, exact_match, f1, normalise, score

ANSWER = st.text(st.sampled_from("ab the,.'-Z\u00e9  "), max_size=25)


def data(*golds: tuple[str, ...], version_2: bool) -> SquadData:
    """Questions q0, q1, … with these gold answers."""
    questions = (
        Question(f"q{n}", "?", " ", tuple(Answer(text, 0) for text in texts))
        for n, texts in enumerate(golds)
    )
    return SquadData(tuple(questions), version_2)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's\tPyjamas!", "cats pyjamas"),
        ("a an the The", ""),
        ("Theatre another anthem", "theatre another anthem"),
        ("U.S.A.", "usa"),
        ("well-known", "wellknown"),
        ("the-end", "theend"),  # punctuation goes first, so no article is left to go
        ("$1,000.50", "100050"),
        ("10th–11th “quoted”", "10th–11th “quoted”"),  # only ASCII punctuation goes
        ("ÉCLAIR", "éclair"),
    ],
)
def test_normalising(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("gold", "answer", "exact", "overlap"),
    [
        ("Denmark, Iceland and Norway", "denmark iceland and norway", 1, 1),
        # gold 3 words, answer 2, shared 2: precision 1, recall 2/3
        ("in 1066 AD", "1066 AD", 0, 2 * 1 * (2 / 3) / (5 / 3)),
        # each word counts as often as it is in both: shared 2 of 3 and of 4
        ("to to be", "to to to x", 0, 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)),
        ("Rollo", "William", 0, 0),
        ("the Rollo", "Rollo.", 1, 1),
    ],
)
def test_exact_match_and_f1(gold: str, answer: str, exact: int, overlap: float) -> None:
    assert exact_match(gold, answer) == exact
    for empty_matches in (False, True):
        assert f1(gold, answer, empty_matches=empty_matches) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("gold", "answer", "version_1", "version_2"),
    [("", "", 0, 1), ("the", "a.", 0, 1), ("", "x", 0, 0), ("x", "", 0, 0)],
)
def test_f1_where_no_words_are_left(gold: str, answer: str, version_1: int, version_2: int) -> None:
    assert f1(gold, answer, empty_matches=False) == version_1
    assert f1(gold, answer, empty_matches=True) == version_2


@given(ANSWER, ANSWER)
def test_scores_are_symmetric_and_bounded(first: str, second: str) -> None:
    overlap = f1(first, second, empty_matches=True)
    assert 0 <= overlap <= 1
    assert overlap == pytest.approx(f1(second, first, empty_matches=True))
    exact = exact_match(first, second)
    assert exact == exact_match(second, first)
    assert overlap >= exact
    assert normalise(normalise(first)) == normalise(first)
    assert exact_match(first, f" The {first.upper()}! ") == 1


def test_version_1_takes_the_best_gold_and_counts_missing_answers_as_0() -> None:
    questions = data(("1066", "in 1066"), ("Rollo",), ("Norway",), ("the",), version_2=False)
    answers = {"q0": "in 1066", "q1": "King Rollo", "q3": "The"}
    # exact: 1, 0, 0 (missing), 1; F1: 1, 2/3, 0, 0 (no words are left)
    assert score(questions, answers) == Scores(50.0, pytest.approx(100 * (5 / 3) / 4), 4)


def test_version_2_scores_answerable_and_unanswerable_questions() -> None:
    questions = data(("1066", "in 1066"), ("Rollo",), (), (), version_2=True)
    answers = {"q0": "in 1066", "q1": "King Rollo", "q2": "", "q3": "Norway"}
    scores = score(questions, answers)
    assert scores.exact == 50.0
    assert scores.f1 == pytest.approx(100 * (1 + 2 / 3 + 1) / 4)
    assert scores.has_answer == (50.0, pytest.approx(100 * (5 / 3) / 2), 2)
    assert scores.no_answer == (50.0, 50.0, 2)
    assert set(scores.as_dict()) == {
        *("exact", "f1", "total"),
        *("HasAns_exact", "HasAns_f1", "HasAns_total"),
        *("NoAns_exact", "NoAns_f1", "NoAns_total"),
    }


def test_a_gold_answer_without_words_counts_as_none_in_version_2() -> None:
    assert score(data(("the",), version_2=True), {"q0": ""}).exact == 100.0
    assert score(data(("the", "x"), version_2=True), {"q0": ""}).exact == 0.0


def test_questions_of_one_kind_have_no_scores_of_the_other() -> None:
    scores = score(data((), (), version_2=True), {"q0": "", "q1": "x"})
    assert scores.has_answer is None
    assert scores.no_answer == (50.0, 50.0, 2)


def test_the_threshold_empties_answers_and_the_best_one_is_found() -> None:
    questions = data(("a1",), ("b1",), (), ("c1 c2",), (), version_2=True)
    answers = {"q0": "a1", "q1": "x", "q2": "y", "q3": "c1", "q4": ""}
    odds = {"q0": -3.0, "q1": -2.0, "q2": 2.0, "q3": 1.0, "q4": 5.0}
    scores = score(questions, answers, odds, no_answer_threshold=1.5)
    # Kept are q0 (right), q1 (wrong), q3 (F1 2/3); empty, as they should be, q2 and q4.
    assert scores.exact == pytest.approx(100 * 3 / 5)
    assert scores.f1 == pytest.approx(100 * (3 + 2 / 3) / 5)
    # All empty: 2. Then q0 gives 3, q1 nothing, q3 nothing (F1 2/3), q2 takes 1, q4 nothing.
    assert (scores.best_exact, scores.best_exact_threshold) == (pytest.approx(60.0), -3.0)
    assert (scores.best_f1, scores.best_f1_threshold) == (pytest.approx(100 * (3 + 2 / 3) / 5), 1.0)
    everything_kept = score(questions, answers, odds, no_answer_threshold=9.0)
    assert everything_kept.exact == pytest.approx(40.0)
    nothing_kept = score(questions, answers, odds, no_answer_threshold=-9.0)
    assert nothing_kept.exact == pytest.approx(40.0)
    assert nothing_kept.no_answer == (100.0, 100.0, 2)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(-4, 4)), min_size=1))
def test_no_threshold_beats_the_best(cases: list[tuple[bool, bool, int]]) -> None:
    questions = data(*(("x",) if answerable else () for answerable, _, _ in cases), version_2=True)
    answers = {f"q{n}": "x" if given_x else "" for n, (_, given_x, _) in enumerate(cases)}
    # The official search takes questions of the same odds one by one: keep them apart. Its
    # threshold is 0 where no answer at all is best: so no odds are 0.
    odds = {f"q{n}": value + (n + 1) / 1000 for n, (_, _, value) in enumerate(cases)}
    best = score(questions, answers, odds)
    assert best.best_exact is not None
    assert best.best_exact_threshold is not None
    found = [
        score(questions, answers, odds, no_answer_threshold=threshold).exact
        for threshold in (*odds.values(), -99.0)
    ]
    assert best.best_exact == pytest.approx(max(found))
    if best.best_exact_threshold != 0:
        at_best = score(questions, answers, odds, no_answer_threshold=best.best_exact_threshold)
        assert at_best.exact == pytest.approx(best.best_exact)


def test_version_2_needs_all_answers_and_odds() -> None:
    questions = data(("a",), (), version_2=True)
    with pytest.raises(DataError, match="answers for all 2 questions, missing: 1, the first: q1"):
        score(questions, {"q0": "a"})
    with pytest.raises(DataError, match="scores of no answer for all 2 questions, missing: 2"):
        score(questions, {"q0": "a", "q1": ""}, {})


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A SQuAD 2.0 file of two questions and answers to them."""
    qas = [
        {"id": "q0", "question": "?", "answers": [{"text": "Rollo", "answer_start": 0}]},
        {"id": "q1", "question": "?", "answers": [], "is_impossible": True},
    ]
    content = {"version": "v2.0", "data": [{"paragraphs": [{"context": "Rollo.", "qas": qas}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(content))
    (tmp_path / "answers.json").write_text(json.dumps({"q0": "rollo", "q1": "Rollo"}))
    return tmp_path / "dev.json", tmp_path / "answers.json"


def run(*arguments: str | Path) -> int:
    return squad_score.main([str(a) for a in arguments])


def test_the_command_prints_and_writes_the_scores(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odds.json").write_text('{"q0": -1, "q1": 0.5}')
    options = ["--na-prob-file", tmp_path / "odds.json", "--na-prob-thresh", "0"]
    assert run(*files, *options, "--out-file", tmp_path / "scores.json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["exact"] == 100.0
    assert printed["best_exact_thresh"] == -1
    assert json.loads((tmp_path / "scores.json").read_text()) == printed
    assert run(*files) == 0
    assert json.loads(capsys.readouterr().out)["exact"] == 50.0


def test_missing_answers_to_version_1_are_warned_of(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(files[0].read_text())
    qas = content["data"][0]["paragraphs"][0]["qas"]
    qas[1] = {**qas[0], "id": "q2"}
    files[0].write_text(json.dumps({**content, "version": "1.1"}))
    assert run(*files) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"exact_match": 50.0, "f1": 50.0, "total": 2}
    assert "warning: 1 questions have no answer, they count 0" in captured.err
    (files[1].parent / "odds.json").write_text("{}")
    assert run(*files, "-n", files[1].parent / "odds.json") == 2
    assert "are for SQuAD 2.0, the data is SQuAD 1.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "answers.json: expected answers by question id (JSON), but there is no such file"),
        ('{"q0": "rollo"', "answers.json: expected answers by question id (JSON), but the JSON"),
        ('["rollo"]', "expected an object of question ids and answers, all of them text"),
        ('{"q0": 3}', "expected an object of question ids and answers, all of them text"),
        ('{"other": "x"}', "expected answers to these questions, got none of their ids"),
        ('{"q0": "rollo"}', "expected answers for all 2 questions, missing: 1, the first: q1"),
    ],
)
def test_unusable_predictions_end_with_code_2(
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    message: str,
) -> None:
    if content is None:
        files[1].unlink()
    else:
        files[1].write_text(content)
    assert run(*files) == 2
    assert message in capsys.readouterr().err


def test_unusable_scores_of_no_answer_end_with_code_2(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odds.json").write_text('{"q0": "high"}')
    assert run(*files, "-n", tmp_path / "odds.json") == 2
    assert "odds.json: expected an object of question ids and numbers" in capsys.readouterr().err
    assert run(*files, "-o", files[1] / "scores.json") == 2
    assert "error: " in capsys.readouterr().err
