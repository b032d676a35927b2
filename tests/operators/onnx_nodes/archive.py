"""Fetches the models of ONNX's node tests: data of the source distribution of onnx 1.6.0.

pip downloads the archive against its SHA-256; nothing of it is installed. Of the archive only the
models and their tensors are written to disk, under names that a pattern allows.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path

RELEASE = "1.6.0"
SHA256 = "3b88c3fe521151651a0403c4d131cb2e0311bd28b753ef692020a432a81ce345"
COUNT = 557
"""Models in the archive."""

_MEMBER = re.compile(
    rf"onnx-{re.escape(RELEASE)}/onnx/backend/test/data/node/"
    r"(?P<file>(?P<model>test_\w+)/(?:model\.onnx|test_data_set_\d+/(?:input|output)_\d+\.pb))"
)
_LARGEST = 64 << 20


def fetch(folder: Path) -> Path:
    """The folder with one folder a model, downloaded and unpacked where it is not there yet.

    Raises:
        RuntimeError: pip cannot download the archive.
        ValueError: the archive is not the one of this release.
    """
    models = folder / f"onnx-{RELEASE}-node"
    if models.is_dir():
        return models
    archive = folder / f"onnx-{RELEASE}.tar.gz"
    if not archive.is_file():
        download(folder)
    unpack(archive, folder / "unpacking")
    (folder / "unpacking").rename(models)
    return models


def download(folder: Path) -> None:
    """Has pip put the source distribution into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    requirement = folder / "requirement.txt"
    requirement.write_text(f"onnx=={RELEASE} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", "onnx", "--require-hashes", "--requirement", str(requirement)]
    done = subprocess.run(
        [*command, "--dest", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"pip could not download the source distribution of onnx {RELEASE}; with the archive "
            f"in {folder} nothing is downloaded.\n{done.stderr}"
        )


def unpack(archive: Path, folder: Path) -> int:
    """Writes the models of an archive into `folder` and returns how many files those are.

    Raises:
        ValueError: the archive's SHA-256 is another, or a member is too large.
    """
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(
            f"{archive} has SHA-256 {found}, expected {SHA256}. Delete it to download it again"
        )
    return unpack_members(archive, folder)


def unpack_members(archive: Path, folder: Path) -> int:
    """Writes the regular files of an archive that are a model's, whatever else it holds."""
    written = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            known = _MEMBER.fullmatch(member.name)
            if known is None or not member.isreg():
                continue
            if member.size > _LARGEST:
                raise ValueError(f"{archive}: {member.name} has {member.size} bytes")
            data = tar.extractfile(member)
            assert data is not None
            target = folder / known["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.read())
            written += 1
    return written
