"""A stage's program on a device: built, compiled, stepped; its state written and read.

``"ipu"`` compiles it with Paddle's public IPU API, ``"cpu"`` runs it on Paddle's own executor, with
the same weights, updates and batches.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import paddle
from numpy.typing import NDArray

from examples.bert.model import Hints
from examples.bert.stages import networks
from examples.bert.stages.checkpoint_outputs import checkpoint_output
from examples.bert.stages.instances import replicas_of
from examples.bert.stages.settings import Settings
from examples.bert.stages.strategy import CompileProgress, ipu_strategy
from examples.bert.weights import initial_weights

Device = Literal["ipu", "cpu"]
Feeds = dict[str, NDArray[Any]]
Arrays = dict[str, NDArray[Any]]

FLAT = ("indices", "segments", "positions")
STATE_PREFIX = "model"  # of the files in a checkpoint


@dataclass(frozen=True)
class RunState:
    """What a program needs beside its weights and optimizer state to go on as if never stopped."""

    scheduler: dict[str, Any]
    random_seed: int
    updates: int  # weight updates made so far


class DeviceProgram:
    """One network on one device, in a scope of its own.

    A run takes ``settings.step_rows`` rows. On the CPU executor a weight update sees its rows at
    once; on the IPU they are cut into micro-batches. ``total_steps`` is the length of the learning
    rate's schedule, in runs. Where ``poprun`` started several processes, each has the program for
    its own ``replicas``, and all together are one.
    """

    def __init__(
        self, settings: Settings, build: networks.Build, device: Device, total_steps: int = 1
    ) -> None:
        self.settings = settings
        self.device = device
        self.replicas = replicas_of(settings, device)
        self.scope = paddle.static.Scope()
        self._squad = build is networks.squad
        self._seed = settings.seed
        self._updates = 0
        self._compiler: Any = None
        self.schedule = schedule(settings, total_steps)
        rows = settings.micro_batch_size if device == "ipu" else settings.update_rows
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        # Names are counted anew, so that a checkpoint's are those of any other process.
        with (
            paddle.static.program_guard(self.main, startup),
            paddle.utils.unique_name.guard(),
        ):
            paddle.seed(settings.seed)
            self._network = build(settings, device == "ipu", rows, self._hints())
            if settings.is_training:
                self._optimizer().minimize(self._network.loss)
        self._fetches = list(self._network.fetches.values())
        self.executor = paddle.static.Executor(paddle.set_device(device))
        with self._in_scope():
            self.executor.run(startup)
            config = networks.config_of(settings, squad=self._squad)
            start = initial_weights(config, self.shapes, settings.seed, settings.initial_weights)
            paddle.static.set_program_state(self.main, start)
        self._runnable: Any = self.main

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each trained parameter, by name."""
        parameters = self.main.global_block().all_parameters()
        return {p.name: list(p.shape) for p in parameters if not p.name.startswith("learning_rate")}

    @property
    def learning_rate(self) -> float:
        """The rate of the run that was made last."""
        return float(self.schedule.get_lr())

    def parameters(self) -> Arrays:
        """The newest trained parameters, by name."""
        with self._in_scope():
            state = self.main.state_dict(mode="param", scope=self.scope)
        return {name: np.array(state[name]) for name in self.shapes}

    def set_weights(self, weights: Arrays) -> None:
        """Replace parameters of those names; shapes are the caller's to check."""
        with self._in_scope():
            paddle.static.set_program_state(self.main, weights)

    def compile(self, progress: CompileProgress | None = None) -> None:
        """Compile for the IPU; nothing to do on the CPU executor."""
        if self.device == "cpu":
            return
        strategy = ipu_strategy(self.settings, self._seed, progress, squad=self._squad)
        with self._in_scope():
            self._compiler = paddle.static.IpuCompiledProgram(
                self.main, scope=self.scope, ipu_strategy=strategy
            )
            self._runnable = self._compiler.compile(self._network.feeds, self._fetches)

    def step(self, feeds: Feeds) -> Arrays:
        """One run on ``step_rows`` rows; the schedule moves on before it, as published.

        Returns the fetches by name, with the axes that the device gave them, of the own replicas.
        """
        if self.settings.is_training:
            self.schedule.step()
        own = self.replicas.rows(feeds, self.settings.micro_batch_size)
        flat = {n: a.reshape(-1) if n in FLAT else a for n, a in own.items()}
        with self._in_scope():
            if self.device == "ipu":
                fetched = self._run(flat)
            else:
                parts = [self._run_on_cpu(flat, n) for n in range(self.settings.batches_per_step)]
                fetched = [np.stack(values) for values in zip(*parts, strict=True)]
        self._updates += self.settings.batches_per_step
        return dict(zip(self._network.fetches, fetched, strict=True))

    def write_state(self, folder: Path) -> RunState:
        """Write weights, optimizer state and program into ``folder``; returns the rest."""
        with self._in_scope():
            paddle.static.save(self.main, str(folder / STATE_PREFIX))
        seed = self._seed if self.device == "cpu" else int(self._runnable.random_seed)
        return RunState(dict(self.schedule.state_dict()), seed, self._updates)

    def read_state(self, folder: Path, state: RunState) -> None:
        """Go on from what :meth:`write_state` wrote; before :meth:`compile`."""
        with self._in_scope():
            paddle.static.load(self.main, str(folder / STATE_PREFIX))
        self.schedule.set_state_dict(state.scheduler)
        self._seed, self._updates = state.random_seed, state.updates

    def _run(self, feeds: Feeds) -> list[NDArray[Any]]:
        fetched = self.executor.run(self._runnable, feed=feeds, fetch_list=self._fetches)
        return [np.asarray(value) for value in fetched]

    def _run_on_cpu(self, feeds: Feeds, number: int) -> list[NDArray[Any]]:
        """The weight update ``number`` of a run, on its share of the rows."""
        if self.settings.is_training:
            # The masks of dropout follow from the update's number, so that a resumed run has them.
            paddle.seed(self._seed + 7919 * (self._updates + number))
            if self.settings.use_no_bias_optimizer:
                self._drop_bias_correction()
        count = self.settings.batches_per_step
        part = {n: np.split(array, count)[number] for n, array in feeds.items()}
        return self._run(part)

    def _drop_bias_correction(self) -> None:
        """Powers of beta that are 0 make the correction 1 / (1 - 0), on Paddle's own kernels."""
        for name in self._powers_of_beta():
            tensor = self.scope.find_var(name).get_tensor()
            tensor.set(np.zeros(tensor.shape(), np.float32), paddle.CPUPlace())

    def _powers_of_beta(self) -> list[str]:
        names = self.main.state_dict(mode="opt", scope=self.scope)
        return [n for n in names if "_beta1_pow_acc" in n or "_beta2_pow_acc" in n]

    def _optimizer(self) -> Any:
        """As published Lamb for pretraining, Adam for SQuAD."""
        s = self.settings
        common = {"beta1": s.beta1, "beta2": s.beta2, "epsilon": s.adam_epsilon}
        name = s.optimizer or ("adam" if self._squad else "lamb")
        if name == "lamb":
            return paddle.optimizer.Lamb(
                self.schedule,
                lamb_weight_decay=s.weight_decay,
                exclude_from_weight_decay_fn=(
                    None if s.decay_biases else lambda parameter: not _is_matrix(parameter.name)
                ),
                **common,
            )
        # Where an IPU's option makes the decay of Adam a decoupled one, the CPU has AdamW for it.
        decoupled = s.weight_decay_mode == "decay" and s.weight_decay and self.device == "cpu"
        if name == "adamw" or decoupled:
            return paddle.optimizer.AdamW(
                self.schedule,
                weight_decay=s.weight_decay,
                apply_decay_param_fun=None if s.decay_biases else _is_matrix,
                **common,
            )
        return paddle.optimizer.Adam(self.schedule, weight_decay=s.weight_decay or None, **common)

    def _hints(self) -> Hints:
        s = self.settings
        if self.device == "cpu":
            return Hints()
        checkpoint = None
        if s.checkpoint_outputs and s.is_training:
            checkpoint = checkpoint_output()
        return Hints(s.available_mem_proportion or None, s.serialize_factor, checkpoint)

    def _in_scope(self) -> AbstractContextManager[None]:
        guard: AbstractContextManager[None] = paddle.static.scope_guard(self.scope)
        return guard


def _is_matrix(parameter: str) -> bool:
    return parameter.endswith(".weight")


def schedule(settings: Settings, total_steps: int) -> Any:
    """Linear warm-up to the peak rate, then linear decay to 0 at ``total_steps``."""
    warmup = settings.warmup_steps

    def factor(step: int) -> float:
        if step < warmup:
            return step / warmup
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup))

    return paddle.optimizer.lr.LambdaDecay(settings.learning_rate, factor)
