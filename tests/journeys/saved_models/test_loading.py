"""Models saved by Paddle 2.6 and 3.3 give on either version what their own CPU executor gave."""

from __future__ import annotations

import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend.saved_model import SavedProgram
from tests.journeys.saved_models.models import NAMES, parts, prefix, recorded

PIR = not paddle.__version__.startswith("2.")


@pytest.fixture(autouse=True)
def own_scope(static_mode: None) -> Iterator[Any]:
    """A scope of the test's own as the global one, where models are loaded."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        yield scope


def load(*args: Any, **options: Any) -> tuple[Any, list[str], list[Any]]:
    executor = paddle.static.Executor(paddle.CPUPlace())
    program, feeds, fetches = paddle.static.load_inference_model(*args, executor, **options)
    return program, feeds, fetches


def on_ipu(program: Any, feeds: list[str], fetches: list[Any], data: dict[str, Any]) -> list[Any]:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=2)
    compiler = paddle.static.IpuCompiledProgram(
        program, scope=paddle.static.global_scope(), ipu_strategy=strategy
    )
    compiled = compiler.compile(feeds, fetches)
    executor = paddle.static.Executor(paddle.CPUPlace())
    return list(executor.run(compiled, feed=data, fetch_list=fetches))


def check(got: list[Any], wanted: list[Any]) -> None:
    for have, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=2e-6)
        assert have.shape == want.shape


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_either_version_runs_on_the_ipu(name: str) -> None:
    program, feeds, fetches = load(str(prefix(name)))
    data, wanted = recorded(name)
    assert sorted(feeds) == sorted(data)
    check(on_ipu(program, feeds, fetches, data), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_is_paddles_own_runs_on_its_cpu_too(name: str) -> None:
    program, _, fetches = load(str(prefix(name)))
    data, wanted = recorded(name)
    executor = paddle.static.Executor(paddle.CPUPlace())
    if isinstance(program, SavedProgram):
        assert name.startswith("paddle_3") or name.endswith("placed")
        with pytest.raises(NotSupported, match=r"runs on the IPU only: .*IpuCompiledProgram"):
            executor.run(program, feed=data, fetch_list=fetches)
    else:
        check(executor.run(program, feed=data, fetch_list=fetches), wanted)


@pytest.mark.parametrize("name", ["paddle_2_6/mlp", "paddle_3_3/mlp"])
def test_a_model_is_loaded_from_memory(name: str) -> None:
    model, parameters = parts(name)
    program, feeds, fetches = load(None, model_filename=model, params_filename=parameters)
    data, wanted = recorded(name)
    check(on_ipu(program, feeds, fetches, data), wanted)


@pytest.mark.parametrize("options", [{}, {"model_filename": None}, {"model_filename": "__model__"}])
def test_a_folder_with_one_file_a_parameter_is_loaded(options: dict[str, Any]) -> None:
    program, feeds, fetches = load(str(prefix("paddle_2_6/mlp_folder")), **options)
    data, wanted = recorded("paddle_2_6/mlp")
    check(on_ipu(program, feeds, fetches, data), wanted)


@pytest.mark.parametrize("name", ["paddle_2_6/mlp", "paddle_3_3/mlp"])
@pytest.mark.parametrize("whole_names", [True, False])
def test_both_files_are_named_in_a_folder(name: str, whole_names: bool) -> None:
    path = prefix(name)
    suffix = ".json" if name.startswith("paddle_3") else ".pdmodel"
    program, feeds, fetches = load(
        str(path.parent),
        model_filename=path.name + (suffix if whole_names else ""),
        params_filename=path.name + (".pdiparams" if whole_names else ""),
    )
    data, wanted = recorded(name)
    check(on_ipu(program, feeds, fetches, data), wanted)


def test_fetches_of_a_program_desc_keep_their_names() -> None:
    program, feeds, fetches = load(str(prefix("paddle_2_6/mlp")))
    assert [target.name for target in fetches] == [
        "save_infer_model/scale_0.tmp_0",
        "save_infer_model/scale_1.tmp_0",
    ]
    data, wanted = recorded("paddle_2_6/mlp")
    check(on_ipu(program, feeds, [target.name for target in fetches], data), wanted)


def test_the_ipu_of_each_operator_survives() -> None:
    from paddle_ipu.dialect import dialect
    from paddle_ipu.frontend import programs

    program, _, _ = load(str(prefix("paddle_2_6/placed")))
    found = {
        node.op_type: dialect.attribute(node, "ipu_index")
        for node in programs.read(program)
        if node.op_type in ("matmul", "relu")
    }
    assert found == {"matmul": 0, "relu": 1}


def test_what_an_unknown_option_is_told() -> None:
    with pytest.raises(TypeError, match="no argument 'params'; it takes model_filename and"):
        load(str(prefix("paddle_2_6/mlp")), params="x")


def test_in_dynamic_mode_paddle_answers_itself() -> None:
    paddle.disable_static()
    with pytest.raises(AssertionError, match="only supported in static graph mode"):
        load(str(prefix("paddle_2_6/mlp")))


def test_a_model_saved_from_an_ipu_program_holds_its_weights(tmp_path: Path) -> None:
    """Saving asks the device first; the model then gives what the program gave."""
    name = "paddle_2_6/mlp"
    program, feeds, fetches = load(str(prefix(name)))
    executor = paddle.static.Executor(paddle.CPUPlace())
    block = program.global_block()
    variables = [
        next(v for v in program.list_vars() if v.has_name and v.name == feed) if PIR
        else block.var(feed)
        for feed in feeds
    ]  # fmt: skip
    data, wanted = recorded(name)
    check(on_ipu(program, feeds, fetches, data), wanted)
    paddle.static.save_inference_model(
        str(tmp_path / "again"), variables, fetches, executor, program=program
    )
    with paddle.static.scope_guard(paddle.static.Scope()):
        check(on_ipu(*load(str(tmp_path / "again")), data), wanted)


@pytest.mark.skipif(not PIR, reason="Paddle 2 has no such option")
def test_a_folder_of_separate_parameters_of_paddle_3_is_loaded(tmp_path: Path) -> None:
    program, feeds, fetches = load(str(prefix("paddle_2_6/mlp")))
    executor = paddle.static.Executor(paddle.CPUPlace())
    variables = [v for v in program.list_vars() if v.has_name and v.name in feeds]
    paddle.static.save_inference_model(
        str(tmp_path / "m"), variables, fetches, executor, program=program, separate_parameters=True
    )
    data, wanted = recorded("paddle_2_6/mlp")
    with paddle.static.scope_guard(paddle.static.Scope()):
        check(on_ipu(*load(str(tmp_path)), data), wanted)


@pytest.mark.parametrize(("version", "saved"), [(3, True), (4, False)])
@pytest.mark.skipif(not PIR, reason="Paddle 2 reads no PIR program itself")
def test_a_pir_program_of_a_newer_paddle_is_for_the_ipu(
    monkeypatch: pytest.MonkeyPatch, version: int, saved: bool
) -> None:
    from paddle_ipu.frontend import pir_json

    here = ".".join(paddle.__version__.split(".")[:2])
    monkeypatch.setitem(pir_json.VERSIONS, here, version)
    program, feeds, fetches = load(str(prefix("paddle_3_3/mlp")))
    assert isinstance(program, SavedProgram) is saved
    data, wanted = recorded("paddle_3_3/mlp")
    check(on_ipu(program, feeds, fetches, data), wanted)


def rewritten(name: str, folder: Path, old: bytes, new: bytes) -> str:
    """A ProgramDesc model with the name of an operator or attribute written over."""
    program, parameters = parts(name)
    assert old in program
    (folder / "m.pdmodel").write_bytes(program.replace(old, new))
    (folder / "m.pdiparams").write_bytes(parameters)
    return str(folder / "m")


def test_an_operator_nobody_knows_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"gelo"):
        on_ipu(*load(rewritten("paddle_2_6/mlp", tmp_path, b"\x1a\x04gelu", b"\x1a\x04gelo")), {})


def test_a_fused_operator_without_a_plain_form_is_named(tmp_path: Path) -> None:
    path = rewritten("paddle_2_6/conv_onednn", tmp_path, b"\x04relu", b"\x04rolu")
    with pytest.raises(NotSupported, match=r"fused_conv2d"):
        on_ipu(*load(path), {})
