"""Other programs' names for the network's parameters, and what their layouts need.

Each encoder parameter has its name in TensorFlow's BERT and in the checkpoints of the published
PaddleNLP script, whose own mapping between the two this is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.stages.settings import Settings
from examples.bert.tf_checkpoint import TensorFlowCheckpoint

Arrays = dict[str, NDArray[Any]]

PUBLISHED_MARK = "ipu_bert_embeddings_0.w_0"

_EMBEDDINGS = """
embeddings.word.weight      bert/embeddings/word_embeddings         ipu_bert_embeddings_0.w_0
embeddings.position.weight  bert/embeddings/position_embeddings     embedding_0.w_0
embeddings.segment.weight   bert/embeddings/token_type_embeddings   ipu_bert_embeddings_0.w_1
embeddings.norm.scale       bert/embeddings/LayerNorm/gamma         layer_norm_0.w_0
embeddings.norm.bias        bert/embeddings/LayerNorm/beta          layer_norm_0.b_0
"""
# Of layer {i}; the published names have the numbers that Paddle 2 counts, see _counted.
_LAYER = """
attention.query.weight     attention/self/query/kernel       bert_model_0.w_{i*3}
attention.key.weight       attention/self/key/kernel         bert_model_0.w_{i*3+1}
attention.value.weight     attention/self/value/kernel       bert_model_0.w_{i*3+2}
attention.query.bias       attention/self/query/bias         -
attention.key.bias         attention/self/key/bias           -
attention.value.bias       attention/self/value/bias         -
attention.output.weight    attention/output/dense/kernel     linear_{i*6}.w_0
attention.output.bias      attention/output/dense/bias       linear_{i*6}.b_0
attention.norm.scale       attention/output/LayerNorm/gamma  layer_norm_{i*4+2}.w_0
attention.norm.bias        attention/output/LayerNorm/beta   layer_norm_{i*4+2}.b_0
feed_forward.inner.weight  intermediate/dense/kernel         linear_{i*6+2}.w_0
feed_forward.inner.bias    intermediate/dense/bias           linear_{i*6+2}.b_0
feed_forward.outer.weight  output/dense/kernel               linear_{i*6+3}.w_0
feed_forward.outer.bias    output/dense/bias                 linear_{i*6+3}.b_0
feed_forward.norm.scale    output/LayerNorm/gamma            layer_norm_{i*4+4}.w_0
feed_forward.norm.bias     output/LayerNorm/beta             layer_norm_{i*4+4}.b_0
"""
_TENSORFLOW_HEADS = """
mlm.transform.weight   cls/predictions/transform/dense/kernel
mlm.transform.bias     cls/predictions/transform/dense/bias
mlm.norm.scale         cls/predictions/transform/LayerNorm/gamma
mlm.norm.bias          cls/predictions/transform/LayerNorm/beta
mlm.bias               cls/predictions/output_bias
nsp.pooler.weight      bert/pooler/dense/kernel
nsp.pooler.bias        bert/pooler/dense/bias
nsp.classifier.weight  cls/seq_relationship/output_weights
nsp.classifier.bias    cls/seq_relationship/output_bias
squad.classifier.weight cls/squad/output_weights
squad.classifier.bias  cls/squad/output_bias
"""
# TensorFlow's classifiers are [classes, hidden].
_TRANSPOSED = ("nsp.classifier.weight", "squad.classifier.weight")


def encoder_names(layers: int) -> list[tuple[str, str, str]]:
    """(ours, TensorFlow's, the published script's or "-") for embeddings and encoder."""
    rows = [tuple(line.split()) for line in _EMBEDDINGS.strip().splitlines()]
    for i in range(layers):
        for line in _LAYER.strip().splitlines():
            ours, theirs, published = line.split()
            if published != "-":
                number = published[published.index("{") + 1 : published.index("}")]
                times, _, plus = number.removeprefix("i*").partition("+")
                place = str(i * int(times) + int(plus or 0))
                published = published.replace("{" + number + "}", place)
            rows.append((f"encoder.{i}.{ours}", f"bert/encoder/layer_{i}/{theirs}", published))
    return [(a, b, c) for a, b, c in rows]


def from_published(arrays: Arrays, settings: Settings) -> Arrays:
    """The published script's parameters under our names, with zeros for biases it does not have."""
    arrays = _counted(arrays)
    result: Arrays = {}
    for ours, _, published in encoder_names(settings.num_hidden_layers):
        if published in arrays:
            result[ours] = arrays[published]
        elif ours.endswith(".bias") and ".attention." in ours:
            result[ours] = np.zeros(settings.hidden_size, np.float32)
    # One parameter holds the biases of query, key and value where there are any.
    for i in range(settings.num_hidden_layers):
        joined = arrays.get(f"bert_model_0.b_{i}")
        if joined is not None:
            parts = np.split(joined, 3)
            for part, values in zip(("query", "key", "value"), parts, strict=True):
                result[f"encoder.{i}.attention.{part}.bias"] = values
    result["embeddings.word.weight"] = arrays[PUBLISHED_MARK].T
    # The same name is SQuAD's classifier and, in pretraining, the first layer of the heads.
    layers = settings.num_hidden_layers
    first = f"linear_{6 * layers}"
    if arrays.get(f"{first}.w_0", np.zeros(0)).shape == (settings.hidden_size, 2):
        heads = {"squad.classifier.weight": f"{first}.w_0", "squad.classifier.bias": f"{first}.b_0"}
    else:
        heads = {
            "mlm.transform.weight": f"{first}.w_0",
            "mlm.transform.bias": f"{first}.b_0",
            "mlm.norm.scale": f"layer_norm_{4 * layers + 2}.w_0",
            "mlm.norm.bias": f"layer_norm_{4 * layers + 2}.b_0",
            "nsp.classifier.weight": f"linear_{6 * layers + 1}.w_0",
            "nsp.classifier.bias": f"linear_{6 * layers + 1}.b_0",
            "nsp.pooler.weight": f"linear_{6 * layers + 2}.w_0",
            "nsp.pooler.bias": f"linear_{6 * layers + 2}.b_0",
        }
        result["mlm.bias"] = np.zeros(settings.vocab_size, np.float32)  # theirs has none
    result |= {ours: arrays[name] for ours, name in heads.items() if name in arrays}
    return result


def _counted(arrays: Arrays) -> Arrays:
    """A published script's parameters under the names that its mapping has: those of Paddle 2.

    Paddle 2 counts layers and their operators together (``layer_norm_0``, ``_2``, ``_4``), Paddle 3
    layers alone. The IPUTrainer's attention is a layer of its own.
    """
    numbers = {
        kind: sorted(
            {int(name[len(kind) :].split(".")[0]) for name in arrays if name.startswith(kind)}
        )
        for kind in ("linear_", "layer_norm_")
    }
    dense = {kind for kind, used in numbers.items() if len(used) > 1 and used[-1] < len(used)}
    # Two norms a layer, and one more of the embeddings or two with that of the heads.
    layers = (len(numbers["layer_norm_"]) - 1) // 2
    result: Arrays = {}
    for name, values in arrays.items():
        kind, _, rest = name.partition("_attention_")
        if kind == "ipu_multi_head":
            layer, _, parameter = rest.partition(".")
            letter, _, place = parameter.partition("_")
            number = 3 * int(layer) + int(place) if letter == "w" else int(layer)
            name = f"bert_model_0.{letter}_{number}"
        for kind in dense:
            if name.startswith(kind):
                text, _, parameter = name[len(kind) :].partition(".")
                number = int(text)
                if kind == "layer_norm_":
                    number *= 2
                elif number < 3 * layers:
                    number = 6 * (number // 3) + (0, 2, 3)[number % 3]
                else:
                    number += 3 * layers
                name = f"{kind}{number}.{parameter}"
                break
        result[name] = values
    return result


def from_tensorflow(prefix: Path, settings: Settings, say: Callable[[str], None]) -> Arrays:
    """The tensors of a TensorFlow BERT checkpoint under our names, heads included.

    The word embedding is filled up with zeros or cut to ``vocab_size`` rows, the position embedding
    repeated or cut to ``max_position_embeddings``; ``say`` reports it.
    """
    checkpoint = TensorFlowCheckpoint(prefix)
    names = {theirs: ours for ours, theirs, _ in encoder_names(settings.num_hidden_layers)}
    for line in _TENSORFLOW_HEADS.strip().splitlines():
        ours, theirs = line.split()
        names[theirs] = ours
    result = {ours: checkpoint.read(n) for n, ours in names.items() if n in checkpoint.shapes}
    for name in _TRANSPOSED:
        if name in result:
            result[name] = result[name].T
    for name in ("embeddings.word.weight", "mlm.bias"):
        if name in result:
            result[name] = _words(name, result[name], settings.vocab_size, say)
    name = "embeddings.position.weight"
    if name in result:
        rows, wanted = len(result[name]), settings.max_position_embeddings
        if rows < wanted:
            say(f"{prefix}: {rows} positions are repeated to {wanted}")
        result[name] = result[name][np.arange(wanted) % rows]
    return result


def _words(name: str, values: NDArray[Any], rows: int, say: Callable[[str], None]) -> NDArray[Any]:
    if len(values) < rows:
        missing = np.zeros((rows - len(values), *values.shape[1:]), values.dtype)
        return np.concatenate([values, missing])
    if len(values) > rows:
        say(f"{name}: {len(values)} rows are cut to --vocab_size {rows}; words are lost")
    return values[:rows]
