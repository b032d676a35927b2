"""Real English prose, article by article, from the sample corpora that gensim installs.

Two sources, both inside the gensim wheel: shortened Wikipedia dumps (MediaWiki XML) and the Lee
background corpus (300 short news items, one a line).
"""

from __future__ import annotations

import bz2
import re
from dataclasses import dataclass
from pathlib import Path

WIKIPEDIA_DUMPS = (
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
    "enwiki-table-markup.xml.bz2",
)
NEWS_FILE = "lee_background.cor"

MINIMUM_PARAGRAPH = 80  # characters; shorter lines are captions, headings and list rests
MINIMUM_SENTENCES = 5  # an article needs enough sentences to be cut into pairs

_NOT_PROSE = ("=", ":", ";", "|", "{", "}", "!", "<", "[[")
_QUOTE_MARKS = re.compile(r"'{2,}")
_TAG = re.compile(r"<[^<>]*>")
_ENTITY = re.compile(r"&[a-zA-Z]{2,8};|&#\d+;")
_EMPTY_BRACKETS = re.compile(r"[(\[][\s,;:.–-]*[)\]]")
_LEADING_COMMA = re.compile(r"\(\s*[,;:]\s*")
_SPACES = re.compile(r"\s+")
_SPACE_BEFORE_POINT = re.compile(r"\s+([,.;:!?)])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|cf|ca|c|No|Vol|pp?|ed|eds|Inc|Ltd|Co|Corp"
    r"|Gen|Col|Lt|Sgt|Capt|Rev|Hon|Gov|Sen|Rep|approx|i\.e|e\.g|al|U\.S|U\.K|U\.N|B\.C|A\.D|a\.m|p\.m)\.$"
)


@dataclass(frozen=True)
class Article:
    """One document: a title and its sentences in reading order."""

    title: str
    sentences: tuple[str, ...]


def read_articles() -> list[Article]:
    """Every usable article of both corpora, Wikipedia first, in the order of the files.

    Raises:
        ModuleNotFoundError: gensim is not installed; the message says which extra brings it.
        FileNotFoundError: the installed gensim does not ship its sample corpora.
    """
    folder = corpus_folder()
    articles = [a for name in WIKIPEDIA_DUMPS for a in _read_wikipedia(folder / name)]
    articles += _read_news(folder / NEWS_FILE)
    return articles


def corpus_folder() -> Path:
    """The folder of gensim's sample corpora, checked to hold the files this example reads."""
    try:
        import gensim
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the English text comes inside gensim, which is not installed; install the project "
            "with its extra: pip install '.[bert]'"
        ) from error
    folder = Path(gensim.__file__).parent / "test" / "test_data"
    for name in (*WIKIPEDIA_DUMPS, NEWS_FILE):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"gensim's sample corpus {name} is missing from {folder}; "
                "reinstall gensim from its wheel"
            )
    return folder


def clean_paragraphs(plain: str) -> list[str]:
    """The prose paragraphs of a page whose links and templates are already removed.

    Headings, short list items, table rests and captions go; quote marks of the markup, tags,
    entities and the brackets left empty by removed templates go; white space becomes single blanks.
    """
    paragraphs = []
    for line in plain.splitlines():
        line = line.strip().lstrip("*# ")
        if len(line) < MINIMUM_PARAGRAPH or line.startswith(_NOT_PROSE):
            continue
        line = _QUOTE_MARKS.sub("", line)
        line = _ENTITY.sub(" ", _TAG.sub(" ", line))
        line = _LEADING_COMMA.sub("(", _EMPTY_BRACKETS.sub(" ", line))
        line = _SPACE_BEFORE_POINT.sub(r"\1", _SPACES.sub(" ", line)).strip()
        if len(line) >= MINIMUM_PARAGRAPH and line[-1] in ".!?\"')”’" and "|" not in line:
            paragraphs.append(line)
    return paragraphs


def split_sentences(paragraph: str) -> list[str]:
    """Cut after . ? or ! before a capital or digit, but not after an abbreviation."""
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        piece = paragraph[start : end.end()].strip()
        if _ABBREVIATION.search(piece):
            continue
        sentences.append(piece)
        start = end.end()
    rest = paragraph[start:].strip()
    return [*sentences, rest] if rest else sentences


def _read_wikipedia(path: Path) -> list[Article]:
    from gensim.corpora.wikicorpus import extract_pages, filter_wiki

    articles = []
    with bz2.open(path) as stream:
        for title, markup, _ in extract_pages(stream, ("0",)):
            if markup is None or markup.lstrip()[:9].upper() == "#REDIRECT":
                continue
            articles.append(_article(title, clean_paragraphs(filter_wiki(markup))))
    return [a for a in articles if len(a.sentences) >= MINIMUM_SENTENCES]


def _read_news(path: Path) -> list[Article]:
    lines = path.read_text(encoding="utf-8").splitlines()
    articles = [
        _article(f"news item {i}", [_SPACES.sub(" ", line)]) for i, line in enumerate(lines)
    ]
    return [a for a in articles if len(a.sentences) >= MINIMUM_SENTENCES]


def _article(title: str, paragraphs: list[str]) -> Article:
    sentences = (s for paragraph in paragraphs for s in split_sentences(paragraph))
    return Article(title, tuple(sentences))
