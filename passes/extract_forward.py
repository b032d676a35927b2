"""Keeps the forward graph: what the fetches, the loss and side effects depend on.

Backward and optimizer operators are removed; the device derives gradients itself. A fetch of a
parameter's raw gradient gives the gradient of that parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import FetchError, NotSupported, meant
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support import roles, state_writes, update_operators
from paddle_ipu.passes.support.update_operators import is_update

GRADIENT_PREFIX = "Gradient___"
"""Prefix of a fetch, in training: the gradient of the loss by the value named after it."""

SIDE_EFFECTS = frozenset({"print", "py_func", "assert"})
"""Operators that are kept even if nobody reads their result."""


class ExtractForward:
    """Removes every node that no output needs; outputs are the fetches and the loss.

    Raises:
        FetchError: a fetch names nothing that can be fetched.
        NotSupported: what is fetched or written depends on backward or on updated parameters.
    """

    name = "extract_forward"
    requires = ("optimizer described", "block writes are results")
    ensures = ("forward only",)

    def run(self, compilation: Compilation) -> bool:
        graph = compilation.graph
        writes = state_writes.find(compilation)
        newest = dict(writes.newest)
        gradients = compilation.optimizer.gradients if compilation.optimizer else {}
        by_name = {str(value.name): value for value in graph.inputs}
        for node in graph:
            by_name.update((str(value.name), value) for value in node.outputs)
        outputs: list[ir.Value] = []
        for fetch in compilation.fetches:
            if fetch in gradients:
                continue
            name = fetch
            if compilation.training and fetch.startswith(GRADIENT_PREFIX):
                name = fetch.removeprefix(GRADIENT_PREFIX)
                _check_differentiable(fetch, by_name.get(name), compilation)
            if name not in by_name:
                raise FetchError(
                    f"fetch {fetch!r} names nothing in the program. Fetch a variable of the "
                    f"program, by its name or by the variable itself.{meant(fetch, by_name)}"
                )
            if by_name[name].meta.get(dialect.ROLE) == dialect.LEARNING_RATE:
                raise NotSupported(
                    f"fetch {fetch!r} is the learning rate, which the device is told beside the "
                    "program. Ask the scheduler: scheduler.get_lr()."
                )
            last = _last_version(by_name, name) if name == fetch else by_name[name]
            if last is not by_name[name]:
                newest[name] = last
            elif last.meta.get(dialect.WRITTEN_AGAIN):
                raise NotSupported(
                    f"fetch {fetch!r} is a feed that the program writes again. Fetch a copy: "
                    "paddle.assign it to another variable after the write."
                )
            fetched = by_name[name]
            if dialect.is_array(fetched):
                raise NotSupported(
                    f"fetch {fetch!r} is an array of tensors. Fetch them as one: "
                    "paddle.tensor.manipulation.tensor_array_to_tensor, or each by array_read."
                )
            outputs.append(newest.get(name, fetched) if name == fetch else fetched)
        if compilation.loss is not None:
            outputs.append(by_name[compilation.loss])
        outputs += writes.states.values()
        roots = [
            node for node in graph if has_side_effect(node) and not _prints_a_gradient(node, graph)
        ]
        needed = needed_for([*(output.producer() for output in outputs), *roots])
        dropped = [node for node in graph if id(node) not in needed]
        if any(id(node) in needed and is_backward(node) for node in graph):
            written = {id(value): name for name, value in writes.states.items()}
            sinks = [
                (
                    f"what is written to {written[id(output)]!r}"
                    if id(output) in written
                    else f"fetch {output.name!r}",
                    output.producer(),
                )
                for output in outputs
            ]
            sinks += [(dialect.describe(root), root) for root in roots]
            _refuse_backward(graph, sinks)
        if compilation.training:
            _refuse_updated_reads([node for node in graph if id(node) in needed or is_update(node)])
        for node in dropped:
            # Values that stay must not have removed nodes among their uses.
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
        graph.remove(dropped, safe=False)
        for output in dict.fromkeys(outputs):
            graph.outputs.append(output)
        read = {id(value) for node in graph for value in node.inputs} | {id(v) for v in outputs}
        unread = [
            value
            for value in graph.inputs
            if id(value) not in read and value.name not in writes.states
        ]
        for value in unread:
            graph.inputs.remove(value)
        compilation.writes = {name: str(value.name) for name, value in newest.items()}
        return bool(dropped)


def _last_version(by_name: Mapping[str, ir.Value], name: str) -> ir.Value:
    """The last value of a feed's variable; the feed itself if that is not known."""
    value = by_name[name]
    while (again := value.meta.get(dialect.WRITTEN_AGAIN)) in by_name:
        value = by_name[str(again)]
    return by_name[name] if again else value


def _check_differentiable(fetch: str, value: ir.Value | None, compilation: Compilation) -> None:
    assert compilation.optimizer is not None
    trained = {update.parameter for update in compilation.optimizer.updates}
    if value is not None and value.producer() is None and value.name not in trained:
        raise FetchError(
            f"fetch {fetch!r} asks for the gradient of {value.name!r}, which is not trained. "
            "Gradients of trained parameters and of computed values can be fetched."
        )
    if value is not None and not dialect.dtype_name(value).startswith(("float", "bfloat")):
        raise FetchError(
            f"fetch {fetch!r} asks for the gradient of a {dialect.dtype_name(value)}. Only "
            "floating-point values have one."
        )


def _refuse_backward(graph: ir.Graph, sinks: list[tuple[str, ir.Node | None]]) -> None:
    for name, sink in sinks:
        behind = needed_for([sink])
        nodes = [node for node in graph if id(node) in behind and is_backward(node)]
        if nodes:
            raise NotSupported(
                f"{name} depends on {dialect.describe(nodes[-1])}, an operator of backward or of "
                "the optimizer. Fetch forward values, or the gradient of a parameter itself."
            )


def _refuse_updated_reads(nodes: list[ir.Node]) -> None:
    """Refuses a read of a parameter after its update: the device updates after all of forward."""
    updated: set[int] = set()
    for node in nodes:
        if is_update(node):
            updated.update(id(value) for value in update_operators.updated(node))
            continue
        for value in node.inputs:
            if value is not None and id(value) in updated:
                raise NotSupported(
                    f"{dialect.describe(node)} reads {value.name} after the optimizer has updated "
                    "it, which is not supported yet. Build it before optimizer.minimize(loss), or "
                    "fetch the parameter itself."
                )


def _prints_a_gradient(node: ir.Node, graph: ir.Graph) -> bool:
    """Whether a node is Paddle's backward of ``print``: forward's prints the gradient too."""
    if node.op_type != "print":
        return False
    needed = needed_for([node])
    return any(id(other) in needed and is_backward(other) for other in graph)


def has_side_effect(node: ir.Node) -> bool:
    """Whether a node, or one in its blocks, has an effect besides its results."""
    return any(inner.op_type in SIDE_EFFECTS for inner in dialect.walk([node]))


def needed_for(roots: Iterable[ir.Node | None]) -> set[int]:
    """Ids of `roots` and of all nodes that they depend on; None stands for a graph input."""
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            stack.extend(value.producer() for value in node.inputs if value is not None)
    return needed


def is_backward(node: ir.Node) -> bool:
    """Whether a node belongs to backward or the optimizer, by its role or its name."""
    by_role = roles.is_training_only(node)
    if by_role is not None:
        return by_role
    return is_update(node) or str(node.op_type).endswith(("_grad", "_grad_"))
