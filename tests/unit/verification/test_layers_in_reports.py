"""What verify and check find is told with the layer that it is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import UnsupportedOpError
from paddle_ipu.ops.translate import check_supported
from paddle_ipu.verification.comparison import compare
from paddle_ipu.verification.contents import NotFinite, OperatorRow
from paddle_ipu.verification.porting import places_of


def node(layer: str) -> ir.Node:
    made = ir.Node(dialect.DOMAIN, "unheard_of", [], num_outputs=1)
    made.meta[dialect.CALLSTACK] = ['  File "net.py", line 7, in forward']
    made.meta[dialect.LAYER] = layer
    return made


def test_rows_of_verify_name_the_layer() -> None:
    arrays: Any = [np.ones(2, np.float32)]
    result = compare("y", got=arrays, expected=arrays, rtol=1e-3, atol=1e-5, what="", source="")
    row = OperatorRow(0, "matmul", "net.py:7", result, "agrees", layer="a.fc")
    assert row.place() == "matmul at net.py:7 (a.fc)"
    found = NotFinite("NaN", "forward", "log", "net.py:7", "y", 0, 1, 2, "", "", "a.fc")
    assert str(found).startswith("First NaN: log at net.py:7 (a.fc) (result y)")


def test_layers_built_alike_are_one_place_of_a_finding() -> None:
    assert places_of([node("a.0.fc"), node("a.1.fc"), node("")]) == [
        "net.py:7 (a.*.fc)",
        "net.py:7",
    ]


def test_an_operator_without_a_translator_is_told_with_its_layer() -> None:
    graph = ir.Graph([], [], nodes=[node("a.fc")], name="paddle")
    with pytest.raises(UnsupportedOpError, match=r"first at net.py:7 \(a.fc\)"):
        check_supported(graph)
