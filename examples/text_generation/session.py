"""The programs on a device: training, held-out loss, and generation token by token.

``"ipu"`` compiles them with Paddle's public IPU API, ``"cpu"`` runs them on Paddle's own executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import paddle
from numpy.typing import NDArray
from paddle.nn import functional

from examples.text_generation.model import Cache, Decoder, DecoderConfig

Device = Literal["ipu", "cpu"]
CompileProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Training:
    """How to train: rows of a batch, updates in all, updates of a run of the IPU, AdamW's rate."""

    rows: int
    steps: int
    steps_per_run: int
    learning_rate: float
    seed: int


@dataclass(frozen=True)
class Sampling:
    """How to choose tokens: ``temperature`` divides the logits, ``top_k`` is how many may come."""

    rows: int
    steps_per_run: int
    temperature: float
    top_k: int


class Session:
    """One device's weights, and the programs that share them by their names in one scope."""

    def __init__(self, config: DecoderConfig, training: Training, device: Device) -> None:
        self.config = config
        self.training = training
        self.device = device
        self.scope = paddle.static.Scope()
        self.executor = paddle.static.Executor(paddle.set_device(device))
        warmup = max(1, training.steps // 20)
        decay = paddle.optimizer.lr.CosineAnnealingDecay(
            training.learning_rate, max(1, training.steps - warmup), training.learning_rate / 10
        )
        self.schedule = paddle.optimizer.lr.LinearWarmup(decay, warmup, 0.0, training.learning_rate)
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, startup), paddle.utils.unique_name.guard():
            paddle.seed(training.seed)
            tokens, labels = self._feeds()
            logits = Decoder(config)(tokens)
            self.loss = paddle.mean(functional.cross_entropy(logits, labels))
            optimizer = paddle.optimizer.AdamW(
                self.schedule,
                beta2=0.95,
                weight_decay=0.1,
                grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
            )
            optimizer.minimize(self.loss)
        with paddle.static.scope_guard(self.scope):
            self.executor.run(startup)
        self._training_program: Any = None

    def _feeds(self) -> tuple[Any, Any]:
        shape = [self.training.rows, self.config.context]
        return (
            paddle.static.data("tokens", shape, "int64"),
            paddle.static.data("labels", [*shape, 1], "int64"),
        )

    def compiled(
        self,
        program: Any,
        feeds: list[str],
        fetches: list[Any],
        rows: int,
        steps_per_run: int,
        progress: CompileProgress,
        *,
        is_training: bool,
    ) -> Any:
        """The program as the executor runs it, ``steps_per_run`` times a run on the IPU."""
        if self.device == "cpu":
            return program
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=is_training, micro_batch_size=rows)
        strategy.set_pipelining_config(
            enable_pipelining=False,
            batches_per_step=steps_per_run,
            enable_gradient_accumulation=False,
            accumulation_factor=1,
        )
        strategy.set_options({"compilation_progress_logger": progress})
        compiler = paddle.static.IpuCompiledProgram(
            program, scope=self.scope, ipu_strategy=strategy
        )
        with paddle.static.scope_guard(self.scope):
            return compiler.compile(feeds, fetches)

    def compile_training(self, progress: CompileProgress) -> None:
        """Compile the training program; nothing to do on the CPU executor."""
        self._training_program = self.compiled(
            self.main,
            ["tokens", "labels"],
            [self.loss],
            self.training.rows,
            self.training.steps_per_run,
            progress,
            is_training=True,
        )

    def train(self, batches: Iterator[NDArray[np.int64]]) -> Iterator[list[float]]:
        """Train to the end, once compiled; yields the losses of each run as it is done."""
        per_run = self.training.steps_per_run if self.device == "ipu" else 1
        for _ in range(self.training.steps // per_run):
            feed = _feed(np.concatenate([next(batches) for _ in range(per_run)]))
            with paddle.static.scope_guard(self.scope):
                (losses,) = self.executor.run(
                    self._training_program, feed=feed, fetch_list=[self.loss]
                )
            for _ in range(per_run):
                self.schedule.step()  # a rate is read once a run
            yield np.reshape(losses, -1).tolist()

    def evaluate(self, batches: Sequence[NDArray[np.int64]], progress: CompileProgress) -> float:
        """Mean loss of a token, in nats."""
        program, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(program, startup), paddle.utils.unique_name.guard():
            tokens, labels = self._feeds()
            logits = Decoder(self.config)(tokens)
            loss = paddle.mean(functional.cross_entropy(logits, labels))
        runnable = self.compiled(
            program,
            ["tokens", "labels"],
            [loss],
            self.training.rows,
            1,
            progress,
            is_training=False,
        )
        with paddle.static.scope_guard(self.scope):
            losses = [
                self.executor.run(runnable, feed=_feed(batch), fetch_list=[loss])[0]
                for batch in batches
            ]
        return float(np.mean(losses))

    def save(self, prefix: Path) -> None:
        """Write ``prefix.pdparams`` and ``.pdopt``."""
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with paddle.static.scope_guard(self.scope):
            paddle.static.save(self.main, str(prefix))

    def load(self, prefix: Path) -> None:
        """Take the weights of a saved model."""
        with paddle.static.scope_guard(self.scope):
            paddle.static.load(self.main, str(prefix), self.executor)

    def generator(self, sampling: Sampling, progress: CompileProgress) -> Generator:
        """The generation program on this session's device, with its weights."""
        return Generator(self, sampling, progress)


class Generator:
    """One token of each row a step, and ``steps_per_run`` steps a run.

    A step reads, for each row, a token of the prompt, or -1 for the token that the step before
    chose; and a number in 0 to 1 that chooses the next one, or -1 for the likeliest. The keys and
    values of earlier tokens, and the tokens chosen last, are variables that the program writes: on
    the IPU they stay on the device, and a run of many steps needs the host only once.
    """

    def __init__(self, session: Session, sampling: Sampling, progress: CompileProgress) -> None:
        self.session = session
        self.sampling = sampling
        config = session.config
        # The startup program of the layers is never run: the weights are those in the scope. The
        # one of the caches is.
        program, unused = paddle.static.Program(), paddle.static.Program()
        caches_startup = paddle.static.Program()
        with paddle.static.program_guard(program, unused), paddle.utils.unique_name.guard():
            prompt = paddle.static.data("prompt", [sampling.rows], "int64")
            position = paddle.static.data("position", [1], "int32")
            draw = paddle.static.data("draw", [sampling.rows], "float32")
            decoder = Decoder(config)
            with paddle.static.program_guard(program, caches_startup):
                shape = [config.context, sampling.rows, config.kv_heads, config.head]
                caches = [
                    Cache(
                        _variable(f"cache_{layer}.keys", shape, "float32"),
                        _variable(f"cache_{layer}.values", shape, "float32"),
                    )
                    for layer in range(config.layers)
                ]
                last = _variable("last_token", [sampling.rows], "int64")
            token = paddle.where(prompt < 0, last, prompt)
            logits = decoder.step(token, position, caches)
            chosen = choose(logits, draw, sampling)
            paddle.assign(chosen, output=last)
        self._fetches = [chosen, logits]
        self._per_run = sampling.steps_per_run if session.device == "ipu" else 1
        with paddle.static.scope_guard(session.scope):
            session.executor.run(caches_startup)
        self._runnable = session.compiled(
            program,
            ["prompt", "position", "draw"],
            self._fetches,
            sampling.rows,
            self._per_run,
            progress,
            is_training=False,
        )

    def run(
        self, prompts: Sequence[Sequence[int]], draws: NDArray[np.float32]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Read the prompts, then write on; yields tokens and logits of each run.

        Args:
            prompts: a row's first tokens; all rows have as many of them.
            draws: ``[steps, rows]``, what chooses the token after each step.

        Yields:
            (tokens ``[steps of the run, rows]``, logits ``[steps of the run, rows, vocabulary]``):
            what follows the token that each step read. While the prompt is read, it is unused.
        """
        steps, rows = draws.shape
        prompt = np.full((steps, rows), -1, np.int64)
        prompt[: len(prompts[0])] = np.transpose(prompts)
        position = np.arange(steps, dtype=np.int32)
        for first in range(0, steps, self._per_run):
            part = slice(first, first + self._per_run)
            feed = {
                "prompt": prompt[part].reshape(-1),
                "position": position[part],
                "draw": draws[part].reshape(-1),
            }
            with paddle.static.scope_guard(self.session.scope):
                tokens, logits = self.session.executor.run(
                    self._runnable, feed=feed, fetch_list=self._fetches
                )
            shape = (self._per_run, rows)
            yield np.reshape(tokens, shape), np.reshape(logits, (*shape, -1))


def choose(logits: Any, draw: Any, sampling: Sampling) -> Any:
    """The likeliest token where draw is below 0, else the one at that share of the distribution."""
    best = paddle.argmax(logits, axis=-1)
    scaled = logits / sampling.temperature
    (largest, _) = paddle.topk(scaled, sampling.top_k, axis=-1)
    is_likely = scaled >= largest[:, -1:]
    weights = paddle.where(is_likely, functional.softmax(scaled), paddle.zeros_like(scaled))
    sums = paddle.cumsum(weights, axis=-1)
    below = sums <= paddle.unsqueeze(draw, -1) * sums[:, -1:]
    sampled = paddle.sum(paddle.cast(below, "int64"), axis=-1)
    return paddle.where(draw < 0, best, sampled)


def _variable(name: str, shape: list[int], dtype: str) -> Any:
    zeros = paddle.nn.initializer.Constant(0)
    attribute = paddle.ParamAttr(name=name, initializer=zeros, trainable=False)
    return paddle.static.create_parameter(shape, dtype, attr=attribute)


def _feed(batch: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {"tokens": batch[:, :-1], "labels": batch[:, 1:, None]}
