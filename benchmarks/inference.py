"""Times saved models in inference: the IPU Model, Paddle, JAX, onnxruntime, OpenVINO, torch.

Each engine runs in a process of its own and they take turns; their results must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import isa
from peers import present
from worker import DISTURBED, MOST_TURNS, Answer, Worker, serve, wait_for_quiet

if TYPE_CHECKING:
    import numpy as np
    from inference_models import Arrays
    from paddle import inference

    Run = Callable[[], np.ndarray]

FP16 = "paddle_ipu-fp16"
OURS = ("paddle_ipu", "paddle_ipu-tensors", FP16)
TUNED = {"OMP_NUM_THREADS": "2", "MKL_DEBUG_CPU_TYPE": "5"}
PLAIN_PADDLE = {"PADDLE_IPU_AUTOLOAD": "0"}
ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "paddle_ipu": ("paddle_ipu: enable_ipu", {}),
    "paddle_ipu-tensors": ("paddle_ipu: run(tensors)", {}),
    FP16: ("paddle_ipu: run(tensors), fp16", {}),
    "jax": ("JAX, written by hand", {}),
    "torch": ("torch, eager, written by hand", {}),
    "onnxruntime": ("onnxruntime", {}),
    "openvino": ("OpenVINO", {}),
    "paddle": ("Paddle Inference, default", PLAIN_PADDLE),
    "paddle-tuned": ("Paddle Inference, tuned", PLAIN_PADDLE | TUNED),
}
PAUSE = 0.3
"""Seconds before a turn: threads of OpenMP go on looking for work after the turn before."""
MODELS = ("add", "word2vec", "resnet50", "mobilenet", "bert", "bert-2", "vit", "llama")
CASES = ("word2vec:4", *(f"{m}:{b}" for m in ("resnet50", "mobilenet", "bert", "vit", "llama")
                         for b in (1, 8)))  # fmt: skip
LEFT_OUT = {"mobilenet": (FP16, "jax", "torch"), "add": ("torch",)}
"""Models that nobody has written for these engines, or whose results, of 1e-7, half cannot hold."""
TOLERANCE = 1e-4
"""Largest difference from the first engine's result, in parts of its norm."""
FP16_TOLERANCE = 2e-2
"""Likewise, where each operator's result is rounded to half."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Time one run of saved models, inputs and outputs by handles included: word2vec, "
            "ResNet-50, MobileNet v3 (large), BERT-Base (sequence 128), ViT-S/16 and a token of a "
            "small LLaMA decoder behind 127 others, whose keys and values are fed, on paddle_ipu's "
            "IPU Model, Paddle Inference on the CPU with its defaults and tuned, onnxruntime, "
            "OpenVINO, and in JAX and eager torch written by hand. The engines take turns in one "
            "run; their results must agree. paddle_ipu runs by handles, which copy, by tensors, "
            "and in fp16, each operator's result rounded to half."
        ),
        epilog=(
            "Quick trial: --cases add:1,word2vec:4,bert-2:1 --rounds 2. The exit status is 1 where "
            f"results differ by more than {TOLERANCE:.0e} of their norm, in fp16 by more than "
            f"{FP16_TOLERANCE:.0e}. Tuned Paddle is oneDNN, all cores and "
            + " ".join(f"{k}={v}" for k, v in TUNED.items())
            + ". onnxruntime and "
            "OpenVINO get paddle_ipu's export, its layer norms and GELUs as those of opset 20."
        ),
    )
    parser.add_argument(
        "--cases",
        default=",".join(CASES),
        help=f"model:batch, separated by commas; models: {', '.join(MODELS)} "
        f"(default {','.join(CASES)})",
    )
    parser.add_argument("--only", default=",".join(ENGINES), help="engines, separated by commas")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each engine (default 10)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of a turn; at least one run (default 1)"
    )
    parser.add_argument(
        "--undisturbed",
        action="store_true",
        help=(
            "on a shared machine: count only turns during which other processes used less than "
            f"{100 * DISTURBED:.0f} %% of the processors, wait for such times, and make up to "
            f"{MOST_TURNS} times --rounds to get them (Linux)"
        ),
    )
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument("--worker", choices=list(ENGINES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in ENGINES]
    if unknown:
        parser.error(f"--only: unknown engine {', '.join(unknown)}; choose from {list(ENGINES)}")
    for case in arguments.cases.split(","):
        model, _, batch = case.partition(":")
        if model not in MODELS or not batch.isdecimal() or int(batch) < 1:
            parser.error(f"--cases: {case!r} is not MODEL:BATCH with a model of {list(MODELS)}")
    return arguments


# -- in a worker --------------------------------------------------------------------------------


def _config(prefix: Path) -> inference.Config:
    from paddle import inference

    program = next(p for p in map(prefix.with_suffix, (".json", ".pdmodel")) if p.exists())
    config = inference.Config(str(program), str(prefix.with_suffix(".pdiparams")))
    config.disable_glog_info()
    return config


def _by_handles(predictor: inference.Predictor, feeds: Arrays) -> Run:
    inputs = {name: predictor.get_input_handle(name) for name in feeds}
    outputs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]

    def run() -> np.ndarray:
        for name, array in feeds.items():
            inputs[name].copy_from_cpu(array)
        predictor.run()
        return [output.copy_to_cpu() for output in outputs][0]

    return run


def _by_tensors(predictor: inference.Predictor, feeds: Arrays) -> Run:
    import paddle

    paddle.disable_static()
    given = [paddle.to_tensor(feeds[name]) for name in predictor.get_input_names()]
    return lambda: predictor.run(given)[0].numpy()


def _on_ipu(prefix: Path, batch: int, feeds: Arrays, by_tensors: bool, in_half: bool) -> Run:
    from paddle import inference

    import paddle_ipu  # noqa: F401  (activates it where the installation has not)

    config = _config(prefix)
    config.enable_ipu(1, batch)
    config.set_ipu_config(in_half)
    predictor = inference.create_predictor(config)
    return (_by_tensors if by_tensors else _by_handles)(predictor, feeds)


def _on_cpu(prefix: Path, feeds: Arrays, tuned: bool) -> Run:
    from paddle import inference

    config = _config(prefix)
    if tuned:
        config.set_cpu_math_library_num_threads(os.cpu_count() or 1)
        config.enable_mkldnn()
    return _by_handles(inference.create_predictor(config), feeds)


class _Engine:
    """Answers ``prepare`` and ``time`` for the case prepared last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._run: Run | None = None

    def __call__(self, do: str, model: str = "", batch: int = 0, prefix: str = "",
                 seconds: float = 0.0, result: str = "") -> Answer:  # fmt: skip
        if do == "time":
            return {"seconds": self._times(seconds)}
        import numpy as np
        from inference_models import inputs_of

        feeds = inputs_of(model, batch)
        if self._name in OURS and self._run is None:
            # The imports and XLA's first program are a process's, not a predictor's. What comes
            # first decides in which thread XLA runs programs: as a rule, a predictor.
            import jax.numpy

            from paddle_ipu.xla import process

            process.prepare()
            jax.numpy.zeros(1)
        self._run = None
        start = time.perf_counter()
        self._run = self._prepared(model, batch, Path(prefix), feeds)
        created = time.perf_counter() - start
        first = self._run()
        np.save(result, first)
        return {"create": created, "first": time.perf_counter() - start}

    def _prepared(self, model: str, batch: int, prefix: Path, feeds: Arrays) -> Run:
        if self._name in OURS:
            name = self._name
            return _on_ipu(prefix, batch, feeds, name != "paddle_ipu", name == FP16)
        if self._name == "jax":
            from inference_jax import prepare

            return prepare(model, prefix, feeds)
        if self._name == "torch":
            from inference_torch import prepare

            return prepare(model, prefix, feeds)
        if self._name in ("onnxruntime", "openvino"):
            from inference_onnx import in_onnxruntime, in_openvino

            run_in = in_openvino if self._name == "openvino" else in_onnxruntime
            return run_in(prefix, batch, feeds)
        return _on_cpu(prefix, feeds, self._name == "paddle-tuned")

    def _times(self, seconds: float) -> list[float]:
        taken: list[float] = []
        total = 0.0
        while total < seconds or not taken:
            start = time.perf_counter()
            self._run()
            taken.append(time.perf_counter() - start)
            total += taken[-1]
        return taken


# -- in the benchmark ---------------------------------------------------------------------------


def _measure(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, Answer]]:
    script = os.path.abspath(__file__)
    engines = present(arguments.only.split(","))
    found: dict[str, dict[str, Answer]] = {}
    for case in arguments.cases.split(","):
        model, _, batch = case.partition(":")
        saver = Worker(str(Path(script).with_name("inference_save.py")), [str(folder)], {})
        prefix = saver.ask(model=model)["prefix"]
        saver.close()
        workers = {
            name: Worker(script, ["--worker", name], ENGINES[name][1])
            for name in engines
            if name not in LEFT_OUT.get(model, ())
        }
        answers: dict[str, Answer] = {}
        for name, worker in workers.items():
            print(f"{case}: preparing {name}", file=sys.stderr)
            answers[name] = worker.ask(
                do="prepare", model=model, batch=int(batch), prefix=prefix,
                result=str(folder / f"{name}.npy"),
            )  # fmt: skip
            answers[name] |= {"seconds": [], "turns": 0}
        most = arguments.rounds * (MOST_TURNS if arguments.undisturbed else 1)
        for turn in range(most + 1):
            for name, worker in workers.items():
                if answers[name]["turns"] == arguments.rounds:
                    continue
                time.sleep(PAUSE)
                if arguments.undisturbed:
                    wait_for_quiet()
                answer = worker.ask(do="time", seconds=arguments.seconds)
                answers[name]["avx512"] = answer["avx512"]
                # The first warms up.
                if turn and not (arguments.undisturbed and answer["others"] >= DISTURBED):
                    answers[name]["turns"] += 1
                    answers[name]["seconds"] += answer["seconds"]
        for worker in workers.values():
            worker.close()
        _compare(answers, folder)
        found[case] = answers
    return found


def _compare(answers: dict[str, Answer], folder: Path) -> None:
    import numpy as np

    results = {name: np.load(folder / f"{name}.npy").astype(np.float64) for name in answers}
    first = next(iter(results.values()))
    for name, result in results.items():
        same = result.shape == first.shape
        apart = np.linalg.norm(result - first) / np.linalg.norm(first) if same else np.inf
        answers[name]["difference"] = float(apart)


def _table(case: str, answers: dict[str, Answer]) -> str:
    batch = int(case.partition(":")[2])
    lines = [
        f"\n{case.replace(':', ', batch ')}\n",
        "| engine | runs | p50 ms | p90 ms | rows/s | to the best other | made in s | difference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    medians = {
        name: statistics.median(answer["seconds"])
        for name, answer in answers.items()
        if answer["seconds"]
    }
    others = [median for name, median in medians.items() if name not in OURS]
    for name, answer in answers.items():
        if not answer["seconds"]:
            lines.append(f"| {ENGINES[name][0]} | 0 | no undisturbed turn | | | | | |")
            continue
        taken = sorted(answer["seconds"])
        p50, p90 = medians[name], taken[min(len(taken) - 1, int(0.9 * len(taken)))]
        ratio = f"{p50 / min(others):.2f}" if others else ""
        title = isa.marked(ENGINES[name][0], answer["avx512"])
        lines.append(
            f"| {title} | {len(taken)} | {1e3 * p50:.3g} | {1e3 * p90:.3g} | "
            f"{batch * len(taken) / sum(taken):.3g} | {ratio} | {answer['create']:.2f} | "
            f"{answer['difference']:.1e} |"
        )
    return "\n".join(lines)


def main() -> int:
    """The benchmark; 1 where results differ."""
    arguments = _arguments()
    if arguments.worker:
        serve(_Engine(arguments.worker))
        return 0
    isa.cap(arguments.isa)
    with tempfile.TemporaryDirectory() as folder:
        found = _measure(arguments, Path(folder))
    print(isa.description(arguments.isa))
    for case, answers in found.items():
        print(_table(case, answers))
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"machine": isa.description(arguments.isa), "cases": found}, indent=1)
        )
    differing = [
        f"{case}: {name} differs by {answer['difference']:.1e}"
        for case, answers in found.items()
        for name, answer in answers.items()
        if not answer["difference"] <= (FP16_TOLERANCE if name == FP16 else TOLERANCE)
    ]
    print("\n".join(differing), file=sys.stderr)
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
