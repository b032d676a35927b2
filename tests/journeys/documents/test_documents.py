"""What README and the guides show is run: every Python block, with the output shown after it.

A document's ``python`` blocks run in order in one process, in an empty folder. A ``text`` block
that follows one shows what it printed; the numbers a training ends with may differ a little, since
machines round sums differently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT

FIRST_READ = ("README.md", "docs/index.md", "docs/tutorial.md")
GUIDES = (
    "docs/first_steps.md",
    "docs/bert_data.md",
    "docs/porting.md",
    "docs/from_popart.md",
    "docs/diverging.md",
    "docs/checkpoints.md",
    "docs/training.md",
    "docs/dynamic_to_static.md",
    "docs/inference.md",
    "docs/serving.md",
    "docs/notebooks.md",
)
DOCUMENTS = (*FIRST_READ, *(pytest.param(page, marks=pytest.mark.thorough) for page in GUIDES))

_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

_MEASURED = re.compile(r"\d+\.\d+|\d+(?=%)")

_RUNNER = """
import contextlib, io, json, os, sys, warnings
import paddle_ipu

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paddle
paddle_ipu.activate()
os.chdir({folder!r})
warnings.simplefilter("ignore")
names, printed = {{"__name__": "__main__"}}, []
for number, block in enumerate(json.loads({blocks!r})):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        # to_static reads the source of what it converts.
        with open(f"block_{{number}}.py", "w") as file:
            file.write(block)
        exec(compile(block, f"block_{{number}}.py", "exec"), names)
    printed.append(out.getvalue())
print("PRINTED" + json.dumps(printed))
"""


def blocks(document: str) -> list[tuple[str, str | None]]:
    """(code, the output shown after it) of each Python block."""
    found: list[tuple[str, str | None]] = []
    before = ""
    for match in _BLOCK.finditer((ROOT / document).read_text()):
        if match["kind"] == "python":
            found.append((match["text"], None))
        elif match["kind"] == "text" and before == "python":
            found[-1] = (found[-1][0], match["text"])
        before = match["kind"]
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_code_does(
    document: str, run_python: Callable[..., Any], tmp_path: Path
) -> None:
    shown = blocks(document)
    assert shown, f"{document} has no Python block"
    code = json.dumps([code for code, _ in shown])
    done = run_python(_RUNNER.format(folder=str(tmp_path), blocks=code))
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("PRINTED"))
    for (_, expected), printed in zip(shown, json.loads(line[7:]), strict=True):
        if expected is not None:
            assert _MEASURED.sub("#", printed) == _MEASURED.sub("#", expected)
            for got, written in zip(
                _MEASURED.findall(printed), _MEASURED.findall(expected), strict=True
            ):
                assert float(got) == pytest.approx(float(written), rel=0.05, abs=0.02)
