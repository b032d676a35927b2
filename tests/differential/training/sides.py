"""A training on the IPU Model, and the same by Paddle's CPU executor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from tests.differential.training.programs import (
    FEEDS,
    Feed,
    Program,
    backward,
    feed_of,
    update,
    whole,
)
from tests.differential.training.recipe import Training
from tests.differential.training.verdict import Arrays, Nudge
from tests.journeys.training.side_by_side import (
    Built,
    initialised,
    read,
    strategy,
    variables,
    write,
)


class Results(dict[str, list[np.ndarray]]):
    """Fetches of all micro-batches by name, one after another; then every variable."""

    def add(self, name: str, array: Any) -> None:
        self.setdefault(name, []).append(np.asarray(array))

    def joined(self) -> Arrays:
        """An array of each."""
        return {name: np.stack(arrays) for name, arrays in self.items()}


def rewinder(scheduler: Any) -> Callable[[], None]:
    """What sets a scheduler, if there is one, back to where it is now."""
    now = copy.deepcopy(vars(scheduler)) if scheduler is not None else {}

    def rewind() -> None:
        if scheduler is not None:
            vars(scheduler).clear()
            vars(scheduler).update(copy.deepcopy(now))

    return rewind


def built_for(training: Training) -> Program:
    """The program to compile."""
    paddle.seed(3)
    return whole(training, on_ipu=True)


def scope_of(built: Program, training: Training, seed: int) -> Any:
    """A scope with the first variables of a program to compile, by a seed."""
    scope = initialised(built, seed % 1000)
    if training.precision == "O2":
        with paddle.static.scope_guard(scope):
            built.optimizer.amp_init(paddle.CPUPlace(), scope=scope)
    return scope


# -- Paddle's CPU executor ------------------------------------------------------------------------


class OnPaddle:
    """Paddle's executor, which makes its programs of a training once for all that share them.

    Args:
        training: one of those.
    """

    def __init__(self, training: Training) -> None:
        self._training = training

    def train(
        self,
        training: Training,
        start: Mapping[str, np.ndarray],
        nudge: Nudge | None = None,
        double: bool = False,
    ) -> Arrays:
        """What it makes of a training.

        Args:
            training: what is run.
            start: variables before it.
            nudge: changes of these, of each feed and of each gradient.
            double: whether all floats are of double precision.
        """
        oracle: _Whole | _InParts
        if double:
            oracle = self._in_double
        else:
            oracle = self._whole if training.parts == 1 and nudge is None else self._in_parts
        oracle.begin(nudge(dict(start)) if nudge else start, nudge)
        results = Results()
        for run in range(training.runs):
            if run == training.resume:
                oracle.resume()
            losses = []
            feed = feed_of(training, run)
            rows = training.micro * training.parts
            for number in range(training.batches):
                batch = {name: array[number * rows :][:rows] for name, array in feed.items()}
                losses.append(oracle.update(nudge(batch) if nudge else batch, results))
            if oracle.scheduler is not None:
                step(oracle.scheduler, float(np.mean(losses)))
        for name in start:
            variable = oracle.scope.find_var(name)
            if variable is not None:
                results.add(name, read(oracle.scope, name))
        return results.joined()

    @cached_property
    def _whole(self) -> _Whole:
        return _Whole(self._training)

    @cached_property
    def _in_parts(self) -> _InParts:
        return _InParts(self._training)

    @cached_property
    def _in_double(self) -> _InParts:
        paddle.set_default_dtype("float64")
        try:
            return _InParts(self._training)
        finally:
            paddle.set_default_dtype("float32")


def step(scheduler: Any, loss: float) -> None:
    """Goes on to the next learning rate."""
    if isinstance(scheduler, paddle.optimizer.lr.ReduceOnPlateau):
        scheduler.step(np.float32(loss))
    else:
        scheduler.step()


def _written(built: Built, start: Mapping[str, np.ndarray]) -> Any:
    """A scope of a program that starts from variables."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
    for name, array in start.items():
        if scope.find_var(name) is not None:
            write(scope, name, array.astype(read(scope, name).dtype))
    return scope


class _Oracle:
    """What the two ways to train by Paddle's executor have in common."""

    def _schedule(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self._rewind = rewinder(scheduler)

    def resume(self) -> None:
        """Has a new scheduler go on: not all of them come to where they were."""
        if self.scheduler is not None:
            state = self.scheduler.state_dict()
            self._rewind()
            self.scheduler.set_state_dict(state)


class _Whole(_Oracle):
    """One program that does it all; an update has one micro-batch."""

    def __init__(self, training: Training) -> None:
        self._built = whole(training, on_ipu=False)
        self._schedule(self._built.scheduler)
        self._executor = paddle.static.Executor(paddle.CPUPlace())

    def begin(self, start: Mapping[str, np.ndarray], _: Nudge | None) -> None:
        self._rewind()
        self.scope = _written(self._built, start)

    def update(self, batch: Feed, results: Results) -> float:
        with paddle.static.scope_guard(self.scope):
            found = self._executor.run(self._built.main, feed=batch, fetch_list=self._built.fetches)
        for name, array in zip(self._built.values, found, strict=True):
            results.add(name, array)
        return float(np.mean(found[0]))


class _InParts(_Oracle):
    """Gradients of each micro-batch, joined by NumPy, and a program that updates by them.

    Each replica has a scope, because it keeps what its forward pass writes.
    """

    def __init__(self, training: Training) -> None:
        self._training, self._float = training, np.dtype(paddle.get_default_dtype())
        self._backward = backward(training)
        parameters = self._backward.trained
        self._gradients = {
            name: parameters[name] for name in self._backward.values if name in parameters
        }
        every = {p.name: p for p in self._backward.main.all_parameters()}
        trained = {f"d_{name}": every[name] for name in parameters.values()}
        self._update = update(training, trained)
        self._trained = [str(name) for name in parameters.values()]
        self._variables = variables(self._backward.main)
        self._schedule(self._update.scheduler)
        self._executors = [paddle.static.Executor(paddle.CPUPlace()) for _ in range(2)]

    def begin(self, start: Mapping[str, np.ndarray], nudge: Nudge | None) -> None:
        self._nudge = nudge
        self._rewind()
        self.scope = _written(self._update, start)
        replicas = self._training.replicas or 1
        self._scopes = [_written(self._backward, start) for _ in range(replicas)]
        for name in self._variables:
            if self.scope.find_var(name) is None:
                write(self.scope, name, read(self._scopes[0], name))

    def update(self, batch: Feed, results: Results) -> float:
        training, losses = self._training, []
        sums = {name: np.float64(0.0) for name in self._trained}
        for number in range(training.parts):
            rows = slice(number * training.micro, (number + 1) * training.micro)
            part = {name: array[rows] for name, array in batch.items()}
            for name, shape in self._backward.factors.items():
                ones = np.ones(shape, np.float32)
                part[name] = self._nudge({name: ones})[name] if self._nudge else ones
            part = {name: self._of_width(array) for name, array in part.items()}
            with paddle.static.scope_guard(self._scopes[number % len(self._scopes)]):
                found = self._executors[0].run(
                    self._backward.main, feed=part, fetch_list=self._backward.fetches
                )
            values = dict(zip(self._backward.values, found, strict=True))
            gradients = {name: values.pop(name) for name in self._gradients}
            if self._nudge is not None:
                gradients = self._nudge.of_gradients(gradients, float(np.mean(found[0])))
            for name, array in gradients.items():
                sums[self._gradients[name]] = sums[self._gradients[name]] + np.float64(array)
            for name, array in (values | gradients if training.gradients else values).items():
                results.add(name, array)
            losses.append(np.mean(found[0]))
        divisor = 1 if training.add else training.parts
        feed = {f"d_{name}": self._of_width(array / divisor) for name, array in sums.items()}
        with paddle.static.scope_guard(self.scope):
            self._executors[1].run(self._update.main, feed=feed, fetch_list=[])
        for scope in self._scopes:
            for name in self._trained:
                write(scope, name, read(self.scope, name))
        for name in self._variables:
            if name not in self._trained:
                write(self.scope, name, read(self._scopes[0], name))
        return float(np.mean(losses))

    def _of_width(self, array: np.ndarray) -> np.ndarray:
        return array.astype(self._float) if array.dtype.kind == "f" else array


# -- the IPU Model --------------------------------------------------------------------------------


def options_of(training: Training) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options, graph configuration) of the strategy."""
    options: dict[str, Any] = {
        "batches_per_step": training.batches,
        "accumulation_and_replication_reduction_type": 0 if training.add else 1,
        "mean_accumulation_and_replication_reduction_strategy": 0 if training.running else 1,
        "loss_scaling": 1.0 if training.precision in ("O1", "O2") else training.scale,
        # Pipeline, 3, is for pipelines; RecomputeAll, 4, is not.
        "auto_recomputation": training.recomputation
        + int(training.recomputation == 3 and not training.pipelining),
        "enable_fp16": training.precision == "half",
        "enable_pipelining": training.pipelining,
        "need_avg_shard": training.average,
    }
    if training.accumulation is not None:
        options |= {
            "enable_gradient_accumulation": True,
            "accumulation_factor": training.accumulation,
        }
    if training.replicas is not None:
        options |= {
            "enable_replicated_graphs": True,
            "replicated_graph_count": training.replicas,
        }
    config = {
        "num_ipus": training.stages * (training.replicas or 1),
        "enable_manual_shard": training.stages > 1,
        "micro_batch_size": 1 if training.fixed else training.micro,
    }
    return options, config


class Compiled:
    """A program compiled for the IPU.

    Args:
        training: what it is of.
        built: the program.
        scope: of it.
        cache: folder of compiled programs.

    Attributes:
        program: what ``compile`` returned.
    """

    def __init__(self, training: Training, built: Program, scope: Any, cache: Path) -> None:
        options, config = options_of(training)
        options |= {"enable_engine_caching": True, "cache_path": str(cache)}
        self.built, self.scope, self.cache = built, scope, cache
        self.strategy = strategy(options, **config)
        compiler = paddle.static.IpuCompiledProgram(
            built.main, scope=scope, ipu_strategy=self.strategy
        )
        self.program = compiler.compile(FEEDS, built.fetches)

    def begin(self, start: Mapping[str, np.ndarray]) -> None:
        """Starts again from other variables."""
        for name, array in start.items():
            write(self.scope, name, array)
        self.program.weights_from_host()


class OnIpu:
    """A training on the IPU Model.

    Args:
        training: what is run.
        compiled: its program.
        folder: for checkpoints.
    """

    def __init__(self, training: Training, compiled: Compiled, folder: Path) -> None:
        self._training, self._folder = training, folder
        self._compiled = compiled
        self._executor = paddle.static.Executor(paddle.IPUPlace())
        self._results = Results()

    def train(self) -> Arrays:
        """Every fetch of all micro-batches, and the variables after them."""
        training = self._training
        for run in range(training.runs):
            if run == training.resume:
                self._resume()
            feed = feed_of(training, run)
            if run == training.handover and training.parts == 1 and not training.half:
                loss = self._by_paddle(feed)
            else:
                loss = self._run(feed)
            if self._compiled.built.scheduler is not None:
                step(self._compiled.built.scheduler, loss)
            if run + 1 == training.evaluate:
                self._evaluate(feed)
        self._compiled.program.weights_to_host()
        for name in self._compiled.built.kept:
            self._results.add(name, read(self._compiled.scope, name))
        return self._results.joined()

    def _run(self, feed: Feed) -> float:
        found = self._executor.run(
            self._compiled.program, feed=feed, fetch_list=self._compiled.built.fetches
        )
        axes = tuple(dict(self._compiled.program.axes).values())
        for name, array in zip(self._compiled.built.values, found, strict=True):
            assert array.shape[: len(axes)] == axes, (name, array.shape, axes)
            for part in array.reshape(-1, *array.shape[len(axes) :]):
                self._results.add(name, part)
        return float(np.mean(found[0]))

    def _by_paddle(self, feed: Feed) -> float:
        """A run by Paddle's executor in the scope of the IPU."""
        rows, losses = self._training.micro, []
        executor = paddle.static.Executor(paddle.CPUPlace())
        for number in range(self._training.batches):
            batch = {name: array[number * rows :][:rows] for name, array in feed.items()}
            with paddle.static.scope_guard(self._compiled.scope):
                found = executor.run(
                    self._compiled.built.main, feed=batch, fetch_list=self._compiled.built.fetches
                )
            for name, array in zip(self._compiled.built.values, found, strict=True):
                self._results.add(name, array)
            losses.append(np.mean(found[0]))
        return float(np.mean(losses))

    def _evaluate(self, feed: Feed) -> None:
        """A run that changes nothing."""
        self._compiled.strategy.set_options({"runtime_options.enable_eval": True})
        self._executor.run(
            self._compiled.program, feed=feed, fetch_list=self._compiled.built.fetches
        )
        self._compiled.strategy.set_options({"runtime_options.enable_eval": False})

    def _resume(self) -> None:
        """Goes on with another program in another scope, by a checkpoint."""
        training, before, path = self._training, self._compiled, str(self._folder / "checkpoint")
        if training.moved:
            training = replace(training, stages=1, pipelining=False, average=False)
        built = built_for(training)
        scope = scope_of(built, training, training.seed + 1)
        if training.early:
            self._compiled = Compiled(training, built, scope, before.cache)
        with paddle.static.scope_guard(before.scope):
            if training.way == "state_dict":
                paddle.save(before.built.main.state_dict(), path)
            else:
                paddle.static.save(before.built.main, path)
        with paddle.static.scope_guard(scope):
            if training.way == "state_dict":
                built.main.set_state_dict(paddle.load(path))
            elif training.way == "save":
                paddle.static.load(built.main, path)
            else:
                state = paddle.static.load_program_state(path)
                paddle.static.set_program_state(built.main, state)
        if before.built.scheduler is not None:
            kept = str(self._folder / "scheduler")
            paddle.save(before.built.scheduler.state_dict(), kept)
            built.scheduler.set_state_dict(paddle.load(kept))
        if not training.early:
            self._compiled = Compiled(training, built, scope, before.cache)


def first_variables(built: Program, scope: Any) -> Arrays:
    """Copies of everything that the program keeps."""
    return {name: read(scope, name) for name in built.kept}
