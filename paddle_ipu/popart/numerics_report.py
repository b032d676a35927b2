"""``popart.NumericsReport``: how far apart two trainings of the same weights have moved them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.graph_types import read_model

Array = np.ndarray[Any, Any]
_LEAST = np.float32(1e-8)
"""Keeps the relative error of weights that did not move finite."""


class NumericsReport:
    """Compares the update of weights in models of two programs: ``A1 - A0`` and ``B1 - B0``.

    The relative error of a weight is ``|dA - dB|^2 / (|dA| |dB| + 1e-8)``, in float32. Integers
    are not compared.

    Args:
        A0: the file of program A's model before.
        A1: the same after its steps.
        B0: the file of program B's model before.
        B1: the same after its steps.

    Raises:
        popart_exception: a file is no valid model, or the models have other initializers than A0,
            by number, name, shape or type; weights of float16 or float64.
        OSError: a file cannot be read.
    """

    def __init__(self, A0: str, A1: str, B0: str, B1: str) -> None:
        self._norms: dict[str, tuple[float, float, float]] = {}
        first, *others = (_weights_of(path) for path in (A0, A1, B0, B1))
        for path, weights in zip((A1, B0, B1), others, strict=True):
            _check_same(A0, first, path, weights)
        for name, start in first.items():
            if start.dtype.kind in "iub":
                continue
            if start.dtype != np.float32:
                raise popart_exception(
                    f"Create report for floating-point type {start.dtype} of '{name}': weights of "
                    "float32 are compared. Convert the models with popart.GraphTransformer"
                )
            ends, starts, other_ends = (weights[name] for weights in others)
            of_a, of_b = ends - start, other_ends - starts
            self._norms[name] = (_squares(of_a), _squares(of_b), _squares(of_a - of_b))

    def getRelativeErrors(self) -> dict[str, float]:
        """The relative error of each weight, by its id."""
        return {name: _relative(*norms) for name, norms in self._norms.items()}

    def report(self, id: str) -> str:
        """One weight's relative error, and how far each program moved it.

        Raises:
            popart_exception: the models have no such weight of floating-point numbers.
        """
        if id not in self._norms:
            raise popart_exception(
                f"No report available for {id}. There are {', '.join(self._norms) or 'none'}"
            )
        of_a, of_b, _ = norms = self._norms[id]
        return (
            f"|dA - dB|^2 / (|dA||dB| + 1e-8)  = {_relative(*norms):.16g}  and  |dA||dB| = "
            f"{(of_a * of_b) ** 0.5:.16g}  and  |dA| = {of_a**0.5:.16g}  and  |dB| = "
            f"{of_b**0.5:.16g}"
        )

    def fullReport(self) -> str:
        """The reports of all weights, by their ids' order."""
        return "".join(f"\n{name} : \n{self.report(name)}" for name in sorted(self._norms))


def _weights_of(path: str) -> dict[str, Array]:
    if not Path(path).is_file():
        raise popart_exception(f"{path} is not a regular file. Give the file of an ONNX model")
    initializers = read_model(path).graph.initializers
    return {
        str(name): value.const_value.numpy()
        for name, value in initializers.items()
        if value.const_value is not None
    }


def _check_same(
    path: str, weights: dict[str, Array], other_path: str, others: dict[str, Array]
) -> None:
    if len(weights) != len(others):
        raise popart_exception(
            f"GraphProtos have different number of initializers: {path} has {len(weights)}, "
            f"{other_path} {len(others)}"
        )
    if missing := sorted(weights.keys() - others.keys()):
        raise popart_exception(
            f"Tensor names do not correspond between TensorProtos: {other_path} lacks "
            f"'{missing[0]}' of {path}"
        )
    for name, array in weights.items():
        other = others[name]
        if (array.shape, array.dtype) != (other.shape, other.dtype):
            raise popart_exception(
                f"TensorProto infos differ: '{name}' is {array.dtype} {list(array.shape)} in "
                f"{path}, {other.dtype} {list(other.shape)} in {other_path}"
            )


def _squares(array: Array) -> float:
    return float(np.sum(np.square(array), dtype=np.float32))


def _relative(of_a: float, of_b: float, between: float) -> float:
    return float(between / (np.sqrt(np.float32(of_a) * np.float32(of_b)) + _LEAST))
