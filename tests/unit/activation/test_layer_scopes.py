"""Operators of static programs know their layer; the oracle is ``named_sublayers``."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import nn

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs, saved_model


class Block(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norms = nn.LayerList([nn.LayerNorm(4), nn.LayerNorm(4)])

    def forward(self, x: Any) -> Any:
        for norm in self.norms:
            x = norm(nn.functional.relu(self.fc(x)))
        return x


class Net(nn.Layer):
    def __init__(self, outside: bool = True) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.tied = self.blocks[0].fc
        self.outside = [nn.Linear(4, 4)] if outside else [nn.Identity()]

    def forward(self, x: Any) -> Any:
        return self.outside[0](self.tied(self.blocks(x)))


EXPECTED = [
    *(
        (op_type, f"blocks.{block}{layer}")
        for block in range(2)
        for norm in range(2)
        for op_type, layer in (
            ("matmul", ".fc"),
            ("add", ".fc"),
            ("relu", ""),
            ("layer_norm", f".norms.{norm}"),
        )
    ),
    ("matmul", "blocks.0.fc"),
    ("add", "blocks.0.fc"),
]


def layers(graph: Any) -> list[tuple[str, str]]:
    """(operator, its layer), without the operators that make constants."""
    return [
        (str(node.op_type), dialect.layer_of(node))
        for node in dialect.walk(graph)
        if node.op_type not in dialect.CONSTANT_OPS
    ]


def of_program(program: Any) -> list[tuple[str, str]]:
    return layers(programs.read(program))


def x() -> Any:
    return paddle.static.data("x", [2, 4], "float32")


def test_paths_are_those_of_named_sublayers(static_program: Any) -> None:
    net = Net()
    net(x())
    found = of_program(static_program)
    assert found[:-2] == EXPECTED
    assert {layer for _, layer in found[:-2]} <= {name for name, _ in net.named_sublayers()}


def test_a_layer_that_is_no_member_is_called_by_its_full_name(static_program: Any) -> None:
    net = Net()
    net(x())
    assert of_program(static_program)[-1] == ("add", net.outside[0].full_name())


def test_a_layer_alone_is_called_by_its_full_name(static_program: Any) -> None:
    fc = nn.Linear(4, 4)
    fc(x())
    assert of_program(static_program) == [("matmul", fc.full_name()), ("add", fc.full_name())]


def test_what_no_layer_makes_has_no_layer(static_program: Any) -> None:
    y = paddle.tanh(x())
    nn.Linear(4, 4)(y)
    paddle.tanh(y)
    found = of_program(static_program)
    assert [layer for op_type, layer in found if op_type == "tanh"] == ["", ""]


def test_roots_with_the_same_paths_are_told_apart(static_program: Any) -> None:
    first, second = Block(), Block()
    second(first(x()))
    products = [layer for op_type, layer in of_program(static_program) if op_type == "matmul"]
    names = [f"{root.full_name()}.fc" for root in (first, second)]
    assert products == [names[0]] * 2 + [names[1]] * 2


def test_layers_in_a_branch(static_program: Any) -> None:
    class Branching(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = paddle.static.nn.cond(x.sum() > 0, lambda: self.left(x), lambda: self.right(x))
            return self.left(y)

    Branching()(x())
    products = [layer for op_type, layer in of_program(static_program) if op_type == "matmul"]
    assert sorted(products) == ["left", "left", "right"]
    assert products[-1] == "left"


def test_the_layer_ends_with_an_exception(static_program: Any) -> None:
    class Failing(nn.Layer):
        def forward(self, x: Any) -> Any:
            paddle.tanh(x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nn.Sequential(nn.Linear(4, 4), Failing())(x())
    paddle.tanh(x())
    found = of_program(static_program)
    assert found[-2:] == [("tanh", "1"), ("tanh", "")]


def test_other_threads_have_other_layers(static_program: Any) -> None:
    """A layer that one thread is in does not name what another calls meanwhile."""
    seen = []

    class Waiting(nn.Layer):
        def forward(self, x: Any) -> Any:
            from paddle_ipu.activation import layer_scopes

            thread = threading.Thread(target=lambda: seen.append(layer_scopes._thread.call))
            thread.start()
            thread.join()
            return x

    nn.Sequential(Waiting())(x())
    assert seen == [None]


def test_scopes_of_paddles_own_are_kept(static_program: Any) -> None:
    with paddle.static.name_scope("user"):
        nn.Sequential(nn.Linear(4, 4))(x())
    (op,) = [op for op in static_program.global_block().ops if "matmul" in op.type]
    if paddle.__version__.startswith("2."):
        assert op.attr("op_namescope").startswith("/user/")
    else:
        assert op.attrs()["struct_name"].startswith("/Sequential")


def test_backward_and_update_leave_forwards_layers(static_program: Any) -> None:
    loss = Net()(x()).mean()
    paddle.optimizer.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(1.0)).minimize(loss)
    found = of_program(static_program)
    assert found[: len(EXPECTED)] == EXPECTED
    assert not any("optimizer" in layer or "clip" in layer for _, layer in found)


@pytest.mark.parametrize("traced", [False, True])
def test_saved_models_keep_layers(tmp_path: Path, traced: bool) -> None:
    paddle.disable_static()
    try:
        net = Net(outside=False)
        net.eval()
        layer = paddle.jit.to_static(net, full_graph=True) if traced else net
        spec = paddle.static.InputSpec([2, 4], "float32", "x")
        paddle.jit.save(layer, str(tmp_path / "net"), input_spec=[spec])
    finally:
        paddle.enable_static()
    model = saved_model.read(saved_model.locate(tmp_path / "net"))
    found = [entry for entry in layers(model.program().graph()) if entry[0] != "fetch"]
    assert found[: len(EXPECTED)] == EXPECTED


def test_dynamic_mode_passes_through() -> None:
    paddle.disable_static()
    try:
        net = Net()
        net.register_forward_post_hook(lambda layer, inputs, outputs: outputs * 2)
        once = net(paddle.ones([2, 4])).numpy()
        assert np.isfinite(once).all()
    finally:
        paddle.enable_static()
