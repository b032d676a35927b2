"""Rows of operators that do something on the host."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

row("assert", "assert", "cond=Cond data=Data*", "", "summarize?-1")
row(
    "print",
    "print",
    "in=In",
    "out=Out",
    'first_n?-1 message?"" summarize?20 print_tensor_name?true print_tensor_type?true '
    'print_tensor_shape?true print_tensor_layout?true print_tensor_lod?true print_phase?"BOTH" '
    "is_forward?true",
)
