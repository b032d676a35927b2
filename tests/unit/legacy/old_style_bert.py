"""A small BERT for masked words, written as scripts for IPU builds of Paddle were written.

Only the old spellings are used: ``paddle.fluid.layers``, ``paddle.fluid.input``,
``paddle.fluid.core``, attributes set on operators after the fact, ``clone(for_test=True)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

import paddle_ipu  # noqa: F401 - activates

import paddle.fluid as fluid  # isort: skip

VOCABULARY, HIDDEN, HEADS, LAYERS, LENGTH, PREDICTIONS = 24, 16, 2, 1, 8, 3
MICRO_BATCH = 2
DROPOUT = 0.0


@dataclass
class Model:
    """The program and what scripts keep of it."""

    main: Any
    startup: Any
    inference: Any
    feeds: list[str]
    loss: Any
    accuracy: Any
    scores: Any


@contextmanager
def device_scope(index: int, stage: int, name: str) -> Iterator[None]:
    """An IPU, a pipeline stage and a name for what is built inside."""
    with paddle.static.ipu_shard_guard(index=index, stage=stage), paddle.static.name_scope(name):
        yield


def _norm(x: Any) -> Any:
    return fluid.layers.layer_norm(x, begin_norm_axis=len(x.shape) - 1, epsilon=1e-3)


def _drop(x: Any) -> Any:
    return fluid.layers.dropout(x, DROPOUT, dropout_implementation="upscale_in_train")


def _parameter(shape: list[int], name: str) -> Any:
    return fluid.layers.create_parameter(
        shape=shape,
        dtype="float32",
        name=name,
        default_initializer=fluid.initializer.TruncatedNormal(scale=0.2),
    )


def _embedding(indices: Any, segments: Any, positions: Any, words: Any) -> Any:
    # The table is kept transposed, so that the head can multiply by it as it is.
    table = fluid.layers.transpose(words, perm=[1, 0])
    x = fluid.layers.gather(table, indices)
    kinds = fluid.input.one_hot(segments, depth=2)
    kinds = fluid.layers.matmul(kinds, _parameter([2, HIDDEN], "token_type"))
    places = fluid.embedding(fluid.layers.cast(positions, "int64"), size=[LENGTH, HIDDEN])
    x = fluid.layers.elementwise_add(x, fluid.layers.elementwise_add(kinds, places))
    return _drop(_norm(x))


def _attention(x: Any, mask: Any) -> Any:
    heads, size = HEADS, HIDDEN // HEADS
    weights = fluid.layers.concat(
        [_parameter([HIDDEN, HIDDEN], paddle.utils.unique_name.generate("qkv")) for _ in range(3)],
        axis=1,
    )
    qkv = fluid.layers.matmul(x, weights)
    qkv.block.ops[-1]._set_attr("__available_memory", 0.28)
    parts = fluid.layers.split(qkv, num_or_sections=3, dim=1)
    q, k, v = (
        fluid.layers.transpose(
            fluid.layers.reshape(part, [-1, LENGTH, heads, size]), perm=[0, 2, 1, 3]
        )
        for part in parts
    )
    scores = fluid.layers.scale(fluid.layers.matmul(q, k, transpose_y=True), size**-0.5)
    scores = fluid.layers.elementwise_add(scores, mask)
    context = fluid.layers.matmul(_drop(fluid.layers.softmax(scores)), v)
    context = fluid.layers.reshape(fluid.layers.transpose(context, perm=[0, 2, 1, 3]), [-1, HIDDEN])
    return fluid.layers.fc(context, HIDDEN, bias_attr=False)


def _mask(lengths: Any) -> Any:
    """0 where a place counts, -1000 behind the sequence's end."""
    places = fluid.layers.range(0, LENGTH, 1, "int32")
    counts = fluid.layers.cast(fluid.layers.less_than(places, lengths), "float32")
    mask = fluid.layers.scale(counts, scale=1000.0, bias=-1.0, bias_after_scale=False)
    mask = fluid.layers.reshape(mask, [-1, 1, 1, LENGTH])
    mask.stop_gradient = True
    return mask


def _feed_forward(x: Any) -> Any:
    inner = fluid.layers.gelu(fluid.layers.fc(x, 4 * HIDDEN), approximate=True)
    return fluid.layers.fc(inner, HIDDEN)


def _head(x: Any, words: Any) -> Any:
    x = fluid.layers.reshape(x, [-1, LENGTH, HIDDEN])
    x = fluid.layers.slice(x, axes=[1], starts=[0], ends=[PREDICTIONS])
    x = _norm(fluid.layers.gelu(fluid.layers.fc(x, HIDDEN, num_flatten_dims=2), approximate=True))
    x = fluid.layers.reshape(x, [-1, HIDDEN])
    scores = fluid.layers.matmul(x, words)
    scores.block.ops[-1]._set_attr("serialize_factor", 4)
    scores.block.ops[-1]._set_attr("__available_memory", 0.4)
    return scores


def build(micro_batch: int = MICRO_BATCH) -> Model:
    """The whole program, under two IPUs and three pipeline stages."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1984
    with fluid.program_guard(main, startup):
        flat = [micro_batch * LENGTH]
        with device_scope(0, 0, "feeds"):
            indices = paddle.static.data("indices", flat, "int32")
            segments = paddle.static.data("segments", flat, "int32")
            positions = paddle.static.data("positions", flat, "int32")
            lengths = paddle.static.data("lengths", [micro_batch, 1], "int32")
            labels = paddle.static.data("labels", [micro_batch, PREDICTIONS], "int32")
        with device_scope(0, 0, "embedding"):
            words = _parameter([HIDDEN, VOCABULARY], "words")
            x = _embedding(indices, segments, positions, words)
        for layer in range(LAYERS):
            with device_scope(1, 1, f"encoder_{layer}"):
                if layer == 0:
                    mask = _mask(lengths)
                x = _norm(fluid.layers.elementwise_add(x, _drop(_attention(x, mask))))
                x = _norm(fluid.layers.elementwise_add(x, _drop(_feed_forward(x))))
        with device_scope(0, 2, "head"):
            scores = _head(x, words)
            wanted = fluid.layers.reshape(labels, [-1, 1])
            probabilities = fluid.layers.softmax(scores)
            loss = fluid.layers.mean(
                fluid.layers.cross_entropy(probabilities, fluid.layers.cast(wanted, "int64"))
            )
            best = fluid.layers.cast(fluid.layers.argmax(scores, axis=-1), "int32")
            hits = fluid.layers.equal(best, fluid.layers.reshape(labels, [-1]))
            accuracy = fluid.layers.reduce_mean(fluid.layers.cast(hits, "float32"))
        inference = main.clone(for_test=True)
        fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    feeds = ["indices", "segments", "positions", "lengths", "labels"]
    return Model(main, startup, inference, feeds, loss, accuracy, scores)


def batch(rows: int) -> dict[str, Any]:
    """Sequences whose first words are to be guessed from the last ones."""
    rng = np.random.default_rng(3)
    labels = rng.integers(1, VOCABULARY, (rows, PREDICTIONS))
    indices = np.zeros((rows, LENGTH), np.int64)
    indices[:, PREDICTIONS : 2 * PREDICTIONS] = labels
    arrays = {
        "indices": indices,
        "segments": np.tile([0] * 4 + [1] * 4, (rows, 1)),
        "positions": np.tile(np.arange(LENGTH), (rows, 1)),
        "lengths": np.full((rows, 1), LENGTH - 1),
        "labels": labels,
    }
    return {name: array.astype(np.int32) for name, array in arrays.items()}


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays as the tensors that scripts fed."""
    fed = {}
    for name, array in arrays.items():
        fed[name] = fluid.core.LoDTensor()
        fed[name].set(array, fluid.core.CPUPlace())
    return fed
