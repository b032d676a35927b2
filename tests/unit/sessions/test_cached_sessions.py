"""Sessions with engine caching: what is loaded runs as what was compiled, and nothing else is."""

from __future__ import annotations

import dataclasses
import logging
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jaxlib
import numpy as np
import onnx_ir as ir
import pytest
from jax.experimental.compilation_cache import compilation_cache

import paddle_ipu
from paddle_ipu import popart
from paddle_ipu.errors import CacheError, IndexRangeError, NumericalError
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer, ParameterUpdate
from paddle_ipu.xla.step import program_key, stored_step, surroundings
from paddle_ipu.xla.step.executable import Executable
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.tables import lower_otherwise
from tests.unit.sessions.session_programs import (
    Linear,
    builder,
    infer,
    micro_batches,
    options,
    run,
    train,
    weights,
)

SGD = {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}


def _cached(folder: Path, accumulation: int = 1, **settings: Any) -> popart.SessionOptions:
    return options(accumulation, enableEngineCaching=True, cachePath=str(folder), **settings)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One item for each step that is traced."""
    steps: list[str] = []
    trace = Executable._lowered_for

    def counted(self: Executable, *arguments: Any) -> Any:
        steps.append("traced")
        return trace(self, *arguments)

    monkeypatch.setattr(Executable, "_lowered_for", counted)
    return steps


def test_a_program_that_was_compiled_is_loaded_without_tracing(
    tmp_path: Path, traces: list[str]
) -> None:
    def made() -> tuple[str, list[Any]]:
        settings = _cached(tmp_path, 2)
        program = Linear()
        anchors = {program.loss: "All", "Gradient___w": "All"}
        session = train(program, popart.SGD(SGD), anchors, batches=2, settings=settings)
        results = [run(session, {"x": micro_batches(4)}) for _ in range(2)]
        results.append(session.runArrays({"x": micro_batches(4)}, updating=False))
        arrays = [result[name] for result in results for name in anchors]
        size = session.temporaryBytes()
        return session.executableOrigin(), [*arrays, *weights(session, "w", "b"), size]

    compiled, first = made()
    assert (compiled, len(traces)) == ("compiled", 2)
    loaded, second = made()
    assert (loaded, len(traces)) == ("loaded", 2)
    for array, expected in zip(second, first, strict=True):
        np.testing.assert_array_equal(array, expected)
    kinds = [ExecutableCache(tmp_path).load(e.key) for e in ExecutableCache(tmp_path).entries()]
    assert sorted("step" in told for told, _ in filter(None, kinds)) == [False, False, True, True]


def test_what_a_loaded_program_says_of_wrong_indices(tmp_path: Path) -> None:
    make = builder()
    rows = make.addInitializedInputTensor(np.arange(6, dtype=np.float32).reshape(3, 2), "rows")
    index = make.addInputTensor(popart.TensorInfo("INT32", [2]), "index")
    out = make.aiOnnxOpset11.gather([rows, index], debugContext="look-up")
    for origin in ("compiled", "loaded"):
        session = infer(make.model, {out: "All"},
                        settings=_cached(tmp_path))  # fmt: skip
        assert session.executableOrigin() == origin
        got = run(session, {"index": np.array([2, 0], np.int32)})[out]
        np.testing.assert_array_equal(got, [[4, 5], [0, 1]])
        with pytest.raises(IndexRangeError, match=r"Gather.*index 3"):
            run(session, {"index": np.array([2, 3], np.int32)})


def test_what_a_loaded_program_says_of_numbers_that_are_not_finite(tmp_path: Path) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    out = make.aiOnnxOpset11.log([make.aiOnnxOpset11.exp([x])])
    for _ in range(2):
        settings = _cached(tmp_path, enableFloatingPointChecks=True)
        session = infer(make.model, {out: "All"}, settings=settings)
        with pytest.raises(NumericalError, match="operator Exp"):
            run(session, {"x": np.array([1, 1000], np.float32)})
    assert session.executableOrigin() == "loaded"


def test_a_loaded_program_draws_the_same_random_numbers(tmp_path: Path) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [64]), "x")
    (out,) = make.aiOnnxOpset11.dropout([x], 1, 0.5)
    loss = make.aiGraphcore.identityloss([out])
    program = SimpleNamespace(builder=make, loss=loss)
    results = []
    for _ in range(2):
        session = train(program, popart.SGD(SGD), {out: "All"}, settings=_cached(tmp_path))
        assert session.drawsRandomNumbers()
        session.setRandomSeed(7)
        results.append(run(session, {"x": np.ones(64, np.float32)})[out])
    assert session.executableOrigin() == "loaded"
    np.testing.assert_array_equal(*results)
    assert 0 < np.count_nonzero(results[0]) < 64


def test_a_loaded_program_rounds_at_random_as_the_compiled_one(tmp_path: Path) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT16", [1000]), "x")
    out = make.aiOnnxOpset11.mul([x, x])
    values = np.full(1000, 1 / 3, np.float16)
    results = []
    for origin in ("compiled", "loaded"):
        settings = _cached(tmp_path, enableStochasticRounding=True)
        session = infer(make.model, {out: "All"}, settings=settings)
        assert session.executableOrigin() == origin
        session.setRandomSeed(7)
        results.append([run(session, {"x": values})[out] for _ in range(2)])
    np.testing.assert_array_equal(*results)
    assert (results[0][0] != results[0][1]).any()


def test_a_damaged_entry_is_compiled_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = Linear()

    def origin() -> str:
        session = infer(program.builder.model, {program.out: "All"}, settings=_cached(tmp_path))
        got = run(session, {"x": micro_batches(1)[0]})[program.out]
        np.testing.assert_allclose(got, micro_batches(1)[0] @ weights_of(program) + [0.5, -1.0])
        return str(session.executableOrigin())

    def weights_of(program: Linear) -> Any:
        return program.builder.model.graph.initializers["w"].const_value.numpy()

    assert origin() == "compiled"
    for path in tmp_path.glob("*.ipuexe"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert origin() == "compiled"
    assert "its digest is another" in caplog.text
    assert origin() == "loaded"


@pytest.mark.parametrize(
    "change",
    [
        {"results": [3.5, None]}, {"results": 1}, {"results": [["no tensor"], None]},
        {"results": [[]]}, {"checks": [[1, 2]]}, {"step": None},
        {"checked": ["no tensor"]}, {"temporary_bytes": "x"}, {"draws": ...}, None,
    ],
)  # fmt: skip
def test_an_entry_of_another_form_is_compiled_again(tmp_path: Path, change: Any) -> None:
    """Its digest is right."""
    program = Linear()

    def origin() -> str:
        session = infer(program.builder.model, {program.out: "All"}, settings=_cached(tmp_path))
        run(session, {"x": micro_batches(1)[0]})
        return str(session.executableOrigin())

    assert origin() == "compiled"
    cache = ExecutableCache(tmp_path)
    for entry in cache.entries():
        found = cache.load(entry.key)
        assert found is not None
        description, content = found
        if change is None:
            changed: Any = [1]
        else:
            kept = {**description, **change}
            changed = {name: value for name, value in kept.items() if value is not ...}
        cache.store(entry.key, changed, content)
    assert origin() in ("compiled", "loaded")
    assert origin() == "loaded"


def test_an_entry_whose_executable_is_cut_off_is_compiled_again(tmp_path: Path) -> None:
    """Its digest is right."""
    program = Linear()

    def origin() -> str:
        session = infer(program.builder.model, {program.out: "All"}, settings=_cached(tmp_path))
        run(session, {"x": micro_batches(1)[0]})
        return str(session.executableOrigin())

    assert origin() == "compiled"
    cache = ExecutableCache(tmp_path)
    for length in (1, 100):
        for entry in cache.entries():
            found = cache.load(entry.key)
            assert found is not None
            description, content = found
            cache.store(entry.key, description, content[:-length])
        assert origin() == "compiled"
        assert origin() == "loaded"


# -- what is not kept -----------------------------------------------------------------------------


@pytest.fixture
def jaxs_own_cache(tmp_path: Path) -> Iterator[Path]:
    """JAX's cache of compiled programs, turned on, in an empty folder."""
    changed = {
        "jax_compilation_cache_dir": str(tmp_path / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: jax.config.values[name] for name in changed}

    def take(settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()

    take(changed)
    yield tmp_path / "jax"
    take(before)


def test_it_is_kept_whole_beside_jaxs_own_cache(tmp_path: Path, jaxs_own_cache: Path) -> None:
    def origin(folder: str | None) -> str:
        program = Linear()
        settings = None if folder is None else _cached(tmp_path / folder)
        session = infer(program.builder.model, {program.out: "All"}, settings=settings)
        weights = program.builder.model.graph.initializers["w"].const_value
        got = run(session, {"x": micro_batches(1)[0]})[program.out]
        assert weights is not None
        np.testing.assert_allclose(got, micro_batches(1)[0] @ weights.numpy() + [0.5, -1.0])
        return str(session.executableOrigin())

    assert origin(None) == ""
    assert any(jaxs_own_cache.iterdir())
    assert origin("ours") == "compiled"
    assert origin("ours") == "loaded"


def test_a_program_that_calls_the_host_is_not_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stored_step, "_told", set())
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [1]), "x")
    out = make.aiGraphcore.printtensor([x])
    session = infer(make.model, {out: "All"}, settings=_cached(tmp_path))
    why = "ai.graphcore.PrintTensor runs on the host"
    assert session.executableOrigin() == f"not kept: {why}"
    warned = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert warned == [f"A compiled program is not kept in the executable cache: {why}."]
    assert ExecutableCache(tmp_path).entries() == []
    assert run(session, {"x": np.ones(1, np.float32)})[out] == 1


def test_an_operator_of_a_subgraph_that_calls_the_host_is_named(tmp_path: Path) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [1]), "x")
    choice = make.addInputTensor(popart.TensorInfo("BOOL", []), "choice")
    blocks = []
    for name in ("then", "otherwise"):
        block = make.createSubgraphBuilder()
        block.addInputTensorFromParentGraph(x)
        result = block.aiGraphcore.printtensor([x]) if name == "then" else x
        block.addOutputTensor(block.aiOnnxOpset11.neg([result]))
        blocks.append(block)
    (out,) = make.aiOnnxOpset11.logical_if([choice], 1, blocks[1], blocks[0])
    session = infer(make.model, {out: "All"}, settings=_cached(tmp_path))
    assert session.executableOrigin() == "not kept: ai.graphcore.PrintTensor runs on the host"


@pytest.fixture
def users_operator(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], ir.Model]:
    """A model with one operator, of which a user says what it means."""

    def model(meaning: Any) -> ir.Model:
        rule = lambda context, inputs, attributes: meaning(*inputs)  # noqa: E731
        lower_otherwise(monkeypatch, "Op", rule, domain="mine")
        kind = {"shape": ir.Shape([2]), "type": ir.TensorType(ir.DataType.FLOAT)}
        x, y = ir.Value(name="x", **kind), ir.Value(name="y", **kind)
        node = ir.Node("mine", "Op", [x], outputs=[y], name="op")
        graph = ir.Graph([x], [y], nodes=[node], opset_imports={"": 11, "mine": 1})
        return ir.Model(graph, ir_version=4)

    return model


def test_a_users_operator_is_traced_before_it_is_looked_for(
    tmp_path: Path, users_operator: Callable[[Any], ir.Model], traces: list[str]
) -> None:
    def result(factor: float) -> tuple[str, float]:
        model = users_operator(lambda x: x * factor)
        session = infer(model, {"y": "All"}, settings=_cached(tmp_path))
        got = run(session, {"x": np.ones(2, np.float32)})["y"]
        return session.executableOrigin(), float(got[0])

    assert [result(2), result(2), result(3)] == [("compiled", 2), ("loaded", 2), ("compiled", 3)]
    assert len(traces) == 3


def test_a_users_operator_that_calls_python_is_not_kept(
    tmp_path: Path, users_operator: Callable[[Any], ir.Model]
) -> None:
    def meaning(x: Any) -> Any:
        return jax.pure_callback(
            lambda x: np.asarray(x) + 1, jax.ShapeDtypeStruct((2,), x.dtype), x
        )

    session = infer(users_operator(meaning), {"y": "All"}, settings=_cached(tmp_path))
    assert session.executableOrigin() == (
        "not kept: a custom operator calls Python on the host"
    )  # fmt: skip
    assert ExecutableCache(tmp_path).entries() == []


def test_a_folder_that_cannot_be_used_is_an_error_and_no_other_session_s(tmp_path: Path) -> None:
    program = Linear()
    other = infer(program.builder.model, {program.out: "All"})
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match="give another folder|Give another folder"):
        infer(program.builder.model, {program.out: "All"}, settings=_cached(tmp_path / "file"))
    assert run(other, {"x": micro_batches(1)[0]})[program.out].shape == (3, 2)


# -- keys -----------------------------------------------------------------------------------------


def _key(
    optimizer: Any = None, batches: int = 1, program: Any = None, anchor: str = "All",
    **settings: Any,
) -> str:  # fmt: skip
    made = program or Linear()
    accumulation = settings.pop("accumulation", 1)
    session = train(
        made, optimizer or popart.SGD(SGD), {made.loss: anchor}, batches=batches,
        settings=options(accumulation, **settings), start=False,
    )  # fmt: skip
    return program_key.program_key(session._executable._step, jax.devices())


def _paddles(rate: float = 0.1, **settings: Any) -> PaddleOptimizer:
    update = ParameterUpdate("w", "momentum", {"mu": 0.9} | settings, {"velocity": "v"})
    return PaddleOptimizer((update,), learning_rate=rate)


def test_the_same_program_has_the_same_key() -> None:
    assert _key() == _key()
    # The device takes a learning rate as an argument.
    assert _key(_paddles(0.1)) == _key(_paddles(0.2))


def test_another_program_has_another_key() -> None:
    second = SimpleNamespace(**vars(Linear()))
    square = second.builder.aiOnnxOpset11.mul([second.out, second.out])
    second.loss = second.builder.aiGraphcore.l1loss([square], 0.5)
    keys = [
        _key(),
        _key(program=Linear(reduction="Mean")),
        _key(program=Linear(np.float16)),
        _key(program=second),
        _key(batches=2),
        _key(batches=2, anchor="Final"),
        _key(accumulation=2),
        _key(popart.SGD(SGD | {"defaultMomentum": (0.8, True)})),
        _key(popart.Adam({})),
        _key(_paddles()),
        _key(_paddles(mu=0.5)),
        _key(enableFloatingPointChecks=True),
        _key(program=Linear(np.float16), enableStochasticRounding=True),
        _key(autoRecomputation=popart.RecomputationType.Standard),
    ]
    assert len(set(keys)) == len(keys)


CHANGES = {
    "plugin": (paddle_ipu, "__version__", "0.0.0"),
    "JAX": (jax, "__version__", "0.0.0"),
    "NumPy": (np, "__version__", "0.0.0"),
    "Paddle": (surroundings, "_versions", lambda: {"paddlepaddle": "0.0.0"}),
    "jaxlib": (surroundings, "_versions", lambda: {"jaxlib": "0.0.0"}),
    "source": (program_key, "source_digest", lambda: "0"),
    "processor": (surroundings, "_processor", lambda: ("flags=none",)),
    "architecture": (platform, "machine", lambda: "none"),
    "number of processors": (surroundings.os, "sched_getaffinity", lambda pid: range(999)),
    "XLA's flags": (surroundings.os.environ, "XLA_FLAGS", "--none"),
    "oneDNN's limit": (surroundings.os.environ, "ONEDNN_MAX_CPU_ISA", "AVX"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_surrounding_has_another_key(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _key()
    owner, name, value = CHANGES[change]
    if hasattr(owner, "__setitem__"):
        monkeypatch.setitem(owner, name, value)
    else:
        monkeypatch.setattr(owner, name, value)
    assert _key() != here


def test_what_is_installed_counts_whether_it_is_imported_or_not() -> None:
    versions = surroundings._versions()
    assert versions["jaxlib"] == jaxlib.__version__
    assert versions["paddlepaddle"].split(".")[0] in ("2", "3")


def test_settings_of_jax_are_in_the_key() -> None:
    here = _key()
    with jax.numpy_rank_promotion("warn"):
        assert _key() != here


def test_the_source_has_a_digest_of_its_own() -> None:
    assert len(surroundings.source_digest()) == 64


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, 1.0),
        (1, True),
        ("1", 1),
        (["ab"], ["a", "b"]),
        (("a", ("b",)), (("a", "b"),)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.float32(0.0), np.float32(-0.0)),
        (np.zeros(2, np.int32), np.zeros(2, np.float32)),
        (np.zeros((1, 2)), np.zeros((2, 1))),
        (b"", None),
    ],
)
def test_a_digest_tells_structures_apart(one: Any, two: Any) -> None:
    def digest(item: Any) -> str:
        made = program_key.Digest()
        made.add(item)
        return made.hexdigest()

    assert digest(one) == digest(one)
    assert digest(one) != digest(two)


@dataclasses.dataclass
class _Unknown:
    number: int = 1


@pytest.mark.parametrize("item", [_Unknown(), lambda: 1, object(), np.array([None])])
def test_what_has_no_key_says_so(item: Any) -> None:
    with pytest.raises(program_key.NoKeyError):
        program_key.Digest().add([item])


# -- processes ------------------------------------------------------------------------------------

PROCESS = """
from tests.unit.sessions.session_programs import Linear, micro_batches, run, train, weights, options
from paddle_ipu import popart
program = Linear()
session = train(program, popart.SGD({{"defaultLearningRate": (0.05, False)}}), batches=2,
                settings=options(2, enableEngineCaching=True, cachePath={folder!r}))
run(session, {{"x": micro_batches(4)}})
print(session.executableOrigin(), weights(session, "w")[0].tobytes().hex())
"""


@pytest.mark.thorough
def test_of_processes_that_start_together_one_compiles(
    tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    snippet = PROCESS.format(folder=str(tmp_path / "cache"))
    with ThreadPoolExecutor(16) as pool:
        lines = list(pool.map(lambda _: run_python(snippet).stdout.split(), range(16)))
    assert sorted(origin for origin, _ in lines) == ["compiled", *["loaded"] * 15]
    assert len({numbers for _, numbers in lines}) == 1


def test_another_process_loads_what_one_compiled(
    tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    snippet = PROCESS.format(folder=str(tmp_path))
    one, other = (run_python(snippet).stdout.split() for _ in range(2))
    assert (one[0], other[0]) == ("compiled", "loaded")
    assert one[1] == other[1]
