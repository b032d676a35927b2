"""Rows of operators of ranking and matching models."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import list_slot, row

for _name in ("partial_concat", "partial_sum"):
    row(_name, {"x": list_slot("X")}, attributes={"start_index": 0, "length": -1})
row("lookup_table_dequant", {"w": "W", "ids": "Ids"}, attributes={"padding_idx": -1})
row(
    "bipartite_match",
    {"dist_mat": "DistMat"},
    {"col_to_row_match_indices": "ColToRowMatchIndices",
     "col_to_row_match_dist": "ColToRowMatchDist"},
    {"match_type": "bipartite", "dist_threshold": 0.5},
)  # fmt: skip
