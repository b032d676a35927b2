"""What predictors say of bad models and bad inputs; others go on unharmed."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import inference

from paddle_ipu.errors import (
    BackendUnavailableError,
    FeedError,
    FetchError,
    ModelFileError,
    NotSupported,
    OptionError,
)
from tests.child_process import fork
from tests.unit.inference.conftest import rows, run

PROGRAM = "rows.pdmodel" if paddle.__version__.startswith("2.") else "rows.json"


@pytest.fixture(autouse=True)
def _others_are_unharmed(predictor: Any) -> Iterator[None]:
    expected = run(predictor.clone(), rows(4))
    yield
    for got, before in zip(run(predictor.clone(), rows(4)), expected, strict=True):
        np.testing.assert_array_equal(got, before)


# -- inputs ----------------------------------------------------------------------------------------


def test_unknown_names(predictor: Any) -> None:
    with pytest.raises(FeedError, match=r"no input 'y'; its inputs are 'x', 'shift'"):
        predictor.get_input_handle("y")
    with pytest.raises(FetchError, match=r"no output 'y'; its outputs are '"):
        predictor.get_output_handle("y")
    with pytest.raises(FeedError, match=r"'shifts'.* Did you mean 'shift'\?$"):
        predictor.get_input_handle("shifts")


def test_a_predictor_shows_what_it_takes_and_gives(predictor: Any) -> None:
    shown = repr(predictor)
    assert shown.startswith(
        "<IpuPredictor: inputs x float32 [-1, 3], shift int64 [-1, 1], outputs "
    )
    first, second = predictor.get_output_names()
    assert shown.endswith(f"outputs {first} float32, {second} int64>")
    table = predictor._repr_html_()
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert rows == [
        ["input", "x", "float32", "[-1, 3]"],
        ["input", "shift", "int64", "[-1, 1]"],
        ["output", first, "float32", ""],
        ["output", second, "int64", ""],
    ]


def test_a_run_before_its_inputs(predictor: Any) -> None:
    own = predictor.clone()
    with pytest.raises(FeedError, match=r"inputs 'x', 'shift' have no data. Before run\(\) call"):
        own.run()
    own.get_input_handle("x").copy_from_cpu(rows(4)["x"])
    with pytest.raises(FeedError, match=r"input 'shift' has no data.*get_input_handle\('shift'\)"):
        own.run()
    with pytest.raises(FeedError, match=r"run got 1 tensors, the model has 2 inputs: 'x', 'shift'"):
        own.run([paddle.zeros([4, 3])])
    with pytest.raises(TypeError, match=r"run got Tensor, expected a list of tensors, .*'shift'"):
        own.run(paddle.zeros([4, 3]))
    arrays = [rows(4)["x"], rows(4)["shift"]]
    with pytest.raises(TypeError, match=r"In run, we only .* got ndarray.*copy_from_cpu\(array"):
        own.run(arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 4), np.float32)}, r"'x' has the shape \[4, 4\], expected \[-1, 3\]"),
        ({"x": np.zeros(12, np.float32)}, r"'x' has the shape \[12\], expected \[-1, 3\], where"),
        ({"x": np.zeros((0, 3), np.float32)}, r"'x' has the shape \[0, 3\], which holds no elem"),
        ({"x": np.zeros((4, 3), np.int8) - 0.5}, None),
        ({"x": np.full((4, 3), 0.1)}, r"feed 'x': got dtype float64, expected float32"),
        ({"x": np.ones((4, 3), np.uint16)}, r"'x': got dtype uint16, .*bits of bfloat16, expected"),
        (
            {"shift": np.zeros((3, 1), np.int64)},
            r"no inputs of these shapes together: 'x' \[4, 3\], 'shift' \[3, 1\]\. .*broadcasting",
        ),
        ({"shift": np.zeros((4, 1), np.float32)}, r"feed 'shift': got dtype float32.* int64"),
    ],
)
def test_wrong_shapes_and_types(
    predictor: Any, change: dict[str, Any], message: str | None
) -> None:
    own = predictor.clone()
    if message is None:
        assert run(own, {**rows(4), **change})[0].shape == (4, 4)
        return
    with pytest.raises(FeedError, match=message):
        run(own, {**rows(4), **change})


def test_an_index_beyond_32_bits(config_of: Callable[[str], Any]) -> None:
    config = config_of("words")
    config.enable_ipu()
    own = inference.create_predictor(config)
    with pytest.raises(FeedError, match=r"feed 'words' holds 1099511627776.* 32-bit .*only pick"):
        run(own, {"words": np.full((3, 2), 2**40)})


def test_a_number_beyond_32_bits_that_is_computed_with(predictor: Any, on_cpu: Any) -> None:
    given = {**rows(4), "shift": np.full((4, 1), 2**40)}
    for got, expected in zip(run(predictor.clone(), given), run(on_cpu, given), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_handles_refuse_what_paddle_refuses(predictor: Any) -> None:
    own = predictor.clone()
    handle = own.get_input_handle("x")
    with pytest.raises(TypeError, match=r"we only support numpy ndarray and list\[str\]"):
        handle.copy_from_cpu([1.0, 2.0])
    with pytest.raises(TypeError, match=r"got an array of complex64.*The model declares float32"):
        handle.copy_from_cpu(np.zeros((4, 3), np.complex64))
    for text in (np.array(["a" * 40]), np.array(["a"], object)):
        with pytest.raises(TypeError, match=r"copy_from_cpu got an array of (strings|Python obj)"):
            handle.copy_from_cpu(text)
    with pytest.raises(NotSupported, match=r"'x': the IPU has no tensors of text"):
        handle.copy_from_cpu(["a"])
    with pytest.raises(NotSupported, match=r"'x': the IPU has dense tensors without levels"):
        handle.set_lod([[0, 4]])
    handle.set_lod([])
    with pytest.raises(TypeError, match=r"In share_external_data, we only support Tensor and"):
        handle.share_external_data(np.zeros((4, 3), np.float32))
    with pytest.raises(NotSupported, match=r"share_external_data_by_ptr_name is for memory of"):
        handle.share_external_data_by_ptr_name("name", [4, 3], 0, 0)
    with pytest.raises(FetchError, match=r"'x' holds no data. Call copy_from_cpu first"):
        handle.copy_to_cpu()
    output = own.get_output_handle(own.get_output_names()[0])
    with pytest.raises(FetchError, match=r"holds no data. Call predictor.run\(\) first"):
        output.copy_to_cpu()
    with pytest.raises(FeedError, match=r"copy_from_cpu: '.*' is an output, which a run writes"):
        output.copy_from_cpu(np.zeros(1))


def test_hooks_are_refused(predictor: Any) -> None:
    for register in (predictor.register_input_hook, predictor.register_output_hook):
        with pytest.raises(NotSupported, match=r"hook: on the IPU a model runs as one program"):
            register(lambda *_: None)


def test_rows_that_the_replicas_do_not_divide(config_of: Callable[[str], Any]) -> None:
    config = config_of("words")
    config.enable_ipu()
    config.set_ipu_config(ipu_replica_num=2)
    own = inference.create_predictor(config)
    with pytest.raises(FeedError, match=r"'words' has 3 rows, which 2 batches of one run"):
        run(own, {"words": np.zeros((3, 2), np.int64)})


def test_pools_refuse_sizes_and_numbers(config_of: Callable[[str], Any]) -> None:
    config = config_of("words")
    config.enable_ipu()
    with pytest.raises(OptionError, match=r"size is 0, expected an int of at least 1"):
        inference.PredictorPool(config, 0)
    pool = inference.PredictorPool(config, 2)
    for number in ("1", 1.0, None, True, -1, 2):
        told = rf"retrieve\({number!r}\): the pool has the predictors 0 to 1; .* as an int"
        with pytest.raises(OptionError, match=told):
            pool.retrieve(number)
    assert pool.retrieve(np.int64(1)) is pool.retrieve(1)


# -- models ----------------------------------------------------------------------------------------


def _config(program: Path, parameters: Path) -> Any:
    """From memory, as newer Paddle looks for the files itself."""
    config = inference.Config()
    parts = [program.read_bytes(), parameters.read_bytes()]
    config.set_model_buffer(parts[0], len(parts[0]), parts[1], len(parts[1]))
    config.enable_ipu(1, 4)
    return config


@pytest.mark.parametrize("part", [PROGRAM, "rows.pdiparams"])
@pytest.mark.parametrize("keep", [0, 7, 0.5, 0.99])
def test_truncated_models(models: Path, tmp_path: Path, part: str, keep: float) -> None:
    for name in (PROGRAM, "rows.pdiparams"):
        content = (models / name).read_bytes()
        length = keep if isinstance(keep, int) else int(keep * len(content))
        (tmp_path / name).write_bytes(content[:length] if name == part else content)
    config = inference.Config(str(tmp_path / PROGRAM), str(tmp_path / "rows.pdiparams"))
    config.enable_ipu(1, 4)
    with pytest.raises(ModelFileError, match="rows"):
        inference.create_predictor(config)


def test_a_model_and_parameters_of_another(models: Path) -> None:
    with pytest.raises(ModelFileError, match=r"the parameters in memory"):
        inference.create_predictor(_config(models / PROGRAM, models / "words.pdiparams"))


def test_parameters_that_are_a_pickle(models: Path, tmp_path: Path) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps({"x": 1}))
    with pytest.raises(ModelFileError, match=r"a pickle, .* can run code, so it is not opened"):
        inference.create_predictor(_config(models / PROGRAM, tmp_path / "pickle"))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    config = inference.Config(str(tmp_path / "model"))
    config.enable_ipu()
    with pytest.raises(ModelFileError, match=r"there is neither .*\.pdmodel nor .*\.json"):
        inference.create_predictor(config)
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b").write_text("")
    config = inference.Config(str(tmp_path / "a.json"), str(tmp_path / "b"))
    (tmp_path / "a.json").unlink()
    config.enable_ipu()
    with pytest.raises(ModelFileError, match=r"a\.json: there is no such file"):
        inference.create_predictor(config)


# -- backends --------------------------------------------------------------------------------------


def test_a_predictor_after_its_backend_was_reset(config_of: Callable[[str], Any]) -> None:
    config = config_of("words")
    config.enable_ipu()
    own = inference.create_predictor(config)
    words = {"words": np.zeros((2, 2), np.int64)}
    run(own, words)
    for program in own._model._programs.values():
        program.backend.reset()
    for shape in ((2, 2), (3, 2)):
        with pytest.raises(BackendUnavailableError, match=r"its backend was reset.*Make it again"):
            run(own.clone(), {"words": np.zeros(shape, np.int64)})
    assert run(inference.create_predictor(config), words)[0].shape == (2, 4)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning")
def test_a_fork_is_told_that_it_has_no_threads(
    predictor: Any, config_of: Callable[[str], Any]
) -> None:
    config = config_of("words")
    config.enable_ipu()

    def told(act: Callable[[], Any]) -> str:
        try:
            act()
        except BackendUnavailableError as error:
            return str(error)
        return "no error"

    words = {"words": np.zeros((2, 2), np.int64)}
    acts = (
        lambda: run(predictor.clone(), rows(4)),
        lambda: run(inference.create_predictor(config), words),
    )
    reading, writing = os.pipe()

    def tell() -> None:
        signal.alarm(60)
        os.write(writing, "\n".join(map(told, acts)).encode())

    child = fork(tell)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(reading) as answers:
        lines = answers.read().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.match(rf"process \d+ was forked from process {os.getpid()}, .*'spawn'", line)


@pytest.mark.thorough
def test_no_predictor_is_the_program_compiled_last(run_python: Any, models: Path) -> None:
    """In a process of its own: a reset takes every predictor's device."""
    snippet = (
        "import numpy as np, paddle, paddle_ipu; from paddle import inference\n"
        "from paddle.base.core import IpuBackend\n"
        f"config = inference.Config({str(models / 'rows')!r})\n"
        "config.enable_ipu(1, 4); own = inference.create_predictor(config)\n"
        "try: IpuBackend.get_instance().weights_to_host()\n"
        "except Exception as error: print(error)\n"
        "own.get_input_handle('x').copy_from_cpu(np.zeros((4, 3), np.float32))\n"
        "own.get_input_handle('shift').copy_from_cpu(np.zeros((4, 1), np.int64))\n"
        "own.run(); IpuBackend.get_instance().reset()\n"
        "try: own.run()\n"
        "except Exception as error: print(error)\n"
    )
    said = run_python(snippet).stdout
    assert "no compiled program is alive" in said
    assert "this predictor has no device any more" in said
