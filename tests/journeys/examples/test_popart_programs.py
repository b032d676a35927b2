"""The programs for popart, on our module and by the signatures of Graphcore's."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.mnist.data import read_mnist, split
from examples.popart import digits, solver, two_tasks
from paddle_ipu import popart


def test_the_solver_solves() -> None:
    rng = np.random.default_rng(3)
    random = rng.standard_normal((30, 30)) / 6
    matrix = (random @ random.T + np.eye(30)).astype(np.float32)
    right = rng.standard_normal((30, 1)).astype(np.float32)
    x, image = solver.solve(popart, matrix, right)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, right), atol=1e-4)
    np.testing.assert_allclose(image, matrix @ x, atol=1e-5)


def test_digits_are_learnt(tmp_path: Path) -> None:
    training, test = split(read_mnist(), 0.05, seed=0)
    file = tmp_path / "digits.onnx"
    loss = digits.train(popart, training[:1000], 50, file)
    found = digits.classify(popart, test[:200], 50, file)
    assert loss < 1.5
    assert np.mean(found == test[:200].labels[:, 0]) > 0.7


def test_two_tasks_share_layers_and_not_heads() -> None:
    sizes = two_tasks.Sizes(length=4, rows=8)
    shares, heads = two_tasks.train(popart, sizes, 8)
    assert shares.shape == (8, 2)
    assert shares[-1].min() > 0.6 > 0.5 > shares[0].max()
    assert heads.shape == (2, sizes.hidden, two_tasks.DIGITS)
    assert np.abs(heads[0] - heads[1]).mean() > 0.1


@pytest.mark.parametrize("program", [digits, solver, two_tasks])
def test_a_program_runs_by_the_signatures_of_graphcores_module(
    program: Any, graphcores: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    smaller = {digits: ["--smoke"], solver: ["--size", "20"], two_tasks: ["--runs", "1"]}
    assert program.main(["--module", "popart", *smaller[program]]) == 0
    assert capsys.readouterr().out
    made = {call.name for call in graphcores.calls}
    assert made & {"InferenceSession", "TrainingSession"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--module", "popart"], "--module popart: .*Graphcore's comes with its SDK"),
        (["--size", "0"], "--size: expected 1 or more, got 0"),
        (["--size", "many"], "--size: invalid .* value: 'many'"),
    ],
)
def test_wrong_arguments_end_with_a_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "popart", None)
    with pytest.raises(SystemExit) as ended:
        solver.main(arguments)
    assert ended.value.code == 2
    assert re.search(message, capsys.readouterr().err)
