"""What the samples share: a config for a device, a run by handles, and the comparison."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paddle import inference

Arrays = Mapping[str, NDArray[Any]]


def config_of(prefix: Path) -> Any:
    """A config for a saved model; Paddle 3 saves .json, Paddle 2 .pdmodel."""
    program = next(path for path in map(prefix.with_suffix, (".json", ".pdmodel")) if path.exists())
    config = inference.Config(str(program), str(prefix.with_suffix(".pdiparams")))
    config.disable_glog_info()
    return config


def run(predictor: Any, feeds: Arrays) -> list[NDArray[Any]]:
    """One run; the outputs in the order of their names."""
    for name, array in feeds.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(array)
    predictor.run()
    names = predictor.get_output_names()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in names]


def milliseconds(predictor: Any, feeds: Arrays, runs: int) -> float:
    """Median time of a run."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run(predictor, feeds)
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def verdict(apart: float, allowed: float) -> int:
    """Print whether the devices agree; the exit code."""
    if not apart <= allowed:  # NaN is not within any difference
        print("the IPU and the CPU differ", file=sys.stderr)
        return 1
    print("Finished")
    return 0


def difference(got: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference of an element."""
    return float(np.abs(got.astype(np.float64) - expected.astype(np.float64)).max())
