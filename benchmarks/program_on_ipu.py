"""Compiles a static training program for the IPU Model, and times it."""

from __future__ import annotations

import time
from typing import Any

import paddle


def compiled_for_ipu(
    main: paddle.static.Program,
    feeds: list[str],
    loss: paddle.static.Variable,
    cache_path: str | None,
) -> tuple[Any, dict[str, float]]:
    """A training program compiled; seconds in all and at each report of progress.

    Args:
        main: the program, with its optimizer.
        feeds: names of its feeds.
        loss: what is fetched.
        cache_path: a folder that keeps what was compiled.
    """
    import paddle_ipu  # noqa: F401  (activates it where the installation has not)

    reports: list[tuple[int, float]] = []
    options: dict[str, Any] = {
        "compilation_progress_logger": lambda done, total: reports.append(
            (100 * done // total, time.perf_counter())
        )
    }
    if cache_path is not None:
        options |= {"enable_engine_caching": True, "cache_path": cache_path}
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    strategy.set_options(options)
    start, cpu = time.perf_counter(), time.process_time()
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(feeds, [loss])
    times = {"compile": time.perf_counter() - start, "compile CPU": time.process_time() - cpu}
    before = start
    for percent, at in reports:
        times[f"to {percent}%"] = at - before
        before = at
    return program, times
