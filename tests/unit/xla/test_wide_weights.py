"""Half weights that no run changes are float32 on the device; nobody outside sees it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.operating_system import processors
from paddle_ipu.xla.kernels import library
from tests.unit.xla.inference_sessions import chosen, run, session_of

Array = np.ndarray[Any, Any]

ROWS, DEPTH, COLUMNS = 128, 256, 256


class Program:
    """Rows of a table times a matrix, plus a vector; everything is of one half type."""

    def __init__(self, dtype: Any, fetched: bool = False, rows: int = ROWS) -> None:
        random = np.random.default_rng(0)
        builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        onnx = builder.aiOnnx
        self.ids = random.integers(0, 50, rows).astype(np.int32)
        self.x = builder.addInputTensor(popart.TensorInfo("INT32", [rows]))
        shapes = {"table": (50, DEPTH), "matrix": (DEPTH, COLUMNS), "vector": (COLUMNS,)}
        self.arrays = {n: random.uniform(-1, 1, s).astype(dtype) for n, s in shapes.items()}
        self.names = {
            name: builder.addInitializedInputTensor(array, name)
            for name, array in self.arrays.items()
        }
        found = onnx.gather([self.names["table"], self.x])
        product = onnx.matmul([found, self.names["matrix"]])
        self.result = str(onnx.cast([onnx.add([product, self.names["vector"]])], "FLOAT"))
        weights = [self.names["matrix"]] if fetched else []
        self.session = session_of(builder, [self.result, *weights], weights, constantWeights=False)
        self.session.prepareDevice()
        self.session.weightsFromHost()

    @property
    def dtypes(self) -> dict[str, str]:
        """Of the weights on the device."""
        on_device = self.session._executable.weights
        return {name: on_device[own].dtype.name for name, own in self.names.items()}

    def run(self) -> Array:
        return run(self.session, {self.x: self.ids})[self.result]

    def expected(self) -> Array:
        """Computed in float64, each result rounded."""
        table, matrix, vector = (a.astype(np.float64) for a in self.arrays.values())
        dtype = self.arrays["table"].dtype
        product = (table[self.ids] @ matrix).astype(np.float32).astype(dtype)
        return (product.astype(np.float32) + vector).astype(dtype).astype(np.float32)


def _check(program: Program) -> None:
    found, expected = program.run(), program.expected()
    # Sums in float32 may round to the neighbour.
    assert np.mean(found != expected) < 0.02
    assert np.abs(found - expected).max() <= 2 * np.abs(expected).max() * float(
        ml_dtypes.finfo(program.arrays["table"].dtype).eps
    )


@pytest.mark.parametrize("has_kernels", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_results_and_weights_are_those_of_the_model(
    dtype: Any, has_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "features", frozenset)
    if not has_kernels:
        monkeypatch.setattr(library, "version", lambda: None)
    program = Program(dtype)
    assert program.dtypes == {
        "table": np.dtype(dtype).name,
        "matrix": "float32",
        "vector": "float32",
    }
    _check(program)
    program.arrays = {name: (-array).astype(dtype) for name, array in program.arrays.items()}
    new = {program.names[name]: array for name, array in program.arrays.items()}
    program.session.writeWeights(popart.PyWeightsIO(dict(new)))
    program.session.weightsFromHost()
    _check(program)
    program.session.weightsToHost()
    read = {name: np.empty_like(array) for name, array in new.items()}
    program.session.readWeights(popart.PyWeightsIO(read))
    for name, array in new.items():
        np.testing.assert_array_equal(read[name], array)


def test_a_fetched_weight_stays_as_it_is() -> None:
    program = Program(np.float16, fetched=True)
    assert program.dtypes["matrix"] == "float16"
    _check(program)


@pytest.mark.parametrize(("rows", "dtype"), [(128, "bfloat16"), (127, "float32")])
def test_what_the_processor_multiplies_in_bfloat16_stays_so(
    rows: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "features", lambda: {"avx512_bf16"})
    program = Program(ml_dtypes.bfloat16, rows=rows)
    assert program.dtypes == {"table": "bfloat16", "matrix": dtype, "vector": "float32"}
    _check(program)


def test_weights_of_another_type_are_not_shared() -> None:
    """On the device both are float32; the half program's are numbers of half."""
    half, single = Program(np.float16), Program(np.float32)
    half.session.shareWeights(
        single.session, {half.names[name]: single.names[name] for name in half.names}
    )
    _check(half)


@pytest.mark.parametrize("setting", ["partialsTypeMatMuls", "convolutionOptions"])
def test_products_that_are_summed_in_half_have_no_kernel(setting: str) -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, DEPTH]))
    image = builder.addInputTensor(popart.TensorInfo("FLOAT16", [1, 16, 6, 6]))
    matrix = builder.addInitializedInputTensor(np.ones([DEPTH, COLUMNS], np.float16))
    kernel = builder.addInitializedInputTensor(np.ones([16, 16, 3, 3], np.float16))
    results = [onnx.matmul([x, matrix]), onnx.conv([image, kernel])]
    value: Any = "half" if setting == "partialsTypeMatMuls" else {"partialsType": "half"}
    session = session_of(builder, results, **{setting: value})
    fused = [product.kernel for product in session._executable.program.layouts.fused]
    assert fused == (
        []
        if library.version() is None
        else [kernel if setting == "partialsTypeMatMuls" else matrix]
    )


def test_a_matrix_that_is_read_turned_stays_bfloat16_where_it_is_multiplied_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processors, "features", lambda: {"avx512_bf16"})
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor(popart.TensorInfo("BFLOAT16", [ROWS, DEPTH]))
    table = builder.addInitializedInputTensor(np.ones([50, DEPTH], ml_dtypes.bfloat16))
    turned = builder.aiOnnx.transpose([table], [1, 0])
    session = session_of(builder, [builder.aiOnnx.matmul([x, turned])])
    assert not session._executable.program.layouts.widened


def test_weights_that_a_branch_reads_are_widened() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    values = np.linspace(-1, 1, 8, dtype=np.float16)
    weight = builder.addInitializedInputTensor(values)
    result = chosen(
        builder, True, lambda onnx: onnx.mul([weight, weight]), lambda onnx: onnx.neg([weight])
    )
    session = session_of(builder, [result])
    assert session._executable.program.layouts.widened == {weight}
    session.prepareDevice()
    session.weightsFromHost()
    found = run(session, {})[result]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, values * values)


def test_kernels_of_convolutions_are_turned_and_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "version", lambda: None)
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    image = builder.addInputTensor(popart.TensorInfo("FLOAT16", [1, 4, 3, 3]))
    values = np.random.default_rng(0).uniform(-1, 1, (6, 4, 3, 2)).astype(np.float16)
    kernel = builder.addInitializedInputTensor(values, "kernel")
    result = str(builder.aiOnnx.conv([image, kernel]))
    session = session_of(builder, [result], constantWeights=False)
    session.prepareDevice()
    session.weightsFromHost()
    on_device = session._executable.weights[kernel]
    assert (on_device.shape, on_device.dtype) == ((3, 2, 4, 6), np.float32)
    data = np.random.default_rng(1).uniform(-1, 1, (1, 4, 3, 3)).astype(np.float16)
    found = run(session, {image: data})[result]
    wide, windows = values.astype(np.float64), data.astype(np.float64)
    for column in range(2):
        expected = np.einsum("chw,mchw->m", windows[0, :, :, column : column + 2], wide)
        np.testing.assert_allclose(found[0, :, 0, column], expected, rtol=2e-3, atol=1e-3)
    session.weightsToHost()
    read = np.empty_like(values)
    session.readWeights(popart.PyWeightsIO({kernel: read}))
    np.testing.assert_array_equal(read, values)


def test_replicas_share_what_is_widened() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, 8]))
    values = np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype(np.float16)
    matrix = builder.addInitializedInputTensor(values, "matrix")
    result = str(builder.aiOnnx.matmul([x, matrix]))
    session = session_of(
        builder, [result], replicas=2, enableReplicatedGraphs=True, replicatedGraphCount=2
    )
    session.prepareDevice()
    session.weightsFromHost()
    assert session._executable.weights[matrix].dtype == np.float32
    data = np.random.default_rng(1).uniform(-1, 1, (2, 4, 8)).astype(np.float16)
    found = run(session, {x: data})[result]
    expected = data.astype(np.float64) @ values.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)
