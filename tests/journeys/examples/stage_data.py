"""Tiny data for the stages of BERT: samples to pretrain on, a vocabulary, a SQuAD file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from examples.bert.sample_files import write_samples
from examples.bert.samples import make_pass
from examples.bert.vocabulary import SPECIAL_TOKENS

WORDS = (
    "the a cat dog tree house runs sees in on and red blue old new who what where is . ?".split()
)
LENGTH, PREDICTIONS, VOCABULARY = 32, 5, 40

# One network for all tests; pipelines are the journey's.
SIZES = (
    f"--vocab_size {VOCABULARY} --hidden_size 16 --num_hidden_layers 1 --num_attention_heads 2 "
    f"--max_position_embeddings {LENGTH} --seq_len {LENGTH} "
    f"--max_predictions_per_seq {PREDICTIONS} --num_workers 0 --logging_steps 1"
).split()


def write_vocabulary(path: Path) -> Path:
    """`vocab.txt` of a few words."""
    path.write_text("".join(f"{token}\n" for token in (*SPECIAL_TOKENS, *WORDS)))
    return path


def write_samples_folder(folder: Path, count: int = 2) -> Path:
    """Training files of random text."""
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        documents = [[rng.integers(5, 26, 7).tolist() for _ in range(12)] for _ in range(8)]
        arrays = make_pass(documents, LENGTH, PREDICTIONS, 26, seed=number)
        write_samples(folder / f"training_{number}.hdf5", arrays)
    return folder


def write_squad(path: Path, questions: int = 12) -> Path:
    """A SQuAD 1.1 file: which animal runs in which place."""
    rng = np.random.default_rng(3)
    paragraphs = []
    for number in range(questions):
        animal, place = rng.choice(["cat", "dog"]), rng.choice(["tree", "house"])
        context = f"the old {animal} runs in the blue {place} ."
        answer = {"text": str(animal), "answer_start": context.index(animal)}
        question = {"id": f"q{number}", "question": "who runs in ?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    content = {"version": "1.1", "data": [{"title": "animals", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(content))
    return path
