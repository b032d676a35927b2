"""A user's own text: files and folders of .txt, articles with a blank line between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.bert.files import DataError
from examples.text import Article, split_sentences


def find_texts(paths: Sequence[Path]) -> list[Path]:
    """The files named, and all .txt files below the folders named, sorted by folder.

    Raises:
        DataError: a path does not exist, or a folder has no .txt file.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            texts = sorted(p for p in path.rglob("*.txt") if p.is_file())
            if not texts:
                raise DataError(f"{path}: expected .txt files in this folder, found none")
            files += texts
        elif path.is_file():
            files.append(path)
        else:
            raise DataError(f"{path}: expected a text file or a folder, there is none")
    return files


def read_texts(files: Sequence[Path]) -> Iterator[Article]:
    """Every article of the files; each line is a paragraph, or a sentence, and cut into sentences.

    Raises:
        DataError: a file is not UTF-8; the message says from which byte on.
    """
    for path in files:
        sentences: list[str] = []
        number = 0
        for line in _lines(path):
            if line:
                sentences += split_sentences(line)
            elif sentences:
                yield Article(f"{path.name} {number}", tuple(sentences))
                number, sentences = number + 1, []
        if sentences:
            yield Article(f"{path.name} {number}", tuple(sentences))


def _lines(path: Path) -> Iterator[str]:
    """Lines with single blanks, empty where there is only white space."""
    place = 0
    with path.open("rb") as stream:
        for raw in stream:
            try:
                yield " ".join(raw.decode("utf-8-sig" if place == 0 else "utf-8").split())
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}: expected text in UTF-8, byte {place + error.start} is not: "
                    f"{error.reason}; convert it, as with iconv -t utf-8"
                ) from error
            place += len(raw)
