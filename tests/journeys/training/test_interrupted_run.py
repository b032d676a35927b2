"""Ctrl-C in the middle of a step: it comes through, and the trained weights are still there."""

from __future__ import annotations

import gc
import signal
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.sessions.session import TrainingSession
from paddle_ipu.xla.process import DeferredSignals
from paddle_ipu.xla.step.executable import Executable
from tests.journeys.training.side_by_side import distance, mlp, pair, read, rows

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_step_leaves_what_the_step_trained(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 2], "float32")
        layer = paddle.nn.Linear(2, 1)
        loss = paddle.mean(layer(x))
        paddle.optimizer.SGD(0.5).minimize(loss)
    exe = paddle.static.Executor(paddle.IPUPlace())
    exe.run(startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
    program = compiler.compile(["x"], [loss])
    feed = {"x": np.ones((4, 2), np.float32)}

    def weight() -> Any:
        name = next(p.name for p in main.global_block().all_parameters() if list(p.shape) == [2, 1])
        return np.array(main.state_dict(mode="param")[name])

    before = weight()
    exe.run(program, feed=feed, fetch_list=[loss])
    np.testing.assert_allclose(weight(), before - 0.5)

    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    run = Executable._run

    def interrupted(self: Executable, *arguments: Any) -> Any:
        compiled = self.compiled

        def step(*given: Any) -> Any:
            results = compiled.compiled(*given)
            signal.raise_signal(number)
            return results

        self._compiled = replace(compiled, compiled=step)
        try:
            return run(self, *arguments)
        finally:
            self._compiled = compiled

    handler = signal.signal(number, interrupt)
    try:
        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            patch.setattr(Executable, "_run", interrupted)
            exe.run(program, feed=feed, fetch_list=[loss])
        assert signal.getsignal(number) is interrupt
        np.testing.assert_allclose(weight(), before - 1.0)
        exe.run(program, feed=feed, fetch_list=[loss])
        np.testing.assert_allclose(weight(), before - 1.5)
    finally:
        signal.signal(number, handler)


def test_a_signal_while_a_program_is_dropped_leaves_what_it_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = pair(mlp(paddle.optimizer.SGD))
    both.step(rows(4))
    # Python cannot raise it; sent again, as sessions have it, it would end this process.
    swallowed: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: swallowed.append(ignored.exc_type))
    bring = TrainingSession.weightsToHost

    def interrupted(self: TrainingSession) -> None:
        signal.raise_signal(signal.SIGINT)
        bring(self)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, interrupt)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(TrainingSession, "weightsToHost", interrupted)
            both.program = both.compiler = None
            gc.collect()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert swallowed == [KeyboardInterrupt]
    for name in both.built.parameters:
        assert distance(read(both.ipu, name), read(both.cpu, name)) <= 1e-5, name


def test_without_a_handler_in_python_nothing_is_exchanged() -> None:
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with DeferredSignals():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
