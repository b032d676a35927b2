"""Runs ONNX's node tests and prints what passed, what failed and what is left out, and why.

    python -m tests.operators.onnx_nodes.run [--only PATTERN] [--data FOLDER]

A model passes when every output equals the stored one. One that is left out must not pass: then
the table of reasons is wrong, and that is a failure too.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from paddle_ipu import popart
from paddle_ipu.popart.schema import schema_of
from tests.operators.onnx_nodes.archive import COUNT, fetch
from tests.operators.onnx_nodes.left_out import reason_for

Array = np.ndarray[Any, Any]

RELATIVE, ABSOLUTE = 1e-3, 1e-7
"""ONNX's own tolerances for these models."""


@dataclass(frozen=True)
class Outcome:
    """What became of one model.

    Attributes:
        error: what went wrong, empty if all outputs are as stored.
        written: inputs that the runner wrote into the model, as PopART needs them constant.
    """

    model: str
    error: str
    written: tuple[str, ...] = ()


def tensors(folder: Path, kind: str) -> list[Array]:
    """The stored inputs or outputs of a model, in order."""
    count = len(list(folder.glob(f"{kind}_*.pb")))
    loaded = (onnx.load_tensor(folder / f"{kind}_{index}.pb") for index in range(count))
    return [onnx.numpy_helper.to_array(tensor) for tensor in loaded]


def constant_inputs(model: onnx.ModelProto) -> set[str]:
    """Inputs of the model that PopART takes as constants only, as the shape of a Reshape."""
    opset = next(item.version for item in model.opset_import if item.domain == "")
    found: set[str] = set()
    for node in model.graph.node:
        schema = schema_of(node.domain, node.op_type, opset)
        positions = () if schema is None else schema.constant_inputs
        found.update(node.input[at] for at in positions if at < len(node.input))
    return found - {""}


def on_device(session: Any, name: str, array: Array) -> Array:
    """A feed in the type it has on the device, where 64 bits become 32.

    Raises:
        ValueError: a value that the device's type does not hold.
    """
    narrow = array.astype(session.getInfo(name).data_type_lcase())
    if not np.array_equal(narrow.astype(array.dtype), array) and array.dtype.kind != "f":
        raise ValueError(f"the values of {name} do not fit {narrow.dtype}")
    return narrow


def outputs_of(folder: Path) -> tuple[list[tuple[str, Array, Array]], tuple[str, ...]]:
    """(name, got, expected) of each output of a model, and the inputs written into it."""
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    inputs = [value.name for value in model.graph.input]
    feeds = dict(zip(inputs, tensors(data, "input"), strict=False))
    written = sorted(constant_inputs(model) & set(feeds))
    for name in written:
        model.graph.initializer.append(onnx.numpy_helper.from_array(feeds.pop(name), name))
    names = [value.name for value in model.graph.output]
    session = popart.InferenceSession(
        model.SerializeToString(),
        popart.DataFlow(1, names, popart.AnchorReturnType("All")),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({n: on_device(session, n, a) for n, a in feeds.items()}, arrays))
    expected = tensors(data, "output")
    return [(n, arrays[n], e) for n, e in zip(names, expected, strict=True)], tuple(written)


def difference(name: str, got: Array, expected: Array) -> str:
    """How an output differs from the stored one; empty if it does not."""
    if got.shape != expected.shape:
        return f"{name} has shape {got.shape}, expected {expected.shape}"
    if got.dtype.kind != expected.dtype.kind:
        return f"{name} is {got.dtype}, expected {expected.dtype}"
    if expected.dtype.kind in "biu":
        wrong = int(np.count_nonzero(got != expected))
    else:
        near = np.isclose(got, expected, RELATIVE, ABSOLUTE, equal_nan=True)
        wrong = int(np.count_nonzero(~near))
    return f"{name}: {wrong} of {got.size} elements differ" if wrong else ""


def attempt(folder: Path) -> Outcome:
    """Runs one model; whatever is raised is its error."""
    try:
        outputs, written = outputs_of(folder)
    except Exception as error:
        first = str(error).strip().splitlines() or [""]
        return Outcome(folder.name, f"{type(error).__name__}: {first[0]}")
    wrong = [text for text in (difference(*output) for output in outputs) if text]
    return Outcome(folder.name, "; ".join(wrong), written)


def attempts(models: Path, only: str) -> Iterator[Outcome]:
    """The outcome of each model whose name `only` is found in."""
    for folder in sorted(models.iterdir()):
        if re.search(only, folder.name):
            yield attempt(folder)


def say(line: str) -> None:
    """Writes one line."""
    sys.stdout.write(f"{line}\n")


def report(outcomes: list[Outcome]) -> int:
    """Prints the outcomes by kind; returns how many are not as they should be."""
    wrong = 0
    left_out: dict[str, list[Outcome]] = collections.defaultdict(list)
    passed = written = 0
    for outcome in outcomes:
        reason = reason_for(outcome.model)
        if reason is not None and re.search(reason.error, outcome.error):
            left_out[reason.text].append(outcome)
        elif reason is not None:
            wrong += 1
            became = outcome.error or "it passes"
            say(f"WRONGLY LEFT OUT {outcome.model}: {became}; the table says: {reason.text}")
        elif outcome.error:
            wrong += 1
            say(f"FAILED {outcome.model}: {outcome.error}")
        else:
            passed += 1
            written += bool(outcome.written)
    for told, group in sorted(left_out.items()):
        say(f"left out, {told}:")
        for outcome in group:
            say(f"    {outcome.model}")
    total = sum(map(len, left_out.values()))
    say(
        f"{len(outcomes)} models run, {passed} passed ({written} with inputs written into the "
        f"model, as PopART needs them constant), {wrong} failed, {total} left out"
    )
    return wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m tests.operators.onnx_nodes.run"
    )
    parser.add_argument("--only", default="", help="a pattern that names must hold")
    parser.add_argument("--data", type=Path, default=Path(".cache"), help="where the archive lies")
    given = parser.parse_args()
    models = fetch(given.data)
    found = sum(1 for _ in models.iterdir())
    if found != COUNT:
        say(f"{models} holds {found} models, expected {COUNT}")
        return 1
    return 1 if report(list(attempts(models, given.only))) else 0


if __name__ == "__main__":
    sys.exit(main())
