"""Sentences of two kinds, out of news and out of an encyclopaedia, as tokens of fixed length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.implementations import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing

from examples.text import read_articles

CLASSES = ("encyclopaedia", "news")
MINIMUM = 40  # characters of a sentence
_NEWS = "news item"  # how the titles of the news begin


@dataclass(frozen=True)
class Sentences:
    """Texts and their classes, as many of one class as of the other, in random order."""

    texts: list[str]
    labels: NDArray[np.int64]


def read_sentences(most: int, seed: int) -> Sentences:
    """Sentences of the articles that gensim brings along, ``most`` of each class at most."""
    rng = np.random.default_rng(seed)
    kinds: tuple[list[str], list[str]] = ([], [])
    for article in read_articles():
        kind = kinds[article.title.startswith(_NEWS)]
        kind += [s for s in article.sentences if len(s) >= MINIMUM]
    count = min(most, *map(len, kinds))
    labelled = [
        (kind[index], label)
        for label, kind in enumerate(kinds)
        for index in rng.choice(len(kind), count, replace=False)
    ]
    order = rng.permutation(len(labelled))
    return Sentences(
        [labelled[i][0] for i in order], np.array([labelled[i][1] for i in order], np.int64)
    )


def train_tokenizer(texts: list[str], vocabulary: int, length: int) -> Tokenizer:
    """A WordPiece tokenizer that cuts and fills texts to ``length`` tokens; id 0 fills."""
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=vocabulary, show_progress=False)
    ends = ((token, tokenizer.token_to_id(token)) for token in ("[SEP]", "[CLS]"))
    tokenizer.post_processor = BertProcessing(*ends)  # [CLS] text [SEP]
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]"), length=length)
    return tokenizer


def encoded(tokenizer: Tokenizer, texts: list[str]) -> dict[str, NDArray[np.int64]]:
    """The feeds of texts: ids, sentence types and task types, all 0 but the ids."""
    ids = np.array([e.ids for e in tokenizer.encode_batch(texts)], np.int64)
    return {"input_ids": ids, "token_type_ids": ids * 0, "task_type_ids": ids * 0}
