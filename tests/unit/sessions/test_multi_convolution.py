"""ai.graphcore's MultiConv: several convolutions of one call."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, infer, run

Array = np.ndarray[Any, Any]


def convolved(
    x: Array, w: Array, strides: Any, dilations: Any, in_dilations: Any, pads: Any, out_pads: Any
) -> Array:
    """A convolution of two spatial axes, element by element."""
    n, c, *spatial = x.shape
    wide = [d * (size - 1) + 1 for size, d in zip(spatial, in_dilations, strict=True)]
    data = np.zeros((n, c, wide[0] + pads[0] + pads[2], wide[1] + pads[1] + pads[3]))
    data[
        :,
        :,
        pads[0] : pads[0] + wide[0] : in_dilations[0],
        pads[1] : pads[1] + wide[1] : in_dilations[1],
    ] = x
    extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    sizes = [(data.shape[2 + a] - extent[a]) // strides[a] + 1 for a in (0, 1)]
    group = c // w.shape[1]
    out = np.zeros((n, w.shape[0], *sizes))
    for m, i, j in itertools.product(range(w.shape[0]), range(sizes[0]), range(sizes[1])):
        first = m // (w.shape[0] // group) * w.shape[1]
        part = data[
            :,
            first : first + w.shape[1],
            i * strides[0] : i * strides[0] + extent[0] : dilations[0],
            j * strides[1] : j * strides[1] + extent[1] : dilations[1],
        ]
        out[:, m, i, j] = (part * w[m]).sum((1, 2, 3))
    return np.pad(out, [(0, 0), (0, 0), (out_pads[0], out_pads[2]), (out_pads[1], out_pads[3])])


def test_two_convolutions_of_different_geometry() -> None:
    random = np.random.default_rng(0)
    feeds = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in {
            "x": (2, 4, 5, 6), "w": (6, 2, 3, 2), "b": (6,), "y": (1, 3, 4, 4), "v": (2, 3, 2, 2),
        }.items()
    }  # fmt: skip
    make = builder()
    x, w, b, y, v = (
        make.addInputTensor("FLOAT", list(array.shape), name) for name, array in feeds.items()
    )
    geometry = {
        "dilations": [[1, 2], [1, 1]],
        "inDilations": [[1, 1], [2, 1]],
        "pads": [[1, 0, 1, 2], [0, 0, 0, 0]],
        "outPads": [[0, 0, 0, 0], [1, 0, 0, 2]],
        "strides": [[2, 1], [1, 2]],
    }
    names = make.aiGraphcore.multiconv(
        [[x, w, b], [y, v]], **geometry, planType="parallel", availableMemoryProportions=[0.5, 0.5]
    )
    got = run(infer(make.model, dict.fromkeys(names, "All")), feeds)
    order = ("strides", "dilations", "inDilations", "pads", "outPads")
    for at, (data, weights) in enumerate((("x", "w"), ("y", "v"))):
        wanted = convolved(feeds[data], feeds[weights], *(geometry[name][at] for name in order))
        if at == 0:
            wanted = wanted + feeds["b"][:, None, None]
        assert make.getTensorShape(names[at]) == list(wanted.shape)
        np.testing.assert_allclose(got[names[at]], wanted, rtol=1e-4, atol=1e-5)


def test_without_lists_a_convolution_is_plain() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 1, 4], "x")
    w = make.addInitializedInputTensor(np.array([[[1, -1]]], np.float32), "w")
    (y,) = make.aiGraphcore.multiconv([[x, w]])
    loss = make.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        make.model,
        popart.DataFlow(1, [y, "Gradient___w"], popart.AnchorReturnType("All")),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, False)}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    got = run(session, {"x": np.array([[[1, 2, 4, 7]]], np.float32)})
    np.testing.assert_allclose(got[y], [[[-1, -2, -3]]])
    np.testing.assert_allclose(got["Gradient___w"], [[[7, 13]]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g, i: g.multiconv([], debugContext="pair"),
            "^MultiConvOp 'pair' has no input tensors. Provide at least one set of inputs$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"]], [i["x"]]]),
            "^Each convolution of MultiConvOp '' must have at least two inputs - data and weights$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"], i["b"], i["b"]]]),
            "^Each convolution of MultiConvOp '' can have at most three inputs - data, weights, "
            "and "
            "bias$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"]]], dilations=[[1, 1], [2, 2]]),
            r"^For MultiConvOp '', number of dilations parameter sets \(2\) does not match the "
            r"number of input sets \(1\)$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"]]], pads=[[1, 1]]),
            r"^Padding vector \(length 2\) does not have 2 values for each spatial dimension 2$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"]]] * 2, inDilations=[[1, 1], [2, 2, 2]]),
            "^Length of inDilations vector 3 != number of spatial dimensions 2$",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["three"]]]),
            r"weights \[1 3 1 1\] do not fit the 4 channels",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["w"], i["b"]]]),
            r"the bias must have shape \[2\], got",
        ),
        (
            lambda g, i: g.multiconv([[i["x"], i["large"]]]),
            r"^Window parameter values combine to give invalid spatial output shape: \[-2 -2\]. Op",
        ),
    ],
)
def test_convolutions_that_do_not_fit(call: Any, message: str) -> None:
    make = builder()
    shapes = {
        "x": [1, 4, 3, 3], "w": [2, 4, 1, 1], "b": [3], "three": [1, 3, 1, 1],
        "large": [1, 4, 6, 6],
    }  # fmt: skip
    ids = {name: make.addInputTensor("FLOAT", shape, name) for name, shape in shapes.items()}
    with pytest.raises(popart_exception, match=message):
        call(make.aiGraphcore, ids)


def test_the_arguments_are_those_of_popart() -> None:
    names = list(inspect.signature(popart.AiGraphcoreOpset1.multiconv).parameters)
    assert names[1:] == [
        "args", "dilations", "inDilations", "pads", "outPads", "strides",
        "availableMemoryProportions", "partialsTypes", "planType", "perConvReservedTiles",
        "cycleBackOff", "enableConvDithering", "debugContext",
    ]  # fmt: skip
