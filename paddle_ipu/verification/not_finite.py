"""Finds where the first NaN and the first infinity of a micro-batch come from.

What is not finite is followed back from a fetch, the loss or a gradient through operands that are
not finite either; an infinity that softmax turns into a 0, as in a mask, is not on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.verification import causes
from paddle_ipu.verification.bisection import read_by
from paddle_ipu.verification.contents import NotFinite
from paddle_ipu.verification.examination import Examination
from paddle_ipu.verification.sides import Array, Case, Results, State


def first_micro_batch(results: Results) -> int | None:
    """The first micro-batch in which anything is not finite."""
    numbers = [
        number
        for arrays in results.values()
        for number, array in enumerate(arrays)
        if not _is_finite(array)
    ]
    return min(numbers, default=None)


def in_variables(case: Case, variables: State, micro_batch: int) -> NotFinite | None:
    """The first trained variable or state that is not finite after a micro-batch's update.

    Args:
        case: the verified program.
        variables: the variables after the update.
        micro_batch: its number, for the report.

    Returns:
        The finding, None if all are finite.
    """
    optimizer = case.forward.optimizer
    for update in () if optimizer is None else optimizer.updates:
        for name in (update.parameter, *update.states.values()):
            array = variables.get(name)
            if array is None or _is_finite(array):
                continue
            return NotFinite(
                _kind(array), "update", f"rule {update.rule}",
                case.forward.sources.get(update.parameter, ""), name, micro_batch, *_counts(array),
                "Its gradient is finite.",
                "Lower the learning rate; in half keep epsilon above 6e-8 and weights in float32 "
                "(multi_precision).",
            )  # fmt: skip
    return None


def trace(case: Case, examined: Examination) -> list[NotFinite]:
    """The first infinity or NaN of a micro-batch and, where that is an infinity, the first NaN."""
    search = _Search(case, examined)
    targets = [*case.fetches, *([] if case.forward.loss is None else [case.forward.loss])]
    origins = search.forward([name for name in targets if search.is_bad(name)])
    return origins or search.backward()


class _Search:
    def __init__(self, case: Case, examined: Examination) -> None:
        self._case, self._examined = case, examined
        self._forward = case.forward
        self._got = {name: arrays[0] for name, arrays in examined.got.items()}
        self._full = {name: arrays[0] for name, arrays in examined.expected.items()}
        self._values: dict[str, Array] = {**examined.state, **examined.feed, **self._got}
        self._compared = frozenset(self._values)
        self._numbers = {str(value.name): number for number, value in self._forward.results}

    def is_bad(self, name: str) -> bool:
        return name in self._values and not _is_finite(self._values[name])

    # -- forward -----------------------------------------------------------------------------------

    def forward(self, targets: Sequence[str]) -> list[NotFinite]:
        bad = set(targets)
        stack = list(targets)
        while stack:
            number = self._numbers.get(stack.pop())
            if number is None:
                continue
            read = read_by(self._forward.nodes[number], self._compared)
            new = {name for name in read if self.is_bad(name)} - bad
            bad |= new
            stack += new
        order = sorted(bad, key=lambda name: self._numbers.get(name, -1))
        first_nan = next((n for n in order if np.isnan(self._values[n]).any()), None)
        origins = order[:1]
        if first_nan is not None and first_nan not in origins:
            origins.append(first_nan)
        return [self._forward_origin(name) for name in origins]

    def _forward_origin(self, name: str) -> NotFinite:
        array, micro_batch = self._values[name], self._examined.micro_batch
        number = self._numbers.get(name)
        if number is None:
            phase = "feed" if name in self._examined.feed else "weight"
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(array, np.float64)))[0])
            return NotFinite(
                _kind(array), phase, "", "", name, micro_batch, *_counts(array),
                f"The first stands at {list(at)}.",
                "Look at what made this row." if phase == "feed" else "Start from finite values.",
            )  # fmt: skip
        node = self._forward.nodes[number]
        reason, advice = causes.forward_cause(
            str(node.op_type), self._operands(node), array.dtype == np.float16,
            self._full.get(name),
        )  # fmt: skip
        return NotFinite(
            _kind(array), "forward", str(node.op_type), dialect.source_of(node), name,
            micro_batch, *_counts(array), reason, advice, dialect.layer_of(node), number,
        )  # fmt: skip

    def _operands(self, node: ir.Node) -> Mapping[str, Array]:
        operands: dict[str, Array] = {}
        for name, value in dialect.operands(node):
            array = None if value is None else self._value(value)
            if array is not None and array.dtype.kind in "fV":
                operands.setdefault(name, np.asarray(array, np.float32))
        return operands

    def _value(self, value: ir.Value) -> Array | None:
        constant = dialect.constant(value)
        return self._values.get(str(value.name)) if constant is None else constant

    # -- backward ----------------------------------------------------------------------------------

    def backward(self) -> list[NotFinite]:
        """The first derivative, in the order of backward, whose result is not finite."""
        of_value = dict(self._forward.backward)
        of_value.update((parameter, raw) for raw, parameter in self._forward.gradients.items())
        gradients = {v: self._got[raw] for v, raw in of_value.items() if raw in self._got}
        loss = self._forward.loss
        if loss in gradients and not _is_finite(gradients[loss]):
            return [self._loss_origin(loss, gradients[loss])]
        for node in reversed(self._forward.nodes):
            for name in read_by(node, self._compared):
                if name not in gradients or _is_finite(gradients[name]):
                    continue
                readers = [
                    r for r in self._readers(name) if self._has_finite_gradient(r, gradients)
                ]
                if node not in readers:
                    continue
                array, raw = gradients[name], of_value[name]
                origin = self._origin(readers)
                if hidden := self._hidden(origin):
                    return self.forward(hidden)
                reason, advice = causes.backward_cause(
                    str(origin.op_type), self._operands(origin),
                    self._examined.in_half, self._full.get(raw), self._case.loss_scale,
                )  # fmt: skip
                return [NotFinite(
                    _kind(array), "backward", str(origin.op_type), dialect.source_of(origin), name,
                    self._examined.micro_batch, *_counts(array), reason, advice,
                    dialect.layer_of(origin), self._forward.nodes.index(origin),
                )]  # fmt: skip
        return []

    def _hidden(self, node: ir.Node) -> list[str]:
        """Operands that are not finite though no result shows it, if nothing else explains the
        derivative: a ReLU turns NaN into 0, and the gradient of the weight before it keeps it."""
        if causes.derivative_cause(str(node.op_type), self._operands(node)) is not None:
            return []
        return [name for name in read_by(node, self._compared) if self.is_bad(name)]

    def _loss_origin(self, name: str, array: Array) -> NotFinite:
        scale = self._case.loss_scale
        number = self._numbers[name]
        node = self._forward.nodes[number]
        return NotFinite(
            _kind(array), "loss", str(node.op_type), dialect.source_of(node), name,
            self._examined.micro_batch, *_counts(array),
            f"Backward starts from the loss scale, {scale:g}, which half does not hold.",
            "Lower the loss scale to 32768 at most.", dialect.layer_of(node), number,
        )  # fmt: skip

    def _readers(self, name: str) -> Iterator[ir.Node]:
        for node in reversed(self._forward.nodes):
            if name in read_by(node, self._compared):
                yield node

    def _has_finite_gradient(self, node: ir.Node, gradients: Mapping[str, Array]) -> bool:
        own = [gradients[str(v.name)] for v in node.outputs if str(v.name) in gradients]
        return bool(own) and all(map(_is_finite, own))

    def _origin(self, readers: Sequence[ir.Node]) -> ir.Node:
        for node in readers:
            if causes.derivative_cause(str(node.op_type), self._operands(node)) is not None:
                return node
        return readers[0]


def all_finite(arrays: Iterable[Array]) -> bool:
    """True when no array holds NaN or infinity."""
    return all(map(_is_finite, arrays))


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fV" or bool(np.isfinite(np.asarray(array, np.float32)).all())


def _kind(array: Array) -> str:
    return "NaN" if np.isnan(np.asarray(array, np.float32)).any() else "infinity"


def _counts(array: Array) -> tuple[int, int]:
    finite = np.isfinite(np.asarray(array, np.float64))
    return int(array.size - finite.sum()), int(array.size)
