"""How a pretrained network does on articles it has not seen, beside what word counts alone give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from examples.bert.layout import fixed_batches, hide_every_masked_word, move_masked_to_front
from examples.bert.sample_files import PretrainingFiles, read_samples
from examples.bert.samples import Arrays
from examples.bert.stages import networks
from examples.bert.stages.device import DeviceProgram
from examples.display import CompileBar, say

Values = dict[str, float]


@dataclass(frozen=True)
class UnigramReference:
    """What a network scores that knows nothing but how common each word is, in nats.

    ``entropy`` is that of the training labels' frequencies; ``held_out`` the cross-entropy of the
    held-out labels under those frequencies, each count raised by one so that unseen words cost
    finite loss.
    """

    entropy: float
    held_out: float


def unigram_reference(
    training: Sequence[NDArray[np.int32]], held_out: NDArray[np.int32], vocabulary_size: int
) -> UnigramReference:
    """Entropy of the masked words' frequencies over all training labels, 0 (no label) left out."""
    counts = np.zeros(vocabulary_size, np.int64)
    for labels in training:
        counts += np.bincount(labels[labels != 0], minlength=vocabulary_size)
    share = counts[counts > 0] / counts.sum()
    smoothed = (counts + 1) / (counts.sum() + vocabulary_size)
    words = held_out[held_out != 0]
    return UnigramReference(
        float(-(share * np.log(share)).sum()), float(-np.log(smoothed[words]).mean())
    )


def evaluate(
    trained: DeviceProgram, sets: Sequence[Sequence[Arrays]], console: Console
) -> list[Values]:
    """Mean losses and accuracies, without dropout and updates, over each set of micro-batches.

    A batch's masked words count one by one, so that the batching does not change the result. The
    console says how far it is.
    """
    settings = trained.settings.for_inference()
    program = DeviceProgram(settings, networks.pretraining, trained.device)
    program.set_weights(trained.parameters())
    with CompileBar(console, "the evaluation program") as bar:
        program.compile(bar)
    with console.status("evaluating on the held-out articles"):
        return [_mean([program.step(dict(each)) for each in batches], batches) for batches in sets]


def _mean(values: Sequence[dict[str, NDArray[np.float32]]], batches: Sequence[Arrays]) -> Values:
    weights = {
        "MLM": [(batch["masked_lm_ids"] != 0).sum() for batch in batches],
        "NSP": [len(batch["next_sentence_labels"]) for batch in batches],
    }
    return {
        name: float(
            np.average(
                [float(np.mean(v[name])) for v in values], weights=weights[name.rpartition("/")[2]]
            )
        )
        for name in values[0]
    }


def evaluate_held_out(
    trained: DeviceProgram, files: PretrainingFiles, console: Console
) -> list[Values]:
    """Held-out values with the usual masks and with all words hidden; empty without a file."""
    if files.held_out is None:
        return []
    settings = trained.settings
    feeds = move_masked_to_front(
        read_samples(files.held_out),
        settings.max_predictions_per_seq,
        settings.max_position_embeddings - 1,
    )
    rows = settings.micro_batch_size
    sets = [fixed_batches(f, rows) for f in (feeds, hide_every_masked_word(feeds))]
    if not sets[0]:
        say(console, f"{files.held_out}: fewer samples than a micro-batch of {rows}")
        return []
    return evaluate(trained, sets, console)


def report(
    vocabulary_rows: int, files: PretrainingFiles, held_out: list[Values], console: Console
) -> UnigramReference:
    """Print the held-out losses beside what word frequencies alone give; returns the latter."""
    training = [read_samples(path)["masked_lm_ids"] for path in files.training]
    words = training[0] if files.held_out is None else read_samples(files.held_out)["masked_lm_ids"]
    reference = unigram_reference(training, words, vocabulary_rows)
    if not held_out:
        say(console, "no held-out articles were evaluated")
        return reference
    usual, hidden = held_out
    hardest = max(usual["loss/MLM"], hidden["loss/MLM"])
    bar = min(reference.entropy, reference.held_out)
    side = "below" if hardest < bar else "NOT below"
    how = " with all masked words hidden" if hardest == hidden["loss/MLM"] else ""
    lines = (
        "on the held-out articles:",
        f"  MLM loss {usual['loss/MLM']:.3f}, accuracy {usual['accuracy/MLM']:.1%} "
        "(80 % of the masked words hidden, 10 % replaced, 10 % kept)",
        f"  MLM loss {hidden['loss/MLM']:.3f}, accuracy {hidden['accuracy/MLM']:.1%} "
        "(all masked words hidden)",
        f"  NSP loss {usual['loss/NSP']:.3f}, accuracy {usual['accuracy/NSP']:.1%}",
        "knowing only which words are common:",
        f"  entropy of the masked words' frequencies {reference.entropy:.3f}, "
        f"their cross-entropy on the held-out articles {reference.held_out:.3f}",
        f"the network ends {side} it, by {abs(bar - hardest):.3f} nats{how}",
    )
    say(console, "\n".join(lines))
    return reference
