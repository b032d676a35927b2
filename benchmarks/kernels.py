"""Times each way that work can go: oneDNN, a kernel of ours, XLA.

``paddle_ipu/xla/kernels/ways.py`` has the rules that follow from it. The work is that of ResNet-50,
BERT-Base, ViT-S/16 and a small LLaMA decoder in inference, and of a step of BERT-Base with half
partials; each way takes its turns in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isa
from worker import Answer, Worker, serve

if TYPE_CHECKING:
    from paddle_ipu.xla.kernels.library import Spec

    Run = Callable[[], Any]

WAYS = ("oneDNN", "ours", "XLA")
SLOWER, MOMENT = 1.1, 10e-6
"""A chosen way that takes more than this of XLA's time, and so many seconds more, is a fault."""

_ROOM = 1 << 26
"""Bytes that results and what is computed on the way to them may take."""


@dataclass(frozen=True, slots=True)
class Product:
    """x [rows, depth] times [depth, columns], plus a bias."""

    rows: int
    depth: int
    columns: int
    activation: str = ""


@dataclass(frozen=True, slots=True)
class Convolution:
    """Of x [images, size, size, channels] with `results` kernels, a bias and ReLU behind it."""

    images: int
    size: int
    channels: int
    results: int
    kernel: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Attention:
    """softmax(Q Kᵀ) V of heads that lie side by side in [examples, rows, heads, depth]."""

    examples: int
    heads: int
    rows: int
    columns: int
    depth: int = 64


@dataclass(frozen=True, slots=True)
class HalfProduct:
    """x [rows, depth] times [depth, columns] with half partials, or a gradient of one.

    Attributes:
        x_turned: whether x is given as [depth, rows], as for the gradient of weights.
        y_turned: whether the other factor is [columns, depth], as for the gradient of the data.
    """

    rows: int
    depth: int
    columns: int
    x_turned: bool = False
    y_turned: bool = False


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Keys [examples, heads, past, depth] of the tokens before, and a new token's."""

    examples: int
    heads: int
    past: int
    depth: int = 64


Work = Product | Convolution | Attention | HalfProduct | Concatenation


def works() -> dict[str, Work]:
    """By a name that a table's first column shows."""
    found: dict[str, Work] = {}
    for batch in (1, 8):
        rows = 128 * batch
        found[f"BERT-Base, {rows} rows: Q, K, V"] = Product(rows, 768, 768)
        found[f"BERT-Base, {rows} rows: up, GELU"] = Product(rows, 768, 3072, "GeluErf")
        found[f"BERT-Base, {rows} rows: down"] = Product(rows, 3072, 768)
        found[f"BERT-Base, batch {batch}: attention"] = Attention(batch, 12, 128, 128)
        rows = 196 * batch
        found[f"ViT-S, {rows} rows: up"] = Product(rows, 384, 1536)
        found[f"ViT-S, {rows} rows: down"] = Product(rows, 1536, 384)
        found[f"ViT-S, batch {batch}: attention"] = Attention(batch, 6, 196, 196)
        found[f"LLaMA, {batch} tokens: Q"] = Product(batch, 512, 512)
        found[f"LLaMA, {batch} tokens: logits"] = Product(batch, 512, 32000)
        found[f"LLaMA, {batch} tokens: attention"] = Attention(batch, 8, 1, 128)
        found[f"LLaMA, {batch} tokens: keys joined"] = Concatenation(batch, 8, 127)
        for size, narrow in ((56, 64), (28, 128), (14, 256), (7, 512)):
            head = f"ResNet-50, batch {batch}, {size} x {size}"
            found[f"{head}: {4 * narrow} to {narrow}"] = Convolution(
                batch, size, 4 * narrow, narrow, 1
            )
            found[f"{head}: {narrow}, 3 x 3"] = Convolution(batch, size, narrow, narrow, 3)
            found[f"{head}: {narrow} to {4 * narrow}"] = Convolution(
                batch, size, narrow, 4 * narrow, 1
            )
        found[f"ResNet-50, batch {batch}: first, 7 x 7"] = Convolution(batch, 224, 3, 64, 7, 2)
    head = "BERT-Base, 288 rows, half partials"
    found[f"{head}: up"] = HalfProduct(288, 768, 3072)
    found[f"{head}: down"] = HalfProduct(288, 3072, 768)
    found[f"{head}: up, gradient of data"] = HalfProduct(288, 3072, 768, y_turned=True)
    found[f"{head}: up, gradient of weights"] = HalfProduct(768, 288, 3072, x_turned=True)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Time the products, convolutions, attentions and concatenations of ResNet-50, "
            "BERT-Base, ViT-S/16 and a small LLaMA decoder in inference, and the products of "
            "BERT-Base with half partials, by oneDNN, by kernels of paddle_ipu's own and by XLA, "
            "and show which way paddle_ipu takes."
        ),
        epilog=(
            "The exit status is 1 where results differ, or where the chosen way takes more than "
            f"{SLOWER} of XLA's time and {1e6 * MOMENT:.0f} us more."
        ),
    )
    parser.add_argument("--only", default="", help="work whose name has this in it")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way (default 3)")
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# -- in the worker ------------------------------------------------------------------------------


def _normal(*shape: int) -> Any:
    import numpy as np

    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def _spec(work: Product | Convolution) -> Spec:
    from paddle_ipu.xla.kernels import library

    threads = library.threads()
    if isinstance(work, Product):
        activation = library.ACTIVATIONS.index(work.activation)
        return library.Spec(
            1, work.depth, work.rows, 1, work.columns, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0,
            activation, 1, 0, threads,
        )  # fmt: skip
    around = (work.kernel - 1) // 2
    return library.Spec(
        work.images, work.channels, work.size, work.size, work.results, 1, work.kernel, work.kernel,
        work.stride, work.stride, 1, 1, around, around, around, around,
        library.ACTIVATIONS.index("Relu"), 1, 0, threads,
    )  # fmt: skip


def _by_kernels(work: Product | Convolution) -> tuple[Iterator[tuple[str, Run]], str]:
    """Each way with its run, and the chosen one."""
    from dataclasses import replace

    import jax
    import jax.numpy as jnp
    import numpy as np

    from paddle_ipu.xla.kernels import library, ways

    spec = _spec(work)
    x = jnp.asarray(_normal(spec.images, spec.height, spec.width, spec.channels))
    weights = _normal(*spec.weights_shape) / np.float32(np.sqrt(spec.channels))
    bias = jnp.asarray(_normal(spec.results))

    def runs() -> Iterator[tuple[str, Run]]:
        for name, lanes in (("oneDNN", 0), ("ours", library.lanes())):
            own = replace(spec, lanes=lanes)
            size = library.packed(own) if name == "oneDNN" or lanes else None
            if size is None:
                continue
            packed = np.empty(size, np.float32)
            library.pack(own, weights, packed)
            yield (
                name,
                _compiled(
                    lambda x, w, b, own=own: library.convolved(own, x, w, b, None), x, packed, bias
                ),
            )

        def by_xla(x: jax.Array, w: jax.Array, bias: jax.Array) -> jax.Array:
            if isinstance(work, Product):
                out = x.reshape(work.rows, work.depth) @ w
                out = out.reshape(spec.shape) + bias
            else:
                around = (spec.top, spec.bottom)
                out = bias + jax.lax.conv_general_dilated(
                    x, w, (spec.stride_y, spec.stride_x), (around, around),
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                )  # fmt: skip
            name = library.ACTIVATIONS[spec.activation]
            if name == "GeluErf":
                return jax.nn.gelu(out, approximate=False)
            return jnp.maximum(out, 0) if name == "Relu" else out

        turned = weights.transpose(2, 3, 1, 0)
        yield (
            "XLA",
            _compiled(by_xla, x, turned[0, 0] if isinstance(work, Product) else turned, bias),
        )

    if isinstance(work, Product) and ways.is_xlas(work.rows, work.depth, work.columns):
        return runs(), "XLA"
    return runs(), "ours" if ways.fastest(spec).lanes else "oneDNN"


def _attentions(work: Attention) -> tuple[Iterator[tuple[str, Run]], str]:
    import jax
    import jax.numpy as jnp

    from paddle_ipu.xla.kernels import library
    from paddle_ipu.xla.kernels.attention import AttentionSpec, attended

    def strides(rows: int) -> tuple[int, int, int]:
        return rows * work.heads * work.depth, work.depth, work.heads * work.depth

    shapes = [(work.examples, rows, work.heads, work.depth)
              for rows in (work.rows, work.columns, work.columns)]  # fmt: skip
    arrays = [_normal(*shape) for shape in shapes]
    scale = work.depth**-0.5
    spec = AttentionSpec(
        work.examples, work.heads, work.rows, work.columns, work.depth, work.depth,
        *(strides(rows) for rows in (work.rows, work.columns, work.columns, work.rows)),
        mask=None, threads=library.threads(), lanes=library.lanes(), scale=scale,
    )  # fmt: skip

    def by_xla(*given: jax.Array) -> jax.Array:
        query, key, value = (array.swapaxes(1, 2) for array in given)
        scores = jax.nn.softmax(scale * query @ key.swapaxes(2, 3))
        return jnp.swapaxes(scores @ value, 1, 2)

    def runs() -> Iterator[tuple[str, Run]]:
        if library.lanes():
            yield "ours", _compiled(lambda *qkv: attended(spec, *qkv, None, shapes[0]), *arrays)
        yield "XLA", _compiled(by_xla, *arrays)

    return runs(), "ours" if library.lanes() else "XLA"


def _half_products(work: HalfProduct) -> tuple[Iterator[tuple[str, Run]], str]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from paddle_ipu.xla.kernels import library
    from paddle_ipu.xla.precision import half, partials

    def given(rows: int, columns: int, turned: bool) -> Any:
        # Whole numbers, of which float32 adds sixteen products in any order alike.
        return np.rint(_normal(*((columns, rows) if turned else (rows, columns))))

    x = given(work.rows, work.depth, work.x_turned)
    y = given(work.depth, work.columns, work.y_turned)
    options = dict(half.COMPILER_OPTIONS)

    def by_kernel(x: jax.Array, y: jax.Array) -> jax.Array:
        return partials.summed_product(x, y, work.x_turned, work.y_turned)

    def by_xla(x: jax.Array, y: jax.Array) -> jax.Array:
        x = jnp.swapaxes(x, 0, 1) if work.x_turned else x
        return partials.summed_by_scan(x, jnp.swapaxes(y, 0, 1) if work.y_turned else y)

    def runs() -> Iterator[tuple[str, Run]]:
        if library.lanes():
            yield "ours", _compiled(by_kernel, x, y, options=options)
        yield "XLA", _compiled(by_xla, x, y, options=options)

    return runs(), "ours" if library.lanes() else "XLA"


def _concatenations(work: Concatenation) -> tuple[Iterator[tuple[str, Run]], str]:
    import jax
    import jax.numpy as jnp

    from paddle_ipu.xla.kernels import library
    from paddle_ipu.xla.kernels.concatenation import joined

    arrays = [_normal(work.examples, work.heads, rows, work.depth) for rows in (work.past, 1)]

    def by_kernel(keys: jax.Array, key: jax.Array) -> jax.Array:
        return joined([keys, -key], 2)

    def by_xla(keys: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.concatenate([keys, -key], 2)

    def runs() -> Iterator[tuple[str, Run]]:
        if library.version() is not None:
            yield "ours", _compiled(by_kernel, *arrays)
        yield "XLA", _compiled(by_xla, *arrays)

    return runs(), "ours" if library.version() is not None else "XLA"


def _compiled(
    function: Callable[..., Any], *arrays: Any, options: dict[str, Any] | None = None
) -> Run:
    import jax

    on_device = [jax.device_put(array) for array in arrays]
    step = jax.jit(function, compiler_options=options).lower(*on_device).compile()
    return lambda: step(*on_device).block_until_ready()


def _timed(run: Run) -> float:
    """Median seconds of a run, when the system has spread the threads over the processors."""
    _times(run, 0.05)
    return statistics.median(_times(run, 0.1))


def _times(run: Run, seconds: float) -> list[float]:
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return taken


def _answer(name: str, rounds: int) -> Answer:
    import numpy as np

    from paddle_ipu.xla import process
    from paddle_ipu.xla.step import memory

    # Before JAX's first array, as a predictor does: it settles in which threads programs run.
    process.prepare()
    # As a predictor's, results take memory that was freed, and not new pages.
    memory.prepare_for(_ROOM)
    work = works()[name]
    if isinstance(work, Attention):
        found, chosen = _attentions(work)
    elif isinstance(work, HalfProduct):
        found, chosen = _half_products(work)
    elif isinstance(work, Concatenation):
        found, chosen = _concatenations(work)
    else:
        found, chosen = _by_kernels(work)
    runs = dict(found)
    results = {way: np.asarray(run(), np.float64) for way, run in runs.items()}
    scale = np.linalg.norm(results["XLA"])
    apart = max(np.linalg.norm(each - results["XLA"]) / scale for each in results.values())
    times: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(rounds):
        for way, run in runs.items():
            times[way].append(_timed(run))
    seconds = {way: statistics.median(each) for way, each in times.items()}
    return {"seconds": seconds, "chosen": chosen, "apart": float(apart)}


# -- in the benchmark ---------------------------------------------------------------------------


def _row(name: str, answer: Answer) -> str:
    seconds, chosen = answer["seconds"], answer["chosen"]
    cells = []
    for way in WAYS:
        shown = f"{1e3 * seconds[way]:.3f}" if way in seconds else ""
        cells.append(f"**{shown}**" if way == chosen else shown)
    ratio = seconds[chosen] / min(seconds.values())
    return f"| {name} | {' | '.join(cells)} | {ratio:.2f} |"


def main() -> int:
    """The benchmark; 1 where a chosen way is slower than XLA."""
    arguments = _arguments()
    if arguments.worker:
        serve(_answer)
        return 0
    isa.cap(arguments.isa)
    names = [name for name in works() if arguments.only in name]
    worker = Worker(os.path.abspath(__file__), ["--worker"], {})
    answers: dict[str, Answer] = {}
    for name in names:
        print(name, file=sys.stderr)
        answers[name] = worker.ask(name=name, rounds=arguments.rounds)
    worker.close()
    print(isa.description(arguments.isa))
    print(f"\n| ms | {' | '.join(WAYS)} | chosen, to the best |\n| --- | --- | --- | --- | --- |")
    for name, answer in answers.items():
        print(_row(name, answer))
    if arguments.json:
        found = {"machine": isa.description(arguments.isa), "works": answers}
        Path(arguments.json).write_text(json.dumps(found, indent=1))
    faults = [
        f"{name}: {answer['chosen']} takes more than {SLOWER} of XLA's time"
        for name, answer in answers.items()
        if answer["seconds"][answer["chosen"]]
        > max(SLOWER * answer["seconds"]["XLA"], answer["seconds"]["XLA"] + MOMENT)
    ]
    faults += [
        f"{name}: results differ by {answer['apart']:.1e} of their norm"
        for name, answer in answers.items()
        if not answer["apart"] <= 1e-5
    ]
    print("\n".join(faults), file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
