"""``prepareDevice`` uploads weights beside XLA's compilation; failures of both reach the caller."""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.xla.step.executable import Executable
from tests.unit.sessions.session_programs import B, Linear, W, X, options, run, sgd, train, weights


def _session() -> popart.TrainingSession:
    program = Linear()
    return train(program, sgd(), {program.loss: "All"}, start=False)


def _nobody_uploads() -> bool:
    return not any("upload" in thread.name for thread in threading.enumerate())


def _failing(message: str) -> Any:
    def fail(*_: Any) -> NoReturn:
        raise MemoryError(message)

    return fail


def _assert_runs(session: popart.TrainingSession) -> None:
    session.prepareDevice()
    session.weightsFromHost()
    for got, expected in zip(weights(session, "w", "b"), (W, B), strict=True):
        np.testing.assert_array_equal(got, expected)
    (loss,) = run(session, {"x": X}).values()
    np.testing.assert_allclose(loss, Linear.loss_of(X, W, B), rtol=1e-6)


@pytest.mark.parametrize("part", ["upload", "compile"])
def test_a_failure_reaches_the_caller_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    session = _session()
    with monkeypatch.context() as patch:
        patch.setattr(Executable, part, _failing(f"no room to {part}"))
        with pytest.raises(MemoryError, match=f"no room to {part}"):
            session.prepareDevice()
    assert _nobody_uploads()
    with pytest.raises(popart_runtime_error, match="Did you forget to call prepareDevice"):
        session.loadEngineAndConnectStreams()
    _assert_runs(session)


def test_the_upload_has_ended_with_prepare_device() -> None:
    session = _session()
    session.prepareDevice()
    assert _nobody_uploads()
    _assert_runs(session)


def test_without_an_engine_a_program_is_built_and_cannot_run() -> None:
    program = Linear()
    session = train(program, sgd(), settings=options(compileEngine=False), start=False)
    session.prepareDevice()
    with pytest.raises(popart_runtime_error, match="Trying to load an engine but no compiled eng"):
        session.loadEngineAndConnectStreams()
    for call in (session.weightsFromHost, session.weightsToHost):
        with pytest.raises(
            popart_runtime_error,
            match=r"no compiled engine.*\? SessionOptions.compileEngine is False\.",
        ):
            call()
