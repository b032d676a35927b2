"""Debug contexts name what a builder makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart


def test_a_context_names_a_tensor_with_what_it_is_part_of() -> None:
    builder = popart.Builder()
    layer = popart.DebugInfo(popart.DebugContext("encoder"), "app")
    inner = popart.DebugInfo(popart.DebugContext(layer, "attention"), "app")
    where = popart.SourceLocation("main", "train.py", 12)
    w = builder.addInitializedInputTensor(
        np.zeros((2, 2), np.float32), popart.DebugContext(inner, "query")
    )
    x = builder.addInputTensor("FLOAT", [2, 2], debugContext=popart.DebugContext("x", where))
    y = builder.aiOnnx.matmul([x, w], popart.DebugContext(debugInfo=layer, name="scores"))
    assert (w, x, y) == ("encoder/attention/query", "x", "MatMul:0")
    assert builder.node_of(y).name == "encoder/scores"
    assert builder.addInputTensor("FLOAT", [1], popart.DebugContext()) == "input"
    assert popart.SGD({}, debugContext=popart.DebugContext("rule")) is not None


def test_an_information_keeps_values_and_has_a_number() -> None:
    first = popart.DebugInfo("a", "app")
    second = popart.DebugInfo(popart.DebugContext(first, "b"), layer="app")
    assert second.getId() > first.getId() > 0
    assert first.setValue("author", "me") and not first.setValue("author", "you")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [((1,), {}), (("a", "b"), {}), ((), {"loc": 1}), (("a",), {"name": "b"}), ((), {"layer": "a"})],
)
def test_other_arguments_are_refused(arguments: tuple[Any, ...], names: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"incompatible constructor arguments\. DebugContext takes"):
        popart.DebugContext(*arguments, **names)


def test_values_and_contexts_are_texts() -> None:
    with pytest.raises(TypeError, match="DebugInfo takes .*, got 1, 'app'"):
        popart.DebugInfo(1, "app")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"setValue\(\): incompatible function arguments"):
        popart.DebugInfo("a", "app").setValue("n", 1)  # type: ignore[arg-type]
    assert repr(popart.SourceLocation("f", "x.py", 1)) == "SourceLocation('f', 'x.py', 1)"
