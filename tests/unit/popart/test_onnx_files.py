"""ONNX files from elsewhere: opsets, external data, and what cannot be run, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart import graph_types

W = np.array([1.0, 2.0], np.float32)


def _model(
    location: str | None = None, op_type: str = "Add", domain: str = "", opset: int = 11,
    length: int = 2,
) -> onnx.ModelProto:  # fmt: skip
    """``y = x + w``; w in the file `location`, or in the model."""
    weight = numpy_helper.from_array(W, "w")
    if location is not None:
        weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[length])
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("length", str(4 * length))):
            weight.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [length]) for n in "xy")
    node = helper.make_node(op_type, ["x", "w"], ["y"], domain=domain)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    graph = helper.make_graph([node], "graph", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=opsets, ir_version=6)


def _session(path: Path) -> Any:
    return popart.InferenceSession(
        str(path),
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({}),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model's weights; beside it one that no model in it may read."""
    W.tofile(tmp_path / "secret")
    made = tmp_path / "model"
    made.mkdir()
    W.tofile(made / "weights")
    (made / "link").symlink_to(tmp_path / "secret")
    return made


def test_weights_in_a_file_beside_the_model(folder: Path) -> None:
    onnx.save(_model("weights"), folder / "m.onnx")
    session = _session(folder / "m.onnx")
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones(2, np.float32)}, arrays))
    np.testing.assert_array_equal(arrays["y"], W + 1)
    builder = popart.Builder(str(folder / "m.onnx"))
    assert builder.getInputTensorIds() == ["x"]


def test_weights_too_many_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protobuf and ONNX's checker take 2 GiB; here as much as 4 KiB stands for that."""
    monkeypatch.setattr(graph_types, "INLINE_LIMIT", 4096)
    seen: list[int] = []
    check = onnx.checker.check_model
    monkeypatch.setattr(
        onnx.checker, "check_model", lambda m: (seen.append(m.ByteSize()), check(m))
    )
    weight = np.arange(2000, dtype=np.float32)
    builder = popart.Builder(opsets={"ai.onnx": 11})
    x = builder.addInputTensor("FLOAT", [2000], "x")
    y = builder.aiOnnx.add([x, builder.addInitializedInputTensor(weight, "w")])
    builder.addOutputTensor(y)
    builder.saveModelProto(str(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx.data").stat().st_size >= weight.nbytes
    assert (tmp_path / "m.onnx").stat().st_size < 4096
    session = popart.InferenceSession(
        str(tmp_path / "m.onnx"),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": weight}, arrays))
    np.testing.assert_array_equal(arrays[y], 2 * weight)
    assert max(seen) < 4096
    session.modelToHost(str(tmp_path / "again.onnx"))
    assert (tmp_path / "again.onnx.data").is_file()
    kept = onnx.load(tmp_path / "again.onnx").graph.initializer[0]
    np.testing.assert_array_equal(numpy_helper.to_array(kept), weight)
    # The builder keeps its own weights.
    kept = onnx.load_model_from_string(builder.getModelProto()).graph.initializer[0]
    np.testing.assert_array_equal(numpy_helper.to_array(kept), weight)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("missing", "should be stored in .*missing, but"),
        ("../secret", "'../secret' points outside the directory"),
        ("below/../../secret", "points outside the directory"),
        ("link", "link, but it is a symbolic link"),
    ],
)
def test_weights_that_are_not_in_the_models_folder(
    folder: Path, location: str, message: str
) -> None:
    path = folder / "m.onnx"
    path.write_bytes(_model(location).SerializeToString())
    with pytest.raises(popart_exception, match=f"Invalid ONNX Model : {path}: .*{message}"):
        _session(path)


def test_weights_by_an_absolute_path(folder: Path) -> None:
    path = folder / "m.onnx"
    path.write_bytes(_model(str(folder / "weights")).SerializeToString())
    assert popart.Builder(str(path)).getInputTensorIds() == ["x"]
    path.write_bytes(_model(str(folder.parent / "secret")).SerializeToString())
    with pytest.raises(popart_exception, match="should be a relative path, but it is an absolute"):
        _session(path)


def test_bytes_have_no_folder_for_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for location in ("weights", str(folder / "weights")):
        with pytest.raises(popart_exception, match="which this process did not write; a model"):
            popart.Builder(_model(location).SerializeToString())


@pytest.mark.parametrize("is_absolute", [True, False])
def test_weights_that_a_builder_saved_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_absolute: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "weights") if is_absolute else "weights"
    builder = popart.Builder(opsets={"ai.onnx": 11})
    x = builder.addInputTensor("FLOAT", [2], "x")
    y = builder.aiOnnx.add([x, builder.addInitializedInputTensor(W, "w")])
    builder.saveInitializersExternally(["w"], file)
    (tmp_path / "elsewhere").mkdir()
    builder.saveModelProto(str(tmp_path / "elsewhere" / "m.onnx"))
    for model in (builder.getModelProto(), builder.model, str(tmp_path / "elsewhere" / "m.onnx")):
        session = popart.InferenceSession(
            model,
            popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
            popart.DeviceManager().createIpuModelDevice({}),
        )
        session.prepareDevice()
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ones(2, np.float32)}, arrays))
        np.testing.assert_array_equal(arrays[y], W + 1)


def test_weights_that_are_too_few(folder: Path) -> None:
    path = folder / "m.onnx"
    path.write_bytes(_model("weights", length=5).SerializeToString())
    with pytest.raises(
        popart_exception, match=r"length \(20\) exceeds available data \(8|8 bytes, expected 20"
    ):
        _session(path)


@pytest.mark.parametrize(
    ("array", "field"),
    [
        (np.float32([[0.1, -0.0], [np.inf, 1e-40]]), "float_data"),
        (np.arange(1000, dtype=np.float32), "float_data"),
        (np.int32([-1, 0, 2**31 - 1]), "int32_data"),
        (np.int64([-(2**63), 7]), "int64_data"),
        (np.asarray([True, False]), "raw_data"),
    ],
)
def test_weights_are_written_where_popart_has_them(tmp_path: Path, array: Any, field: str) -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11})
    builder.addInitializedInputTensor(array, "w")
    builder.saveModelProto(str(tmp_path / "m.onnx"))
    for data in (builder.getModelProto(), (tmp_path / "m.onnx").read_bytes()):
        (tensor,) = onnx.load_model_from_string(data).graph.initializer
        assert len(getattr(tensor, field)) == (array.nbytes if field == "raw_data" else array.size)
        kept = numpy_helper.to_array(tensor)
        assert (kept.dtype, kept.shape, kept.tobytes()) == (
            array.dtype,
            array.shape,
            array.tobytes(),
        )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_halves_are_written_in_pairs_and_read_in_either_form(size: int) -> None:
    array = np.linspace(-3, 2, size).astype(np.float16)
    builder = popart.Builder(opsets={"ai.onnx": 11})
    weight = builder.addInitializedInputTensor(array, "w")
    constant = builder.aiOnnx.constant(array)
    total = builder.aiOnnx.add([weight, constant])
    proto = onnx.load_model_from_string(builder.getModelProto())
    tensors = [*proto.graph.initializer, proto.graph.node[0].attribute[0].t]
    for tensor in tensors:
        pairs = np.asarray(tensor.int32_data, np.int32)
        np.testing.assert_array_equal(pairs.view(np.float16)[:size], array)
        assert not tensor.raw_data and pairs.size == (size + 1) // 2
    plain = popart.GraphTransformer(proto.SerializeToString()).getModelProto()
    for tensor in onnx.load_model_from_string(plain).graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)
    read = []
    for _ in range(2):
        session = popart.InferenceSession(
            proto.SerializeToString(),
            popart.DataFlow(1, [total], popart.AnchorReturnType("All")),
            popart.DeviceManager().createIpuModelDevice({}),
        )
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({}, anchors))
        read.append(anchors[total])
        for tensor in tensors:
            tensor.int32_data[:] = array.view(np.uint16).tolist()  # as ONNX has them
    np.testing.assert_array_equal(read, [array + array] * 2)


@pytest.mark.parametrize("opset", range(6, 12))
def test_opsets_that_popart_reads(tmp_path: Path, opset: int) -> None:
    onnx.save(_model(opset=opset), tmp_path / "m.onnx")
    assert _session(tmp_path / "m.onnx").getInfo("y").shape() == [2]


@pytest.mark.parametrize("opset", [5, 12, 17])
def test_opsets_that_it_does_not(tmp_path: Path, opset: int) -> None:
    onnx.save(_model(opset=opset), tmp_path / "m.onnx")
    with pytest.raises(popart_exception, match=f"version {opset}, .*version_converter"):
        _session(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            _model().SerializeToString()[:-5],
            r"^Failed to parse ModelProto from file .*m.onnx\nError parsing",
        ),
        (b"\x80\x04junk" * 9, r"^Failed to parse ModelProto from file .*m.onnx\nError parsing"),
        (b"", "Invalid ONNX Model : .*m.onnx: .*ir_version"),
        (_model(op_type="Foo").SerializeToString(), "No Op registered for Foo"),
        (_model(op_type="Foo", domain="mine").SerializeToString(), "No class for mine.Foo:1"),
    ],
)
def test_damaged_files_and_unknown_operators(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(popart_exception, match=message):
        _session(path).prepareDevice()
