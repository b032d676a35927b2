"""Predictors behind a batching runner, and predictors whose runs share steps."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import FeedError, ServingError
from paddle_ipu.serving import BatchingRunner

pytestmark = pytest.mark.usefixtures("static_mode")


def save(folder: Path, shape: list[int]) -> None:
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", shape, "float32")
        y = paddle.nn.functional.softmax(paddle.nn.Linear(3, 4)(x), axis=-1)
        scope = paddle.static.Scope()
        executor = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(scope):
            executor.run(start)
            paddle.static.save_inference_model(
                str(folder / "model"), [x], [y, y.max(axis=-1)], executor, program=main
            )


@pytest.fixture
def model(made_once: Callable[..., Path]) -> Path:
    return made_once("served", lambda folder: save(folder, [-1, 3]))


def predictor(folder: Path, *, on_ipu: bool = True, **options: Any) -> Any:
    program = next(path for path in folder.iterdir() if path.suffix in (".json", ".pdmodel"))
    config = paddle.inference.Config(str(program), str(folder / "model.pdiparams"))
    config.disable_glog_info()
    if on_ipu:
        config.enable_ipu(1, 4)
        config.set_ipu_config(ipu_enable_model_runtime_executor=bool(options))
        config.set_ipu_options(options)
    return paddle.inference.create_predictor(config)


def run(used: Any, x: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    used.get_input_handle("x").copy_from_cpu(x)
    used.run()
    names = used.get_output_names()
    return [used.get_output_handle(name).copy_to_cpu() for name in names]


def test_clones_in_threads_share_the_steps_of_one_program(model: Path) -> None:
    used, reference = predictor(model, timeout_ms=1.0), predictor(model, on_ipu=False)
    given = [np.full((1 + k % 6, 3), 0.1 * k, "float32") for k in range(24)]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda x: run(used.clone(), x), given))
    for x, answer in zip(given, got, strict=True):
        for array, expected in zip(answer, run(reference, x), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-6)
    assert used._model.shapes == [((4, 3),)]
    with pytest.raises(FeedError, match=r"input 'x' has the shape \[1, 5\], expected"):
        run(used, np.zeros((1, 5), "float32"))


def test_a_predictor_behind_a_runner(model: Path) -> None:
    used = predictor(model)
    x = np.linspace(0, 1, 27, dtype="float32").reshape(9, 3)
    with BatchingRunner(used) as runner:
        answer = runner.run({"x": x})
        assert list(answer) == used.get_output_names()
        for array, expected in zip(answer.values(), run(used, x), strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-6)
        assert [spec.shape for spec in runner.model.outputs or ()] == [(4,), ()]


def test_rows_of_open_shape_are_refused(tmp_path: Path) -> None:
    save(tmp_path, [-1, -1, 3])
    with pytest.raises(
        ServingError, match=r"leaves more open than their number: 'x' is \[-1, -1, 3\]. Save it"
    ):
        BatchingRunner(predictor(tmp_path))
