"""Writes what a compilation goes through, for people to look at.

``PADDLE_IPU_DUMP=<folder>`` writes the paddle dialect after every pass and the PopART program, as
ONNX files that Netron shows; ``onnx_dump_path`` and ``IPU_ONNX_DUMP_PATH`` write the last one only.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir

from paddle_ipu import dialect

_programs = itertools.count()


def listener() -> Callable[[str, ir.Graph], None] | None:
    """A function that writes a graph under a pass's name; None when nothing is to be dumped."""
    folder = os.environ.get("PADDLE_IPU_DUMP")
    if not folder:
        return None
    target = Path(folder) / f"program{next(_programs)}"
    steps = itertools.count()

    def write(name: str, graph: ir.Graph) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for node in graph:
            source = dialect.source_of(node)
            if source:
                node.metadata_props["source"] = source
        model = ir.Model(graph, ir_version=10, producer_name="paddle_ipu")
        ir.save(model, target / f"{next(steps):02d}_{name}.onnx")

    return write


def onnx(builder: Any, options: Any) -> None:
    """Writes the PopART program where the environment or the strategy asks for it."""
    path = os.environ.get("IPU_ONNX_DUMP_PATH") or str(options["onnx_dump_path"])
    if path:
        builder.saveModelProto(path)
    folder = os.environ.get("PADDLE_IPU_DUMP")
    if folder:
        newest = max(Path(folder).glob("program*"), key=lambda p: int(p.name[7:]))
        builder.saveModelProto(str(newest / "popart.onnx"))
