"""Events of the Trace Event Format, which Perfetto and Chrome's trace viewer open.

Times are whole nanoseconds, written in microseconds: Perfetto rounds to them, and complete events
of a thread must not overlap.
"""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def complete_event(
    name: str, category: str, process: int, thread: int, start: int, end: int,
    arguments: dict[str, Any],
) -> Event:  # fmt: skip
    """Something that lasts from `start` to `end`, in nanoseconds."""
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start / 1e3,
        "dur": (end - start) / 1e3,
        "args": arguments,
    }


def process_events(process: int, name: str, threads: dict[int, str]) -> list[Event]:
    """The name of a process, which is shown by its number, and those of its threads."""
    return [
        _about("process_name", process, 0, {"name": name}),
        _about("process_sort_index", process, 0, {"sort_index": process}),
        *(
            _about("thread_name", process, thread, {"name": thread_name})
            for thread, thread_name in threads.items()
        ),
    ]


def _about(what: str, process: int, thread: int, arguments: dict[str, Any]) -> Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": arguments}
