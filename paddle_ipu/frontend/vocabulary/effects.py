"""Rows of operators that do something on the host."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import list_slot, row

row("assert", {"cond": "Cond", "data": list_slot("Data")}, {}, {"summarize": -1})
row(
    "print",
    {"in": "In"},
    attributes={"first_n": -1, "message": "", "summarize": 20, "print_tensor_name": True,
                "print_tensor_type": True, "print_tensor_shape": True, "print_tensor_layout": True,
                "print_tensor_lod": True, "print_phase": "BOTH", "is_forward": True},
)  # fmt: skip
