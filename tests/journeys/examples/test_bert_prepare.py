"""python -m examples.bert.prepare: a user's text in, vocabulary and sample files out."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("google_crc32c")
pytest.importorskip("rich")

from examples.bert import prepare
from examples.bert.files import DataError, read_json, write_json, writing
from examples.bert.plain_text import find_texts, read_texts
from examples.bert.sample_files import SampleShape, describe_samples, find_files, read_samples
from examples.bert.vocabulary import SPECIAL_TOKENS, check_fits, load_vocabulary
from tests.checkout import ROOT

NOUNS = ("river", "castle", "engine", "garden", "letter", "window", "harbour", "teacher")
SIZES = ["--sequence-length", "32", "--max-predictions-per-seq", "5", "--vocab-size", "120"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder of two files, one below it, with 24 articles."""
    folder = tmp_path / "text"
    (folder / "more").mkdir(parents=True)
    for path, begin in ((folder / "a.txt", 0), (folder / "more" / "b.txt", 12)):
        articles = [
            "\n".join(
                f"The {NOUNS[(n + i) % 8]} is {i} years old. It has the {NOUNS[(n * i) % 8]}."
                for i in range(8)
            )
            for n in range(begin, begin + 12)
        ]
        path.write_text("\n\n".join(articles), encoding="utf-8")
    return folder


def run(*arguments: str | Path) -> int:
    return prepare.main([str(a) for a in arguments])


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_text_becomes_files_that_do_not_depend_on_the_number_of_processes(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    common = [text, *SIZES, "--files", "2", "--duplicates", "3", "--held-out-share", "0.1"]
    assert run(*common, "--output", one, "--processes", "1") == 0
    assert "24 articles" in capsys.readouterr().out
    assert run(*common, "--output", two, "--processes", "2") == 0
    assert content(one) == content(two)
    names = ["held_out.hdf5", "prepared.json", "training_0000.hdf5", "training_0001.hdf5"]
    assert sorted(content(one)) == [*names, "vocab.txt"]
    found = find_files(one)
    assert [path.name for path in found.training] == names[2:]
    assert found.held_out == one / "held_out.hdf5"
    report = json.loads((one / "prepared.json").read_text())
    for path in (*found.training, found.held_out):
        shape = describe_samples(path)
        assert shape == SampleShape(report["samples"][path.name], 32, 5)
    assert report["articles"] == 24
    size = load_vocabulary(one / "vocab.txt").size
    assert report["vocabulary_size"] == size <= 120
    for path in found.training:
        read_samples(path, vocabulary_rows=size)


def test_both_formats_hold_the_same_samples(text: Path, tmp_path: Path) -> None:
    common = [text, *SIZES, "--files", "1", "--held-out-share", "0", "--processes", "1"]
    for name in ("hdf5", "tfrecord"):
        assert run(*common, "--format", name, "--output", tmp_path / name) == 0
    first = read_samples(tmp_path / "hdf5" / "training_0000.hdf5")
    second = read_samples(tmp_path / "tfrecord" / "training_0000.tfrecord")
    for key, array in first.items():
        np.testing.assert_array_equal(array, second[key])


def test_a_given_vocabulary_with_other_ids_is_used(text: Path, tmp_path: Path) -> None:
    pieces = ["the", "is", "it", "has", "years", "old", ".", *NOUNS, *map(str, range(8))]
    # As in Google's vocabularies the special tokens but PAD stand somewhere in the middle.
    lines = ["[PAD]", *pieces[:6], *SPECIAL_TOKENS[1:], *pieces[6:]]
    vocabulary = tmp_path / "google.txt"
    vocabulary.write_text("\n".join(lines) + "\n")
    options = [text, *SIZES, "--files", "1", "--vocab", vocabulary, "--processes", "1"]
    assert run(*options, "--masked-lm-prob", "0.3", "--output", tmp_path / "out") == 0
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == vocabulary.read_bytes()
    arrays = read_samples(tmp_path / "out" / "training_0000.hdf5", len(lines))
    unknown, cls, sep, mask = (lines.index(token) for token in SPECIAL_TOKENS[1:])
    ids = arrays["input_ids"]
    assert (ids[:, 0] == cls).all()
    assert ((ids == sep).sum(axis=1) == 2).all()
    assert (ids != unknown).all()
    row, slot = np.nonzero(arrays["masked_lm_ids"])
    seen = ids[row, arrays["masked_lm_positions"][row, slot]]
    assert (seen == mask).mean() == pytest.approx(0.8, abs=0.1)
    assert not np.isin(seen, (0, unknown, cls, sep)).any()
    length = arrays["input_mask"].sum(axis=1)
    expected = np.clip(np.rint(0.3 * length), 1, 5)
    np.testing.assert_array_equal((arrays["masked_lm_ids"] != 0).sum(axis=1), expected)


def test_articles_end_at_blank_lines_and_sentences_at_stops(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffOne  is here. Two\tis.\r\nThree\n \n\n\nFour é\n".encode())
    articles = [article.sentences for article in read_texts([path])]
    assert articles == [("One is here.", "Two is.", "Three"), ("Four é",)]


def test_folders_are_searched_for_text_files(text: Path, tmp_path: Path) -> None:
    assert [path.name for path in find_texts([text])] == ["a.txt", "b.txt"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: expected \.txt files in this folder, found none"):
        find_texts([tmp_path / "empty"])
    with pytest.raises(DataError, match=r"nothing: expected a text file or a folder"):
        find_texts([tmp_path / "nothing"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--files", "20"], "expected at least 42 articles, two for each of the 21 files, got 24"),
        (["--held-out-share", "0.9"], "22 of 24 articles leave too few for 4 files"),
        (["--vocab", "absent.txt"], "absent.txt: expected a vocabulary, but there is no such file"),
        (["--vocab-size", "5"], "expected more than the 5 special tokens, got 5"),
        (["--sequence-length", "8"], "--sequence-length: expected at least 16 tokens, got 8"),
        (["--max-predictions-per-seq", "30"], "expected at most 29, the words of 32 tokens"),
        (["--masked-lm-prob", "1"], "--masked-lm-prob: expected between 0 and 1, got 1.0"),
        (["--held-out-share", "1"], "--held-out-share: expected from 0 to below 1, got 1.0"),
        (["--duplicates", "0"], "--duplicates: expected at least 1, got 0"),
        (["--processes", "0"], "--processes: expected at least 1, got 0"),
        (["--seed", "-1"], "--seed: expected at least 0, got -1"),
    ],
)
def test_wrong_arguments_end_with_code_2_and_leave_nothing(
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    output = tmp_path / "out"
    assert run(text, *SIZES, "--output", output, "--processes", "1", *arguments) == 2
    assert message in capsys.readouterr().out
    assert not output.exists()


def test_text_that_is_not_utf_8_is_named_with_the_byte(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = text / "a.txt"
    bad.write_bytes(b"fine\n\n caf\xe9\n")
    assert run(text, "--output", tmp_path / "out") == 2
    assert "a.txt: expected text in UTF-8, byte 10 is not" in capsys.readouterr().out


def test_prepared_data_is_only_replaced_when_asked(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [text, *SIZES, "--output", tmp_path / "out", "--processes", "1"]
    assert run(*options, "--files", "3") == 0
    before = content(tmp_path / "out")
    assert run(*options, "--files", "1", "--seed", "5") == 2
    assert "has prepared data already" in capsys.readouterr().out
    assert content(tmp_path / "out") == before
    assert run(*options, "--files", "1", "--format", "tfrecord", "--overwrite") == 0
    names = ["held_out.tfrecord", "prepared.json", "training_0000.tfrecord", "vocab.txt"]
    assert sorted(content(tmp_path / "out")) == names


def test_a_vocabulary_that_knows_nothing_of_the_text_is_warned_of(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "is"]))
    options = [text, *SIZES, "--vocab", tmp_path / "v.txt", "--processes", "1", "--files", "1"]
    assert run(*options, "--output", tmp_path / "out") == 0
    assert "warning: the vocabulary knows little of this text" in capsys.readouterr().out


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes, which fails as a full disk does: in a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("size", "where"), [(100, "out'"), (20000, "training_0000.tfrecord'")])
def test_a_full_disk_leaves_nothing_half_written(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, where: str
) -> None:
    options = [text, *SIZES, "--output", tmp_path / "out", "--processes", "1", "--files", "1"]
    with file_size_limit(size):
        code = run(*options, "--format", "tfrecord")
    assert code == 2
    shown = capsys.readouterr().out
    assert f"error: [Errno {errno.EFBIG}] cannot write: File too large: " in shown
    assert where in shown
    assert not (tmp_path / "out").exists()


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    write_json(path, {"old": 1})
    with file_size_limit(100), pytest.raises(OSError, match=r"cannot write: .*scores\.json"):
        write_json(path, ["x" * 1000])
    with pytest.raises(RuntimeError, match="interrupted"), writing(path) as stream:
        stream.write(b"half")
        raise RuntimeError("interrupted")
    assert read_json(path, "scores") == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o600 == 0o600


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "expected scores, but there is no such file"),
        (b'{"a": 1', "breaks off or is damaged at line 1, column 8"),
        (b'{"a": "\xff"}', "expected scores in UTF-8"),
    ],
)
def test_json_that_cannot_be_read_is_named(
    tmp_path: Path, written: bytes | None, message: str
) -> None:
    path = tmp_path / "s.json"
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(DataError, match=rf"s\.json: .*{message}"):
        read_json(path, "scores")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[PAD]", "[UNK]", "a"], r"special tokens are missing: \[CLS\], \[SEP\], \[MASK\]"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], "v.txt:8: expected each piece once, got 'a' again"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "v.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=message):
        load_vocabulary(path)


def test_vocabulary_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"v\.txt: expected a vocabulary in UTF-8"):
        load_vocabulary(tmp_path / "v.txt")
    with pytest.raises(DataError, match=r"v\.json: .* there is no such file"):
        load_vocabulary(tmp_path / "v.json")
    (tmp_path / "v.json").write_text("{}")
    with pytest.raises(DataError, match=r"v\.json: expected a file that tokenizers saved"):
        load_vocabulary(tmp_path / "v.json")


def test_a_vocabulary_is_the_same_as_text_and_as_json(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    path = tmp_path / "v.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "hotel", "##s", "h", "[unused0]"]) + "\r\n")
    vocabulary = load_vocabulary(path)
    assert vocabulary.size == 9
    vocabulary.tokenizer.save(str(tmp_path / "v.json"))
    cutting = Tokenizer.from_file(str(tmp_path / "v.json"))
    cutting.enable_truncation(1)
    cutting.save(str(tmp_path / "v.json"))
    again = load_vocabulary(tmp_path / "v.json")
    for one in (vocabulary, again):
        assert one.tokenizer.encode("Hôtels", add_special_tokens=False).tokens == ["hotel", "##s"]
    check_fits(vocabulary, 9, path)
    with pytest.raises(DataError, match=r"v\.txt: expected at most 8 pieces.* got 9"):
        check_fits(vocabulary, 8, path)


def test_a_vocabulary_with_capital_letters_keeps_those_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "H", "h", "é", "e"]), encoding="utf-8")
    encoded = load_vocabulary(path).tokenizer.encode("H h é e", add_special_tokens=False)
    assert encoded.tokens == ["H", "h", "é", "e"]


INTERRUPTED_START = """
import signal, sys
from multiprocessing import util
from examples.bert import prepare

spawn, workers = util.spawnv_passfds, []

def spawn_and_interrupt(path, arguments, files):
    process = spawn(path, arguments, files)
    if "--multiprocessing-fork" in arguments:
        workers.append(process)
        if len(workers) == 2:
            signal.raise_signal(signal.SIGINT)
    return process

if __name__ == "__main__":
    util.spawnv_passfds = spawn_and_interrupt
    sys.exit(prepare.main(sys.argv[1:]))
"""


def test_a_run_interrupted_while_it_starts_a_process_ends(text: Path, tmp_path: Path) -> None:
    output, script = tmp_path / "out", tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED_START, encoding="utf-8")
    command = [sys.executable, str(script), str(text), *SIZES, "--processes", "2"]
    command += ["--duplicates", "100000", "--output", str(output)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as program:
        try:
            shown, errors = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 130, errors
    assert f"interrupted; nothing was written to {output}" in shown
    assert not output.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_an_interrupted_or_killed_run(
    text: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "out"
    # Views enough to be at work when the signal comes.
    command = [sys.executable, "-m", "examples.bert.prepare", str(text), *SIZES, "--processes", "2"]
    command += ["--duplicates", "100000", "--output", str(output)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        for _ in range(400):
            if list(output.glob(".preparing-*/vocab.txt")):
                break
            time.sleep(0.05)
        time.sleep(0.5)
        program.send_signal(number)
        try:
            shown, errors = program.communicate(timeout=30)  # ends when no process holds the pipes
        finally:
            program.kill()
    assert "Traceback" not in errors
    if number == signal.SIGINT:
        assert program.returncode == 130, errors
        assert f"interrupted; nothing was written to {output}" in shown
        assert not output.exists()
    else:  # the next run clears what is left
        assert program.returncode == -signal.SIGKILL
        assert run(text, *SIZES, "--output", output, "--processes", "1", "--files", "1") == 0
        assert not list(output.glob(".*"))
