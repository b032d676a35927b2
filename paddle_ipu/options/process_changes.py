"""What running programs changes of the whole process, and what turns each change off.

A name of :data:`CHANGES` in ``PADDLE_IPU_LEAVE_ALONE`` (several with commas) turns it off. All
that needs JAX is done by ``xla/process.py``.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from paddle_ipu.errors import OptionError

SETTING = "PADDLE_IPU_LEAVE_ALONE"
"""The variable of the environment that names what is left as it is."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is changed.

    Attributes:
        name: in ``PADDLE_IPU_LEAVE_ALONE``.
        when: it happens.
        what: it is.
        why: what goes wrong, or slowly, without it.
    """

    name: str
    when: str
    what: str
    why: str


CHANGES = (
    Change(
        "memory",
        "from the first run on",
        "glibc keeps what is freed (`mallopt`), and threads share two of its heaps",
        "a step takes its temporary memory from `malloc` and would pay for every page again, a "
        "fifth of a BERT-Base step; with heaps of their own, threads that come and go make a "
        "process grow with every program",
    ),
    Change(
        "trim",
        "after a program is compiled",
        "what that has freed goes back to the system (`malloc_trim`)",
        "a compilation takes many times the memory of what it makes",
    ),
    Change(
        "threads",
        "when JAX is first needed",
        "`jax_cpu_enable_async_dispatch` is off: JAX runs CPU programs in the thread that calls",
        "memory is kept for glibc's main heap only, which XLA's own threads do not use",
    ),
    Change(
        "logs",
        "when JAX is first needed",
        "JAX's loggers of platforms and of its cache say WARNING and above; an error that a call "
        "of the host raised on purpose is not logged beside being raised",
        "Paddle's root logger prints INFO, such as each accelerator that is not there",
    ),
    Change(
        "garbage",
        "while a program is compiled",
        "the collection of garbage in cycles waits",
        "compiling makes a million objects and next to no cycles, and Python would look through "
        "all of them again and again",
    ),
    Change(
        "signals",
        "during a step that updates weights",
        "Python's handlers of SIGINT and SIGTERM wait for its end",
        "a KeyboardInterrupt between the end of a step and the keeping of its results would lose "
        "all weights",
    ),
    Change(
        "interrupts",
        "when JAX is first needed, and while XLA compiles",
        "XLA compiles in a thread that no signal reaches; a KeyboardInterrupt that a destructor or "
        "a callback of the collection of garbage swallows (`sys.unraisablehook`) comes again",
        "jaxlib 0.10 leaves a compilation that is interrupted, which reads on in what is freed "
        "then: the process crashes later; and JAX's callback of each collection is where Python "
        "raises what came during it",
    ),
    Change(
        "forks",
        "once a program is compiled",
        "a forked process is told that it cannot run programs (`os.register_at_fork`)",
        "XLA's threads do not come along into a fork, which would wait for them for ever",
    ),
    Change(
        "preemption",
        "when instances of a distributed program join",
        "`jax_enable_preemption_service` is off",
        "JAX would take SIGTERM for a warning, and the process would live on",
    ),
    Change(
        "jax_cache",
        "while a program is compiled for the executable cache",
        "JAX's own compilation cache is off",
        "what XLA read from a file and writes again lacks its code (jaxlib 0.10)",
    ),
)
"""All that is changed."""


@cache
def is_left_alone(name: str) -> bool:
    """Whether ``PADDLE_IPU_LEAVE_ALONE`` names the change.

    Raises:
        OptionError: it names something that is not changed.
    """
    names = {change.name for change in CHANGES}
    listed = {part.strip() for part in os.environ.get(SETTING, "").split(",")} - {""}
    if unknown := sorted(listed - names):
        raise OptionError(
            f"{SETTING} names {', '.join(map(repr, unknown))}; it takes, with commas between, "
            f"{', '.join(sorted(names))}."
        )
    # The older name of one of them.
    if os.environ.get("PADDLE_IPU_KEEP_MEMORY") == "0":
        listed |= {"memory", "threads"}
    return name in listed


@contextmanager
def collection_put_off() -> Iterator[None]:
    """Puts off the collection of garbage in cycles."""
    was_enabled = gc.isenabled() and not is_left_alone("garbage")
    if was_enabled:
        gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
