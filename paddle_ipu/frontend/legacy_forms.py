"""Writes an operator of a ProgramDesc that has an old or special form with plain operators.

What comes out are ProgramDesc operators again, all of them rows of ``frontend/vocabulary.py``:

    elementwise_add(X, Y, axis=1)      Y' = reshape2(Y, [.., 1]);  elementwise_add(X, Y')
    mul(X, Y, x_num_col_dims)          matmul_v2 of X and Y as matrices, and a reshape2 back
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from paddle_ipu.frontend.legacy_operator import Operator

Shape = Callable[[str], list[int]]
Declare = Callable[[str, Sequence[int]], str]


class Forms:
    """Rewrites operators; it declares the variables that stand between the new ones.

    Args:
        shape: gives a variable's dimensions, -1 for one known only at run time.
        declare: makes a variable like a named one, of other dimensions, and gives its name.
    """

    def __init__(self, shape: Shape, declare: Declare) -> None:
        self._shape = shape
        self._declare = declare

    def modern(self, operator: Operator) -> list[Operator]:
        """The plain operators that do what `operator` does: itself, where it is plain."""
        if operator.type.startswith("elementwise_") and not operator.type.endswith("_grad"):
            return self._elementwise(operator)
        rewrite = _REWRITES.get(operator.type)
        return [operator] if rewrite is None else rewrite(self, operator)

    def _elementwise(self, operator: Operator) -> list[Operator]:
        """``axis`` says where Y's dimensions stand among X's; today they stand last."""
        x, y = str(operator.input("X")), str(operator.input("Y"))
        axis = int(operator.attributes.get("axis", -1))
        trailing = len(self._shape(x)) - len(self._shape(y)) - axis
        if axis == -1 or trailing <= 0:
            return [operator]
        reshape, aligned = self._reshape(operator, y, [*self._shape(y), *[1] * trailing])
        return [reshape, operator.changed(inputs={"X": [x], "Y": [aligned]})]

    def _reshape(self, operator: Operator, name: str, shape: Sequence[int]) -> tuple[Operator, str]:
        result = self._declare(name, shape)
        return _reshape(operator, name, result, shape), result

    def _mul(self, operator: Operator) -> list[Operator]:
        x, y = str(operator.input("X")), str(operator.input("Y"))
        out = str(operator.output("Out"))
        columns = int(operator.attributes.get("x_num_col_dims", 1))
        rows = int(operator.attributes.get("y_num_col_dims", 1))
        forms: list[Operator] = []
        if len(self._shape(x)) != columns + 1:
            # A matrix product over the last dimension takes the leading ones as they are.
            flat, x = self._flatten(operator, x, columns)
            forms.append(flat)
            columns = 1
        if len(self._shape(y)) != 2:
            flat, y = self._flatten(operator, y, rows)
            forms.append(flat)
        product = operator.changed("matmul_v2", {"X": [x], "Y": [y]})
        result = [*self._shape(x)[:columns], self._shape(y)[1]]
        if len(result) == len(self._shape(out)):
            return [*forms, product]
        between = self._declare(out, result)
        return [
            *forms,
            product.changed(outputs={"Out": [between]}),
            _reshape(operator, between, out, self._shape(out)),
        ]

    def _flatten(self, operator: Operator, name: str, columns: int) -> tuple[Operator, str]:
        """A matrix whose rows are the first `columns` dimensions."""
        shape = self._shape(name)
        rows, width = _size(shape[:columns]), _size(shape[columns:])
        result = self._declare(name, [rows, width])
        return _reshape(operator, name, result, [rows, width]), result

    def _fill_constant(self, operator: Operator) -> list[Operator]:
        """``str_value`` holds what ``value`` cannot: whole numbers above 2**24, inf."""
        written = str(operator.attributes.get("str_value", ""))
        return [operator.changed(attributes={"value": float(written)})] if written else [operator]


def _size(dims: Sequence[int]) -> int:
    return -1 if any(dim < 0 for dim in dims) else prod(dims)


def _reshape(operator: Operator, name: str, result: str, shape: Sequence[int]) -> Operator:
    return operator.changed(
        "reshape2", {"X": [name]}, {"Out": [result]}, {"shape": [int(dim) for dim in shape]}
    )


_REWRITES: dict[str, Callable[[Forms, Operator], list[Operator]]] = {
    "fill_constant": Forms._fill_constant,
    "mul": Forms._mul,
}
