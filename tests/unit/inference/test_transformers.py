"""Transformers as Paddle's layers make them, with attention by its kernel, beside Paddle's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paddle import inference

from paddle_ipu.xla.kernels import library
from tests.unit.inference.conftest import run
from tests.unit.inference.transformers import CASES, feeds, saved


@pytest.mark.parametrize(("make", "attentions"), CASES)
def test_results_are_those_of_paddles_predictor(
    make: Callable[[], Any], attentions: int, tmp_path: Path
) -> None:
    config = saved(make, tmp_path / "network")
    on_cpu = inference.create_predictor(config)
    config.enable_ipu(1, 2)
    predictor = inference.create_predictor(config)
    (found,), (expected,) = run(predictor, feeds()), run(on_cpu, feeds())
    assert found.shape == expected.shape
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)
    (compiled,) = predictor._model._programs.values()
    graph = compiled.backend.session._executable.program.graph
    done = [node.op_type for node in graph].count("Attention")
    assert done == (attentions if library.lanes() else 0)
