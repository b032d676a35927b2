"""A lower-cased WordPiece vocabulary trained on the pretraining text itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, CLS, SEP, MASK = 0, 1, 2, 3, 4
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FIRST_WORD = len(SPECIAL_TOKENS)
ALPHABET = 120  # letters kept; rarer ones become UNK


def train_vocabulary(sentences: Iterable[str], size: int) -> Tokenizer:
    """Train a BERT tokenizer of at most ``size`` pieces; ids 0 to 4 are PAD, UNK, CLS, SEP, MASK.

    Raises:
        ValueError: ``size`` leaves no room beside the special tokens.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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
    tokenizer = Tokenizer(models.WordPiece(trained.get_vocab(), unk_token=SPECIAL_TOKENS[UNKNOWN]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def encode_documents(
    tokenizer: Tokenizer, documents: Iterable[Sequence[str]]
) -> list[list[list[int]]]:
    """Token ids by document and sentence, without CLS and SEP; empty sentences are left out."""
    encoded = []
    for sentences in documents:
        pieces = tokenizer.encode_batch(list(sentences), add_special_tokens=False)
        encoded.append([p.ids for p in pieces if p.ids])
    return encoded
