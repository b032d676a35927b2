"""A PopART program without its names: equal for two programs exactly if they compute alike.

Operators are numbered as they are first needed by the fetches, in the fetches' order, and then by
the loss; feeds keep their names, which the user gave. A tensor is written as

    "feed x"            a fed tensor
    "weight 0"          a parameter, numbered as it is first needed
    "12", "12.1"        output 0 and output 1 of operator 12
    "float32[2] 1 2.5"  a constant: dtype, shape and values, or their digest where there are many
    ""                  an omitted input

A subgraph is written as its own lines, numbered from 0, in which ``argument 0`` is its first input
and ``around ...`` a tensor of the program around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.program import read_by_subgraphs
from tools.program_forms.default_translation import DefaultTranslation

Form = dict[str, Any]
_FEW = 16


def program_form(translated: DefaultTranslation) -> Form:
    """The program as JSON's own types.

    Returns:
        ``operators``, a line each; ``fetches``, tensors in the order of the fetches; ``feeds``,
        type by name; ``weights``, types by number; ``unread``, how many operators of each type
        nothing needs; in training ``loss`` and ``optimizer``.
    """
    compilation, translation = translated.compilation, translated.translation
    graph = translation.builder.model.graph
    writer = _Writer(graph, translation.feeds, translation.weights)
    optimizer = compilation.optimizer
    gradients = optimizer.gradients if optimizer is not None else {}
    fetched: list[tuple[str, str]] = []
    for name in compilation.fetches:
        if name in gradients:
            fetched.append(("gradient of ", translation.weights[gradients[name]]))
        else:
            written = compilation.writes.get(name, name)
            fetched.append(("", translation.tensors[written]))
    form: Form = {"fetches": [prefix + writer.tensor(name) for prefix, name in fetched]}
    if optimizer is not None:
        form["loss"] = writer.tensor(translation.tensors[str(compilation.loss)])
        form["optimizer"] = _optimizer(optimizer, translation.weights, writer)
    form["feeds"] = {
        name: _type(writer.values[tensor]) for name, tensor in sorted(translation.feeds.items())
    }
    form["weights"] = [_type(writer.values[tensor]) for tensor in writer.weights]
    form["operators"] = writer.lines
    form["unread"] = writer.unread()
    return form


class _Writer:
    """Numbers operators and weights while it walks from what is needed to what it needs."""

    def __init__(
        self,
        graph: ir.Graph,
        feeds: Mapping[str, str],
        weights: Mapping[str, str],
        around: _Writer | None = None,
    ) -> None:
        self._around = around
        self.lines: list[str] = []
        self.weights: dict[str, int] = {}
        self.values: dict[str, ir.Value] = {str(value.name): value for value in graph.inputs}
        self.values.update((str(name), value) for name, value in graph.initializers.items())
        for node in graph:
            self.values.update((str(value.name), value) for value in node.outputs)
        self._graph = graph
        self._feeds = {tensor: name for name, tensor in feeds.items()}
        self._parameters = set(weights.values())
        self._numbers: dict[int, int] = {}

    def tensor(self, name: str) -> str:
        """A tensor's form; the operators it needs are written first."""
        if name in self._feeds:
            return f"feed {self._feeds[name]}"
        if name in self._parameters:
            return f"weight {self.weights.setdefault(name, len(self.weights))}"
        if name not in self.values and self._around is not None:
            return f"around {self._around.tensor(name)}"
        value = self.values[name]
        if self._around is not None and value in self._graph.inputs:
            return f"argument {self._graph.inputs.index(value)}"
        node = value.producer()
        if node is None:
            raise ValueError(f"tensor {name!r} is neither a feed, a weight nor made by an operator")
        if node.op_type == "Constant":
            return _constant(node)
        self._write(node)
        number, index = self._numbers[id(node)], value.index()
        return f"{number}.{index}" if index else str(number)

    def _write(self, node: ir.Node) -> None:
        # Not by recursion: a network is deeper than Python's stack.
        stack = [node]
        while stack:
            top = stack[-1]
            if id(top) in self._numbers:
                stack.pop()
                continue
            read = [value for value in top.inputs if value is not None]
            read += [value for value in read_by_subgraphs(top) if value.name in self.values]
            producers = [value.producer() for value in read]
            waiting = [
                maker
                for maker in producers
                if maker is not None
                and maker.op_type != "Constant"
                and id(maker) not in self._numbers
            ]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            self._line(top)

    def _line(self, node: ir.Node) -> None:
        inputs = ["" if value is None else self.tensor(str(value.name)) for value in node.inputs]
        outputs = [_type(value) for value in node.outputs]
        attributes = [
            f"{name}={self._attribute(node.attributes[name])}" for name in sorted(node.attributes)
        ]
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        self._numbers[id(node)] = len(self.lines)
        self.lines.append(
            f"{domain}{node.op_type}({', '.join(inputs)})"
            f"{{{', '.join(attributes)}}} -> {', '.join(outputs)}"
        )

    def _attribute(self, attribute: ir.Attr) -> str:
        if attribute.type != ir.AttributeType.GRAPH:
            return _attribute(attribute)
        block = attribute.as_graph()
        inside = _Writer(block, {}, {}, self)
        outputs = [inside.tensor(str(value.name)) for value in block.outputs]
        return f"[{'; '.join(inside.lines)} | {', '.join(outputs)}]"

    def unread(self) -> dict[str, int]:
        """How many operators of each type no fetch and no loss needs."""
        counts: dict[str, int] = {}
        for node in self._graph:
            if node.op_type != "Constant" and id(node) not in self._numbers:
                counts[str(node.op_type)] = counts.get(str(node.op_type), 0) + 1
        return dict(sorted(counts.items()))


def _type(value: ir.Value) -> str:
    dims = [] if value.shape is None else [str(dim) for dim in value.shape]
    dtype = "unknown" if value.dtype is None else value.dtype.numpy().name
    return f"{dtype}[{', '.join(dims)}]"


def _constant(node: ir.Node) -> str:
    array = node.attributes["value"].value.numpy()
    dims = ", ".join(map(str, array.shape))
    if array.size <= _FEW:
        written = " ".join(str(item) for item in array.reshape(-1).tolist())
    else:
        written = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return f"{array.dtype.name}[{dims}] {written}"


def _attribute(attribute: ir.Attr) -> str:
    """ONNX keeps attributes in float32, so two numbers that round alike are one."""
    value = attribute.value
    if attribute.type == ir.AttributeType.FLOAT:
        # NumPy's versions differ in when they write an exponent.
        return str(float(str(np.float32(value))))
    if attribute.type == ir.AttributeType.FLOATS:
        return str([float(str(np.float32(item))) for item in value])
    return str(list(value) if isinstance(value, (list, tuple)) else value)


def _optimizer(optimizer: PaddleOptimizer, weights: Mapping[str, str], writer: _Writer) -> Form:
    updates = {}
    for update in optimizer.updates:
        # Paddle lists updates of parameters that the loss does not need, too.
        if update.parameter not in weights:
            continue
        clip = None if update.clip is None else optimizer.clips[update.clip]
        updates[writer.tensor(weights[update.parameter])] = {
            "rule": update.rule,
            "settings": {name: float(number) for name, number in sorted(update.settings.items())},
            "states": sorted(update.states),
            "learning_rate_scale": update.learning_rate_scale,
            "l2": update.l2,
            "clip": None if clip is None else f"{update.clip}: {clip.kind} {clip.low} {clip.high}",
        }
    return {
        "updates": dict(sorted(updates.items())),
        "loss_scaling": optimizer.loss_scaling,
        "bias_correction": optimizer.bias_correction,
        "plain_sgd": optimizer.is_plain_sgd,
    }
