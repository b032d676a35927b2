"""Prepare pretraining data: plain text in, a vocabulary and files of samples out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from examples import command
from examples.bert.files import DataError
from examples.bert.folder_lock import only_run_in
from examples.bert.plain_text import find_texts, read_texts
from examples.bert.sample_making import Corpus, SampleBar, SampleSettings, make_corpus
from examples.display import say
from examples.text import Article, read_articles

DESCRIPTION = """\
Make pretraining data of plain text: a vocabulary, and samples (pairs of segments with masked
words) in the layout of NVIDIA's BERT data, as hdf5 or as tfrecord.

TEXT are .txt files in UTF-8, or folders of them: one paragraph or sentence a line, a blank line
between articles. Without TEXT the English text is taken that comes with gensim.
"""

EPILOG = """\
what it writes into the output folder:
  vocab.txt                   the vocabulary, one piece a line (a copy of --vocab, if given)
  training_0000.hdf5, ...     the training samples, --duplicates views of each article
  held_out.hdf5               samples of articles that are in no training file
  prepared.json               settings and counts, written last

The files depend on text, settings and seed alone, not on the number of processes.

exit codes: 0 done; 2 wrong arguments, unusable data, or the disk is full; 130 interrupted.
Whatever the end, no half-written file stays.

examples:
  python -m examples.bert.prepare --output data/bert/phase1
  python -m examples.bert.prepare my_texts --output data/bert/phase2 \\
      --vocab data/bert/phase1/vocab.txt --sequence-length 384 \\
      --max-predictions-per-seq 56 --format tfrecord
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse(arguments)
    console = Console()
    try:
        settings = SampleSettings(
            options.sequence_length,
            options.max_predictions_per_seq,
            options.masked_lm_prob,
            options.duplicates,
            options.files,
            options.held_out_share,
            options.format,
            options.seed,
        )
        with only_run_in(options.output, "--output"):
            with console.status("reading the text"):
                read = articles(options.text)
            corpus = Corpus(read, options.vocab, options.vocab_size)
            with SampleBar(console) as bar:
                report = make_corpus(
                    corpus, settings, options.output, options.processes, bar, options.overwrite
                )
    except (DataError, ValueError, ModuleNotFoundError, OSError) as error:
        say(console, f"error: {error}")
        return 2
    except KeyboardInterrupt:
        say(console, f"interrupted; nothing was written to {options.output}")
        return 130
    say(console, report)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = command.parser_of("examples.bert.prepare", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("text", type=Path, nargs="*", metavar="TEXT", help="text files, or folders of .txt files")
    add("--overwrite", action="store_true", help="replace prepared data in the output folder")
    add("--vocab", type=Path, help="vocab.txt, or a .json of tokenizers, to use")
    add(
        "--vocab-size",
        type=int,
        default=4000,
        help="pieces of the vocabulary to train where none is given (default: 4000)",
    )
    add("--format", choices=("hdf5", "tfrecord"), default="hdf5", help="default: hdf5")
    add("--sequence-length", type=int, default=128, help="tokens of a sample (default: 128)")
    add(
        "--max-predictions-per-seq",
        type=int,
        default=20,
        help="slots for masked words; 20 with 128 tokens (the default), 56 with 384, 80 with 512",
    )
    add("--masked-lm-prob", type=float, default=0.15, help="share that is masked (default: 0.15)")
    add("--duplicates", type=int, default=5, help="views of each article (default: 5)")
    add("--files", type=int, default=4, help="training files to make (default: 4)")
    add(
        "--held-out-share",
        type=float,
        default=0.06,
        help="share of the articles kept from training, 0 for none (default: 0.06)",
    )
    add("--seed", type=int, default=1984, help="of the split, the pairs and the masks")
    add(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="files made at the same time (default: the number of cores)",
    )
    return parser.parse_args(arguments)


def articles(paths: Sequence[Path]) -> Callable[[], Iterable[Article]]:
    """What reads the articles, which happens twice."""
    if not paths:
        own = read_articles()
        return lambda: own
    files = find_texts(paths)
    return lambda: read_texts(files)


if __name__ == "__main__":
    sys.exit(main())
