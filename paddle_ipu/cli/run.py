"""``paddle-ipu run``: an ONNX file, forward, on the IPU Model."""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddle_ipu import popart
from paddle_ipu.cli.scripts import UNREADABLE
from paddle_ipu.cli.targets import ExistingFile
from paddle_ipu.errors import PaddleIpuError, popart_exception

NAME = "run"
SUMMARY = "run an ONNX file on the IPU Model"
EXIT_CODES = """\
Inputs are the arrays of an .npz file by name: numpy.savez("x.npz", x=...). Numbers of 64 bits are
narrowed to an IPU's 32. Without --inputs the inputs and outputs are listed.

examples:
  paddle-ipu run resnet.onnx
  paddle-ipu run resnet.onnx --inputs x.npz --outputs y.npz

exit codes:
  0  success
  1  the model cannot run, or the inputs do not fit it
  2  wrong arguments, or a missing file
  3  a file cannot be read or written
"""


class _Unfit(Exception):  # noqa: N818 - it ends this command only
    """The inputs do not fit the model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add = parser.add_argument
    add("model", metavar="FILE.onnx", action=ExistingFile, help="opset 6 to 11")
    add(
        "--inputs", metavar="X.npz", action=ExistingFile, help="arrays by the names of the inputs"
    )  # fmt: skip
    add("--outputs", metavar="Y.npz", help="where to put the results")


def run(arguments: argparse.Namespace) -> int:
    """Runs the model and prints its results; returns the exit code."""
    try:
        session, inputs, outputs = _load(arguments.model)
        if arguments.inputs is None:
            for kind, names in (("input", inputs), ("output", outputs)):
                for name in names:
                    print(f"{kind:<7} {_described(session, name)}")
            return 0
        results = _results(session, inputs, _arrays(arguments.inputs))
        if arguments.outputs is not None:
            _save(arguments.outputs, results)
        for name in outputs:
            print(f"{_described(session, name)}\n{results[name]}")
    except (OSError, zipfile.BadZipFile) as error:
        print(f"paddle-ipu run: {error}", file=sys.stderr)
        return UNREADABLE
    except (PaddleIpuError, popart_exception, _Unfit) as error:
        print(f"paddle-ipu run: {error}", file=sys.stderr)
        return 1
    return 0


def _load(path: str) -> tuple[Any, list[str], list[str]]:
    """(the session, not compiled; names of the inputs; names of the outputs)."""
    from paddle_ipu.popart.graph_types import read_model

    # PopART's error of a file that cannot be read does not say why.
    with open(path, "rb"):
        pass
    graph = read_model(path).graph
    outputs = [str(value.name) for value in graph.outputs]
    inputs = [str(v.name) for v in graph.inputs if v.name not in graph.initializers]
    options = popart.SessionOptions()
    options.enableSupportedDataTypeCasting = True
    session = popart.InferenceSession(
        path,
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in outputs}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": 1}),
        userOptions=options,
    )
    return session, inputs, outputs


def _described(session: popart.InferenceSession, name: str) -> str:
    info = session.getInfo(name)
    return f"{name}: {info.data_type_lcase()}{list(info.shape())}"


def _arrays(path: str) -> dict[str, np.ndarray[Any, Any]]:
    if Path(path).suffix != ".npz":
        raise _Unfit(f"--inputs takes an .npz file, got {path}: numpy.savez(file, name=array, ...)")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ValueError as error:
        raise _Unfit(f"{path}: {error}") from error


def _save(path: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes an .npz file; names may be any, those of ``numpy.savez``'s parameters too."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _results(
    session: popart.InferenceSession, inputs: list[str], arrays: dict[str, np.ndarray[Any, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    if sorted(arrays) != sorted(inputs):
        raise _Unfit(
            f"the model takes {', '.join(inputs) or 'nothing'}, the file holds "
            f"{', '.join(arrays) or 'nothing'}"
        )
    feeds = {}
    for name, array in arrays.items():
        info = session.getInfo(name)
        dtype = np.dtype(info.data_type_lcase())
        if list(array.shape) != list(info.shape()) or array.dtype.kind != dtype.kind:
            raise _Unfit(
                f"input {name} is {array.dtype.name}{list(array.shape)}, expected "
                f"{_described(session, name).partition(': ')[2]}"
            )
        if dtype.kind in "iu" and array.size:
            known = np.iinfo(dtype)
            if array.min() < known.min or known.max < array.max():
                raise _Unfit(f"input {name} holds numbers beyond {dtype.name}")
        feeds[name] = np.ascontiguousarray(array.astype(dtype))
    session.prepareDevice()
    session.weightsFromHost()
    results: dict[str, np.ndarray[Any, Any]] = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, results))
    return results
