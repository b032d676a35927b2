"""English text as tokens: a byte-level BPE vocabulary, and batches of fixed length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from examples.text import read_articles

END = "<|end|>"  # after each article
_ORDER = 20  # of the shuffle that chooses the held-out articles


@dataclass(frozen=True)
class Corpus:
    """Token ids, int64, of the articles one after another."""

    tokenizer: Tokenizer
    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    articles: int
    characters: int
    held_out_characters: int

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        size: int = self.tokenizer.get_vocab_size()
        return size


def read_corpus(vocabulary: int, share: float = 1.0, held_out_share: float = 0.03) -> Corpus:
    """The English articles that gensim brings along, a share of them, as tokens.

    The vocabulary is trained on the training articles; no text is outside of it, since every byte
    is a token.
    """
    texts = [" ".join(article.sentences) for article in read_articles()]
    np.random.default_rng(_ORDER).shuffle(texts)
    texts = texts[: max(2, round(len(texts) * share))]
    cut = max(1, round(len(texts) * held_out_share))
    tokenizer = train_tokenizer(texts[cut:], vocabulary)
    return Corpus(
        tokenizer,
        _encoded(tokenizer, texts[cut:]),
        _encoded(tokenizer, texts[:cut]),
        len(texts),
        sum(map(len, texts)),
        sum(map(len, texts[:cut])),
    )


def train_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE with ``vocabulary`` tokens, ``END`` the first of them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _encoded(tokenizer: Tokenizer, texts: list[str]) -> NDArray[np.int64]:
    ids: list[int] = []
    for encoding in tokenizer.encode_batch([text + END for text in texts]):
        ids += encoding.ids
    return np.array(ids, np.int64)


def training_batches(
    tokens: NDArray[np.int64], rows: int, context: int, seed: int
) -> Iterator[NDArray[np.int64]]:
    """Endless batches ``[rows, context + 1]``, cut from the text at random places."""
    rng = np.random.default_rng(seed)
    window = np.arange(context + 1)
    while True:
        starts = rng.integers(0, len(tokens) - context, rows)
        yield tokens[starts[:, None] + window]


def evaluation_batches(
    tokens: NDArray[np.int64], rows: int, context: int
) -> list[NDArray[np.int64]]:
    """The text from its start, ``[rows, context + 1]`` each; the rest is left out."""
    count = (len(tokens) - 1) // (rows * context)
    starts = np.arange(count * rows).reshape(count, rows, 1) * context
    return list(tokens[starts + np.arange(context + 1)])
