"""The page about the old API: its example runs, and it has every name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import paddle

import paddle_ipu  # noqa: F401 - activates
from paddle_ipu.legacy.fluid_names import FLUID_NAMES
from paddle_ipu.legacy.pir_names import PIR_NAMES
from tests.checkout import ROOT

PAGE = (ROOT / "docs" / "old_api.md").read_text(encoding="utf-8")


def test_the_example_runs(static_mode: None) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    main, startup, loss = names["main"], names["startup"], names["loss"]
    exe = paddle.static.Executor(paddle.CPUPlace())
    scope = paddle.static.Scope()
    feed = {"x": np.ones((4, 8), np.float32)}
    with paddle.static.scope_guard(scope):
        exe.run(startup)
        for parameter in main.all_parameters():
            # Far from the optimum, so that each step of Adam leads towards it.
            start = np.full(parameter.shape, 0.5, np.float32)
            scope.find_var(parameter.name).get_tensor().set(start, paddle.CPUPlace())
        losses = [exe.run(main, feed=feed, fetch_list=[loss.name])[0] for _ in range(5)]
        (tested,) = exe.run(names["test_program"], feed=feed, fetch_list=[loss.name])
    assert tested < losses[-1] < losses[0]


def test_it_has_every_name_of_fluid() -> None:
    sections = dict(re.findall(r"### `(.*?)`\n(.*?)(?=\n###|\Z)", PAGE, re.DOTALL))
    missing = [row for row in FLUID_NAMES if f"| `{row.name}` |" not in sections[row.module]]
    assert not missing


def test_it_has_every_name_of_pir() -> None:
    missing = [row for row in PIR_NAMES if f"| `{row.owner}.{row.name}` |" not in PAGE]
    assert not missing
