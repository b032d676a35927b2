"""Every argument of the stage scripts: name, type, default and meaning, as one dataclass.

Names and defaults are those of the published scripts where these have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


def argument(default: Any, about: str) -> Any:
    """A field that is a command-line argument; ``about`` is its help."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Settings:
    """One run of a stage. Sizes in tokens, rows or steps; learning rates per weight update."""

    # What goes in and comes out.
    input_files: str = argument("", "folder or file of data: hdf5 or tfrecord, or SQuAD JSON")
    vocab_file: str = argument("", "vocab.txt of the prepared data (SQuAD)")
    output_dir: str = argument("out/bert_stage", "folder of logs, checkpoints, plot, predictions")
    save_path: str = argument("", "prefix of the final .pdparams (default: in --output_dir)")
    enable_load_params: bool = argument(False, "start from --load_params_path")
    load_params_path: str = argument("", "the .pdparams file to start from")
    tf_checkpoint: str = argument("", "prefix of a TensorFlow BERT checkpoint to start from")

    # The network.
    is_training: bool = argument(True, "train; False: validate (SQuAD)")
    seq_len: int = argument(128, "tokens of a sequence")
    vocab_size: int = argument(30912, "rows of the word embedding")
    max_predictions_per_seq: int = argument(20, "slots for masked words")
    max_position_embeddings: int = argument(512, "rows of the position embedding")
    num_hidden_layers: int = argument(12, "encoder layers")
    hidden_size: int = argument(768, "width of the hidden state")
    num_attention_heads: int = argument(12, "heads of an attention")
    ignore_index: int = argument(-1, "label that is no masked word")
    hidden_dropout_prob: float = argument(0.1, "dropout of the embeddings")
    attention_probs_dropout_prob: float = argument(
        0.0, "dropout of the encoder's residuals, and in SQuAD of the attention"
    )

    initial_weights: str = argument(
        "published", "'published', or 'neighbours': heads first attend to neighbouring words"
    )

    # The optimizer.
    optimizer: str = argument("", "lamb, adamw or adam; '': Lamb, in SQuAD Adam")
    learning_rate: float = argument(5e-5, "peak learning rate")
    weight_decay: float = argument(0.0, "weight decay")
    decay_biases: bool = argument(True, "weight decay of biases and layer norms, too")
    weight_decay_mode: str = argument("", "'', 'decay' or 'l2_regularization'")
    beta1: float = argument(0.9, "of Adam and Lamb")
    beta2: float = argument(0.999, "of Adam and Lamb")
    adam_epsilon: float = argument(1e-6, "of Adam and Lamb")
    use_no_bias_optimizer: bool = argument(True, "Adam and Lamb without bias correction")
    max_steps: int = argument(-1, "runs to train; -1: --epochs of the data")
    epochs: int = argument(1, "passes over the data, where --max_steps is not given")
    warmup_steps: int = argument(10, "runs of linear warm-up")
    scale_loss: float = argument(1.0, "loss scale, for half precision")
    accl1_type: str = argument("FLOAT", "type of the first moment, FLOAT or FLOAT16")
    accl2_type: str = argument("FLOAT", "type of the second moment, FLOAT or FLOAT16")
    optimizer_state_offchip: bool = argument(True, "optimizer state in the streaming memory")

    # The device.
    num_ipus: int = argument(4, "IPUs of a replica; 1 has no pipeline")
    num_replica: int = argument(1, "replicas")
    micro_batch_size: int = argument(1, "rows of a micro-batch")
    enable_grad_acc: bool = argument(False, "accumulate gradients over --grad_acc_factor")
    grad_acc_factor: int = argument(1, "micro-batches of a weight update and replica")
    batches_per_step: int = argument(1, "weight updates of a run")
    batch_size: int = argument(0, "rows of a run; computed, and checked where it is given")
    ipu_enable_fp16: bool = argument(False, "half precision on the IPU")
    available_mem_proportion: float = argument(0.0, "of every matmul; 0: not set")
    serialize_factor: int = argument(1, "parts that the vocabulary's matmul is computed in")
    auto_recomputation: int = argument(3, "0 none to 4; 3 is Pipeline")
    checkpoint_outputs: bool = argument(
        False, "a recomputation checkpoint after each layer; needs a C++ compiler"
    )
    enable_engine_caching: bool = argument(False, "keep the compiled program in --output_dir")

    # The run.
    seed: int = argument(42, "of weights, data and dropout")
    shuffle: bool = argument(False, "shuffle the data")
    num_workers: int = argument(3, "threads that read pretraining files ahead; 0: none")
    logging_steps: int = argument(10, "runs between lines of the log")
    save_steps: int = argument(500, "runs between checkpoints")
    keep_checkpoints: int = argument(2, "checkpoints that are kept")
    resume: bool = argument(False, "go on from the newest good checkpoint in --output_dir")
    overwrite: bool = argument(False, "remove the checkpoints of an earlier run in --output_dir")
    wandb: bool = argument(False, "log to Weights & Biases too")
    visualdl: bool = argument(False, "log to VisualDL too")

    # SQuAD only.
    questions: int = argument(0, "use the first N answerable questions only; 0: all")
    doc_stride: int = argument(128, "tokens that neighbouring windows of a context share")
    max_answer_length: int = argument(30, "tokens of an answer")
    n_best_size: int = argument(20, "answers kept for a question")
    null_score_diff_threshold: float = argument(0.0, "above it a question has no answer")

    @property
    def accumulation(self) -> int:
        """Micro-batches of a weight update and replica."""
        return self.grad_acc_factor if self.enable_grad_acc else 1

    @property
    def update_rows(self) -> int:
        """Rows of one weight update."""
        return self.micro_batch_size * self.accumulation * self.num_replica

    @property
    def step_rows(self) -> int:
        """Rows of a run."""
        return self.update_rows * self.batches_per_step

    def for_inference(self) -> Settings:
        """The settings to evaluate what was trained with these: one IPU, without dropout."""
        return replace(
            self,
            is_training=False,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            enable_grad_acc=False,
            batches_per_step=1,
            num_ipus=1,
            num_replica=1,
            batch_size=0,
        )

    def check(self) -> None:
        """Check that the values fit.

        Raises:
            ValueError: names the argument, what was expected and what was given.
        """
        for name in (
            "seq_len vocab_size max_predictions_per_seq num_hidden_layers hidden_size epochs "
            "num_attention_heads num_ipus num_replica micro_batch_size grad_acc_factor "
            "batches_per_step logging_steps save_steps keep_checkpoints learning_rate scale_loss "
            "serialize_factor n_best_size max_answer_length"
        ).split():
            if getattr(self, name) <= 0:
                raise ValueError(f"--{name}: expected more than 0, got {getattr(self, name)}")
        if self.max_steps == 0 or self.max_steps < -1:
            raise ValueError(f"--max_steps: expected more than 0, or -1, got {self.max_steps}")
        for name in ("num_workers", "questions", "warmup_steps", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"--{name}: expected 0 or more, got {getattr(self, name)}")
        for name, choices in (
            ("optimizer", ("", "lamb", "adamw", "adam")),
            ("initial_weights", ("published", "neighbours")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"--{name}: expected one of {choices}, got {getattr(self, name)!r}"
                )
        if self.batch_size not in (0, self.step_rows):
            raise ValueError(
                f"--batch_size: expected {self.step_rows} = {self.micro_batch_size} a micro-batch "
                f"x {self.accumulation} accumulated x {self.num_replica} replicas x "
                f"{self.batches_per_step} batches, got {self.batch_size}"
            )
        if self.vocab_size % self.serialize_factor:
            raise ValueError(
                f"--serialize_factor: expected a divisor of --vocab_size {self.vocab_size}, "
                f"got {self.serialize_factor}"
            )
