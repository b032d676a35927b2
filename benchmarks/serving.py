"""Auto-batching beside one request at a time: many clients of word2vec, and of BERT."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import isa
import numpy as np

Array = np.ndarray[Any, Any]
Ask = Callable[[int], Array]
"""Asks the request of that number."""

BERT_AIM = 0.9


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Threads that each ask for one row after another. word2vec: runs of a program for one "
            "row, in turns, beside a BatchingRunner; then every answer of many requests is "
            "compared with Paddle's CPU executor. BERT: the engine at batches of 1 and 8, beside "
            "clients of a BatchingRunner with micro-batches of 8. The exit status is 1 where an "
            "answer is wrong, or BERT's clients get less than 90 % of the engine's rate."
        )
    )
    add = parser.add_argument
    add("--only", choices=("word2vec", "bert"), help="one of the two")
    add("--clients", type=int, default=64, help="threads (default 64)")
    add("--rounds", type=int, default=5, help="turns of each way (default 5)")
    add("--seconds", type=float, default=2.0, help="of a turn with word2vec (default 2)")
    add("--micro-batch", type=int, default=32, help="of word2vec (default 32)")
    add("--timeout-ms", type=float, default=2.0, help="of both runners (default 2)")
    add("--requests", type=int, default=100_000, help="answers that are compared (default 100000)")
    add("--layers", type=int, default=12, help="of BERT (default 12)")
    add("--hidden", type=int, default=768, help="of BERT (default 768)")
    add("--sequence", type=int, default=128, help="of BERT (default 128)")
    add("--bert-seconds", type=float, default=10.0, help="of a turn with BERT (default 10)")
    isa.add_argument(parser)
    add("--json", metavar="FILE", help="write every number to FILE")
    return parser.parse_args()


def _load(ask: Ask, clients: int, seconds: float, kinds: int) -> dict[str, float]:
    """Answers a second, and the time of one in ms, of clients that ask again at once."""
    times: list[list[float]] = [[] for _ in range(clients)]
    ends = time.perf_counter() + seconds

    def client(number: int) -> None:
        kind, now = number, time.perf_counter()
        while not times[number] or now < ends:
            ask(kind % kinds)
            kind, before, now = kind + clients, now, time.perf_counter()
            times[number].append(now - before)

    start, cpu = time.perf_counter(), time.process_time()
    _in_threads(client, clients)
    took = time.perf_counter() - start
    every = np.concatenate(times)
    return {
        "a second": len(every) / took,
        "p50 ms": 1000 * float(np.percentile(every, 50)),
        "p99 ms": 1000 * float(np.percentile(every, 99)),
        "CPU us": 1e6 * (time.process_time() - cpu) / len(every),
    }


def _in_threads(client: Callable[[int], None], clients: int) -> None:
    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _median(turns: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


def _compare(ask: Ask, expected: Array, requests: int, clients: int) -> dict[str, int]:
    """Asks so many requests; counts answers, and those that are another request's or wrong."""
    counts = [[0, 0] for _ in range(clients)]

    def client(number: int) -> None:
        for request in range(number, requests, clients):
            kind = request % len(expected)
            answer = ask(kind)
            counts[number][0] += 1
            fits = answer.shape == (1, expected.shape[1])
            if not fits or np.abs(answer[0] - expected[kind]).max() > 1e-6:
                counts[number][1] += 1

    _in_threads(client, clients)
    return {"answers": sum(n for n, _ in counts), "wrong": sum(n for _, n in counts)}


def _word2vec(arguments: argparse.Namespace) -> dict[str, Any]:
    from serving_models import word2vec

    from paddle_ipu.serving import BatchingRunner

    model = word2vec(1000)
    requests = model.requests
    single, name = model.compiled(1)
    program, _ = model.compiled(arguments.micro_batch)
    with BatchingRunner(program, timeout_ms=arguments.timeout_ms) as runner:
        ways: dict[str, Ask] = {
            "one by one": lambda kind: single.run(requests[kind], [name])[0],
            "auto-batching": lambda kind: runner.run(requests[kind])[name],
        }
        turns: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for turn in range(arguments.rounds + 1):
            for way, ask in ways.items():
                found = _load(ask, arguments.clients, arguments.seconds, len(requests))
                # The first turn warms up.
                turns[way] += [found] if turn else []
        fill = runner.statistics().fill
        checked = _compare(
            ways["auto-batching"], model.on_cpu(), arguments.requests, arguments.clients
        )
        counts = runner.statistics()
    checked["lost or doubled"] = arguments.requests - checked["answers"]
    checked["lost or doubled"] += counts.requests - counts.answered
    result = {"turns": turns, "median": {way: _median(found) for way, found in turns.items()}}
    return result | {"fill": fill, "checked": checked}


def _bert(arguments: argparse.Namespace) -> dict[str, Any]:
    from serving_models import bert

    from paddle_ipu.serving import BatchingRunner

    model = bert(arguments.layers, arguments.hidden, arguments.sequence, 64)
    requests = model.requests
    single, name = model.compiled(1)
    program, _ = model.compiled(8)
    eight = {"tokens": np.concatenate([request["tokens"] for request in requests[:8]])}
    seconds = arguments.bert_seconds
    turns: dict[str, list[dict[str, float]]] = {"batch 1": [], "batch 8": [], "served": []}
    with BatchingRunner(program, timeout_ms=arguments.timeout_ms) as runner:
        ways = {
            "batch 1": lambda: _load(
                lambda kind: single.run(requests[kind], [name]), 1, seconds, 64
            ),
            "batch 8": lambda: _of_eight(
                _load(lambda kind: program.run(eight, [name]), 1, seconds, 64)
            ),
            "served": lambda: _load(
                lambda kind: runner.run(requests[kind]), arguments.clients, seconds, 64
            ),
        }
        for turn in range(arguments.rounds + 1):
            for way, run in ways.items():
                found = run()
                # The first turn warms up.
                turns[way] += [found] if turn else []
        fill = runner.statistics().fill
    result = {"turns": turns, "median": {way: _median(found) for way, found in turns.items()}}
    return result | {"fill": fill}


def _of_eight(found: dict[str, float]) -> dict[str, float]:
    """Rows a second and CPU time of a row, where a request is eight rows."""
    return {**found, "a second": 8 * found["a second"], "CPU us": found["CPU us"] / 8}


def _tell_word2vec(found: dict[str, Any], clients: int) -> bool:
    print(f"word2vec, {clients} clients\n")
    print("| way | requests a second | p50 ms | p99 ms | CPU us a request |")
    print("| --- | --- | --- | --- | --- |")
    for way, row in found["median"].items():
        cells = [f"{row['a second']:.0f}", f"{row['p50 ms']:.2f}", f"{row['p99 ms']:.2f}"]
        print(f"| {way} | {' | '.join(cells)} | {row['CPU us']:.0f} |")
    median = found["median"]
    ratio = median["auto-batching"]["a second"] / median["one by one"]["a second"]
    checked = found["checked"]
    print(
        f"\nauto-batching to one by one: {ratio:.2f}; micro-batches "
        f"{100 * found['fill']:.1f} % full\n"
        f"{checked['answers']} answers compared with Paddle's CPU executor: {checked['wrong']} "
        f"wrong or another's, {checked['lost or doubled']} lost or doubled\n"
    )
    return not checked["wrong"] and not checked["lost or doubled"]


def _tell_bert(found: dict[str, Any], clients: int) -> bool:
    one, eight, served = (row["a second"] for row in found["median"].values())
    titles = ("engine, batch 1", "engine, batch 8", f"{clients} clients, auto-batching")
    print("BERT\n")
    print("| way | rows a second | to batch 1 | CPU ms a row |")
    print("| --- | --- | --- | --- |")
    for title, row in zip(titles, found["median"].values(), strict=True):
        rate, cpu = row["a second"], row["CPU us"] / 1000
        print(f"| {title} | {rate:.2f} | {rate / one:.2f} | {cpu:.1f} |")
    print(
        f"\nof the engine's own rate at batch 8: {100 * served / eight:.1f} % (aim "
        f"{100 * BERT_AIM:g} %); micro-batches {100 * found['fill']:.1f} % full"
    )
    return bool(served >= BERT_AIM * eight)


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))
    import paddle

    import paddle_ipu

    paddle_ipu.activate()
    paddle.enable_static()
    met, result = [], {}
    if arguments.only != "bert":
        result["word2vec"] = _word2vec(arguments)
        met.append(_tell_word2vec(result["word2vec"], arguments.clients))
    if arguments.only != "word2vec":
        result["bert"] = _bert(arguments)
        met.append(_tell_bert(result["bert"], arguments.clients))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
