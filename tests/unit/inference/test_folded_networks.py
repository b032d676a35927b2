"""A network with batch norms, whose predictor folds them, beside Paddle's own predictor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from paddle import inference

from tests.unit.inference.conftest import run
from tests.unit.inference.folded_network import saved


def test_every_batch_size_gives_the_results_of_paddles_predictor(tmp_path: Path) -> None:
    config = saved(tmp_path / "network")
    on_cpu = inference.create_predictor(config)
    config.enable_ipu(1, 2)
    predictor = inference.create_predictor(config)
    for rows in (2, 3):
        x = np.random.default_rng(rows).normal(size=(rows, 3, 8, 8)).astype(np.float32)
        (name,) = predictor.get_input_names()
        (found,), (expected,) = run(predictor, {name: x}), run(on_cpu, {name: x})
        assert found.shape == expected.shape
        assert np.linalg.norm(found - expected) < 1e-6 * np.linalg.norm(expected)
    for program in predictor._model._programs.values():
        folded = program.backend.session._executable.program.layouts.folded
        assert len(folded) == 4
