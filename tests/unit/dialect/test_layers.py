"""Paths of layers from Paddle's scopes and from the names of parameters."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest

from paddle_ipu.dialect import dialect, layers, scopes


def graph(*nodes: tuple[str, str, Sequence[str]]) -> ir.Graph:
    """A chain of (operator, scope, parameters that it reads)."""
    value = dialect.make_value("x", [2], "float32")
    value.meta[dialect.ROLE] = dialect.FEED
    inputs, made = [value], []
    for number, (op_type, scope, names) in enumerate(nodes):
        read = [dialect.make_value(name, [2], "float32") for name in names]
        for each in read:
            each.meta[dialect.ROLE] = dialect.PARAMETER
        result = dialect.make_value(f"r{number}", [2], "float32")
        node = ir.Node(dialect.DOMAIN, op_type, [value, *read], outputs=[result])
        node.meta[dialect.LAYER] = scope
        inputs += read
        made.append(node)
        value = result
    return ir.Graph(inputs, [], nodes=made, name="paddle")


def named(*nodes: tuple[str, str, Sequence[str]], **structured: str) -> list[str]:
    made = graph(*nodes)
    layers.name_layers(made, {name.replace("__", "."): at for name, at in structured.items()})
    return [dialect.layer_of(node) for node in made]


@pytest.mark.parametrize(
    ("scope", "layer"),
    [
        ("/", ""),
        ("/net_0:a.b/", "a.b"),
        ("/net_0:/", ""),
        ("/:linear_0/", "linear_0"),
        ("/Net/Linear/net_0:a.b/", "a.b"),
        ("/user/net_0:a/inner/", "a.inner"),
        ("/user/scope_1/", "user.scope_1"),
        ("/optimizer_2/", ""),
        ("/gradient_clip/", ""),
    ],
)
def test_scopes(scope: str, layer: str) -> None:
    assert named(("relu", scope, ())) == [layer]


def test_names_cannot_be_taken_for_scopes() -> None:
    part = scopes.scope_part("my/net:0", "a:b.c")
    assert scopes.is_layer(part)
    assert named(("relu", f"/{part}/", ())) == ["a_b.c"]


def test_an_operator_between_two_layers_is_of_what_both_are_in() -> None:
    assert named(
        ("matmul", "", ["linear_0.w_0"]),
        ("add", "", ["linear_0.b_0"]),
        ("relu", "", ()),
        ("matmul", "", ["linear_1.w_0"]),
        ("mean", "", ()),
        linear_0__w_0="net.first.fc.weight",
        linear_0__b_0="net.first.fc.bias",
        linear_1__w_0="net.first.out.weight",
    ) == ["net.first.fc", "net.first.fc", "net.first", "net.first.out", ""]


def test_parameters_without_structured_names_tell_what_made_them() -> None:
    assert named(
        ("matmul", "/", ["linear_0.w_0"]),
        ("scale", "", ()),
        ("add", "", ["linear_0.b_0"]),
        ("add", "", ["create_parameter_0.w_0"]),
        ("add", "", ["mine"]),
    ) == ["linear_0", "linear_0", "linear_0", "", ""]


def test_backward_tells_nothing_of_forward() -> None:
    assert named(
        ("matmul", "", ["linear_0.w_0"]),
        ("mean", "", ()),
        ("matmul_grad", "", ["linear_0.w_0"]),
    ) == ["linear_0", "", ""]


@pytest.mark.parametrize(
    ("paths", "shared"),
    [([], ""), (["a.b"], "a.b"), (["a.b", "a.c"], "a"), (["ab", "a"], ""), (["a", "a.b"], "a")],
)
def test_common(paths: list[str], shared: str) -> None:
    assert layers.common(paths) == shared


def test_messages_name_the_layer() -> None:
    assert dialect.described("matmul", "m.py:3", "a.b") == "matmul at m.py:3 (a.b)"
    assert dialect.described("matmul", "", "a.b") == "matmul (a.b)"
    assert dialect.described("matmul", "m.py:3", "") == "matmul at m.py:3"
