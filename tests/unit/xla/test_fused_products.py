"""Which products oneDNN takes with what follows them, and that nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.kernels import library
from tests.unit.xla.inference_sessions import chosen, run, session_of

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no oneDNN here: {library.why_not()}"
)

STEPS = {np.float16: 1024, ml_dtypes.bfloat16: 128}
"""Steps from 0 to 1 of weights of half types."""
ROWS, IMAGE, ONE_ROW = (4, 256), (2, 16, 6, 6), (1, 256)


class Program:
    """A PopART program in which each case has weights of its own."""

    def __init__(self) -> None:
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        self.case = ""
        self.feeds: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.inputs = {shape: self._input(shape) for shape in (ROWS, IMAGE, ONE_ROW, (256,))}
        # Of signs and multiples of one step sums are exact: in any order they round to one half.
        self.half, self.half_image = (
            self.onnx.cast([self.onnx.sign([self.inputs[shape]])], "FLOAT16")
            for shape in (ROWS, IMAGE)
        )

    def _input(self, shape: tuple[int, ...]) -> str:
        name = self.builder.addInputTensor(popart.TensorInfo("FLOAT", list(shape)))
        self.feeds[name] = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
        return name

    def weight(self, *shape: int, dtype: type = np.float32, least: float = -1) -> str:
        number = len(self.weights)
        array = np.random.default_rng(number).uniform(least, 1, shape).astype(dtype)
        if dtype in STEPS:
            array = (np.round(STEPS[dtype] * array) / STEPS[dtype]).astype(dtype)
        name = self.builder.addInitializedInputTensor(array, f"{self.case}/{number}")
        self.weights[name] = array
        return name

    def product(self, shape: tuple[int, ...] = ROWS) -> str:
        return self.onnx.matmul([self.inputs[shape], self.weight(256, 256)])

    def convolution(self, *bias: str) -> str:
        return self.onnx.conv([self.inputs[IMAGE], self.weight(16, 16, 3, 3), *bias], pads=[1] * 4)

    def add(self, left: str, right: str) -> str:
        return self.onnx.add([left, right])

    def norm(self, x: str) -> str:
        scale, bias, mean = self.weight(16), self.weight(16), self.weight(16)
        parts = [x, scale, bias, mean, self.weight(16, least=0.5)]
        return str(self.onnx.batchnormalization(parts, num_outputs=1)[0])


Case = Callable[[Program], list[str]]
CASES: dict[str, tuple[Case, list[str]]] = {}


def case(*fused: str) -> Callable[[Case], Case]:
    """Says what is fused in a case: each product's bias, addend and activation."""

    def kept(make: Case) -> Case:
        CASES[make.__name__] = make, list(fused)
        return make

    return kept


@case("bias Relu")
def convolution_with_its_bias(p: Program) -> list[str]:
    return [p.onnx.relu([p.convolution(p.weight(16))])]


@case("bias", "bias addend Relu")
def norms_and_a_shortcut(p: Program) -> list[str]:
    shortcut = p.norm(p.convolution())
    return [p.onnx.relu([p.add(shortcut, p.norm(p.convolution()))])]


@case("bias Relu")
def norm_behind_a_bias(p: Program) -> list[str]:
    bias = p.onnx.reshape([p.weight(16), p.onnx.constant(np.array([16, 1, 1]))])
    return [p.onnx.relu([p.norm(p.add(p.convolution(), bias))])]


@case("bias GeluErf", "bias Gelu")
def gelus(p: Program) -> list[str]:
    sums = [p.add(p.product(), p.weight(256)) for _ in range(2)]
    return [p.builder.customOp(opName="GeluErf", opVersion=1, domain="ai.graphcore",
                               inputs=[sums[0]], attributes={})[0],
            p.graphcore.gelu([sums[1]])]  # fmt: skip


def _hard_swish(p: Program, x: str, slope: float = 1 / 6) -> tuple[str, str]:
    opened = p.onnx.hardsigmoid([x], slope, 0.5)
    return str(p.onnx.mul([opened, x])), str(opened)


@case("bias HardSwish", "HardSwish", "Swish")
def products_times_their_own_sigmoid(p: Program) -> list[str]:
    plain = p.product()
    hard = p.onnx.mul([plain, p.onnx.hardsigmoid([plain], 1 / 6, 0.5)])
    return [_hard_swish(p, p.norm(p.convolution()))[0], hard, p.graphcore.swish([p.product()])]


@case("", "", "")
def sigmoids_that_do_more(p: Program) -> list[str]:
    steep = _hard_swish(p, p.product(), 0.2)[0]
    twice = p.product()
    other = p.onnx.mul([p.onnx.hardsigmoid([twice], 1 / 6, 0.5), p.onnx.tanh([twice])])
    return [steep, *_hard_swish(p, p.product()), other]


@case("bias addend")
def dropout_on_the_way(p: Program) -> list[str]:
    dropped = p.onnx.dropout([p.add(p.product(), p.weight(256))], num_outputs=1)[0]
    return [p.add(p.inputs[ROWS], p.onnx.identity([dropped]))]


@case("addend Relu", "addend Relu")
def what_is_multiplied_is_added(p: Program) -> list[str]:
    return [
        p.onnx.relu([p.add(p.inputs[ROWS], p.product())]),
        p.onnx.relu([p.add(p.convolution(), p.inputs[IMAGE])]),
    ]


@case("addend Relu", "")
def sum_of_two_products(p: Program) -> list[str]:
    return [p.onnx.relu([p.add(p.product(), p.product())])]


@case("bias addend")
def a_bias_an_addend_and_a_third(p: Program) -> list[str]:
    summed = p.add(p.add(p.product(ONE_ROW), p.weight(1, 256)), p.weight(1, 256))
    return [p.add(summed, p.weight(256))]


@case("bias")
def two_biases(p: Program) -> list[str]:
    return [p.onnx.relu([p.add(p.convolution(p.weight(16)), p.weight(16, 1, 1))])]


@case("Relu")
def sum_behind_the_activation(p: Program) -> list[str]:
    return [p.add(p.onnx.relu([p.product()]), p.weight(256))]


@case("")
def product_twice_in_a_sum(p: Program) -> list[str]:
    product = p.product()
    return [p.add(product, product)]


@case("")
def product_that_is_a_result(p: Program) -> list[str]:
    product = p.product()
    return [p.onnx.relu([product]), product]


@case("bias")
def sum_that_is_read_elsewhere(p: Program) -> list[str]:
    summed = p.add(p.product(), p.weight(256))
    return [p.onnx.relu([summed]), p.onnx.neg([summed])]


@case("bias")
def product_that_a_branch_reads(p: Program) -> list[str]:
    found = p.convolution(p.weight(16))
    branch = chosen(p.builder, True, lambda onnx: onnx.neg([found]), lambda onnx: onnx.abs([found]))
    return [p.onnx.relu([found]), branch]


@case("")
def bias_that_the_product_decides(p: Program) -> list[str]:
    product = p.product()
    return [p.add(product, p.onnx.reducemean([product], axes=[0], keepdims=False))]


@case("", "", "")
def sums_of_other_shapes(p: Program) -> list[str]:
    shapes: list[tuple[int, ...]] = [(), (4, 1), (3, 4, 256)]
    return [p.add(p.product(), p.weight(*shape)) for shape in shapes]


@case("")
def half_behind_the_product(p: Program) -> list[str]:
    return [p.onnx.relu([p.onnx.cast([p.product()], "FLOAT16")])]


@case("")
def half_product_alone(p: Program) -> list[str]:
    product = p.onnx.matmul([p.half, p.weight(256, 256, dtype=np.float16)])
    return [p.onnx.relu([p.add(product, p.weight(256, dtype=np.float16))])]


@case("bias")
def half_convolution_with_its_bias(p: Program) -> list[str]:
    kernel, bias = p.weight(16, 16, 3, 3, dtype=np.float16), p.weight(16, dtype=np.float16)
    return [p.onnx.relu([p.onnx.conv([p.half_image, kernel, bias], pads=[1] * 4)])]


@case("", "")
def bfloat16_alone(p: Program) -> list[str]:
    rows, image = (p.onnx.cast([half], "BFLOAT16") for half in (p.half, p.half_image))
    matrix = p.weight(256, 256, dtype=ml_dtypes.bfloat16)
    kernel = p.weight(16, 16, 3, 3, dtype=ml_dtypes.bfloat16)
    results = p.onnx.matmul([rows, matrix]), p.onnx.conv([image, kernel], pads=[1] * 4)
    return [p.onnx.cast([p.onnx.relu([result])], "FLOAT") for result in results]


@case()
def half_product_summed_in_half(p: Program) -> list[str]:
    product = p.onnx.matmul([p.half, p.weight(256, 256, dtype=np.float16)])
    p.builder.setPartialsType(product, "HALF")
    return [product]


@case()
def weight_that_is_read_twice(p: Program) -> list[str]:
    weight = p.weight(256, 256)
    return [p.onnx.matmul([p.onnx.matmul([p.inputs[ROWS], weight]), weight])]


@case()
def weight_that_a_branch_reads(p: Program) -> list[str]:
    weight = p.weight(256, 256)
    branch = chosen(
        p.builder, True, lambda onnx: onnx.neg([weight]), lambda onnx: onnx.abs([weight])
    )
    return [p.onnx.matmul([p.inputs[ROWS], weight]), branch]


@case()
def weight_that_is_a_result(p: Program) -> list[str]:
    weight = p.weight(256, 256)
    return [p.onnx.matmul([p.inputs[ROWS], weight]), weight]


@case()
def no_matrix_of_enough_weights(p: Program) -> list[str]:
    return [
        p.onnx.matmul([p.inputs[ROWS], p.weight(256, 255)]),
        p.onnx.matmul([p.inputs[(256,)], p.weight(256, 256)]),
        p.onnx.matmul([p.inputs[ROWS], p.weight(2, 256, 256)]),
        p.onnx.matmul([p.inputs[ROWS], p.onnx.neg([p.weight(256, 256)])]),
        p.onnx.matmul([p.weight(256, 4), p.inputs[ROWS]]),
    ]


@case()
def convolution_in_one_dimension(p: Program) -> list[str]:
    rows = p.onnx.reshape([p.inputs[IMAGE], p.onnx.constant(np.array([2, 16, 36]))])
    return [p.onnx.relu([p.onnx.conv([rows, p.weight(16, 16, 3)])])]


class Made:
    """All cases in one session, prepared."""

    def __init__(self, replicas: int = 1, **options: Any) -> None:
        self.program = Program()
        self.outputs: dict[str, list[str]] = {}
        for name, (make, _) in CASES.items():
            self.program.case = name
            self.outputs[name] = make(self.program)
        names = [name for own in self.outputs.values() for name in own]
        self.session = session_of(
            self.program.builder, names, self.program.weights, replicas, **options
        )

    @property
    def fused(self) -> Any:
        return self.session._executable.program.layouts.fused

    def run(self) -> dict[str, Array]:
        return run(self.session, self.program.feeds)


@pytest.fixture(scope="module")
def made() -> Made:
    found = Made(constantWeights=False)
    found.session.prepareDevice()
    found.session.weightsFromHost()
    return found


@pytest.fixture(scope="module")
def by_xla() -> Iterator[Made]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "version", lambda: None)
        found = Made(constantWeights=False)
    found.session.prepareDevice()
    found.session.weightsFromHost()
    assert not found.fused
    yield found


@pytest.mark.parametrize("name", CASES)
def test_what_is_fused(made: Made, name: str) -> None:
    found = []
    for product in made.fused:
        if product.kernel.startswith(f"{name}/"):
            spec = product.spec
            words = ["bias"] * spec.has_bias + ["addend"] * spec.has_addend
            found.append(" ".join([*words, library.ACTIVATIONS[spec.activation]]).strip())
    assert sorted(found) == sorted(CASES[name][1])


def _check(made: Made, by_xla: Made) -> None:
    found, expected = made.run(), by_xla.run()
    for name, outputs in made.outputs.items():
        for own, other in zip(outputs, by_xla.outputs[name], strict=True):
            wanted = expected[other].astype(np.float64)
            difference = np.linalg.norm(found[own] - wanted)
            assert difference <= 1e-6 * np.linalg.norm(wanted), name


def test_results_are_those_of_xla_and_follow_new_weights(made: Made, by_xla: Made) -> None:
    _check(made, by_xla)
    new = {name: np.asarray(2 * array) for name, array in made.program.weights.items()}
    for one in (made, by_xla):
        one.session.writeWeights(popart.PyWeightsIO(new))
        one.session.weightsFromHost()
    _check(made, by_xla)
    made.session.weightsToHost()
    read = {name: np.empty_like(array) for name, array in new.items()}
    made.session.readWeights(popart.PyWeightsIO(read))
    for name, array in new.items():
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize(
    "options",
    [
        {"enableFloatingPointChecks": True},
        {"replicas": 2, "enableReplicatedGraphs": True, "replicatedGraphCount": 2},
    ],
    ids=str,
)
def test_checks_and_replicas_have_xlas_own(options: dict[str, Any]) -> None:
    assert not Made(**options).fused


@pytest.mark.parametrize(
    ("row", "lanes", "fused"), [(2816, 8, 1), (3072, 8, 0), (3072, 0, 0), (3072, 16, 1)]
)
def test_xla_has_products_of_long_rows_where_onednn_has_avx2_only(
    row: int, lanes: int, fused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "lanes", lambda: lanes)
    builder = popart.Builder(opsets={"ai.onnx": 11})
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, row]))
    weights = builder.addInitializedInputTensor(np.ones([row, 32], np.float32))
    session = session_of(builder, [builder.aiOnnx.matmul([x, weights])])
    assert len(session._executable.program.layouts.fused) == fused
