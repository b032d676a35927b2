"""Cases of operators that decode sequences, and of ranking models."""

from __future__ import annotations

from paddle_ipu.testing.cases.operator_calls import call
from paddle_ipu.testing.operator_case import CaseTable, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_add(
    "add_position_encoding",
    lambda x, y: [
        call("add_position_encoding", [x, 0.5, 2.0], {"X": x}, {"Out": "float32"}, alpha=0.5,
             beta=2.0)[0],
        call("add_position_encoding", [y, 1.0, 1.0], {"X": y}, {"Out": "float32"}, alpha=1.0,
             beta=1.0)[0],
    ],
    gradient="x y",
    x=normal(2, 5, 6),
    y=normal(2, 3, 2),
)  # fmt: skip
_add(
    "cvm",
    lambda x, c: [
        call("cvm", [x, c, use], {"X": x, "CVM": c}, {"Y": "float32"}, use_cvm=use)[0]
        for use in (True, False)
    ],
    gradient="x",
    x=uniform(3, 5),
    c=uniform(3, 2, seed=1),
)
