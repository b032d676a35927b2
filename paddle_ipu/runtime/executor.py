"""``Executor.run`` that takes compiled programs, and what it does beside others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from paddle_ipu.dialect.value_names import find
from paddle_ipu.errors import FeedError, NotSupported
from paddle_ipu.frontend.programs import is_saved
from paddle_ipu.runtime import cpu_notice
from paddle_ipu.runtime.fetches import flat
from paddle_ipu.runtime.ipu_program import IpuProgram
from paddle_ipu.runtime.weights.scope_sharing import synced

_SCOPE = 4
"""Position of `scope` among the arguments of ``Executor.run`` behind the program."""


def run(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Executor.run`` that also takes an :class:`IpuProgram`."""

    @functools.wraps(original)
    def run_program(self: Any, program: Any = None, *args: Any, **keywords: Any) -> Any:
        if type(program) is IpuProgram:
            return _run_compiled(program, *args, **keywords)
        if is_saved(program):
            raise NotSupported(
                f"{program!r} runs on the IPU only: {program.reason}. Compile it first: "
                "paddle.static.IpuCompiledProgram(program).compile(feed_names, fetch_targets)."
            )
        _note_place(self.place, *args[:2], **keywords)
        if "fetch_list" in keywords:
            keywords["fetch_list"] = _named(program, keywords["fetch_list"])
        elif len(args) > 1:
            args = (args[0], _named(program, args[1]), *args[2:])
        scope = keywords.get("scope", args[_SCOPE] if len(args) > _SCOPE else None)
        with synced(program, scope):
            return original(self, program, *args, **keywords)

    return run_program


def _note_place(place: Any, feed: Any = None, fetch_list: Any = None, **rest: Any) -> None:
    """Warns of an IPU's executor that is about to run a program on the CPU.

    A startup program has no feeds and fetches, and belongs on the CPU.
    """
    is_ipu = getattr(place, "is_ipu_place", None)
    if is_ipu is not None and is_ipu() and (feed or fetch_list):
        cpu_notice.warn_once(
            "program",
            "Executor(paddle.IPUPlace()).run was given a program that is not compiled for the "
            "IPU, and runs it on the CPU. Run what paddle.static.IpuCompiledProgram(program, "
            "ipu_strategy=strategy).compile(feed_names, fetch_list) returns; for the CPU on "
            "purpose use paddle.static.Executor(paddle.CPUPlace()).",
        )


def _named(program: Any, fetch_list: Any) -> Any:
    """A fetch list for Paddle's own executor, which does not know the names we give to values."""
    items = flat(fetch_list)
    if not any(isinstance(item, str) for item in items):
        return fetch_list
    import paddle

    if program is None:
        program = paddle.static.default_main_program()
    if not isinstance(program, paddle.pir.Program):
        # Legacy programs name every variable themselves.
        return fetch_list
    values = [find(program, item) if isinstance(item, str) else item for item in items]
    return [item if value is None else value for item, value in zip(items, values, strict=True)]


def _run_compiled(
    program: IpuProgram,
    feed: Any = None,
    fetch_list: Any = None,
    feed_var_name: str = "feed",
    fetch_var_name: str = "fetch",
    scope: Any = None,
    return_numpy: bool = True,
    use_program_cache: bool = False,
    use_prune: bool = False,
) -> list[Any]:
    # The scope was bound when the program was compiled; caching and pruning have no meaning here.
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise FeedError(
                f"feed must be a dict of arrays, got a list of {len(feed)}: an IPU program takes "
                "the rows of all replicas and micro-batches in one array."
            )
        feed = feed[0]
    if feed is not None and not isinstance(feed, Mapping):
        raise FeedError(f"feed must be a dict of arrays by name, got {type(feed).__name__}.")
    return program.run(feed, fetch_list, return_numpy)
