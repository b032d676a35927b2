"""Rows at the bounds: slices, windows and places that begin or end outside of an axis."""

from __future__ import annotations

import paddle

from tests.operators.operator_case import CaseTable, normal

TABLE = CaseTable()

# Backwards from before the front. Paddle 2 takes the first element there, Paddle 3 none.

for _size, _start, _stop in ((1, -3, None), (5, -8, None), (5, -6, -7), (5, 3, -9)):
    TABLE.add(
        "strided_slice",
        lambda x, cut=slice(_start, _stop, -3): paddle.concat([x[cut], x]),
        label=f"backwards_from_{_start}_to_{_stop}_of_{_size}",
        # Paddle 2 has no gradient of an empty slice.
        gradient="" if _stop == -7 else "x",
        x=normal(_size, 2),
    )
    TABLE.add(
        "set_value",
        lambda x, cut=slice(_start, _stop, -3): paddle.static.setitem(x * 1, cut, 7.0),
        label=f"backwards_from_{_start}_to_{_stop}_of_{_size}",
        limitation="what is overwritten has no gradient; Paddle 3 passes it on if the step is negative",
        x=normal(_size, 2),
    )
