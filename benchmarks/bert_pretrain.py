"""Times pretraining of BERT-Base, phase 1, beside Paddle's CPU executor, with its loader.

Every engine trains the program of `examples/bert/run_pretrain.py` on the same files from the same
weights, in a process of its own, one run at a time and in turns. Their losses must agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import isa
from bert_step import TUNED
from step_turns import PLAIN_PADDLE
from worker import Answer, Worker, serve

ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "paddle_ipu": ("paddle_ipu: run_pretrain.py --device ipu", {}),
    "paddle": ("Paddle's CPU executor, default", PLAIN_PADDLE),
    "paddle-tuned": ("Paddle's CPU executor, tuned", PLAIN_PADDLE | TUNED),
}
TOLERANCE = 1e-4
LOADER_SHARE = 0.02
FILES = 3


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Sequences per second of BERT-Base's phase 1 (forward, backward, Lamb; sequence 128, "
            "20 masked words; fp32, no dropout) on paddle_ipu's IPU Model and on Paddle's CPU "
            "executor, and the share of a run that waits for data. The accumulation is lowered "
            "from 2048; on the CPU executor an update sees its rows at once. The exit status is 1 "
            "where losses differ by more than 1e-4 relative, where paddle_ipu is not the fastest, "
            "or where its loader takes more than 2 % of the time."
        ),
        epilog=(
            "Quick trial: --hidden 128 --layers 2 --vocabulary 1000 --steps 3. Tuned Paddle is "
            + " ".join(f"{k}={v}" for k, v in TUNED.items())
            + "."
        ),
    )
    add = parser.add_argument
    add("--steps", type=int, default=5, help="timed runs (default 5)")
    add("--warmup", type=int, default=1, help="runs before them (default 1)")
    add("--micro-batch", type=int, default=8, help="rows of a micro-batch (default 8)")
    add("--accumulation", type=int, default=4, help="micro-batches of an update (default 4)")
    add("--layers", type=int, default=12, help="default 12")
    add("--hidden", type=int, default=768, help="a multiple of 64, the width of a head")
    add("--vocabulary", type=int, default=30400, help="default 30400")
    add("--workers", type=int, default=1, help="threads of the loader (default 1)")
    add("--only", default=",".join(ENGINES), metavar="ENGINES", help="of " + ", ".join(ENGINES))
    isa.add_argument(parser)
    add("--json", metavar="FILE", help="keep every number")
    add("--worker", help=argparse.SUPPRESS)
    add("--data", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in ENGINES]
    if unknown:
        parser.error(f"--only: unknown engine {', '.join(unknown)}; choose from {list(ENGINES)}")
    if arguments.steps < 1 or arguments.warmup < 1:
        parser.error("--steps and --warmup must be at least 1: the first run waits for code")
    if arguments.hidden % 64:
        parser.error(f"--hidden must be a multiple of 64: {arguments.hidden}")
    return arguments


# -- in a worker --------------------------------------------------------------------------------


class _Engine:
    """Answers ``prepare`` and ``step``."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._program: Any = None
        self._batches: Any = None

    def __call__(self, do: str) -> Answer:
        return self._prepare() if do == "prepare" else self._step()

    def _prepare(self) -> Answer:
        begin = time.perf_counter()
        on_ipu = self._arguments.worker == "paddle_ipu"
        if on_ipu:
            import paddle_ipu

            paddle_ipu.activate()
        import paddle

        from examples.bert.loader import PretrainingLoader
        from examples.bert.stages import networks
        from examples.bert.stages.device import DeviceProgram
        from examples.bert.stages.presets import PRESETS
        from examples.bert.stages.settings import Settings

        a = self._arguments
        settings = Settings(
            **PRESETS["pod4-phase1"]
            | {
                "hidden_size": a.hidden,
                "num_attention_heads": a.hidden // 64,
                "num_hidden_layers": a.layers,
                "vocab_size": a.vocabulary,
                "micro_batch_size": a.micro_batch,
                "grad_acc_factor": a.accumulation,
                "num_ipus": 1,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "ipu_enable_fp16": False,
                "scale_loss": 1.0,
                "serialize_factor": 1,
                "auto_recomputation": 0,
                "checkpoint_outputs": False,
                "enable_engine_caching": False,
                "warmup_steps": 100,
            }
        )
        paddle.enable_static()
        device = "ipu" if on_ipu else "cpu"
        self._program = DeviceProgram(settings, networks.pretraining, device, 7038)
        self._program.compile()
        self._batches = PretrainingLoader(
            sorted(Path(a.data).iterdir()),
            settings.max_predictions_per_seq,
            settings.max_position_embeddings - 1,
            settings.step_rows,
            settings.seed,
            workers=a.workers,
            vocabulary_rows=settings.vocab_size,
        )
        return {"seconds": time.perf_counter() - begin, "paddle": paddle.__version__}

    def _step(self) -> Answer:
        begin = time.perf_counter()
        feeds = next(self._batches)
        ready = time.perf_counter()
        values = self._program.step(feeds)
        end = time.perf_counter()
        loss = float(values["loss/MLM"].mean() + values["loss/NSP"].mean())
        return {"read": ready - begin, "seconds": end - begin, "loss": loss}


# -- in the benchmark ---------------------------------------------------------------------------


def _write_samples(folder: Path, rows: int, vocabulary: int) -> None:
    """Files of full sequences with 20 masked words each, so that all batches are equal work."""
    import numpy as np

    from examples.bert.sample_files import write_samples

    rng = np.random.default_rng(0)
    for number in range(FILES):
        ids = rng.integers(5, vocabulary, (rows, 128), np.int32)
        places = np.sort(rng.permuted(np.tile(np.arange(1, 127), (rows, 1)), axis=1)[:, :20])
        labels = np.take_along_axis(ids, places, axis=1)
        np.put_along_axis(ids, places, 4, axis=1)
        ids[:, 0], ids[:, -1] = 2, 3
        arrays = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": (np.arange(128) > 60).astype(np.int32) + np.zeros_like(ids),
            "masked_lm_positions": places.astype(np.int32),
            "masked_lm_ids": labels,
            "next_sentence_labels": rng.integers(0, 2, rows, np.int32),
        }
        write_samples(folder / f"training_{number}.hdf5", arrays)


def _run(arguments: argparse.Namespace) -> dict[str, list[Answer]]:
    names = arguments.only.split(",")
    workers: dict[str, Worker] = {}
    steps: dict[str, list[Answer]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        rows = arguments.micro_batch * arguments.accumulation
        total = rows * (arguments.steps + arguments.warmup + 2)
        _write_samples(Path(folder), max(total // FILES, rows) + 1, arguments.vocabulary)
        command = sys.argv[1:] + ["--data", folder]
        try:
            for name in names:
                _say(f"{name}: preparing")
                workers[name] = Worker(__file__, [*command, "--worker", name], ENGINES[name][1])
                prepared = workers[name].ask(do="prepare")
                _say(f"{name}: ready after {prepared['seconds']:.1f} s")
            for turn in range(arguments.warmup + arguments.steps):
                for name in names:
                    answer = workers[name].ask(do="step")
                    _say(f"{name}: {answer['seconds']:.2f} s, loss {answer['loss']:.6f}")
                    steps[name].append(answer | {"counts": turn >= arguments.warmup})
                    time.sleep(0.3)  # idle threads of Paddle's OpenMP spin for 0.2 s
        finally:
            for worker in workers.values():
                worker.close()
    return steps


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _verdicts(steps: dict[str, list[Answer]], rates: dict[str, float], share: float) -> list[str]:
    """What is not as it should be."""
    wrong = []
    first, *others = steps
    for name in others:
        for one, other in zip(steps[first], steps[name], strict=True):
            if not abs(one["loss"] - other["loss"]) <= TOLERANCE * abs(one["loss"]):
                wrong.append(f"losses differ: {first} {one['loss']}, {name} {other['loss']}")
                break
    if "paddle_ipu" in rates and max(rates.values()) > rates["paddle_ipu"]:
        wrong.append("paddle_ipu is not the fastest")
    if "paddle_ipu" in rates and share > LOADER_SHARE:
        wrong.append(f"the loader takes {share:.1%} of paddle_ipu's time")
    return wrong


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    if arguments.worker:
        serve(_Engine(arguments))
        return 0
    isa.cap(arguments.isa)
    steps = _run(arguments)
    print(isa.description(arguments.isa))
    rows = arguments.micro_batch * arguments.accumulation
    rates, shares = {}, {}
    print("| engine | runs | sequences/s | seconds a run | min | max | loader's share |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, answers in steps.items():
        seconds = [answer["seconds"] for answer in answers if answer["counts"]]
        read = sum(answer["read"] for answer in answers if answer["counts"])
        rates[name] = rows / statistics.median(seconds)
        shares[name] = read / sum(seconds)
        title = isa.marked(ENGINES[name][0], answers[-1]["avx512"])
        print(
            f"| {title} | {len(seconds)} | {rates[name]:.2f} | "
            f"{statistics.median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} | "
            f"{shares[name]:.2%} |"
        )
    print("losses: " + " ".join(f"{answer['loss']:.6f}" for answer in next(iter(steps.values()))))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"rows": rows, "steps": steps}, indent=1))
    wrong = _verdicts(steps, rates, shares.get("paddle_ipu", 0.0))
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
