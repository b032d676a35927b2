"""WordPiece vocabularies: trained on the pretraining text itself, or read from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from examples.bert.files import DataError, writing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, CLS, SEP, MASK = 0, 1, 2, 3, 4
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FIRST_WORD = len(SPECIAL_TOKENS)
ALPHABET = 120  # letters kept; rarer ones become UNK


@dataclass(frozen=True)
class SpecialIds:
    """The ids of the special tokens in one vocabulary, by default in one trained here."""

    pad: int = PAD
    unknown: int = UNKNOWN
    cls: int = CLS
    sep: int = SEP
    mask: int = MASK

    def words(self, size: int) -> NDArray[np.int32]:
        """All ids below ``size`` that are no special token's."""
        special = (self.pad, self.unknown, self.cls, self.sep, self.mask)
        return np.setdiff1d(np.arange(size, dtype=np.int32), np.array(special, np.int32))


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer, its special tokens' ids and the number of ids, all below ``size``."""

    tokenizer: Tokenizer
    special: SpecialIds
    size: int


def load_vocabulary(path: Path) -> Vocabulary:
    """Read ``vocab.txt`` (one piece a line, BERT's own format) or a ``.json`` of ``tokenizers``.

    With a ``vocab.txt`` text keeps its capitals and accents if any piece has a capital letter, else
    it loses both, as for Google's cased and uncased BERT; a ``.json`` says itself what it does.

    Raises:
        DataError: the file is missing, damaged, or lacks one of BERT's special tokens.
    """
    tokenizer = _read_json(path) if path.suffix == ".json" else _read_text(path)
    pieces = tokenizer.get_vocab()
    missing = [token for token in SPECIAL_TOKENS if token not in pieces]
    if missing:
        raise DataError(
            f"{path}: expected a BERT vocabulary, its special tokens are missing: "
            f"{', '.join(missing)}"
        )
    special = SpecialIds(*(pieces[token] for token in SPECIAL_TOKENS))
    return Vocabulary(tokenizer, special, max(pieces.values()) + 1)


def save_vocabulary(tokenizer: Tokenizer, path: Path) -> None:
    """Write the pieces one a line in the order of their ids, as BERT's ``vocab.txt``."""
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with writing(path) as stream:
        stream.write("".join(f"{piece}\n" for piece, _ in pieces).encode())


def check_fits(vocabulary: Vocabulary, rows: int, path: Path) -> None:
    """The ids must be rows of the network's embedding.

    Raises:
        DataError: the vocabulary has more pieces than the embedding has rows.
    """
    if vocabulary.size > rows:
        raise DataError(
            f"{path}: expected at most {rows} pieces, the rows of the network's embedding, "
            f"got {vocabulary.size}; take the vocabulary that the network was trained with, or a "
            "network with more rows"
        )


def train_vocabulary(sentences: Iterable[str], size: int) -> Tokenizer:
    """Train a BERT tokenizer of at most ``size`` pieces; ids 0 to 4 are PAD, UNK, CLS, SEP, MASK.

    Raises:
        ValueError: ``size`` leaves no room beside the special tokens.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    if size <= FIRST_WORD:
        raise ValueError(
            f"vocabulary size: expected more than the {FIRST_WORD} special tokens, got {size}; "
            "choose some thousands"
        )
    lines = list(sentences)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts = Counter(
        char for line in lines for char in normalizer.normalize_str(line) if char > " "
    )
    ranked = sorted(counts, key=lambda char: (-counts[char], char))
    alphabet = sorted(ranked[: min(ALPHABET, (size - FIRST_WORD) // 3)])
    # The trainer numbers the letters in a hash table's order and breaks ties by those numbers;
    # named as special tokens they have fixed numbers, so that the same text gives the same
    # vocabulary.
    letters = [*alphabet, *(f"##{char}" for char in alphabet)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        special_tokens=[*SPECIAL_TOKENS, *letters],
        show_progress=False,
    )
    trained = Tokenizer(models.WordPiece(unk_token=SPECIAL_TOKENS[UNKNOWN]))
    trained.normalizer = normalizer
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(lines, trainer)
    return _word_pieces(trained.get_vocab(), lowercase=True)


def encode_documents(
    tokenizer: Tokenizer, documents: Iterable[Sequence[str]]
) -> list[list[list[int]]]:
    """Token ids by document and sentence, without CLS and SEP; empty sentences are left out."""
    encoded = []
    for sentences in documents:
        pieces = tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        encoded.append([p.ids for p in pieces if p.ids])
    return encoded


def _read_text(path: Path) -> Tokenizer:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise DataError(f"{path}: expected a vocabulary, but there is no such file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected a vocabulary in UTF-8, one piece a line") from error
    pieces = [line.rstrip("\r") for line in lines]
    while pieces and not pieces[-1]:
        pieces.pop()
    ids: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if piece in ids:
            raise DataError(
                f"{path}:{number + 1}: expected each piece once, got {piece!r} again, "
                f"first in line {ids[piece] + 1}"
            )
        ids[piece] = number
    is_cased = any(p != p.lower() for p in pieces if not (p.startswith("[") and p.endswith("]")))
    return _word_pieces(ids, lowercase=not is_cased)


def _read_json(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    if not path.is_file():
        raise DataError(f"{path}: expected a vocabulary, but there is no such file")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"{path}: expected a file that tokenizers saved: {error}") from error
    # Samples and windows are cut and filled up where they are made.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _word_pieces(ids: dict[str, int], *, lowercase: bool) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=SPECIAL_TOKENS[UNKNOWN]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer
