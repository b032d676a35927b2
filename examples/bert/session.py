"""The pretraining program on a device: built, stepped, evaluated and saved.

``"ipu"`` compiles it with Paddle's public IPU API, ``"cpu"`` runs it on Paddle's own executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import paddle
from numpy.typing import NDArray

from examples.bert.model import (
    Bert,
    BertConfig,
    Placement,
    PretrainingOutputs,
    pretraining_feeds,
    pretraining_network,
)
from examples.bert.presets import Preset
from examples.bert.weights import initial_weights

Device = Literal["ipu", "cpu"]
CompileProgress = Callable[[int, int], None]
Feeds = dict[str, NDArray[np.int32]]


@dataclass(frozen=True)
class StepValues:
    """What a step fetches, averaged over its micro-batches."""

    mlm_accuracy: float
    mlm_loss: float
    nsp_accuracy: float
    nsp_loss: float


def learning_rate_schedule(preset: Preset) -> Any:
    """Linear warm-up to the preset's rate, then linear decay to 0 at its last step."""
    decay = paddle.optimizer.lr.PolynomialDecay(
        preset.learning_rate, max(1, preset.steps - preset.warmup), end_lr=0.0, power=1.0
    )
    if preset.warmup == 0:
        return decay
    return paddle.optimizer.lr.LinearWarmup(decay, preset.warmup, 0.0, preset.learning_rate)


def make_optimizer(preset: Preset, schedule: Any) -> Any:
    """The preset's optimizer; weight decay on matrices only, not on biases and layer norms."""
    common = {"beta1": 0.9, "beta2": preset.beta2, "epsilon": preset.epsilon}
    if preset.optimizer == "lamb":
        return paddle.optimizer.Lamb(
            schedule,
            lamb_weight_decay=preset.weight_decay,
            exclude_from_weight_decay_fn=lambda parameter: not parameter.name.endswith(".weight"),
            **common,
        )
    if preset.optimizer == "adamw":
        return paddle.optimizer.AdamW(
            schedule,
            weight_decay=preset.weight_decay,
            apply_decay_param_fun=lambda name: name.endswith(".weight"),
            **common,
        )
    return paddle.optimizer.Adam(schedule, **common)


class Session:
    """One device's pretraining of one preset, in a scope of its own.

    On the CPU executor a weight update sees its whole batch at once; on the IPU it is cut into
    ``accumulation`` micro-batches. ``compile_progress(done, total)`` is called while the IPU
    program compiles.
    """

    def __init__(
        self, preset: Preset, device: Device, compile_progress: CompileProgress | None = None
    ) -> None:
        self.preset = preset
        self.device = device
        self.scope = paddle.static.Scope()
        self.schedule = learning_rate_schedule(preset)
        self._compile_progress = compile_progress
        rows = preset.micro_batch if device == "ipu" else preset.batch_size
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        placement = Placement(preset.num_ipus if device == "ipu" else 1)
        with self._building(self.main, startup):
            paddle.seed(preset.seed)
            self.feed_names, self._fetches, loss = _network(
                preset.model, placement, rows, training=True
            )
            make_optimizer(preset, self.schedule).minimize(loss)
        self.executor = paddle.static.Executor(paddle.set_device(device))
        with self._in_scope():
            self.executor.run(startup)
            parameters = {p.name: list(p.shape) for p in self.main.global_block().all_parameters()}
            named = {n: s for n, s in parameters.items() if not n.startswith("learning_rate")}
            start = initial_weights(preset.model, named, preset.seed, preset.start)
            paddle.static.set_program_state(self.main, start)
        self._runnable: Any = self.main
        self._compiler: Any = None

    def load(self, prefix: Path) -> None:
        """Start from the parameters of a checkpoint instead; optimizer state is not taken over."""
        with self._in_scope():
            state = paddle.static.load_program_state(str(prefix))
            names = {p.name for p in self.main.global_block().all_parameters()}
            weights = {name: value for name, value in state.items() if name in names}
            weights = {n: v for n, v in weights.items() if not n.startswith("learning_rate")}
            if not weights:
                raise ValueError(
                    f"{prefix}: expected a checkpoint of this network, found none of its weights"
                )
            paddle.static.set_program_state(self.main, weights)

    def compile(self) -> None:
        """Compile for the IPU; nothing to do on the CPU executor."""
        if self.device == "cpu":
            return
        preset = self.preset
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(
            num_ipus=preset.num_ipus,
            is_training=True,
            micro_batch_size=preset.micro_batch,
            enable_manual_shard=preset.num_ipus > 1,
        )
        strategy.set_pipelining_config(
            enable_pipelining=preset.num_ipus > 1,
            batches_per_step=1,
            enable_gradient_accumulation=preset.accumulation > 1,
            accumulation_factor=preset.accumulation,
        )
        options: dict[str, Any] = {"random_seed": preset.seed}
        if self._compile_progress is not None:
            options["compilation_progress_logger"] = self._compile_progress
        strategy.set_options(options)
        with self._in_scope():
            self._compiler = paddle.static.IpuCompiledProgram(
                self.main, scope=self.scope, ipu_strategy=strategy
            )
            self._runnable = self._compiler.compile(self.feed_names, self._fetches)

    @property
    def learning_rate(self) -> float:
        """The rate of the step that was run last."""
        return float(self.schedule.get_lr())

    def step(self, feeds: Feeds) -> StepValues:
        """One update on ``batch_size`` samples; the schedule moves on before it, as published."""
        self.schedule.step()
        return self._run(self._runnable, feeds, self._fetches)

    def save(self, prefix: Path) -> None:
        """Write ``prefix.pdparams``, ``.pdopt`` and the program beside them."""
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with self._in_scope():
            if self._compiler is not None:
                self._runnable.weights_to_host()
            paddle.static.save(self.main, str(prefix))

    def evaluate(self, sets: Sequence[Sequence[Feeds]]) -> list[StepValues]:
        """Mean losses and accuracies, without dropout and updates, over each set of micro-batches.

        A batch's masked words count one by one, so that the batching does not change the result.
        """
        program, startup = paddle.static.Program(), paddle.static.Program()
        with self._building(program, startup):
            _, fetches, _ = _network(
                self.preset.model, Placement(), self.preset.micro_batch, training=False
            )
        runnable: Any = program
        if self.device == "ipu":
            with self._in_scope():
                self._runnable.weights_to_host()
                strategy = paddle.static.IpuStrategy()
                strategy.set_graph_config(
                    num_ipus=1, is_training=False, micro_batch_size=self.preset.micro_batch
                )
                compiler = paddle.static.IpuCompiledProgram(
                    program, scope=self.scope, ipu_strategy=strategy
                )
                runnable = compiler.compile(self.feed_names, fetches)
        return [
            self._mean([self._run(runnable, b, fetches) for b in batches], batches)
            for batches in sets
        ]

    def _run(self, runnable: Any, feeds: Feeds, fetches: list[Any]) -> StepValues:
        flat = {
            n: a.reshape(-1) if n in ("indices", "segments", "positions") else a
            for n, a in feeds.items()
        }
        with self._in_scope():
            fetched = self.executor.run(runnable, feed=flat, fetch_list=fetches)
        return StepValues(*(float(np.mean(value)) for value in fetched))

    def _in_scope(self) -> AbstractContextManager[None]:
        guard: AbstractContextManager[None] = paddle.static.scope_guard(self.scope)
        return guard

    @staticmethod
    def _building(main: Any, startup: Any) -> AbstractContextManager[None]:
        guard: AbstractContextManager[None] = paddle.static.program_guard(main, startup)
        return guard

    @staticmethod
    def _mean(values: Sequence[StepValues], batches: Sequence[Feeds]) -> StepValues:
        words = np.array([(b["masked_lm_ids"] != 0).sum() for b in batches], np.float64)
        samples = np.array([len(b["next_sentence_labels"]) for b in batches], np.float64)

        def mean(name: str, weights: NDArray[np.float64]) -> float:
            return float(np.average([getattr(v, name) for v in values], weights=weights))

        return StepValues(
            mean("mlm_accuracy", words),
            mean("mlm_loss", words),
            mean("nsp_accuracy", samples),
            mean("nsp_loss", samples),
        )


def _network(
    config: BertConfig, placement: Placement, rows: int, *, training: bool
) -> tuple[list[str], list[Any], Any]:
    """Feed names, the four fetches in the published order, and the loss."""
    with paddle.utils.unique_name.guard():
        feeds = pretraining_feeds(config, rows)
        bert = Bert(config, placement, training)
        out: PretrainingOutputs = pretraining_network(bert, feeds)
    return list(feeds), [out.mlm_accuracy, out.mlm_loss, out.nsp_accuracy, out.nsp_loss], out.loss
