"""Conjugate gradients: a Loop that ends by itself, and a subgraph that it and others Call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from examples.popart.modules import at_least_one, import_popart, parser_of

DESCRIPTION = """\
Solve A x = b for a symmetric positive definite A by conjugate gradients. All of it is one run of
the device: a Loop carries x, the residual and the direction until the residual is small, and
the product with A is a subgraph that the Loop's body Calls, as does the check at the end.
"""

Array = np.ndarray[Any, Any]


def _dot(builder: Any, left: str, right: str) -> str:
    """The scalar product of two ``[n, 1]``, as ``[1, 1]``."""
    onnx = builder.aiOnnxOpset11
    return str(onnx.reducesum([onnx.mul([left, right])], axes=[0, 1], keepdims=1))


def _loop_body(builder: Any, product: Any, matrix: str, tolerance: float) -> Any:
    """One step: (turn, goes on, x, residual, direction, its square) to the same without the turn.

    Its inputs but the first have no type of their own: they have that of what the Loop is given.
    """
    body = builder.createSubgraphBuilder()
    body.setGraphName("conjugate_gradient_step")
    onnx = body.aiOnnxOpset11
    body.addUntypedInputTensor("turn")
    body.addUntypedInputTensor("goes_on")
    x, residual, direction, square = (
        body.addUntypedInputTensor(name) for name in ("x", "residual", "direction", "square")
    )
    (image,) = body.aiGraphcore.call([matrix, direction], 1, product)
    length = onnx.div([square, _dot(body, direction, image)])
    x = onnx.add([x, onnx.mul([length, direction])])
    residual = onnx.sub([residual, onnx.mul([length, image])])
    after = _dot(body, residual, residual)
    direction = onnx.add([residual, onnx.mul([onnx.div([after, square]), direction])])
    limit = onnx.constant(np.full((1, 1), tolerance**2, np.float32))
    goes_on = onnx.reshape([onnx.greater([after, limit]), onnx.constant(np.array([], np.int64))])
    for tensor in (goes_on, x, residual, direction, after):
        body.addOutputTensor(tensor)
    return body


def solve(popart: Any, matrix: Array, right: Array, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """(x, A x) where A x is b up to a residual of norm ``tolerance``.

    Args:
        popart: the module.
        matrix: A, float32 ``[n, n]``, symmetric and positive definite.
        right: b, float32 ``[n, 1]``.
        tolerance: of the residual's norm; the Loop ends after 4 n steps at the latest.

    Returns:
        Both float32 ``[n, 1]``.
    """
    size = len(matrix)
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnxOpset11
    a = builder.addInputTensor("FLOAT", [size, size], "A")
    b = builder.addInputTensor("FLOAT", [size, 1], "b")

    product = builder.createSubgraphBuilder()
    product.setGraphName("product")
    factors = [product.addUntypedInputTensor(name) for name in ("left", "right")]
    product.addOutputTensor(product.aiOnnxOpset11.matmul(factors))

    body = _loop_body(builder, product, a, tolerance)
    start = onnx.constant(np.zeros((size, 1), np.float32), debugContext="start")
    most = onnx.constant(np.array(4 * size, np.int64), debugContext="most")
    goes_on = onnx.constant(np.array(True), debugContext="goes_on")
    x, *_ = onnx.loop([most, goes_on, start, b, b, _dot(builder, b, b)], 4, body)
    (image,) = builder.aiGraphcore.call([a, x], 1, product)
    for tensor in (x, image):
        builder.addOutputTensor(tensor)

    session = popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(
            1, {tensor: popart.AnchorReturnType("All") for tensor in (x, image)}
        ),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(1),
        userOptions=popart.SessionOptions(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({a: matrix, b: right}, anchors))
    return anchors[x], anchors[image]


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    parser = parser_of("examples.popart.solver", DESCRIPTION)
    parser.add_argument("--size", type=at_least_one, default=200, help="rows of A (default: 200)")
    options = parser.parse_args(arguments)
    popart = import_popart(parser, options.module)
    rng = np.random.default_rng(0)
    random = rng.standard_normal((options.size, options.size)) / np.sqrt(options.size)
    matrix = (random @ random.T + np.eye(options.size)).astype(np.float32)
    right = rng.standard_normal((options.size, 1)).astype(np.float32)
    x, image = solve(popart, matrix, right)
    exact = np.linalg.solve(matrix.astype(np.float64), right)
    sys.stdout.write(
        f"{options.size} equations: |A x - b| is {np.linalg.norm(image - right):.1e}, "
        f"|x - exact| {np.linalg.norm(x - exact):.1e}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
