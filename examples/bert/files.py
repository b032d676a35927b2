"""Files that appear whole or not at all, and the error for those that cannot be used."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


class DataError(ValueError):
    """Data that cannot be used: which file, what was expected there, what to do."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A binary stream whose bytes become ``path`` when the block ends without an error.

    They are written beside it under a hidden name, flushed to the disk, then renamed: a kill or a
    full disk leaves what was at ``path`` before. The folder is made where it is missing.

    Raises:
        OSError: the disk is full, or the folder cannot be written; the message names ``path``.
    """
    partial: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        partial = Path(name)
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    except OSError as error:
        if error.filename not in (None, str(partial)):
            raise  # it names another file, or the folder, already
        raise cannot_write(path, error) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> OSError:
    """The same error, saying that ``path`` cannot be written."""
    return type(error)(error.errno, f"cannot write: {error.strerror or error}", str(path))


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, whole or not at all."""
    with writing(path) as stream:
        stream.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, what: str) -> Any:
    """The content of a JSON file; ``what`` says in errors what it should have been.

    Raises:
        DataError: there is no such file, or it is no JSON in UTF-8, as when it is cut off.
    """
    try:
        return json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: expected {what}, but there is no such file") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected {what} in UTF-8, got bytes that are not: {error}"
        ) from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}: expected {what}, but the JSON breaks off or is damaged at line "
            f"{error.lineno}, column {error.colno}: {error.msg}"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
