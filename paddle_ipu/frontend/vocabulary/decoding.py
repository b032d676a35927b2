"""Rows of operators that decode sequences, of metrics and of ranking models."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

row("add_position_encoding", {"x": "X"}, attributes={"alpha": 1.0, "beta": 1.0})
row("cvm", {"x": "X", "cvm": "CVM"}, {"out": "Y"}, {"use_cvm": True})
row(
    "viterbi_decode",
    {"potentials": "Input", "transition_params": "Transition", "lengths": "Length"},
    {"scores": "Scores", "path": "Path"},
    {"include_bos_eos_tag": True},
)
row(
    "crf_decoding",
    {"emission": "Emission", "transition": "Transition", "label": "Label", "length": "Length"},
    {"viterbi_path": "ViterbiPath"},
)
row(
    "edit_distance",
    {"hyps": "Hyps", "refs": "Refs", "hypslength": "HypsLength", "refslength": "RefsLength"},
    {"sequencenum": "SequenceNum", "out": "Out"},
    {"normalized": False},
)
row(
    "ctc_align",
    {"input": "Input", "input_length": "InputLength"},
    {"output": "Output", "output_length": "OutputLength"},
    {"blank": 0, "merge_repeated": True, "padding_value": 0},
)
row(
    "auc",
    {"x": "Predict", "label": "Label", "stat_pos": "StatPos", "stat_neg": "StatNeg",
     "ins_tag_weight": "InsTagWeight"},
    {"auc": "AUC", "stat_pos_out": "StatPosOut", "stat_neg_out": "StatNegOut"},
    {"curve": "ROC", "num_thresholds": 8191, "slide_steps": 1},
)  # fmt: skip
