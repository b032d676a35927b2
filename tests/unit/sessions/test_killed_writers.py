"""What is on disk when a process is killed while it writes, or the disk is full: all or nothing.

A process is killed at each line that a writer executes, one process for each, by a trace function;
so at each moment, and none by luck.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import inspect
import itertools
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from examples.bert.stages.checkpoints import CheckpointFolder
from examples.bert.stages.device import RunState
from paddle_ipu import popart
from paddle_ipu.popart import graph_types, whole_files
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.child_process import fork
from tests.unit.sessions.session_programs import Linear

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:os.fork.*:RuntimeWarning"),
]

KEY, OTHER = "a1" * 32, "b2" * 32


def in_a_child(work: Callable[[], object]) -> int:
    """Runs it in a process of its own; gives how that ended, as ``os.waitpid`` does."""
    return os.waitpid(fork(work), 0)[1]


def killed_at(line: int, where: set[CodeType], work: Callable[[], object]) -> bool:
    """Runs `work` in a process that is killed before the line of that number of `where`.

    Args:
        line: counted as lines are executed.
        where: the code whose lines count.
        work: what to do.

    Returns:
        False where it ended before.
    """
    count = itertools.count()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and next(count) == line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def traced() -> None:
        sys.settrace(lambda frame, event, _: trace if frame.f_code in where else None)
        work()

    status = in_a_child(traced)
    assert status in (0, signal.SIGKILL)
    return status != 0


def codes(module: Any) -> set[CodeType]:
    """The code of all functions and methods of a class or module."""
    found = [*vars(module).values()]
    found += [member for each in found if isinstance(each, type) for member in vars(each).values()]
    return {each.__code__ for each in map(inspect.unwrap, found) if hasattr(each, "__code__")}


def test_a_cache_whose_writer_is_killed_at_each_moment(tmp_path: Path) -> None:
    cache = ExecutableCache(tmp_path)
    cache.store(KEY, {}, b"before")

    def work() -> None:
        with cache.alone(OTHER):
            cache.store(OTHER, {"a": 1}, bytes(100_000))

    moments = 0
    while killed_at(moments, codes(ExecutableCache), work):
        assert cache.load(KEY) == ({}, b"before")
        assert cache.load(OTHER) in (None, ({"a": 1}, bytes(100_000)))
        moments += 1
    assert moments > 30
    assert cache.load(OTHER) is not None
    # The lock of a dead process is nobody's, and what it left is removed by and by.
    with cache.alone(OTHER):
        pass
    left = [path for path in tmp_path.iterdir() if path.suffix == ".unfinished"]
    for path in left:
        os.utime(path, (0, 0))
    cache.store(KEY, {}, b"after")
    assert not any(path.exists() for path in left)


def _full_after(size: int) -> None:
    """Files of this process may have so many bytes, as where the disk is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [0, 10, 5000, 99_999])
def test_a_cache_on_a_full_disk(tmp_path: Path, size: int) -> None:
    cache = ExecutableCache(tmp_path)
    cache.store(KEY, {}, b"before")

    def work() -> None:
        _full_after(size)
        assert not cache.store(OTHER, {}, bytes(100_000))

    assert in_a_child(work) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY}.ipuexe"]
    assert cache.load(KEY) == ({}, b"before")


def test_many_processes_on_one_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are written, read, removed and trimmed at the same time; each is whole or none."""
    monkeypatch.setenv("PADDLE_IPU_CACHE_SIZE", "40KB")
    keys = [f"{number:064x}" for number in range(8)]

    def work(seed: int) -> None:
        choose, cache = random.Random(seed), ExecutableCache(tmp_path)
        for _ in range(60):
            key = choose.choice(keys)
            content = key.encode() * 100
            act = choose.randrange(8)
            if act == 0:
                cache.remove(key)
            elif act == 1:
                cache.clear()
            elif act < 5:
                with cache.alone(key):
                    cache.store(key, {"key": key}, content)
            assert cache.load(key) in (None, ({"key": key}, content))

    children = [fork(functools.partial(work, seed)) for seed in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach, as pytest's are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("is_roots", [False, True])
def test_a_folder_that_cannot_be_written_is_read(open_folder: Path, is_roots: bool) -> None:
    """The user's own, or one that root has filled for others, as in an image."""
    is_root = os.geteuid() == 0
    if is_roots and not is_root:
        pytest.skip("only root makes files of root's")
    filled = open_folder / "filled"
    cache = ExecutableCache(filled)
    cache.store(KEY, {"a": 1}, b"x")
    filled.chmod(0o555)
    (filled / f"{KEY}.ipuexe").chmod(0o444)
    if is_root and not is_roots:
        # Root may write everywhere.
        os.chown(filled, 65534, -1)
        os.chown(filled / f"{KEY}.ipuexe", 65534, -1)

    def work() -> None:
        if is_root:
            os.setuid(65534)
        found = ExecutableCache(filled)
        with found.alone(KEY):
            assert found.load(KEY) == ({"a": 1}, b"x")
        with found.alone(OTHER):
            assert found.load(OTHER) is None
            assert not found.store(OTHER, {}, b"y")

    try:
        assert in_a_child(work) == 0
    finally:
        filled.chmod(0o700)


# -- checkpoints ----------------------------------------------------------------------------------


class Program:
    """What a checkpoint is written of, in two files."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def write_state(self, folder: Path) -> RunState:
        for name in ("weights", "state"):
            (folder / name).write_bytes(bytes([self.number]) * 5000)
        return RunState({}, 0, self.number)

    def read_state(self, folder: Path, state: RunState) -> None:
        contents = {(folder / name).read_bytes() for name in ("weights", "state")}
        assert contents == {bytes([state.updates]) * 5000}
        self.number = state.updates


class Stateless(Program):
    """With no files of its own: the manifest is all there is."""

    def write_state(self, folder: Path) -> RunState:
        return RunState({}, 0, self.number)


def test_a_checkpoint_whose_writer_is_killed_at_each_moment(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    for step in (1, 2):
        folder.write(Program(step), step, {}, {"at": step})
    moments = 0
    while killed_at(
        moments,
        codes(CheckpointFolder) | codes(Program),
        lambda: folder.write(Program(3), 3, {}, {"at": 3}),
    ):
        read, said = Program(), list[str]()
        step, data = folder.read(read, {}, said.append)
        assert (step, data) in ((2, {"at": 2}), (3, {"at": 3}))
        assert (read.number, said) == (step, [])
        moments += 1
    assert moments > 20
    assert folder.read(Program(), {}, lambda _: None)[0] == 3
    folder.write(Program(4), 4, {}, {"at": 4})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_3", "step_4"]


def test_a_damaged_checkpoint_is_written_again(tmp_path: Path) -> None:
    """By the run that passed it over; a good one stays as it is."""
    folder = CheckpointFolder(tmp_path, keep=2)
    for step in (1, 2):
        folder.write(Program(step), step, {}, {"at": step})
    (tmp_path / "step_2" / "weights").write_bytes(b"damaged")
    said = list[str]()
    assert folder.read(Program(), {}, said.append)[0] == 1
    assert len(said) == 1
    folder.write(Program(2), 2, {}, {"at": 2})
    assert folder.read(Program(), {}, said.append) == (2, {"at": 2})
    assert len(said) == 1
    folder.write(Program(2), 2, {}, {"at": 3})
    assert folder.read(Program(), {}, said.append) == (2, {"at": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_1", "step_2"]


@pytest.mark.parametrize("size", [0, 4000, 5100])
def test_a_checkpoint_on_a_full_disk(tmp_path: Path, size: int) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    folder.write(Program(1), 1, {}, {})

    def work() -> None:
        _full_after(size)
        if size > 5000:
            # The manifest is what no longer fits.
            _full_after(100)
        program = Stateless(2) if size > 5000 else Program(2)
        with pytest.raises(OSError, match="cannot write the checkpoint") as error:
            folder.write(program, 2, {"name": "x" * 200}, {})
        assert error.value.errno == errno.EFBIG

    assert in_a_child(work) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["step_1"]
    assert folder.read(Program(), {}, lambda _: None)[0] == 1


@pytest.mark.long
def test_a_model_whose_writer_is_killed_at_each_moment(tmp_path: Path) -> None:
    """``modelToHost`` over the model of an earlier step."""
    path = tmp_path / "m.onnx"
    model = Linear().builder.model
    graph_types.write_model(model, path)
    (weights,) = (i for i in onnx.load(path).graph.initializer if i.name == "w")
    before = onnx.numpy_helper.to_array(weights)
    model.graph.initializers["w"].const_value = popart_array(before + 1)
    writing = {c for c in codes(graph_types) if c.co_name in ("write_model", "_write")}
    writing |= codes(whole_files)
    moments, folders = 0, 0
    while killed_at(moments, writing, lambda: graph_types.write_model(model, path)):
        found = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
        assert any(np.array_equal(found["w"], expected) for expected in (before, before + 1))
        moments += 1
        left = [each for each in tmp_path.iterdir() if each != path]
        folders += len(left)
        # What the writer before it left is gone, unless this one was killed on the way there.
        assert len(left) <= 2
    assert moments > 30
    assert folders > 10
    (found,) = (i for i in onnx.load(path).graph.initializer if i.name == "w")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(found), before + 1)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
def test_a_model_in_two_files_whose_writer_is_killed_at_each_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small weight is in the model, the large one beside it: both are old, or both are new."""
    monkeypatch.setattr(graph_types, "INLINE_LIMIT", 4096)

    def model(number: float) -> onnx_ir.Model:
        make = popart.Builder(opsets={"ai.onnx": 11})
        y = make.addInputTensor("FLOAT", [2000], "x")
        for size in (2000, 1):
            y = make.aiOnnx.add(
                [y, make.addInitializedInputTensor(np.full(size, number, np.float32))]
            )
        make.addOutputTensor(y)
        return make.model

    def numbers() -> set[float]:
        weights = map(onnx.numpy_helper.to_array, onnx.load(path).graph.initializer)
        return {float(number) for weight in weights for number in weight}

    path = tmp_path / "m.onnx"
    graph_types.write_model(model(0), path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    writing = {c for c in codes(graph_types) if c.co_name in ("written_model", "_write")}
    writing |= codes(whole_files)
    moments, last = 0, 0.0
    new = model(1)
    while killed_at(moments, writing, lambda: graph_types.write_model(new, path)):
        (last,) = numbers()
        assert last in (0, 1)
        graph_types.write_model(model(0), path)
        assert numbers() == {0}
        moments += 1
    assert moments > 30
    assert last == 1
    assert numbers() == {1}
    data = {entry.value for w in onnx.load(path, load_external_data=False).graph.initializer
            for entry in w.external_data if entry.key == "location"}  # fmt: skip
    assert {each.name for each in tmp_path.iterdir()} == {"m.onnx", *data}


def test_what_a_living_writer_has_written_stays(tmp_path: Path) -> None:
    model = Linear().builder.model
    with whole_files.written_whole(tmp_path / "first") as place:
        place.write_bytes(b"first")
        assert in_a_child(lambda: graph_types.write_model(model, tmp_path / "m.onnx")) == 0
        graph_types.write_model(model, tmp_path / "first")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "m.onnx"]
    assert (tmp_path / "first").read_bytes() == b"first"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EBADF])
def test_where_there_are_no_locks_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unlocked(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", unlocked)
    model = Linear().builder.model
    with whole_files.written_whole(tmp_path / "first") as place:
        place.write_bytes(b"first")
        graph_types.write_model(model, tmp_path / "m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "m.onnx"]


def test_a_link_that_is_named_like_a_left_over_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"kept")
    place = tmp_path / "models"
    place.mkdir()
    link = place / f".paddle_ipu.{socket.gethostname()}.abcdefgh"
    link.symlink_to(elsewhere)
    graph_types.write_model(Linear().builder.model, place / "m.onnx")
    assert sorted(path.name for path in place.iterdir()) == [link.name, "m.onnx"]
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]


def test_a_folder_that_is_removed_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another writer does that finds it without a lock."""
    make, made = tempfile.mkdtemp, list[str]()

    def removed_once(**where: Any) -> str:
        made.append(make(**where))
        if len(made) == 1:
            shutil.rmtree(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_once)
    graph_types.write_model(Linear().builder.model, tmp_path / "m.onnx")
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def popart_array(array: np.ndarray[Any, Any]) -> Any:
    return graph_types.ir.tensor(array, name="w")
