"""The process that lowers one checkout's steps with one Paddle, and writes them line by line.

``measuring.py`` starts it, with the package of that checkout first on the path.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tools.lowered_steps.normal_form import digest_of, has_own_call, normal_form

ON, OFF = "on", "off"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def main(arguments: Sequence[str] | None = None) -> int:
    """Lowers a share of the programs; 0 where every one was tried."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--share", default="0/1", help="1/4 takes the second program, the sixth...")
    given = parser.parse_args(arguments)
    number, shares = map(int, given.share.split("/"))
    warnings.simplefilter("ignore")
    import paddle

    import paddle_ipu
    from tools.lowered_steps.programs import all_programs, warm_up
    from tools.lowered_steps.recording import Kernels, recording

    paddle_ipu.activate()
    kernels = Kernels()
    with recording():
        warm_up()
    kernels.take_over("paddle_ipu")
    chosen = [(n, p) for n, p in all_programs().items() if re.search(given.only, n)]
    mine = chosen[number::shares]
    with given.out.open("w") as out:

        def write(**record: object) -> None:
            out.write(json.dumps(record) + "\n")
            out.flush()

        write(paddle=str(paddle.__version__), programs=len(mine))
        for name, program in mine:
            kernels.forced = True
            texts, refusal = _lowered(program)
            write(name=name, kernels=ON, **_record(texts, refusal))
            if any(map(has_own_call, texts)):
                kernels.forced = False
                texts, refusal = _lowered(program)
            # Kernels change only the nodes that they take, so a step without one is the same.
            write(name=name, kernels=OFF, **_record(texts, refusal))
    return 0


def _lowered(program: Callable[[Path], object]) -> tuple[list[str], str]:
    """The texts of a program's steps, and why it went no further, "" where it ended."""
    import numpy as np
    import paddle

    import paddle_ipu
    from tools.lowered_steps.recording import recording

    refusal = ""
    paddle.enable_static()
    paddle.seed(0)
    np.random.seed(0)
    random.seed(0)
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
        recording() as texts,
    ):
        try:
            program(Path(folder))
        except (Exception, SystemExit) as error:
            package = Path(paddle_ipu.__file__).parent
            said = str(error).replace(str(package.resolve()), "").replace(str(package), "")
            said = _ADDRESS.sub("0x", said.replace(folder, ""))
            refusal = f"{type(error).__name__}: {said}"
    return [normal_form(text) for text in texts], refusal


def _record(texts: list[str], refusal: str) -> dict[str, Any]:
    text = "\n".join([*texts, refusal])
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    return {"digest": digest_of(text), "steps": len(texts), "refusal": refusal, "text": packed}


def text_of(record: dict[str, Any]) -> str:
    """The normal form of a written record."""
    return zlib.decompress(base64.b64decode(record["text"])).decode()


if __name__ == "__main__":
    sys.exit(main())
