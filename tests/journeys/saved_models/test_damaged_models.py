"""Whatever bytes a model's files hold, they load or are refused with an error of ours."""

from __future__ import annotations

import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from collections.abc import Callable
from functools import cache
from typing import Any

import paddle  # noqa: F401 - its framework_pb2 describes ProgramDescs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import ModelFileError, PaddleIpuError
from paddle_ipu.frontend import saved_model
from paddle_ipu.frontend.saved_model import ModelFiles
from tests.journeys.saved_models.models import parts, prefix, program_file

SMALL = ["paddle_2_6/mlp", "paddle_3_3/mlp"]
LARGE = ["paddle_2_6/attention_onednn", "paddle_3_3/attention"]

bytes_of = cache(parts)

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], database=None)


def attempt(program: bytes, parameters: bytes) -> bool:
    """Whether the model loads; any error that is not ours fails the test."""
    try:
        saved_model.read(ModelFiles(program, parameters)).program()
    except PaddleIpuError:
        return False
    return True


@pytest.mark.parametrize("name", SMALL)
def test_every_part_of_the_parameters_is_refused(name: str) -> None:
    program, parameters = bytes_of(name)
    for length in range(len(parameters)):
        with pytest.raises(ModelFileError, match="the parameters in memory: "):
            saved_model.read(ModelFiles(program, parameters[:length]))


@pytest.mark.parametrize("name", SMALL)
def test_every_part_of_the_program_is_refused_or_a_program(name: str) -> None:
    """Cut between two fields, a ProgramDesc is a smaller one; JSON never is."""
    program, parameters = bytes_of(name)
    step = 1 if name.startswith("paddle_3") else 7
    lengths = {*range(0, len(program), step), *range(len(program) - 40, len(program))}
    loaded = sum(attempt(program[:length], parameters) for length in lengths)
    # Without its last bytes, the version.
    assert loaded <= (0 if name.startswith("paddle_3") else 10)


@pytest.mark.parametrize("name", SMALL + LARGE)
@quick
@given(data=st.data())
def test_flipped_bytes_of_the_program(name: str, data: Any) -> None:
    program, parameters = bytes_of(name)
    damaged = bytearray(program)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(program) - 1))] = data.draw(st.integers(0, 255))
    attempt(bytes(damaged), parameters)


@pytest.mark.parametrize("name", SMALL)
@quick
@given(data=st.data())
def test_flipped_bytes_of_the_parameters(name: str, data: Any) -> None:
    program, parameters = bytes_of(name)
    damaged = bytearray(parameters)
    damaged[data.draw(st.integers(0, len(parameters) - 1))] = data.draw(st.integers(0, 255))
    attempt(program, bytes(damaged))


@quick
@given(content=st.binary(max_size=200), parameters=st.binary(max_size=200))
def test_any_bytes(content: bytes, parameters: bytes) -> None:
    attempt(content, parameters)


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.thorough) for name in SMALL), "paddle_2_6/attention"],
)
def test_paddles_own_code_survives_what_is_let_through(
    name: str, run_python: Callable[..., Any], tmp_path: Any
) -> None:
    """The whole way, Paddle's C++ included, in a process that must not die."""
    suffix = program_file(name).suffix
    done = run_python(
        f"""
import zlib, pathlib, random
import paddle, paddle_ipu
paddle_ipu.activate()
paddle.enable_static()
from paddle_ipu.errors import PaddleIpuError
program = pathlib.Path({str(program_file(name))!r}).read_bytes()
folder = pathlib.Path({str(tmp_path)!r})
parameters = pathlib.Path({str(prefix(name)) + ".pdiparams"!r}).read_bytes()
(folder / "m.pdiparams").write_bytes(parameters)
executor = paddle.static.Executor(paddle.CPUPlace())
choose = random.Random(5)
counts = dict(loaded=0, refused=0)
for number in range(120):
    damaged = bytearray(program)
    for _ in range(choose.choice([1, 1, 1, 3])):
        damaged[choose.randrange(len(program))] = choose.randrange(256)
    if number % 10 == 0:
        del damaged[choose.randrange(len(program)):]
    (folder / "m{suffix}").write_bytes(damaged)
    try:
        with paddle.static.scope_guard(paddle.static.Scope()):
            paddle.static.load_inference_model(str(folder / "m"), executor)
        counts["loaded"] += 1
    except PaddleIpuError:
        counts["refused"] += 1
print(counts["loaded"], counts["refused"])
"""
    )
    loaded, refused = map(int, done.stdout.split()[-2:])
    assert loaded + refused == 120
    assert loaded >= 3
    assert refused > 20
