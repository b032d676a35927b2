"""Rows of recurrent networks."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import REQUIRED, list_slot, row

# PIR has one operand more, the dropout state, which nothing here reads.
row(
    "rnn",
    {"x": "Input", "pre_state": list_slot("PreState"), "weight_list": list_slot("WeightList"),
     "sequence_length": "SequenceLength"},
    {"out": "Out", "dropout_state_out": "DropoutState", "state": list_slot("State"),
     "reserve": "Reserve"},
    {"dropout_prob": 0.0, "hidden_size": 100, "input_size": 10, "is_bidirec": False,
     "is_test": False, "mode": REQUIRED, "num_layers": 1, "seed": 0},
)  # fmt: skip
row(
    "gru_unit",
    {"input": "Input", "hidden_prev": "HiddenPrev", "weight": "Weight", "bias": "Bias"},
    {"gate": "Gate", "reset_hidden_prev": "ResetHiddenPrev", "hidden": "Hidden"},
    {"activation": 2, "gate_activation": 1, "origin_mode": False},
)
