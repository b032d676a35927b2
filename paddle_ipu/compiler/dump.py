"""Writes what a compilation goes through, for people to look at.

``PADDLE_IPU_DUMP=<folder>`` writes the paddle dialect after every pass, the PopART program, and
what each pass of ``xla/rewrites`` makes of that where it changes something, as ONNX files that
Netron shows; ``onnx_dump_path`` and ``IPU_ONNX_DUMP_PATH`` write the PopART program only.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import OptionError
from paddle_ipu.popart.builder import Builder


class Dump:
    """What one compilation writes; nothing where nobody asks for it.

    Each compilation has a folder of its own, ``program<number>``, the first that is free.

    Args:
        options: the strategy's values by option name.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._path = os.environ.get("IPU_ONNX_DUMP_PATH") or str(options["onnx_dump_path"])
        folder = os.environ.get("PADDLE_IPU_DUMP")
        self._folder = _free_folder(Path(folder)) if folder else None
        self._steps = itertools.count()

    def graph(self, name: str, graph: ir.Graph) -> None:
        """Writes the dialect graph under the name of what made it."""
        if self._folder is None:
            return
        for node in graph:
            for key, value in (
                ("source", dialect.source_of(node)),
                ("layer", dialect.layer_of(node)),
            ):
                if value:
                    node.metadata_props[key] = value
        self._write(self._folder, name, graph)

    def rewritten(self, name: str, graph: ir.Graph) -> None:
        """Writes the graph of a session's program, without the numbers of its weights.

        Args:
            name: of the pass that changed it.
        """
        if self._folder is None:
            return
        copy = graph.clone()
        weights = [value for value in copy.initializers.values() if not value.is_graph_input()]
        copy.initializers.clear()
        copy.inputs.extend(weights)
        self._write(self._folder, name, copy)

    def _write(self, folder: Path, name: str, graph: ir.Graph) -> None:
        model = ir.Model(graph, ir_version=10, producer_name="paddle_ipu")
        ir.save(model, folder / f"{next(self._steps):02d}_{name}.onnx")

    def program(self, builder: Any) -> None:
        """Writes the PopART program, its operators named with their layers as `export` does."""
        with _named_by_layer(builder):
            if self._path:
                try:
                    builder.saveModelProto(self._path)
                except OSError as error:
                    raise OptionError(
                        f"the PopART program cannot be written to {self._path}: {error.strerror}. "
                        "onnx_dump_path, or IPU_ONNX_DUMP_PATH, is the name of a file in a folder "
                        "that exists."
                    ) from error
            if self._folder is not None:
                builder.saveModelProto(str(self._folder / "popart.onnx"))


@contextmanager
def _named_by_layer(builder: object) -> Iterator[None]:
    """Has the path of its layer in front of the name of each node for a while.

    Graphcore's builder is left alone: it knows no layers.
    """
    graph = builder.model.graph if isinstance(builder, Builder) else ()
    nodes = [(node, node.name) for node in graph if dialect.layer_of(node)]
    for node, name in nodes:
        node.name = f"{dialect.layer_of(node)}/{name}"
    try:
        yield
    finally:
        for node, name in nodes:
            node.name = name


def _free_folder(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        folder = parent / f"program{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder
