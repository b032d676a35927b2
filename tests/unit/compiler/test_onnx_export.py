"""``paddle_ipu.export``, and the files it writes: beside Paddle, in onnxruntime and in PopART."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import paddle
import pytest
from paddle import nn

import paddle_ipu
from paddle_ipu import popart
from paddle_ipu.cli.main import main
from paddle_ipu.compiler.onnx_export import ExportReport
from paddle_ipu.errors import (
    FeedError,
    FetchError,
    InvalidProgramError,
    ModelFileError,
    NotSupported,
    OptionError,
    PaddleIpuError,
    UnsupportedOpError,
)
from tests.journeys.training.side_by_side import initialised, mlp, pair, read, rows, strategy
from tests.tables import remove_translators

RELATIVE = 1e-5
Array = np.ndarray[Any, Any]


class Residual(nn.Layer):
    """A block of a residual network, and what is before and behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2D(3, 8, 3, stride=2, padding=1, bias_attr=False)
        self.norm = nn.BatchNorm2D(8)
        self.second = nn.Conv2D(8, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.out = nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        x = nn.functional.max_pool2d(nn.functional.relu(self.norm(self.first(image))), 3, 2, 1)
        x = nn.functional.relu(x + self.second(x))
        return nn.functional.softmax(self.out(self.pool(x).flatten(1)))


class Encoder(nn.Layer):
    """BERT, tiny: embeddings, a layer of the encoder, a pooler; an argmax too."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30, 8), nn.Embedding(6, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu")
        self.pooler = nn.Linear(8, 4)

    def forward(self, words: Any, places: Any) -> Any:
        x = self.layer(self.words(words) + self.places(places))
        logits = paddle.tanh(self.pooler(x[:, 0]))
        return logits, paddle.argmax(logits, axis=-1)


class Perceptron(nn.Layer):
    """Two products, with activations of Graphcore's own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        hidden = nn.functional.gelu(self.first(x), approximate=True)
        return paddle.flip(nn.functional.swish(self.second(hidden)), axis=[1])


_RANDOM = np.random.default_rng(5)
LAYERS: dict[str, tuple[Any, dict[str, Array]]] = {
    "perceptron": (Perceptron, {"x": _RANDOM.normal(size=(4, 6)).astype(np.float32)}),
    "residual": (Residual, {"image": _RANDOM.normal(size=(2, 3, 16, 16)).astype(np.float32)}),
    "encoder": (
        Encoder,
        {"words": _RANDOM.integers(0, 30, (2, 6)), "places": np.tile(np.arange(6), (2, 1))},
    ),
}


@pytest.fixture(scope="module", params=LAYERS)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Array], list[Array], ExportReport, ExportReport]:
    """(folder, feeds, what Paddle gives, the report, that of ``standard_only``) of a layer."""
    paddle.disable_static()
    make, feeds = LAYERS[request.param]
    folder = tmp_path_factory.mktemp(str(request.param))
    paddle.seed(3)
    layer = make()
    spec = [paddle.static.InputSpec([None, *a.shape[1:]], a.dtype.name, n) for n, a in
            feeds.items()]  # fmt: skip
    batch = len(next(iter(feeds.values())))
    names = ["first", "second"][: 2 if request.param == "encoder" else 1]
    common: dict[str, Any] = {"input_spec": spec, "batch_size": batch, "output_names": names}
    own = paddle_ipu.export(layer, folder / "own.onnx", **common)
    standard = paddle_ipu.export(
        layer, folder / "standard.onnx", standard_only=True, external_data_from=0, **common
    )
    assert layer.training
    layer.eval()
    results = layer(*(paddle.to_tensor(array) for array in feeds.values()))
    results = results if isinstance(results, (list, tuple)) else [results]
    return folder, feeds, [result.numpy() for result in results], own, standard


Exported = tuple[Path, dict[str, Array], list[Array], ExportReport, ExportReport]


def _close(got: Array, expected: Array) -> None:
    assert got.shape == expected.shape
    error = np.linalg.norm((got.astype(np.float64) - expected).ravel())
    assert error <= RELATIVE * np.linalg.norm(expected.astype(np.float64).ravel())


def _by_popart(path: Path, feeds: dict[str, Array], names: list[str]) -> list[Array]:
    session = popart.InferenceSession(
        str(path),
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in names}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    narrow = {n: a.astype(session.getInfo(n).data_type_lcase()) for n, a in feeds.items()}
    session.run(popart.PyStepIO(narrow, arrays))
    return [arrays[name] for name in names]


def test_the_file_runs_in_popart(exported: Exported) -> None:
    folder, feeds, expected, report, _ = exported
    names = [output.name for output in report.outputs]
    for got, wanted in zip(_by_popart(folder / "own.onnx", feeds, names), expected, strict=True):
        _close(got, wanted)
    assert [value.name for value in report.inputs] == list(feeds)
    assert report.portable and report.data is None


def test_the_standard_file_runs_in_onnxruntime(exported: Exported) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, feeds, expected, _, report = exported
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(folder / "standard.onnx"), options, providers=["CPUExecutionProvider"]
    )
    assert [item.name for item in session.get_inputs()] == list(feeds)
    for got, wanted in zip(session.run(None, feeds), expected, strict=True):
        assert got.dtype == wanted.dtype
        _close(got, wanted)
    assert report.not_standard == []
    data = folder / "standard.onnx.data"
    assert report.data == (data if data.exists() else None)
    # Only the convolutions have a weight of a kilobyte.
    assert data.exists() == ("image" in feeds)


def test_the_report_says_what_keeps_other_runtimes_off(exported: Exported) -> None:
    folder, _, _, own, standard = exported
    used = {node.op_type for node in onnx.load(str(folder / "own.onnx")).graph.node
            if node.domain == "ai.graphcore"}  # fmt: skip
    assert {name.removeprefix("ai.graphcore.") for name in own.not_standard} == used
    assert "written: " in str(own) and "Graphcore's SDK: yes" in str(own)
    if used:
        assert "other ONNX runtimes: no, they lack ai.graphcore." in str(own)
    assert str(standard).endswith("other ONNX runtimes: yes, every operator is ONNX's own")


# -- static programs ------------------------------------------------------------------------------


@pytest.mark.usefixtures("static_mode")
@pytest.mark.parametrize("standard", [False, True])
def test_a_program_of_graphcores_operators_only(standard: bool, tmp_path: Path) -> None:
    main_program = paddle.static.Program()
    with paddle.static.program_guard(main_program):
        x = paddle.static.data("x", [2, 3], "float32")
        y = paddle.flip(x, [-1])
        report = paddle_ipu.export(
            main_program, tmp_path / "m.onnx", [x], [y], output_names=["y"], standard_only=standard
        )
    assert ("ai.graphcore.Reverse" in report.operators) is not standard
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    (got,) = _by_popart(tmp_path / "m.onnx", {"x": array}, ["y"])
    np.testing.assert_array_equal(got, array[:, ::-1])


def _ranked(x: Any, table: Any) -> list[Any]:
    """A loss, orders, running results and scatters, none of which PopART has with ONNX's names."""
    label = paddle.argmax(x, axis=1, keepdim=True)
    looked_up = paddle.matmul(x, table)
    added = paddle.put_along_axis(x, label, x[:, :1], 1, reduce="add")
    return [
        paddle.nn.functional.cross_entropy(looked_up, label),
        paddle.argsort(looked_up, axis=1, descending=True),
        *paddle.cummax(x, axis=1),
        paddle.cumprod(x, dim=1),
        paddle.median(looked_up, axis=1),
        added,
        paddle.bitwise_and(label, paddle.full([1], 2, "int64")),
    ]


@pytest.mark.usefixtures("static_mode")
def test_operators_that_onnx_got_later(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        x = paddle.static.data("x", [4, 6], "float32")
        # The numbers of a row are far enough from each other for rounding to leave their order.
        scales = np.random.default_rng(3).permutation(np.linspace(-1, 1, 512, dtype=np.float32))
        rank_one = paddle.nn.initializer.Assign(np.tile(scales, (6, 1)))
        table = paddle.create_parameter([6, 512], "float32", default_initializer=rank_one)
        results = _ranked(x, table)
    executor, feed = paddle.static.Executor(paddle.CPUPlace()), {"x": rows(4)["x"][:, :6]}
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(startup)
        expected = executor.run(program, feed=feed, fetch_list=results)
        report = paddle_ipu.export(
            program, tmp_path / "m.onnx", ["x"], results, standard_only=True, external_data_from=0,
            output_names=[f"out{at}" for at in range(len(results))],
        )  # fmt: skip
    assert report.opset == 20 and not report.portable and ", of ONNX's set 20" in str(report)
    # The conversion to the later set took the weights along, and to their file.
    assert report.weights == 6 * 512 * 4
    assert (tmp_path / "m.onnx.data").stat().st_size == report.weights
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(
        str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]
    )
    for got, wanted in zip(session.run(None, feed), expected, strict=True):
        assert got.dtype == wanted.dtype
        _close(got, wanted)


@pytest.mark.usefixtures("static_mode")
def test_a_trained_program_is_written_with_the_weights_of_the_device(tmp_path: Path) -> None:
    both = pair(mlp(lambda rate: paddle.optimizer.SGD(rate)))
    both.on_ipu(rows(4))  # the scope does not have these weights
    built = both.built
    report = paddle_ipu.export(
        built.main, tmp_path / "m.onnx", ["x"], [built.values["logits"]], scope=both.ipu,
        output_names=["y"], batch_size=np.int64(4),
    )  # fmt: skip
    w0, w1 = (read(both.ipu, name) for name in built.parameters if ".w_" in name)
    b0, b1 = (read(both.ipu, name) for name in built.parameters if ".b_" in name)
    x = rows(4, 1)["x"]
    (got,) = _by_popart(tmp_path / "m.onnx", {"x": x}, ["y"])
    _close(got, np.tanh(x @ w0 + b0) @ w1 + b1)
    assert [str(value) for value in report.outputs] == [f"y: float32{list(got.shape)}"]


class Recurrent(nn.Layer):  # type: ignore[misc]
    """What Paddle saves without the value of its dropout state; a result that it is fed."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, direction="bidirect")
        self.frozen = nn.Dropout(0.5)
        self.frozen.eval()

    def forward(self, x: Any) -> Any:
        return self.frozen(self.lstm(x)[0]), x


def test_a_layer_of_lstm_that_gives_its_input_too(tmp_path: Path) -> None:
    layer, path = Recurrent(), tmp_path / "m.onnx"
    specification = paddle.static.InputSpec([2, 5, 4], "float32", "x")
    report = paddle_ipu.export(layer, path, input_spec=[specification], standard_only=True)
    names = [tensor.name for tensor in report.outputs]
    if paddle.__version__.startswith("2."):
        # It saves each result under a name of its own.
        assert len({"x", *names}) == 3
    else:
        assert names == ["fetch_name_0", "x.output"]
    assert layer.training and layer.lstm.training and not layer.frozen.training
    x = np.random.default_rng(1).standard_normal((2, 5, 4)).astype("float32")
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    out, same = session.run(None, {"x": x})
    layer.eval()
    np.testing.assert_allclose(out, layer(paddle.to_tensor(x))[0].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(same, x)


@pytest.mark.usefixtures("static_mode")
def test_a_fetch_that_is_asked_for_twice(program: tuple[Any, Any], tmp_path: Path) -> None:
    fetches = [program[1], program[1]]
    report = paddle_ipu.export(
        program[0], tmp_path / "m.onnx", ["x"], fetches, output_names=["a", "b"]
    )
    assert [tensor.name for tensor in report.outputs] == ["a", "b"]
    report = paddle_ipu.export(program[0], tmp_path / "m.onnx", ["x"], fetches)
    assert len({tensor.name for tensor in report.outputs}) == 2


def test_a_gradient_is_no_output(tmp_path: Path) -> None:
    built = mlp(lambda rate: paddle.optimizer.SGD(rate))
    gradient = f"Gradient___{built.parameters[0]}"
    with pytest.raises(FetchError, match=f"{gradient}' is a gradient; what is written"):
        paddle_ipu.export(
            built.main, tmp_path / "m.onnx", built.feeds, [gradient], scope=initialised(built),
            ipu_strategy=strategy(is_training=True, micro_batch_size=4),
        )  # fmt: skip


@pytest.mark.usefixtures("static_mode")
def test_a_saved_model_is_exported_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main_program, startup):
        x = paddle.static.data("x", [-1, 4], "float32")
        y = paddle.nn.functional.relu(paddle.nn.Linear(4, 2)(x))
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": rows(3)["x"][:, :4]}
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(startup)
        (expected,) = executor.run(main_program, feed=feed, fetch_list=[y])
        paddle.static.save_inference_model(
            str(tmp_path / "model"), [x], [y], executor, program=main_program
        )
    file, npz = str(tmp_path / "m.onnx"), str(tmp_path / "x.npz")
    assert main(["export", str(tmp_path / "model"), file, "--batch-size", "3"]) == 0
    printed = capsys.readouterr().out
    assert "  input   x: float32[3, 4]" in printed and "runtimes: yes" in printed
    np.savez(npz, **feed)
    assert main(["run", file]) == 0
    name = capsys.readouterr().out.splitlines()[1].split()[1].rstrip(":")
    assert main(["run", file, "--inputs", npz, "--outputs", str(tmp_path / "y.npz")]) == 0
    _close(np.load(tmp_path / "y.npz")[name], expected)

    # What does not fit ends with a line each.
    for arrays, wrong in (
        ({"z": feed["x"]}, "the model takes x, the file holds z"),
        ({"x": feed["x"][:2]}, "input x is float32[2, 4], expected float32[3, 4]"),
        ({"x": feed["x"].astype(int)}, "input x is int64[3, 4], expected float32[3, 4]"),
        ({"x": np.array([None])}, "Object arrays cannot be loaded"),
    ):
        np.savez(npz, **arrays)
        assert main(["run", file, "--inputs", npz]) == 1
        assert wrong in capsys.readouterr().err
    assert main(["run", file, "--inputs", file]) == 1
    assert "--inputs takes an .npz file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["run", str(tmp_path / "none.onnx")])
    Path(npz).write_bytes(b"no zip")
    assert main(["run", file, "--inputs", npz]) in (1, 3)
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(tmp_path / "none"), file])
    assert "none" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "no" / "m.onnx")]) == 3
    assert "cannot be written: there is no folder" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "model"), file, "--batch-size", "0"]) == 1
    assert "batch_size is 0, expected an integer from 1 on" in capsys.readouterr().err


# -- bad input ------------------------------------------------------------------------------------


@pytest.fixture
def program() -> Iterator[tuple[Any, Any]]:
    """(a program of one product, its result); Erfinv has no operator in ONNX."""
    paddle.enable_static()
    main_program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main_program, startup):
        x = paddle.static.data("x", [2, 4], "float32")
        out = paddle.erfinv(paddle.tanh(x))
    yield main_program, out
    paddle.disable_static()


def test_what_onnx_has_no_operator_for(program: tuple[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    report = paddle_ipu.export(program[0], path, ["x"], [program[1]])
    assert not report.portable
    assert report.not_standard == ["ai.paddle_ipu.ErfInv"]
    path.unlink()
    with pytest.raises(NotSupported, match=r"no operators for ai\.paddle_ipu\.ErfInv.*erfinv"):
        paddle_ipu.export(program[0], path, ["x"], [program[1]], standard_only=True)
    assert list(tmp_path.iterdir()) == []


def _asked(**changed: Any) -> dict[str, Any]:
    return {"feed_list": ["x"], "fetch_list": None} | changed


BAD: dict[str, tuple[dict[str, Any], type[PaddleIpuError], str]] = {
    "no fetches": ({}, InvalidProgramError, "needs feed_list and fetch_list"),
    "a spec": ({"input_spec": []}, InvalidProgramError, "needs feed_list|input_spec is for layers"),
    "an unknown feed": (
        _asked(feed_list=["z"]),
        FeedError,
        "names 'z', which .* does not declare: it declares 'x'",
    ),
    "no feed": (_asked(feed_list=[]), FeedError, "reads 'x', which feed_list does not name"),
    "no fetch": (_asked(fetch_list=[]), FetchError, "fetch_list is empty; name what the model"),
    "a name": (_asked(feed_list="x"), InvalidProgramError, "lists? of names or variables, got"),
    "names": (_asked(output_names=["a", "b"]), InvalidProgramError, "expected 1 different names"),
    "no name": (_asked(output_names=[""]), InvalidProgramError, "expected 1 different names"),
    "an input's name": (_asked(output_names=["x"]), InvalidProgramError, "none of the inputs'"),
    "a batch": (
        _asked(batch_size=0),
        InvalidProgramError,
        "batch_size is 0, expected an integer from 1 on",
    ),
    "a batch that is true": (
        _asked(batch_size=True),
        InvalidProgramError,
        "batch_size is True, expected an integer",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_asked_for_wrongly(program: tuple[Any, Any], tmp_path: Path, case: str) -> None:
    arguments, error, message = BAD[case]
    if arguments.get("fetch_list", 0) is None:
        arguments = arguments | {"fetch_list": [program[1]]}
    with pytest.raises(error, match=message):
        paddle_ipu.export(program[0], tmp_path / "m.onnx", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_two_sizes_of_a_batch(program: tuple[Any, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="either ipu_strategy, .*or batch_size"):
        paddle_ipu.export(
            program[0], tmp_path / "m.onnx", ["x"], [program[1]], batch_size=2,
            ipu_strategy=paddle.static.IpuStrategy(),
        )  # fmt: skip


@pytest.mark.parametrize("source", [3, None, {"a": 1}])
def test_what_is_no_program(source: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="export takes a paddle.static.Program, a layer"):
        paddle_ipu.export(source, tmp_path / "m.onnx")


def test_a_layer_without_its_inputs(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidProgramError, match="(?s)paddle.jit.save cannot save.* input_spec says"
    ):
        paddle_ipu.export(Perceptron(), tmp_path / "m.onnx")


def test_places_that_cannot_be_written(
    program: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFileError, match="is a folder; give the name of the .onnx file"):
        paddle_ipu.export(program[0], tmp_path, ["x"], [program[1]])
    with pytest.raises(ModelFileError, match="there is no folder"):
        paddle_ipu.export(program[0], tmp_path / "none" / "m.onnx", ["x"], [program[1]])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ir, "save", full)
    with pytest.raises(ModelFileError, match=r"cannot be written: No space left.*another place"):
        paddle_ipu.export(program[0], tmp_path / "m.onnx", ["x"], [program[1]])
    assert list(tmp_path.iterdir()) == []


def test_weights_of_the_model_before_do_not_stay(tmp_path: Path) -> None:
    target, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    paddle.disable_static()
    common: dict[str, Any] = {
        "input_spec": [paddle.static.InputSpec([1, 3, 16, 16], "float32", "image")]
    }
    paddle_ipu.export(Residual(), target, external_data_from=0, **common)
    assert data.exists()
    paddle_ipu.export(Residual(), target, **common)
    assert list(tmp_path.iterdir()) == [target]
    # A file of that name that no model there reads may be anybody's.
    data.write_bytes(b"mine")
    paddle_ipu.export(Residual(), target, **common)
    assert data.read_bytes() == b"mine"
    target.write_bytes(b"no model")
    paddle_ipu.export(Residual(), target, **common)
    assert data.read_bytes() == b"mine"


def test_a_damaged_saved_model(tmp_path: Path) -> None:
    (tmp_path / "model.pdmodel").write_bytes(b"\x80\x04junk")
    with pytest.raises(ModelFileError, match=r"model\.pdmodel"):
        paddle_ipu.export(tmp_path / "model", tmp_path / "m.onnx")


def test_an_operator_without_a_translator(
    program: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_translators(monkeypatch, "tanh")
    with pytest.raises(UnsupportedOpError, match="tanh"):
        paddle_ipu.export(program[0], tmp_path / "m.onnx", ["x"], [program[1]])


def test_a_dump_that_cannot_be_written(tmp_path: Path) -> None:
    paddle.enable_static()
    place = str(tmp_path / "none" / "m.onnx")
    with pytest.raises(OptionError, match=r"cannot be written to .*onnx_dump_path"):
        pair(mlp(None), {"onnx_dump_path": place}, is_training=False)
