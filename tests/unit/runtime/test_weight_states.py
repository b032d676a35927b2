"""Programs of two Scopes in any order, interrupted and failing anywhere, beside a model.

Every program of a Scope sees one set of weights, whoever trained them last. A layer of dynamic mode
beside them has its own.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from paddle_ipu.errors import popart_runtime_error
from tests.journeys.training.side_by_side import Built, build, read, strategy, variables, write
from tests.unit.weight_model import (
    WIDTH,
    Moment,
    Row,
    Values,
    Weighted,
    maybe_interrupted,
    try_orders,
    weights_lost,
)

pytestmark = pytest.mark.usefixtures("static_mode")

_REFUSED = 100.0
_MOST_PROGRAMS = 4
_MOMENTS = st.none() | st.builds(Moment, st.integers(0, 12), st.booleans())
_SIGNALS = st.none() | st.integers(0, 12).map(Moment)
_ROWS = st.tuples(*[st.integers(-3, 3).map(float)] * WIDTH)


START = Values((0.0,) * WIDTH, (0.0,) * WIDTH)
LAYER = 2
"""Where the layer's values are, behind those of the Scopes."""


@dataclass(frozen=True)
class Kind:
    """A program over the weight ``w``.

    Attributes:
        built: with its startup program and variables.
        main: what is compiled.
        step: what a run makes of the values.
        has_velocity: whether it keeps that, too.
        refuses: whether a feed of `_REFUSED` stops its run.
    """

    built: Built
    main: Any
    step: Callable[[Values, Row], Values]
    has_velocity: bool = False
    refuses: bool = False

    @property
    def trains(self) -> bool:
        return self.main is self.built.main

    @property
    def fetch(self) -> Any:
        loss = self.built.values["loss"]
        return loss if self.trains else loss.name


def _built(optimizer: Callable[[], Any], refuses: bool = False) -> tuple[Built, Any]:
    """A program that trains the sum of ``x * w``, and its clone for tests."""
    clones = []

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [1, WIDTH], "float32")
        zero = paddle.nn.initializer.Constant(0.0)
        named = paddle.ParamAttr(name="w", initializer=zero)
        weight = paddle.create_parameter([1, WIDTH], "float32", attr=named)
        if refuses:
            paddle.static.nn.control_flow.Assert(paddle.all(x < _REFUSED))
        loss = paddle.sum(x * weight)
        clones.append(paddle.static.default_main_program().clone(for_test=True))
        optimizer().minimize(loss)
        return ["x"], {"loss": loss}, None

    return build(make), clones[0]


def _momentum() -> Any:
    return paddle.optimizer.Momentum(1.0, momentum=1.0)


@cache
def kinds() -> tuple[Kind, ...]:
    """Built once; the first has every variable."""
    whole, clone = _built(_momentum)
    checked, _ = _built(_momentum, refuses=True)
    plain, _ = _built(lambda: paddle.optimizer.SGD(1.0))
    return (
        Kind(whole, whole.main, Values.trained, has_velocity=True),
        Kind(checked, checked.main, Values.trained, has_velocity=True, refuses=True),
        Kind(plain, plain.main, Values.moved),
        Kind(whole, clone, lambda values, x: values),
    )


@cache
def velocity_name() -> str:
    (name,) = (name for name in variables(kinds()[0].main) if "velocity" in name)
    return name


# -- the machine -----------------------------------------------------------------------------------


@dataclass
class Live:
    """A compiled program, and the number of its Scope."""

    place: int
    kind: Kind
    program: Any


@contextmanager
def dynamic_mode() -> Iterator[None]:
    paddle.disable_static()
    try:
        yield
    finally:
        paddle.enable_static()


class Layer:
    """A layer that the IPU trains, and its optimizer."""

    def __init__(self) -> None:
        with dynamic_mode(), paddle.utils.unique_name.guard():
            self.layer = paddle.jit.to_static(Weighted())
            self.optimizer = paddle.optimizer.Momentum(
                1.0, momentum=1.0, parameters=self.layer.parameters()
            )
            self.strategy = paddle.static.IpuStrategy()
            self.strategy.set_optimizer(self.optimizer)

    def train(self, x: Row) -> None:
        with dynamic_mode():
            try:
                self.layer(paddle.to_tensor(np.array([x], np.float32))).backward()
                self.optimizer.step()
            finally:
                self.optimizer.clear_grad()

    def weight(self) -> Row:
        with dynamic_mode():
            return tuple(self.layer.weight.numpy().tolist())

    def velocity(self) -> Row:
        with dynamic_mode():
            state = self.optimizer.state_dict()
            found = [value for name, value in state.items() if "velocity" in name]
            return tuple(found[0].numpy().reshape(-1).tolist()) if found else START.velocity

    def release(self) -> None:
        with dynamic_mode():
            self.strategy.release_patch()


class WeightStates(RuleBasedStateMachine):
    """Compiles, runs, fails, saves, loads, sets, interrupts, resets and drops in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.scopes = [paddle.static.Scope(), paddle.static.Scope()]
        # An interrupted step may have happened or not.
        self.known: list[frozenset[Values]] = [frozenset([START])] * 3
        self.layer: Layer | None = None
        self.live: list[Live] = []
        self.saved: list[Values] = []
        self.patches = ExitStack()
        for scope in self.scopes:
            with paddle.static.scope_guard(scope):
                paddle.static.Executor(paddle.CPUPlace()).run(kinds()[0].built.startup)

    @initialize(releases=st.booleans(), beside_layer=st.sampled_from([False, False, True]))
    def begin(self, releases: bool, beside_layer: bool) -> None:
        """Whether the Scope releases optimizer state, and whether a layer trains as well."""
        if beside_layer:
            self.layer = Layer()
            self.patches.callback(self.layer.release)
        patch = self.patches.enter_context(pytest.MonkeyPatch.context())
        if releases:
            patch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)

    def teardown(self) -> None:
        self.live.clear()
        self.layer = None
        self.patches.close()
        self.folder.cleanup()
        gc.collect()
        # What XLA and Paddle keep of an order is not looked at in the next.
        gc.freeze()

    # What is seen, beside the model.

    def seen(self, place: int, test: Callable[[Values], bool], what: object) -> None:
        """Keeps those of the possible values that fit."""
        left = frozenset(filter(test, self.known[place]))
        where = "The layer" if place == LAYER else f"Scope {place}"
        assert left, f"{where} shows {what}, and can be at {sorted(self.known[place])}"
        self.known[place] = left

    def in_the_scope(self, place: int, *, state: bool = True) -> None:
        """The Scope holds the newest values now."""
        scope = self.scopes[place]
        weight = tuple(read(scope, "w").reshape(-1).tolist())
        self.seen(place, lambda values: values.weight == weight, f"the weight {weight}")
        if state:
            velocity = tuple(read(scope, velocity_name()).reshape(-1).tolist())
            self.seen(place, lambda values: values.velocity == velocity, f"velocity {velocity}")

    def stepped(self, place: int, kind: Kind, x: Row, happened: bool = True) -> None:
        after = frozenset(kind.step(values, x) for values in self.known[place])
        self.known[place] = after if happened else after | self.known[place]

    def pick(self, number: int) -> Live:
        return self.live[number % len(self.live)]

    # What a user does.

    @precondition(lambda self: len(self.live) < _MOST_PROGRAMS)
    @rule(place=st.sampled_from([0, 0, 0, 1]), which=st.integers(0, 3), moment=_MOMENTS)
    def compile(self, place: int, which: int, moment: Moment | None) -> None:
        kind = kinds()[which]
        options = strategy(micro_batch_size=1, is_training=kind.trains)
        compiler = paddle.static.IpuCompiledProgram(kind.main, self.scopes[place], options)
        with maybe_interrupted(moment) as told:
            program = compiler.compile(["x"], [kind.fetch])
        if not told[0]:
            self.live.append(Live(place, kind, program))

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), x=_ROWS, moment=_MOMENTS)
    def run(self, number: int, x: Row, moment: Moment | None) -> None:
        item = self.pick(number)
        executor = paddle.static.Executor(paddle.IPUPlace())
        feed = {"x": np.array([x], np.float32)}
        result = None
        with maybe_interrupted(moment):
            (result,) = executor.run(item.program, feed=feed, fetch_list=[item.kind.fetch])
        if result is not None:
            loss = float(np.asarray(result).reshape(()))
            self.seen(
                item.place,
                lambda values: loss == sum(a * b for a, b in zip(x, values.weight, strict=True)),
                f"the loss {loss} of {x}",
            )
        self.stepped(item.place, item.kind, x, result is not None)

    @precondition(lambda self: any(item.kind.refuses for item in self.live))
    @rule(number=st.integers(0, 3))
    def fail(self, number: int) -> None:
        """A step that an operator stops changes nothing."""
        refusing = [item for item in self.live if item.kind.refuses]
        item = refusing[number % len(refusing)]
        executor = paddle.static.Executor(paddle.IPUPlace())
        feed = {"x": np.full((1, WIDTH), _REFUSED, np.float32)}
        with pytest.raises(popart_runtime_error, match="Abort Program"):
            executor.run(item.program, feed=feed, fetch_list=[item.kind.fetch])

    @precondition(lambda self: any(item.kind.trains for item in self.live))
    @rule(number=st.integers(0, 3), x=_ROWS)
    def lose(self, number: int, x: Row) -> None:
        """A run takes the weights with it: the next one has those of the Scope."""
        training = [item for item in self.live if item.kind.trains]
        item = training[number % len(training)]
        is_synced = not self.saved
        if is_synced:
            # An upload releases optimizer state, so that a download comes after it.
            item.program.weights_to_host()
            item.program.weights_from_host()
            item.program.weights_to_host()
            self.in_the_scope(item.place, state=item.kind.has_velocity)
        executor = paddle.static.Executor(paddle.IPUPlace())
        feed = {"x": np.array([x], np.float32)}
        with weights_lost():
            executor.run(item.program, feed=feed, fetch_list=[item.kind.fetch])
        if not is_synced:
            with paddle.static.scope_guard(self.scopes[item.place]):
                paddle.static.Executor(paddle.CPUPlace()).run(kinds()[0].built.startup)
            self.load(item.place, number, None)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), moment=_MOMENTS)
    def bring(self, number: int, moment: Moment | None) -> None:
        """``weights_to_host``."""
        item = self.pick(number)
        with maybe_interrupted(moment) as told:
            item.program.weights_to_host()
        if not told[0]:
            self.in_the_scope(item.place, state=item.kind.has_velocity)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), values=_ROWS, moment=_MOMENTS)
    def set_by_hand(self, number: int, values: Row, moment: Moment | None) -> None:
        """As README says: bring, write, ``weights_from_host``."""
        item = self.pick(number)
        item.program.weights_to_host()
        self.in_the_scope(item.place, state=item.kind.has_velocity)
        write(self.scopes[item.place], "w", np.array([values], np.float32))
        for _ in range(2):
            with maybe_interrupted(moment) as told:
                item.program.weights_from_host()
            if not told[0]:
                break
            moment = None
        self.known[item.place] = frozenset(
            before._replace(weight=values) for before in self.known[item.place]
        )

    @rule(place=st.integers(0, 1), moment=_MOMENTS)
    def save(self, place: int, moment: Moment | None) -> None:
        path = str(Path(self.folder.name) / str(len(self.saved)))
        with maybe_interrupted(moment) as told, paddle.static.scope_guard(self.scopes[place]):
            paddle.static.save(kinds()[0].main, path)
        if not told[0]:
            self.in_the_scope(place)
            (values,) = self.known[place]
            self.saved.append(values)

    @precondition(lambda self: self.saved)
    @rule(place=st.integers(0, 1), number=st.integers(0, 9), moment=_MOMENTS)
    def load(self, place: int, number: int, moment: Moment | None) -> None:
        number %= len(self.saved)
        path = str(Path(self.folder.name) / str(number))
        with maybe_interrupted(moment) as told, paddle.static.scope_guard(self.scopes[place]):
            paddle.static.load(kinds()[0].main, path)
        if not told[0]:
            self.known[place] = frozenset([self.saved[number]])

    @rule(place=st.integers(0, 1), which=st.integers(0, 3), x=_ROWS, moment=_MOMENTS)
    def on_the_cpu(self, place: int, which: int, x: Row, moment: Moment | None) -> None:
        """Paddle's executor trains a step of its own."""
        kind = kinds()[which]
        feed = {"x": np.array([x], np.float32)}
        executor = paddle.static.Executor(paddle.CPUPlace())
        with (
            maybe_interrupted(moment) as told,
            paddle.static.scope_guard(self.scopes[place]),
        ):
            executor.run(kind.main, feed=feed, fetch_list=[kind.fetch])
        if not told[0]:
            self.stepped(place, kind, x)
            self.in_the_scope(place, state=kind.has_velocity)

    @precondition(lambda self: self.layer is not None)
    @rule(x=_ROWS, moment=_SIGNALS)
    def train_layer(self, x: Row, moment: Moment | None) -> None:
        assert self.layer is not None
        with maybe_interrupted(moment) as told:
            self.layer.train(x)
        after = frozenset(values.trained(x) for values in self.known[LAYER])
        self.known[LAYER] = after | self.known[LAYER] if told[0] else after

    @precondition(lambda self: self.layer is not None)
    @rule(state=st.booleans())
    def read_layer(self, state: bool) -> None:
        assert self.layer is not None
        weight = self.layer.weight()
        self.seen(LAYER, lambda values: values.weight == weight, f"the weight {weight}")
        if state:
            velocity = self.layer.velocity()
            self.seen(LAYER, lambda values: values.velocity == velocity, f"velocity {velocity}")

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), how=st.sampled_from(["dropped", "reset", "detach"]))
    def end(self, number: int, how: str) -> None:
        item = self.pick(number)
        self.live = [other for other in self.live if other is not item]
        if how != "dropped":
            getattr(item.program.backend, how)()
        del item
        gc.collect()

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 3), place=st.integers(0, 1), uploads=st.booleans())
    def change_scope(self, number: int, place: int, uploads: bool) -> None:
        """``set_scope``: the other Scope gets what the program has on the device."""
        item = self.pick(number)
        # Otherwise the old Scope would stay without what was trained since.
        item.program.weights_to_host()
        self.in_the_scope(item.place, state=item.kind.has_velocity)
        if uploads:
            item.program.weights_from_host()
        item.program.backend.set_scope(self.scopes[place])
        there = self.known[place]
        moved = frozenset(
            values if item.kind.has_velocity else other._replace(weight=values.weight)
            for values in self.known[item.place]
            for other in there
        )
        # A device that is behind its Scope has nothing to give, and takes the other's values.
        self.known[place] = moved if uploads else moved | there
        item.place = place

    @precondition(lambda self: self.live)
    @rule()
    def reset_all(self) -> None:
        paddle.base.core.IpuBackend.get_instance().reset()
        self.live.clear()
        for place in range(len(self.scopes)):
            self.in_the_scope(place)

    @invariant()
    def a_scope_without_programs_holds_the_newest(self) -> None:
        for place in range(2):
            if all(item.place != place for item in self.live):
                self.in_the_scope(place)


@pytest.mark.parametrize("examples", [15, pytest.param(400, marks=pytest.mark.thorough)])
def test_every_program_of_a_scope_has_its_newest_weights(examples: int) -> None:
    try_orders(WeightStates, examples)
