"""Checkpoints of a run in a folder: each whole or not there, the newest good one to go on from.

A checkpoint is a folder ``step_N``. It is filled under a hidden name, every file is flushed to the
disk, and then it is renamed: a kill or a full disk at any moment leaves the checkpoints before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.bert.files import DataError, read_json
from examples.bert.stages.device import DeviceProgram, RunState
from examples.bert.stages.settings import Settings

MANIFEST = "checkpoint.json"  # what the folder holds, with a digest of every file
PARTIAL = ".part"
_NAME = re.compile(r"step_(\d+)$")


@dataclass(frozen=True)
class Progress:
    """The progress of a training: runs made, and with which settings.

    ``setting`` holds what must be the same for the losses to go on; ``program`` the rest of the
    device's state; ``data`` where the next batch begins.
    """

    step: int
    setting: dict[str, Any]
    program: RunState
    data: dict[str, int]


class CheckpointFolder:
    """The checkpoints of one run; ``keep`` of them stay, the newest."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    @property
    def newest(self) -> Path | None:
        """The newest checkpoint, whether good or damaged."""
        checkpoints = self._all()
        return checkpoints[-1] if checkpoints else None

    def clear(self) -> None:
        """Remove all checkpoints."""
        for path in self._all():
            shutil.rmtree(path)

    def write(
        self,
        program: DeviceProgram,
        step: int,
        setting: Mapping[str, Any],
        data: Mapping[str, int],
    ) -> Path:
        """Write ``step_N``, then remove those that are too many.

        One that is there stays if it is good, as of a run that is resumed at its end.

        Raises:
            OSError: the disk is full, or the folder cannot be written; names the checkpoint.
        """
        target = self._folder / f"step_{step}"
        if target.exists() and _is_good(target):
            return target
        partial = self._folder / f".step_{step}{PARTIAL}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._remove_partial()
            partial.mkdir()
            state = program.write_state(partial)
            files = sorted(partial.iterdir())
            manifest = {
                "step": step,
                "setting": dict(setting),
                "program": asdict(state),
                "data": dict(data),
                "files": {p.name: _digest(p) for p in files},
            }
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
            for path in (*files, partial / MANIFEST, partial):
                _flush(path)
            if target.exists():  # damaged; a run that passed it over has come here again
                shutil.rmtree(target)
            partial.rename(target)
            _flush(self._folder)
        except OSError as error:
            raise type(error)(
                error.errno, f"cannot write the checkpoint: {error.strerror or error}", str(target)
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        for old in self._all()[: -self._keep]:
            shutil.rmtree(old)
        return target

    def read(
        self, program: DeviceProgram, setting: Mapping[str, Any], say: Callable[[str], None]
    ) -> tuple[int, dict[str, int] | None]:
        """Go on from the newest good checkpoint; returns its runs and the data's position.

        Without one these are 0 and None.

        Damaged ones are named by ``say`` and passed over.

        Raises:
            DataError: all are damaged, or the good one is of a run with another setting.
        """
        damaged: list[str] = []
        for path in reversed(self._all()):
            try:
                progress = check_files(path)
            except DataError as error:
                damaged.append(str(error))
                say(f"damaged, passed over: {error}")
                continue
            _compare(path, progress.setting, setting)
            program.read_state(path, progress.program)
            return progress.step, progress.data
        if damaged:
            raise DataError(
                f"{self._folder}: expected a good checkpoint to resume from, all {len(damaged)} "
                f"are damaged: {damaged[0]}; remove them to start from the beginning"
            )
        return 0, None

    def _all(self) -> list[Path]:
        """Oldest first."""
        if not self._folder.is_dir():
            return []
        names = {p: _NAME.match(p.name) for p in self._folder.iterdir() if p.is_dir()}
        return sorted((p for p, m in names.items() if m), key=lambda p: int(p.name[5:]))

    def _remove_partial(self) -> None:
        """What a run that was killed while it wrote has left."""
        for path in self._folder.glob(f".step_*{PARTIAL}"):
            shutil.rmtree(path, ignore_errors=True)


def check_files(path: Path) -> Progress:
    """The manifest of a checkpoint whose files are as they were written.

    Raises:
        DataError: a file is missing or has changed.
    """
    manifest = read_json(path / MANIFEST, "the manifest of a checkpoint")
    try:
        files = dict(manifest["files"])
        state = RunState(**manifest["program"])
        progress = Progress(
            int(manifest["step"]), dict(manifest["setting"]), state, dict(manifest["data"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path / MANIFEST}: expected the manifest of a checkpoint: "
            f"{type(error).__name__} {error}"
        ) from error
    for name, digest in files.items():
        file = path / name
        if not file.is_file():
            raise DataError(f"{file}: expected a file of the checkpoint, but it is not there")
        if _digest(file) != digest:
            raise DataError(f"{file}: expected the bytes that were written, but they have changed")
    return progress


def _is_good(path: Path) -> bool:
    try:
        check_files(path)
    except DataError:
        return False
    return True


def _compare(path: Path, written: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    for name, value in current.items():
        if name in written and written[name] != value:
            what = f"--{name}" if hasattr(Settings, name) else name
            raise DataError(
                f"{path}: the run that wrote it had {what} {written[name]}, this one has {value}; "
                "resume with the same setting, or start another run in another --output_dir"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
