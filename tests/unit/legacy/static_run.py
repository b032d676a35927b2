"""Builds a static program from a function, runs it on the CPU, gives results and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle

Array = np.ndarray[Any, Any]


def run(
    build: Callable[..., Any], feeds: Mapping[str, Array], new_weights: bool = True
) -> tuple[list[Array], dict[str, Array]]:
    """Calls `build` with a variable for each feed.

    Args:
        build: gives a variable or several.
        feeds: name -> array.
        new_weights: replace the initial values of trainable parameters by even numbers in -1 to 1,
            so that none is without effect.

    Returns:
        (the results, name -> value of every parameter).
    """
    with paddle.utils.unique_name.guard():
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            variables = [
                paddle.static.data(name, array.shape, str(array.dtype))
                for name, array in feeds.items()
            ]
            built = build(*variables)
    results = list(built) if isinstance(built, (list, tuple)) else [built]
    parameters = main.all_parameters()
    scope = paddle.static.Scope()
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(scope):
        exe.run(startup)
        for parameter in parameters if new_weights else ():
            if parameter.trainable:
                count = int(np.prod(parameter.shape))
                values = np.linspace(-1.0, 1.0, count, dtype=np.float32)
                parameter.set_value(values.reshape(parameter.shape), scope)
        weights = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in parameters}
        got = exe.run(main, feed=dict(feeds), fetch_list=results)
    return [np.asarray(array) for array in got], weights
