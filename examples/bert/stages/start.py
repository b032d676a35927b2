"""The parameters a stage starts from: this script's, the published one's, or TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.bert.files import DataError
from examples.bert.stages.device import DeviceProgram
from examples.bert.stages.names import PUBLISHED_MARK, from_published, from_tensorflow
from examples.bert.stages.parameters import SUFFIX, matching, read_parameters
from examples.bert.stages.settings import Settings

# A stage trains these anew where the checkpoint has none.
SQUAD_HEAD = ("squad.",)
PRETRAINING_HEADS = ("mlm.", "nsp.")


def load_start(
    program: DeviceProgram,
    settings: Settings,
    optional: tuple[str, ...],
    say: Callable[[str], None],
) -> None:
    """Give the program the parameters that the settings name, if any.

    ``optional`` are beginnings of names that may be missing from the checkpoint. Optimizer state is
    not loaded: a stage begins with its own.

    Raises:
        DataError: the file is missing, damaged or of another network.
    """
    if settings.enable_load_params and settings.tf_checkpoint:
        raise DataError("--tf_checkpoint and --enable_load_params: expected one of them, got both")
    if settings.tf_checkpoint:
        prefix = Path(settings.tf_checkpoint)
        source: Path = prefix
        parameters = from_tensorflow(prefix, settings, say)
        if not parameters:
            raise DataError(f"{prefix}: expected tensors of BERT, found none of their names")
    elif settings.enable_load_params:
        if not settings.load_params_path:
            raise DataError(
                "--enable_load_params: expected --load_params_path with the file to start from"
            )
        source = Path(settings.load_params_path.removesuffix(SUFFIX) + SUFFIX)
        parameters = read_parameters(source)
        if PUBLISHED_MARK in parameters:
            parameters = from_published(parameters, settings)
    else:
        return
    weights = matching(parameters, program.shapes, source, optional)
    program.set_weights(weights)
    fresh = sorted({name.split(".")[0] for name in program.shapes if name not in weights})
    rest = f"; trained anew: {', '.join(fresh)}" if fresh else ""
    say(f"started from {source}: {len(weights)} parameters{rest}")
