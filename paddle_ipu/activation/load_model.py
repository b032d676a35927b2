"""``paddle.static.load_inference_model`` for every format on every Paddle, damaged files included.

Each file is read and checked in Python first; Paddle's C++ sees only what passed. Then the program
is loaded as what this Paddle can run best:

    saved as      on Paddle 2.6          on Paddle 3.x
    ProgramDesc   Paddle's own loader    Paddle's translation to PIR, or a SavedProgram
    PIR           a SavedProgram         Paddle's own loader, or a SavedProgram if it is newer
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import paddle
from paddle.base import core

from paddle_ipu.dialect.paddle_objects import Program, Value
from paddle_ipu.dialect.value_names import NAME_PREFIX
from paddle_ipu.errors import ModelFileError, NotSupported
from paddle_ipu.frontend import expand_fused, pir, program_desc, saved_model
from paddle_ipu.frontend.parameter_files import Array
from paddle_ipu.frontend.pir_json import NEWEST_VERSION, VERSIONS
from paddle_ipu.frontend.saved_model import ModelFiles, SavedModel
from paddle_ipu.ops.translate import check_supported
from paddle_ipu.runtime import scope as scopes

if TYPE_CHECKING:
    from paddle.static import Executor

PathPrefix = str | os.PathLike[str] | None

_ARGUMENTS = ("model_filename", "params_filename")
_DEPRECATED = ("pserver_endpoints",)

_PADDLES_ERRORS = (
    RuntimeError, ValueError, TypeError, LookupError, OSError, MemoryError, SystemError
)  # fmt: skip
"""What errors of Paddle's C++ become in Python."""


def load(
    original: Callable[..., Any],
    path_prefix: PathPrefix,
    executor: Executor,
    options: Mapping[str, Any],
) -> list[Any]:
    """[program, names of feeds, fetch targets]; parameters go to the global scope.

    Args:
        original: Paddle's own function.
        path_prefix: the path without suffix; or a folder, where `options` has a name; or None,
            where `options` has both parts as bytes.
        executor: what Paddle's own function loads with.
        options: ``model_filename`` and ``params_filename``.

    Raises:
        ModelFileError: a part is missing, truncated, damaged, newer than is known, or contradicts
            the other; nothing was loaded.
        NotSupported: this Paddle cannot run the program, and the IPU lacks an operator too.
        TypeError: an option Paddle does not have.
    """
    unknown = [name for name in options if name not in (*_ARGUMENTS, *_DEPRECATED)]
    if unknown:
        raise TypeError(
            f"load_inference_model has no argument {', '.join(map(repr, unknown))}; it takes "
            f"{' and '.join(_ARGUMENTS)}."
        )
    if paddle.in_dynamic_mode():
        # Paddle says itself that this is for static mode.
        return list(original(path_prefix, executor, **options))
    here_pir = _in_pir_mode()
    files = saved_model.locate(
        path_prefix,
        options.get("model_filename"),
        options.get("params_filename"),
        prefer=(".json", ".pdmodel") if here_pir else (".pdmodel", ".json"),
        is_folder=path_prefix is not None and bool(options),
    )
    try:
        model = saved_model.read(files)
    except NotSupported as unsupported:
        if not here_pir or path_prefix is None:
            raise
        # It may be a sound program with what only Paddle itself can run.
        try:
            return _load_with_paddle(original, path_prefix, executor, options, files)
        except ModelFileError as error:
            raise ModelFileError(f"{unsupported} {error}") from unsupported
    if model.is_pir and here_pir and _is_newer(model):
        return _for_ipu(model, "a newer Paddle saved it, with attributes this one does not read")
    if model.is_pir and here_pir and path_prefix is None:
        # Paddle's own function takes a path here, whatever its documentation says.
        return _as_pir(_deserialized(model), model)
    if model.is_pir == here_pir:
        return _load_with_paddle(original, path_prefix, executor, options, files)
    if not model.is_pir and here_pir:
        return _from_program_desc(model)
    return _for_ipu(model, "this Paddle has no PIR programs")


def _in_pir_mode() -> bool:
    in_pir_mode = getattr(paddle.framework, "in_pir_mode", None)
    return in_pir_mode is not None and bool(in_pir_mode())


def _is_newer(model: SavedModel) -> bool:
    """Whether a PIR program is of a newer version than this Paddle writes."""
    here = VERSIONS.get(".".join(paddle.__version__.split(".")[:2]), NEWEST_VERSION)
    return int(model.description.version) > here


def _load_with_paddle(
    original: Callable[..., Any],
    path_prefix: PathPrefix,
    executor: Executor,
    options: Mapping[str, Any],
    files: ModelFiles,
) -> list[Any]:
    if not options and isinstance(files.program, Path):
        folder = Path(os.path.abspath(str(path_prefix)))
        if files.program.parent == folder:
            # Paddle looks for __model__ only where an option is given.
            path_prefix, options = str(folder), {"model_filename": files.program.name}
    try:
        return list(original(path_prefix, executor, **options))
    except _PADDLES_ERRORS as error:
        raise ModelFileError(
            f"{files.where}: Paddle's own reader refuses it: {_last_line(error)} The file is "
            "damaged or belongs to another version; save the model again."
        ) from error


def _last_line(error: BaseException) -> str:
    """What Paddle says after its C++ call stack."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


# -- ProgramDesc on Paddle 3.x, PIR on Paddle 2.6 -------------------------------------------------


def _from_program_desc(model: SavedModel) -> list[Any]:
    if model.is_annotated:
        # The translation drops where an operator belongs.
        return _for_ipu(model, "its operators are placed on IPUs, which a translation would lose")
    try:
        program = _translated(model)
    except _TranslationError as error:
        return _for_ipu(model, f"Paddle cannot translate it to PIR ({error})")
    lacking = _lacks(lambda: pir.read(program))
    if lacking and not _lacks(lambda: model.program().graph()):
        # The dialect has plain forms where the translation keeps old operators.
        return _for_ipu(model, f"of its translation to PIR, {lacking}")
    return _as_pir(program, model)


def _lacks(read: Callable[[], ir.Graph]) -> str:
    """What keeps a program off the IPU, "" where every operator has a translator."""
    try:
        check_supported(read(), custom_ops=("fetch",))
    except NotSupported as error:
        return str(error)
    return ""


def _for_ipu(model: SavedModel, reason: str) -> list[Any]:
    """A program for the IPU alone, its parameters in the global scope."""
    program = model.program(reason)
    fill_scope(model.parameters)
    return [program, list(program.feed_names), list(program.fetch_targets)]


class _TranslationError(Exception):
    """Paddle knows no translation of an operator, or the program is not what was saved."""


def _translated(model: SavedModel) -> Any:
    """Paddle's own translation, with feeds as ``paddle.static.data`` makes them."""
    plain = expand_fused.expanded(model.description, for_translation=True)
    serialised = plain.SerializeToString()
    try:
        program = _translation_with_feeds(serialised)
    except _PADDLES_ERRORS as error:
        raise _TranslationError(_last_line(error)) from error
    feeds, fetches = program_desc.signature(model.description)
    if sorted(feeds) != sorted(_feeds(program, model)) or len(fetches) != len(_fetched(program)):
        raise _TranslationError("its feeds or fetches are not those of the program")
    for name, value in zip(fetches, _fetched(program), strict=True):
        if not value.has_name:
            # The name that the saved program has for it; PIR would have none.
            producer = value.get_defining_op()
            producer.set_str_attr(f"{NAME_PREFIX}{value.index()}", name)
    return program


def _translation_with_feeds(serialised: bytes) -> Program:
    program: Program = paddle.pir.translate_to_pir(core.ProgramDesc(serialised))
    block = program.global_block()
    for op in list(block.ops):
        if op.name() == "pd_op.feed":
            fed = op.result(0)
            with paddle.static.program_guard(program):
                value: Value = paddle.static.data(op.attrs()["name"], fed.shape, fed.dtype)
            value.get_defining_op().move_before(op)
            fed.replace_all_uses_with(value)
            block.remove_op(op)
    return program


def _deserialized(model: SavedModel) -> Program:
    program: Program = paddle.static.Program()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_bytes(model.content)
        core.deserialize_pir_program(str(path), program)
    return program


def _as_pir(program: Program, model: SavedModel) -> list[Any]:
    fill_scope(model.parameters)
    feeds = _feeds(program, model) if model.is_pir else program_desc.signature(model.description)[0]
    return [program, feeds, _fetched(program)]


def _feeds(program: Program, model: SavedModel) -> list[str]:
    names = [
        str(op.attrs()["name"]) for op in program.global_block().ops if op.name() == "pd_op.data"
    ]
    return [name for name in names if name not in model.parameters]


def _fetched(program: Program) -> list[Value]:
    fetches = [op for op in program.global_block().ops if op.name() == "pd_op.fetch"]
    fetches.sort(key=lambda op: int(op.attrs()["col"]))
    return [op.operand_source(0) for op in fetches]


def fill_scope(parameters: Mapping[str, Array]) -> None:
    """Copies arrays into the global scope's variables."""
    scopes.fill(paddle.static.global_scope(), parameters)
