"""The word2vec sample: four words in, the probabilities of the next one out, on IPU and CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paddle
from paddle import inference

from examples.inference.predictors import config_of, difference, run, verdict

DESCRIPTION = """\
Build and save the word2vec model, load it with paddle.inference, and run it on IPU and CPU.

Each of the four input slots is int64 [4, 1] and holds 1, 2, 3, 4; the predictor on the IPU is made
with enable_ipu(1, 4). The probabilities of the two devices must be equal within 1e-6.
"""

EPILOG = """\
what it writes into the output folder:
  word2vec.json or word2vec.pdmodel, word2vec.pdiparams   the inference model

exit codes:
  0 done; 1 the IPU and the CPU differ; 2 wrong arguments

examples:
  python -m examples.inference.word2vec
  python -m examples.inference.word2vec --model out/word2vec/word2vec    a model saved before
"""

SLOTS = ("firstw", "secondw", "thirdw", "forthw")
WORDS, EMBEDDING, HIDDEN = 2073, 32, 256
WITHIN = 1e-6


def save(prefix: Path) -> None:
    """Writes the model: one table of embeddings for all slots, a hidden layer, a softmax."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        paddle.seed(1)
        slots = [paddle.static.data(name, [-1, 1], "int64") for name in SLOTS]
        table = paddle.nn.Embedding(WORDS, EMBEDDING)
        joined = paddle.concat([table(slot).flatten(1) for slot in slots], axis=1)
        hidden = paddle.nn.functional.sigmoid(paddle.nn.Linear(4 * EMBEDDING, HIDDEN)(joined))
        predicted = paddle.nn.functional.softmax(paddle.nn.Linear(HIDDEN, WORDS)(hidden))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        paddle.static.save_inference_model(str(prefix), slots, [predicted], executor, program=main)


def infer(prefix: Path, use_ipu: bool) -> np.ndarray:
    """The probabilities, [4, words], with every slot holding 1, 2, 3, 4."""
    config = config_of(prefix)
    if use_ipu:
        config.enable_ipu(1, 4)  # IPUs, rows of a batch
    predictor = inference.create_predictor(config)
    data = np.array([1, 2, 3, 4], np.int64).reshape(4, 1)
    return run(predictor, dict.fromkeys(predictor.get_input_names(), data))[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """The sample; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.inference.word2vec",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", type=Path, help="path of a saved model without its suffix")
    parser.add_argument("--output", type=Path, default=Path("out/word2vec"), help="folder")
    options = parser.parse_args(arguments)
    paddle.enable_static()
    prefix = options.model or options.output / "word2vec"
    if options.model is None:
        save(prefix)
    ipu, cpu = infer(prefix, use_ipu=True), infer(prefix, use_ipu=False)
    apart = difference(ipu, cpu)
    print(f"{len(SLOTS)} slots of [4, 1] give {list(ipu.shape)} on the IPU and on the CPU")
    print(f"most probable next words: {ipu.argmax(1).tolist()} and {cpu.argmax(1).tolist()}")
    print(f"largest difference: {apart:.1e}, allowed {WITHIN:.0e}")
    return verdict(apart, WITHIN)


if __name__ == "__main__":
    sys.exit(main())
