"""Writes the table of PopART's bindings, or compares it with PopART's sources.

POPART_GIT=/path/to/popart.git python -m tools.popart_bindings --check
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.popart_bindings.table import FILES, tables

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "popart_stand_in" / "bindings"
REVISION = "sdk-release-3.4"


def main() -> int:
    """Writes or checks; 1 where the table is another."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    parser.add_argument("--git", default=os.environ.get("POPART_GIT"), help="PopART's repository")
    given = parser.parse_args()
    if given.git is None:
        parser.error("name PopART's git directory with --git, or by POPART_GIT")

    def show(path: str) -> str:
        command = ["git", f"--git-dir={given.git}", "show", f"{REVISION}:{path}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def names(folder: str) -> list[str]:
        command = [
            "git",
            f"--git-dir={given.git}",
            "ls-tree",
            "-r",
            "--name-only",
            REVISION,
            folder,
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    made = tables(show, names)
    assert set(made) == set(FILES)
    other = []
    for name, text in made.items():
        path = FOLDER / name
        if given.write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            other.append(name)
    for name in other:
        print(f"{name} is not what PopART's sources say; --write makes it so")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
