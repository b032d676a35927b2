"""The table that ``--preset`` chooses from: the published settings, and sizes for two cores."""

from __future__ import annotations

from typing import Any, Literal

Stage = Literal["phase1", "phase2", "squad", "validation"]
STAGES: tuple[Stage, ...] = ("phase1", "phase2", "squad", "validation")

Values = dict[str, Any]

# BERT-Base as Graphcore and Baidu published it for PaddleNLP's `model_zoo/bert/static_ipu`.
_BASE: Values = {
    "vocab_size": 30400,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "ignore_index": 0,
    "ipu_enable_fp16": True,
    "enable_grad_acc": True,
    "logging_steps": 10,
    "shuffle": True,
    "checkpoint_outputs": True,
}
_PHASE1: Values = _BASE | {
    "seq_len": 128,
    "max_predictions_per_seq": 20,
    "learning_rate": 0.006,
    "weight_decay": 1e-2,
    "max_steps": 7038,
    "warmup_steps": 2000,
    "seed": 1984,
    "micro_batch_size": 32,
    "scale_loss": 512.0,
    "num_ipus": 4,
    "available_mem_proportion": 0.28,
    "serialize_factor": 5,
    "enable_engine_caching": True,
    "save_steps": 1000,
}
_PHASE2: Values = _PHASE1 | {
    "seq_len": 384,
    "max_predictions_per_seq": 56,
    "learning_rate": 0.002828427125,
    "max_steps": 2137,
    "warmup_steps": 274,
    "micro_batch_size": 8,
    "scale_loss": 128.0,
    "enable_engine_caching": False,
    "save_steps": 500,
}
_SQUAD: Values = _BASE | {
    "seq_len": 384,
    "max_predictions_per_seq": 56,
    "learning_rate": 5.6e-5,
    "weight_decay_mode": "decay",
    "epochs": 4,
    "micro_batch_size": 2,
    "batches_per_step": 4,
    "scale_loss": 256.0,
    "num_ipus": 2,
    "available_mem_proportion": 0.40,
}
_VALIDATION: Values = _SQUAD | {
    "is_training": False,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "enable_grad_acc": False,
    "optimizer_state_offchip": False,
    "shuffle": False,
    "seed": 1984,
    "checkpoint_outputs": False,
}

# A network that learns within minutes on two cores, on as many IPUs as the published one.
_SMALL: Values = {
    "vocab_size": 4000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 192,
    "ignore_index": 0,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "enable_grad_acc": True,
    "seed": 1984,
    "shuffle": True,
    "num_workers": 1,
    "weight_decay": 1e-2,
    "save_steps": 100,
}
_SMALL_PHASE1: Values = _SMALL | {
    "seq_len": 64,
    "max_predictions_per_seq": 10,
    "learning_rate": 0.006,
    "max_steps": 300,
    "warmup_steps": 60,
    "micro_batch_size": 8,
    "grad_acc_factor": 10,
    "num_ipus": 4,
    "serialize_factor": 5,
}
_SMALL_PHASE2: Values = _SMALL_PHASE1 | {
    "seq_len": 128,
    "max_predictions_per_seq": 20,
    "learning_rate": 0.003,
    "max_steps": 60,
    "warmup_steps": 10,
    "micro_batch_size": 4,
}
_SMALL_SQUAD: Values = _SMALL | {
    "seq_len": 192,
    "max_predictions_per_seq": 20,
    "doc_stride": 64,
    "learning_rate": 3e-4,
    "weight_decay_mode": "decay",
    "epochs": 2,
    "warmup_steps": 20,
    "micro_batch_size": 4,
    "grad_acc_factor": 4,
    "batches_per_step": 2,
    "num_ipus": 2,
}
_SMALL_VALIDATION: Values = _SMALL_SQUAD | {
    "is_training": False,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "enable_grad_acc": False,
    "micro_batch_size": 16,
    "shuffle": False,
}

# The journey in seconds: to see that it runs; it learns next to nothing.
_SMOKE: Values = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "max_position_embeddings": 64,
    "micro_batch_size": 2,
    "save_steps": 4,
    "logging_steps": 2,
    "num_workers": 0,
}
_SMOKE_PRETRAINING: Values = {
    "seq_len": 32,
    "max_predictions_per_seq": 5,
    "max_steps": 8,
    "warmup_steps": 2,
    "grad_acc_factor": 9,
}
_SMOKE_SQUAD: Values = {
    "seq_len": 64,
    "max_predictions_per_seq": 5,
    "doc_stride": 16,
    "max_steps": 8,
    "warmup_steps": 1,
    "max_answer_length": 10,
}

PRESETS: dict[str, Values] = {
    "pod4-phase1": _PHASE1 | {"grad_acc_factor": 2048},
    "pod4-phase2": _PHASE2 | {"grad_acc_factor": 2048},
    "pod4-squad": _SQUAD
    | {
        "num_replica": 2,
        "grad_acc_factor": 64,
        "warmup_steps": 30,
        "weight_decay": 1e-2,
        "seed": 1984,
    },
    "pod4-validation": _VALIDATION | {"num_replica": 2},
    "pod16-phase1": _PHASE1 | {"num_replica": 4, "grad_acc_factor": 512},
    "pod16-phase2": _PHASE2 | {"num_replica": 4, "grad_acc_factor": 512},
    "pod16-squad": _SQUAD
    | {
        "num_replica": 4,
        "grad_acc_factor": 16,
        "warmup_steps": 52,
        "weight_decay": 0.0,
        "seed": 42,
        "optimizer_state_offchip": False,
    },
    "pod16-validation": _VALIDATION | {"num_replica": 4},
    "small-phase1": _SMALL_PHASE1,
    "small-phase2": _SMALL_PHASE2,
    "small-squad": _SMALL_SQUAD,
    "small-validation": _SMALL_VALIDATION,
    "smoke-phase1": _SMALL_PHASE1 | _SMOKE | _SMOKE_PRETRAINING,
    "smoke-phase2": _SMALL_PHASE2 | _SMOKE | _SMOKE_PRETRAINING | {"seq_len": 64},
    "smoke-squad": _SMALL_SQUAD | _SMOKE | _SMOKE_SQUAD,
    "smoke-validation": _SMALL_VALIDATION | _SMOKE | _SMOKE_SQUAD,
    # Whether features, loss, spans and scores are right: a few questions learnt by heart.
    "overfit": _SMALL_SQUAD
    | {
        "questions": 50,
        "epochs": 100,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "weight_decay": 0.0,
        "learning_rate": 5e-4,
        "warmup_steps": 50,
        "use_no_bias_optimizer": False,
        "grad_acc_factor": 2,
        "batches_per_step": 1,
        "num_ipus": 1,
        "save_steps": 1000,
    },
}


def presets_of(stages: tuple[Stage, ...]) -> list[str]:
    """The presets of a script: those that end in one of its stages, and others of SQuAD."""
    named = [name for name in PRESETS if name.rpartition("-")[2] in stages]
    return named + (["overfit"] if "squad" in stages else [])
