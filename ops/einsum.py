"""Einstein summation as reductions, transpositions, matrix products and diagonals."""

from __future__ import annotations

from paddle_ipu.ops.arrangement import diagonal_of
from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


class _Term:
    """A tensor and the label of each of its axes."""

    def __init__(self, context: TranslationContext, tensor: str, labels: list[str]) -> None:
        self.tensor, self.labels, self._context = tensor, labels, context

    def size(self, label: str) -> int:
        """The length of the axis with that label."""
        return self._context.shape(self.tensor)[self.labels.index(label)]

    def take_diagonals(self) -> None:
        """Replaces axes with the same label by their diagonal."""
        for label in sorted(set(self.labels)):
            while self.labels.count(label) > 1:
                first, second = [at for at, one in enumerate(self.labels) if one == label][:2]
                self.tensor = diagonal_of(self._context, self.tensor, first, second)
                rest = [one for at, one in enumerate(self.labels) if at not in (first, second)]
                self.labels = [*rest, label]

    def drop(self, gone: list[str]) -> None:
        """Sums over axes."""
        if gone:
            axes = sorted(self.labels.index(label) for label in gone)
            self.tensor = self._context.onnx.reducesum([self.tensor], axes, 0)
            self.labels = [label for label in self.labels if label not in gone]

    def squeeze(self, gone: list[str]) -> None:
        """Removes axes of size 1."""
        kept = [label for label in self.labels if label not in gone]
        sizes = [self.size(label) for label in kept]
        self.tensor = self._context.reshape(self.tensor, sizes)
        self.labels = kept

    def arrange(self, order: list[str]) -> None:
        """Transposes the axes to an order of labels."""
        if self.labels != order:
            axes = [self.labels.index(label) for label in order]
            self.tensor = self._context.onnx.transpose([self.tensor], axes)
            self.labels = order

    def as_stack(self, *groups: list[str]) -> str:
        """The tensor with each group of axes merged into one."""
        sizes = [product([self.size(label) for label in group]) for group in groups]
        self.arrange([label for group in groups for label in group])
        return self._context.reshape(self.tensor, sizes)


def _product(context: TranslationContext, left: _Term, right: _Term, kept: set[str]) -> _Term:
    """The product of two terms, summed over the labels that are not in `kept`.

    Expressed as one MatMul: shared labels that are kept are the batch, the other shared ones are
    summed.
    """
    for term, other in ((left, right), (right, left)):
        shared = [label for label in term.labels if label in other.labels]
        term.squeeze([one for one in shared if term.size(one) == 1 and other.size(one) > 1])
        term.drop([one for one in term.labels if one not in other.labels and one not in kept])
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    sizes = [left.size(label) for label in (*batch, *rows)] + [right.size(one) for one in columns]
    stacks = [left.as_stack(batch, rows, summed), right.as_stack(batch, summed, columns)]
    tensor = context.reshape(context.onnx.matmul(stacks), sizes)
    return _Term(context, tensor, [*batch, *rows, *columns])


def _labels(written: str, rank: int, most: int) -> list[str]:
    """One label for each axis; the axes of an ellipsis are numbered up to ``most - 1``."""
    before, dots, after = written.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(str(number) for number in range(most - hidden, most)), *after]


def _check_labels(context: TranslationContext, operands: list[str], ranks: list[int]) -> None:
    """Refuses an equation whose labels are not those of the operands' axes."""
    fits = len(operands) == len(ranks) and all(
        len(text) - 3 <= rank if "..." in text else len(text) == rank
        for text, rank in zip(operands, ranks, strict=True)
    )
    if not fits:
        raise context.refuse(
            f"equation {context.attr('equation')!r} is for other operands than {len(ranks)} with "
            f"{ranks} axes; give each operand its labels, one for each axis."
        )


@translator("einsum", emits=("ReduceSum", "Transpose", "Reshape", "MatMul", "Gather", "Identity"))
def einsum(context: TranslationContext) -> list[str | None]:
    """Products of tensors, summed over labels, in the notation of ``numpy.einsum``.

    Operands are multiplied from left to right; a label is summed as soon as no later operand has
    it.
    """
    tensors = context.inputs("x")
    equation = str(context.attr("equation")).replace(" ", "")
    written, arrow, result = equation.partition("->")
    operands = written.split(",")
    ranks = [context.rank(tensor) for tensor in tensors]
    _check_labels(context, operands, ranks)
    most = max(
        rank - len(text) + 3 if "..." in text else 0
        for text, rank in zip(operands, ranks, strict=True)
    )
    terms = [
        _Term(context, tensor, _labels(text, rank, most))
        for tensor, text, rank in zip(tensors, operands, ranks, strict=True)
    ]
    everything = [label for term in terms for label in term.labels]
    if arrow:
        wanted = _labels(result, most + len(result.replace("...", "")), most)
    else:
        once = sorted({one for one in everything if one.isalpha() and everything.count(one) == 1})
        wanted = [*(str(number) for number in range(most)), *once]
    for term in terms:
        term.take_diagonals()
    result_term = terms[0]
    for at, term in enumerate(terms[1:], start=1):
        later = {label for other in terms[at + 1 :] for label in other.labels}
        result_term = _product(context, result_term, term, later | set(wanted))
    result_term.drop([label for label in result_term.labels if label not in wanted])
    result_term.arrange(wanted)
    if result_term.tensor in tensors:
        result_term.tensor = context.onnx.identity([result_term.tensor])
    rest: list[str | None] = [None] * (len(context.node.outputs) - 1)
    return [result_term.tensor, *rest]
