"""A process that was forked from one with compiled programs lacks XLA's threads.

What it asked of XLA would wait for them for ever, so it is told instead.
"""

from __future__ import annotations

import os

from paddle_ipu.errors import BackendUnavailableError

_owner: int | None = None
_is_fork = False


def check() -> None:
    """To be called before XLA is asked for work.

    Raises:
        BackendUnavailableError: XLA's threads are those of the process this one was forked from.
    """
    global _owner
    if _is_fork:
        raise BackendUnavailableError(
            f"process {os.getpid()} was forked from process {_owner}, which had compiled a program "
            "by then, and XLA's threads do not come along into a fork. Fork before anything is "
            "compiled, or start processes anew: multiprocessing.get_context('spawn')."
        )
    if _owner is None:
        _owner = os.getpid()
        os.register_at_fork(after_in_child=_note)


def _note() -> None:
    global _is_fork
    _is_fork = True
