"""The methods of ``paddle.inference.Config`` that are patched; the class stays Paddle's own.

Stock Paddle has the methods for the IPU and refuses them, or does not return what they set. Every
other method is left alone, so a config without ``enable_ipu`` works as in stock Paddle.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddle_ipu.errors import ModelFileError, OptionError
from paddle_ipu.inference import config_file
from paddle_ipu.inference.settings import copy_settings, settings_of

if TYPE_CHECKING:
    from paddle.inference import Config

    from paddle_ipu.frontend.saved_model import ModelFiles


def constructing(original: Callable[..., None]) -> Callable[..., None]:
    """``Config(...)``: a copy of a config has its IPU settings too."""

    def __init__(self: Config, *args: Any, **keywords: Any) -> None:  # noqa: N807 - it is patched in
        original(self, *args, **keywords)
        if args and isinstance(args[0], type(self)):
            copy_settings(self, args[0])

    return __init__


def enable_ipu(
    self: Config,
    ipu_device_num: int = 1,
    ipu_micro_batch_size: int = 1,
    ipu_enable_pipelining: bool = False,
    ipu_batches_per_step: int = 1,
) -> None:
    """Runs the model on the IPU.

    Args:
        ipu_device_num: IPUs of one replica; with more than one, the model is cut into that many
            shares.
        ipu_micro_batch_size: rows of an input whose first dimension is dynamic, for which the
            predictor is compiled when it is made. Other numbers of rows are compiled when they
            come, each once.
        ipu_enable_pipelining: the IPUs work on several batches at the same time.
        ipu_batches_per_step: batches of one run, with pipelining; at least ``ipu_device_num``.

    Raises:
        OptionError: a value of another type, or out of range.
    """
    settings = settings_of(self)
    settings.set(
        {
            "ipu_device_num": ipu_device_num,
            "ipu_micro_batch_size": ipu_micro_batch_size,
            "ipu_enable_pipelining": ipu_enable_pipelining,
            "ipu_batches_per_step": ipu_batches_per_step,
        },
        "enable_ipu",
    )
    settings.enabled = True


def set_ipu_config(
    self: Config,
    ipu_enable_fp16: bool = False,
    ipu_replica_num: int = 1,
    ipu_available_memory_proportion: float = 1.0,
    ipu_enable_half_partial: bool = False,
    ipu_enable_model_runtime_executor: bool = False,
) -> None:
    """Further settings; ``enable_ipu`` has to be called too.

    Args:
        ipu_enable_fp16: computes in half; model, inputs and outputs stay as they are.
        ipu_replica_num: copies of the model, each on its own IPUs, that share a batch.
        ipu_available_memory_proportion: share of tile memory a matmul or convolution may take.
        ipu_enable_half_partial: partial sums in half; of no effect without ``ipu_enable_fp16``.
        ipu_enable_model_runtime_executor: serves through a queue that many threads may feed.

    Raises:
        OptionError: a value of another type, or out of range.
    """
    settings_of(self).set(
        {
            "ipu_enable_fp16": ipu_enable_fp16,
            "ipu_replica_num": ipu_replica_num,
            "ipu_available_memory_proportion": ipu_available_memory_proportion,
            "ipu_enable_half_partial": ipu_enable_half_partial,
            "ipu_enable_model_runtime_executor": ipu_enable_model_runtime_executor,
        },
        "set_ipu_config",
    )


def set_ipu_custom_info(
    self: Config,
    ipu_custom_ops_info: Sequence[Sequence[str]] = (),
    ipu_custom_patterns: Mapping[str, bool] | None = None,
) -> None:
    """Custom operators and patterns of the program; a second call adds to the first.

    Args:
        ipu_custom_ops_info: for each operator Paddle's name, PopART's name, its domain and its
            version as text.
        ipu_custom_patterns: name of a pattern -> whether it is on.

    Raises:
        OptionError: a row or a pattern of another form, or a pattern nobody knows.
    """
    settings_of(self).set(
        {
            "ipu_custom_ops_info": ipu_custom_ops_info,
            "ipu_custom_patterns": {} if ipu_custom_patterns is None else ipu_custom_patterns,
        },
        "set_ipu_custom_info",
    )


def load_ipu_config(self: Config, config_path: str | os.PathLike[str]) -> None:
    """Takes settings from a file of ``key,value`` lines; ``enable_ipu`` has to be called too.

    Raises:
        OptionError: the file is missing or malformed, or has an unknown key; nothing is taken then.
    """
    settings_of(self).set(config_file.read(config_path), f"load_ipu_config: {config_path}")


def set_ipu_options(self: Config, options: Mapping[str, Any]) -> None:
    """Takes options of ``paddle.static.IpuStrategy`` that have no method here; paddle_ipu's own.

    Args:
        options: option -> value, for instance ``{"enable_engine_caching": True}``.

    Raises:
        OptionError: an unknown option or a wrong value, or one that another method sets.
    """
    settings_of(self).set_options(options)


def use_ipu(self: Config) -> bool:
    """Whether ``enable_ipu`` was called."""
    return settings_of(self).enabled


def _getter(name: str, text: str) -> Callable[[Config], int | bool]:
    def get(self: Config) -> int | bool:
        value: int | bool = settings_of(self)[name]
        return value

    get.__name__ = get.__qualname__ = name
    get.__doc__ = text
    return get


ipu_device_num = _getter("ipu_device_num", "IPUs of one replica.")
ipu_micro_batch_size = _getter("ipu_micro_batch_size", "Rows the predictor is compiled for.")
ipu_enable_pipelining = _getter("ipu_enable_pipelining", "Whether IPUs work on several batches.")
ipu_batches_per_step = _getter("ipu_batches_per_step", "Batches of one run, with pipelining.")
ipu_enable_fp16 = _getter("ipu_enable_fp16", "Whether the model computes in half.")
ipu_replica_num = _getter("ipu_replica_num", "Copies of the model that share a batch.")


def setting_buffers(original: Callable[..., None]) -> Callable[..., None]:
    """``Config.set_model_buffer`` that keeps the bytes, which Paddle does not return."""

    @functools.wraps(original)
    def set_model_buffer(
        self: Config,
        prog_buffer: bytes | str,
        prog_buffer_size: int,
        params_buffer: bytes | str,
        params_buffer_size: int,
    ) -> None:
        parts = ((prog_buffer, prog_buffer_size), (params_buffer, params_buffer_size))
        program, parameters = (_bytes(part)[:size] for part, size in parts)
        original(self, prog_buffer, prog_buffer_size, params_buffer, params_buffer_size)
        settings_of(self).model = (program, parameters)

    return set_model_buffer


def setting_model(original: Callable[..., None]) -> Callable[..., None]:
    """``Config.set_model`` that replaces a model of ``set_model_buffer``."""

    @functools.wraps(original)
    def set_model(self: Config, *args: Any, **keywords: Any) -> None:
        original(self, *args, **keywords)
        settings_of(self).model = None

    return set_model


def _bytes(part: bytes | str) -> bytes:
    return part.encode() if isinstance(part, str) else bytes(part)


def summarising(original: Callable[..., str]) -> Callable[..., str]:
    """``Config.summary`` with the IPU settings."""

    @functools.wraps(original)
    def summary(self: Config) -> str:
        text = original(self)
        settings = settings_of(self)
        if not settings.enabled:
            return text
        rows = settings.rows()
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        lines = [f"| {name:<{widths[0]}} | {value:<{widths[1]}} |" for name, value in rows]
        return "\n".join([text.rstrip("\n"), "", rule, *lines, rule, ""])

    return summary


def files_of(config: Config) -> ModelFiles:
    """Where the model of a config is.

    Raises:
        OptionError: the config names none.
        ModelFileError: there is no such file.
    """
    from paddle_ipu.frontend import saved_model

    settings = settings_of(config)
    if config.model_from_memory() and settings.model is not None:
        return saved_model.ModelFiles(*settings.model)
    folder, program, parameters = config.model_dir(), config.prog_file(), config.params_file()
    if program:
        path = Path(os.path.abspath(program))
        if path.is_dir():
            # Config(folder, prefix), which newer Paddle resolves itself.
            return saved_model.locate(path / parameters if parameters else path)
        if not path.exists():
            raise ModelFileError(
                f"{path}: there is no such file. Config(prog_file, params_file) takes the "
                "program's file with its suffix."
            )
        return saved_model.ModelFiles(
            path, Path(os.path.abspath(parameters)) if parameters else path.parent
        )
    if folder:
        return saved_model.locate(folder)
    raise OptionError(
        "this config names no model: give Config(prog_file, params_file) or Config(model_dir), or "
        "call set_model or set_model_buffer."
    )
