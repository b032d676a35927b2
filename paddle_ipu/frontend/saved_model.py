"""Reads saved inference models of every format, from disk and from memory, as data.

    format                     program                   parameters
    Paddle 2.x                 name.pdmodel              name.pdiparams
    Paddle 1.x                 folder/__model__          folder/__params__, or one file each
    Paddle 3.x                 name.json                 name.pdiparams
    Paddle 3.x, separated      folder/__model__.json     one file each

No code in a file is run and no file outside of the model's folder is read. The only pickle that is
opened is the one with the names of parameters, by an unpickler that can make plain values only.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import ANNOTATIONS
from paddle_ipu.errors import InvalidProgramError, ModelFileError, NotSupported
from paddle_ipu.frontend import (
    check_program_desc,
    desc_message,
    parameter_files,
    pir,
    pir_json,
    program_desc,
    structured_names,
)
from paddle_ipu.frontend.legacy_operator import DTYPES
from paddle_ipu.frontend.parameter_files import Array
from paddle_ipu.frontend.program_types import ProgramDesc

_JSON = re.compile(rb"\s*\{\s*[\"}]")
_PICKLE = b"\x80"
_SUFFIXES = (".pdmodel", ".json", ".pdiparams")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's two parts are.

    Attributes:
        program: the program's file, or its bytes.
        parameters: the combined file, its bytes, or the folder that holds one file each.
    """

    program: Path | bytes
    parameters: Path | bytes

    @property
    def where(self) -> str:
        """What messages call the program."""
        return "the model in memory" if isinstance(self.program, bytes) else str(self.program)


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A feed or fetch of a saved program.

    Attributes:
        name: what ``compile`` and ``Executor.run`` call it.
        shape: -1 for a dimension known only at run time.
        dtype: Paddle's name, for instance ``float32``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def has_name(self) -> bool:
        """True, as a ``paddle.pir.Value`` answers."""
        return True


class SavedProgram:
    """A saved program that this Paddle has no program class for; the IPU runs it.

    ``IpuCompiledProgram`` takes it. Its parameters are in the Scope it was loaded into.

    Attributes:
        feed_names: in the order they were saved.
        fetch_targets: what it computes, in the order they were saved.
        feeds: what it is fed, in the same order as `feed_names`.
        output_names: what the file calls its results, which Paddle's predictors go by.
        source: the file it came from.
        description: a ``framework_pb2.ProgramDesc`` or a ``pir_json.SavedPirProgram``.
        reason: why this Paddle has no program of its own for it.
    """

    def __init__(
        self,
        source: str,
        description: Any,
        reason: str = "",
        structured: Mapping[str, str] | None = None,
    ) -> None:
        self.source = source
        self.reason = reason
        self._structured = structured
        self.description = description
        try:
            graph = self.graph()
        except InvalidProgramError as error:
            raise ModelFileError(f"{source}: {error}") from error
        except NotSupported as error:
            raise NotSupported(f"{source}: {error}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # What Paddle itself made is of the kind it must be, and its readers trust that.
            raise ModelFileError(
                f"{source}: an operator has an attribute of the wrong kind or out of range "
                f"({type(error).__name__}: {error}). The file is damaged; copy it anew or save "
                "the model again. If Paddle runs it, the fault is paddle_ipu's: report it."
            ) from error
        values = {str(value.name): value for value in graph.inputs}
        for node in graph:
            values.update((str(value.name), value) for value in node.outputs)
        feeds, fetches = _signature(description, graph)
        for name in (*feeds, *fetches):
            if name not in values:
                raise ModelFileError(
                    f"{source}: feeds or fetches {name!r}, which no operator of the program has. "
                    "The file is damaged; save the model again."
                )
        self.feed_names = list(feeds)
        self.feeds = [_tensor(name, values[name]) for name in feeds]
        self.fetch_targets = [_tensor(name, values[name]) for name in fetches]
        self.output_names = _output_names(graph) or list(fetches)

    def graph(self) -> ir.Graph:
        """A new dialect graph of the program; what a pass changes in it stays in it."""
        if isinstance(self.description, pir_json.SavedPirProgram):
            return pir.read(self.description)
        return program_desc.read(self.description, structured=self._structured)

    def __repr__(self) -> str:
        return (
            f"SavedProgram({self.source!r}, feeds={self.feed_names}, "
            f"fetches={[target.name for target in self.fetch_targets]})"
        )


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A model as it was read and checked.

    Attributes:
        files: where it came from.
        content: the program's bytes.
        description: a ``framework_pb2.ProgramDesc`` or a ``pir_json.SavedPirProgram``.
        parameters: read-only arrays by name, of files mapped into memory.
    """

    files: ModelFiles
    content: bytes
    description: Any
    parameters: Mapping[str, Array]

    @property
    def is_pir(self) -> bool:
        """Whether it is a PIR program, Paddle 3.x's."""
        return isinstance(self.description, pir_json.SavedPirProgram)

    @property
    def is_annotated(self) -> bool:
        """Whether operators of a ProgramDesc say where or how the IPU runs them."""
        return not self.is_pir and any(
            attribute.name in ANNOTATIONS
            and not (attribute.name.startswith("ipu_") and attribute.i < 0)
            for block in self.description.blocks
            for op in block.ops
            for attribute in op.attrs
        )

    def program(self, reason: str = "") -> SavedProgram:
        """The program for the IPU.

        Args:
            reason: why this Paddle has no program of its own for it.

        Raises:
            NotSupported: operators that the dialect has no form for.
        """
        names = structured_names.read(self.files.parameters)
        return SavedProgram(self.files.where, self.description, reason, names)


def prefix_of(path: str | os.PathLike[str]) -> Path:
    """A model's path without suffix, or its folder, from one of its files or that path itself."""
    found = Path(path)
    return found.with_suffix("") if found.suffix in _SUFFIXES else found


def saved_program(path: str | os.PathLike[str]) -> SavedProgram:
    """The program of a saved model: a prefix, one of its files, or a folder.

    Raises:
        ModelFileError: it is missing or damaged.
    """
    return read(locate(prefix_of(path))).program()


def locate(
    path_prefix: str | os.PathLike[str] | None,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    *,
    prefer: Sequence[str] = (".pdmodel", ".json"),
    is_folder: bool = False,
) -> ModelFiles:
    """Finds a model's parts as ``paddle.static.load_inference_model`` documents it.

    Args:
        path_prefix: the path without suffix; or a folder, with `is_folder`; or None, with both
            parts as bytes.
        model_filename: the program's file in the folder, ``__model__`` where None.
        params_filename: the file of all parameters in the folder; None for one file each.
        prefer: suffixes of programs, the one to take first where both are there.
        is_folder: `path_prefix` is a folder.

    Raises:
        ModelFileError: there is no such file or folder.
        TypeError: parts from memory are no bytes.
    """
    if path_prefix is None:
        for name, part in (
            ("model_filename", model_filename),
            ("params_filename", params_filename),
        ):
            if not isinstance(part, bytes):
                raise TypeError(
                    f"{name} must be the content as bytes where path_prefix is None, got "
                    f"{type(part).__name__}."
                )
        assert isinstance(model_filename, bytes)
        assert isinstance(params_filename, bytes)
        return ModelFiles(model_filename, params_filename)
    path = Path(os.path.abspath(path_prefix))
    if is_folder:
        return _in_folder(path, _name(model_filename), _name(params_filename), prefer)
    found = [_with_suffix(path, suffix) for suffix in prefer]
    program = next((each for each in found if each.exists()), None)
    if program is not None:
        return ModelFiles(program, _with_suffix(path, ".pdiparams"))
    if path.is_dir():
        if any((path / name).exists() for name in ("__model__", "__model__.json")):
            return _in_folder(path, None, None, prefer)
        raise ModelFileError(
            f"{path} is a folder without __model__. Give the path of the model without its "
            f"suffix{_models_in(path)}, or name the files with model_filename and params_filename."
        )
    hint = f" Leave the suffix {path.suffix} out." if path.suffix in _SUFFIXES else ""
    if not path.parent.is_dir():
        raise ModelFileError(f"there is no folder {path.parent}; path_prefix is {path}.{hint}")
    raise ModelFileError(
        f"there is neither {' nor '.join(map(str, found))}{_models_in(path.parent)}."
        f"{hint or ' Check the path: it is that of the files without their suffix.'}"
    )


def _name(given: str | bytes | None) -> str | None:
    if isinstance(given, bytes):
        raise TypeError("model_filename and params_filename are names where path_prefix is a path.")
    return given


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix) if path.name else path / suffix


def _models_in(folder: Path) -> str:
    names = sorted({p.stem for p in folder.iterdir() if p.suffix in (".pdmodel", ".json")})
    return f"; found there: {', '.join(names[:5])}" if names else ""


def _in_folder(
    folder: Path, model: str | None, parameters: str | None, prefer: Sequence[str]
) -> ModelFiles:
    if not folder.is_dir():
        raise ModelFileError(
            f"there is no folder {folder}: with model_filename or params_filename, path_prefix is "
            "the folder that holds them."
        )
    if model is None:
        names = ["__model__", "__model__.json"]
    else:
        names = [model + suffix for suffix in prefer] + [model]
    program = next((folder / name for name in names if (folder / name).exists()), None)
    if program is None:
        raise ModelFileError(
            f"{folder} holds no {' and no '.join(names)}. Name the program's file with "
            "model_filename."
        )
    if not parameters:
        return ModelFiles(program, folder)
    with_suffix = folder / (parameters + ".pdiparams")
    return ModelFiles(program, with_suffix if with_suffix.exists() else folder / parameters)


def read(files: ModelFiles) -> SavedModel:
    """Reads and checks a model.

    Raises:
        ModelFileError: a part is missing, truncated, damaged, newer than is known, of another
            format than its suffix says, or contradicts the other part; the message names the file
            and, where there is one, the operator or parameter.
        NotSupported: a PIR program with types the dialect cannot hold.
    """
    content = _program_bytes(files)
    description: ProgramDesc | pir_json.SavedPirProgram
    if _is_json(files, content):
        description = pir_json.parse(content, files.where)
        declared = _declared_by_pir(description)
    else:
        description = check_program_desc.read_checked(content, files.where)
        declared = _declared_by_desc(description)
    parameters = _parameters(files, declared)
    return SavedModel(files, content, description, parameters)


def _program_bytes(files: ModelFiles) -> bytes:
    if isinstance(files.program, bytes):
        content = files.program
    else:
        try:
            if files.program.is_fifo() or files.program.is_char_device():
                # Reading would not end.
                raise OSError(errno.EINVAL, "no ordinary file")
            content = files.program.read_bytes()
        except OSError as error:
            raise ModelFileError(
                f"{files.program}: the program cannot be read: {error.strerror or error}. "
                "path_prefix is the model's path without its suffix."
            ) from error
    if not content:
        raise ModelFileError(f"{files.where}: empty. Copy the file anew or save the model again.")
    return content


def _is_json(files: ModelFiles, content: bytes) -> bool:
    is_json = _JSON.match(content) is not None
    suffix = "" if isinstance(files.program, bytes) else files.program.suffix
    if suffix == ".pdmodel" and is_json:
        raise ModelFileError(
            f"{files.where}: holds JSON, where a .pdmodel file is a ProgramDesc. Rename it to "
            ".json if Paddle 3.x saved it."
        )
    if suffix == ".json" and not is_json:
        raise ModelFileError(
            f"{files.where}: no JSON object. Rename it to .pdmodel if it is a ProgramDesc "
            "(Paddle 2.x); else the file is damaged: copy it anew or save the model again."
        )
    return is_json


# -- parameters -----------------------------------------------------------------------------------


def _declared_by_pir(program: pir_json.SavedPirProgram) -> dict[str, tuple[list[int], str]]:
    declared = {}
    for op in program.global_block().ops:
        attributes = op.attrs()
        name = None
        if not any(attributes.get("persistable", ())):
            continue
        if op.name() == "builtin.parameter":
            name = attributes["parameter_name"]
        elif op.name() == "pd_op.data":
            name = attributes["name"]
        if name is not None:
            declared[str(name)] = (op.result(0).shape, op.result(0).dtype)
    return declared


def _declared_by_desc(desc: ProgramDesc) -> dict[str, tuple[list[int], str]]:
    declared = {}
    for block in desc.blocks:
        for var in block.vars:
            if var.persistable and var.type.type not in check_program_desc.WITHOUT_FILE:
                tensor = desc_message.dense_tensor(var.type)
                dtype = DTYPES.get(tensor.data_type, f"dtype number {tensor.data_type} ")
                declared[var.name] = (list(tensor.dims), dtype)
    return declared


def _parameters(
    files: ModelFiles, declared: Mapping[str, tuple[Sequence[int], str]]
) -> dict[str, Array]:
    if not declared:
        # Paddle writes no file for a program without parameters.
        return {}
    where = files.parameters
    if isinstance(where, Path) and where.is_dir():
        if isinstance(files.program, Path) and where != files.program.parent:
            raise ModelFileError(f"{where}: a folder, expected the file that holds all parameters.")
        arrays = parameter_files.read_separate(where, declared)
    else:
        _refuse_pickle(where)
        arrays = parameter_files.read_combined(where, declared)
    shown = parameter_files.IN_MEMORY if isinstance(where, bytes) else str(where)
    parameter_files.check_shapes(arrays, declared, shown)
    return arrays


def _refuse_pickle(where: Path | bytes) -> None:
    """Paddle's other files of parameters are pickles, which can hold code."""
    if isinstance(where, bytes):
        start = where[:2]
    elif where.is_file():
        with where.open("rb") as file:
            start = file.read(2)
    else:
        return
    if start[:1] == _PICKLE and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise ModelFileError(
            f"{parameter_files.IN_MEMORY if isinstance(where, bytes) else where}: a pickle, "
            "such as paddle.save and paddle.static.save write, and no parameters of an inference "
            "model; a pickle can run code, so it is not opened. Save the model with "
            "paddle.static.save_inference_model."
        )


# -- feeds and fetches ----------------------------------------------------------------------------


def _tensor(name: str, value: ir.Value) -> SavedTensor:
    return SavedTensor(name, tuple(dialect.dims_of(value)), dialect.dtype_name(value))


def _output_names(graph: ir.Graph) -> list[str]:
    """The names that PIR's fetch operators have beside those of what they fetch."""
    fetches = [node for node in graph if node.op_type == "fetch" and node.inputs[0] is not None]
    if not all("name" in node.attributes for node in fetches):
        return []
    return [node.attributes["name"].as_string() for node in fetches]


def _signature(
    description: ProgramDesc | pir_json.SavedPirProgram, graph: ir.Graph
) -> tuple[list[str], list[str]]:
    """The names of feeds and fetches, in the order of the file."""
    if not isinstance(description, pir_json.SavedPirProgram):
        return program_desc.signature(description)
    feeds = [str(value.name) for value in graph.inputs if value.meta[dialect.ROLE] == dialect.FEED]
    fetches = [
        str(node.inputs[0].name)
        for node in graph
        if node.op_type == "fetch" and node.inputs[0] is not None
    ]
    return feeds, fetches
