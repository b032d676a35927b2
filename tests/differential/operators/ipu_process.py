"""The IPU Model in a process of its own, which XLA may end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from tests.differential.operators.ipu_model import Form, Outcome, outcomes


class IpuModel:
    """Runs cases in another process; of those that end it, it names the one that does."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,))
        self._process.start()
        other.close()

    def outcomes(self, forms: Sequence[Form]) -> list[list[Outcome]]:
        """What the IPU Model gives for each case of each form; all forward, or all training."""
        if not forms:
            return []
        try:
            self._connection.send(list(forms))
            made: list[list[Outcome]] = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            how = self._process.exitcode or 0
            self._start()
            if len(forms) == 1:
                name = signal.Signals(-how).name if how < 0 else f"exit code {how}"
                return [[Outcome(error=f"ended the process: {name}") for _ in forms[0]]]
            half = len(forms) // 2
            return self.outcomes(forms[:half]) + self.outcomes(forms[half:])
        return made

    def close(self) -> None:
        """Ends the process."""
        self._connection.send(None)
        self._process.join()


def _serve(connection: Connection) -> None:
    import paddle

    import paddle_ipu

    paddle_ipu.activate()
    paddle.enable_static()
    while (forms := connection.recv()) is not None:
        connection.send(outcomes(forms))
