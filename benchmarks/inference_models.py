"""The models of ``inference.py`` as saved Paddle models, and their inputs.

Weights are Paddle's own initial ones; every engine reads them from the saved files, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from bert_config import NORM_EPSILON
from numpy.typing import NDArray
from paddle import nn
from paddle.nn import functional

Arrays = dict[str, NDArray[Any]]
SLOTS = ("firstw", "secondw", "thirdw", "forthw")
WORDS = 2073
SEQUENCE, HEADS, HIDDEN, LAYERS, VOCABULARY = 128, 12, 768, 12, 30522


def _named(name: str) -> paddle.ParamAttr:
    return paddle.ParamAttr(name=name)


def _linear(
    name: str, x: paddle.static.Variable, rows: int, columns: int
) -> paddle.static.Variable:
    weight, bias = _named(f"{name}.weight"), _named(f"{name}.bias")
    return nn.Linear(rows, columns, weight_attr=weight, bias_attr=bias)(x)


def _norm(name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    scale, bias = _named(f"{name}.scale"), _named(f"{name}.bias")
    return nn.LayerNorm(HIDDEN, epsilon=NORM_EPSILON, weight_attr=scale, bias_attr=bias)(x)


def _word2vec() -> tuple[list[Any], Any]:
    slots = [paddle.static.data(name, [-1, 1], "int64") for name in SLOTS]
    table = nn.Embedding(WORDS, 32, weight_attr=_named("table"))
    joined = paddle.concat([table(slot).flatten(1) for slot in slots], axis=1)
    hidden = functional.sigmoid(_linear("hidden", joined, 128, 256))
    return slots, functional.softmax(_linear("out", hidden, 256, WORDS))


def _add() -> tuple[list[Any], Any]:
    x = paddle.static.data("x", [-1, 4], "float32")
    return [x], x + paddle.create_parameter([4], "float32", name="bias")


def _resnet50() -> tuple[list[Any], Any]:
    image = paddle.static.data("image", [-1, 3, 224, 224], "float32")
    network = paddle.vision.models.resnet50()
    network.eval()
    return [image], network(image)


def _bert(layers: int = LAYERS) -> tuple[list[Any], Any]:
    """The encoder, with the logits of two classes from the pooled first token."""
    tokens = paddle.static.data("tokens", [-1, SEQUENCE], "int64")
    types = paddle.static.data("types", [-1, SEQUENCE], "int64")
    x = nn.Embedding(VOCABULARY, HIDDEN, weight_attr=_named("embedding.word"))(tokens)
    x = x + nn.Embedding(2, HIDDEN, weight_attr=_named("embedding.type"))(types)
    position = paddle.create_parameter([SEQUENCE, HIDDEN], "float32", name="embedding.position")
    x = _norm("embedding.norm", x + position)
    for number in range(layers):
        x = _layer(f"layer{number}", x)
    pooled = paddle.tanh(_linear("pooler", x[:, 0], HIDDEN, HIDDEN))
    return [tokens, types], _linear("classes", pooled, HIDDEN, 2)


def _layer(name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    def heads(part: str) -> paddle.static.Variable:
        projected = _linear(f"{name}.{part}", x, HIDDEN, HIDDEN)
        split = paddle.reshape(projected, [-1, SEQUENCE, HEADS, HIDDEN // HEADS])
        return paddle.transpose(split, [0, 2, 1, 3])

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = paddle.matmul(query, key, transpose_y=True) * (HIDDEN // HEADS) ** -0.5
    context = paddle.matmul(functional.softmax(scores), value)
    context = paddle.reshape(paddle.transpose(context, [0, 2, 1, 3]), [-1, SEQUENCE, HIDDEN])
    x = _norm(f"{name}.attention_norm", x + _linear(f"{name}.output", context, HIDDEN, HIDDEN))
    wide = functional.gelu(_linear(f"{name}.up", x, HIDDEN, 4 * HIDDEN))
    return _norm(f"{name}.norm", x + _linear(f"{name}.down", wide, 4 * HIDDEN, HIDDEN))


MODELS: Mapping[str, Callable[[], tuple[list[Any], Any]]] = {
    "add": _add,
    "word2vec": _word2vec,
    "resnet50": _resnet50,
    "bert": _bert,
    "bert-2": lambda: _bert(2),
}
"""``bert-2`` is BERT-Base cut to two layers, for trials."""


def save(name: str, folder: Path) -> Path:
    """Writes a model; gives its path without the suffix."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        paddle.seed(1)
        inputs, result = MODELS[name]()
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        prefix = folder / name
        paddle.static.save_inference_model(str(prefix), inputs, [result], executor, program=main)
    return prefix


def inputs_of(name: str, batch: int) -> Arrays:
    """What every engine is fed."""
    draw = np.random.default_rng(1)
    if name == "add":
        return {"x": np.ones((batch, 4), np.float32)}
    if name == "word2vec":
        return {slot: np.arange(batch)[:, None] % WORDS for slot in SLOTS}
    if name == "resnet50":
        return {"image": draw.normal(size=(batch, 3, 224, 224)).astype(np.float32)}
    return {
        "tokens": draw.integers(0, VOCABULARY, (batch, SEQUENCE)),
        "types": draw.integers(0, 2, (batch, SEQUENCE)),
    }


def parameters_of(prefix: Path) -> Arrays:
    """The saved weights by name."""
    from paddle_ipu.frontend import saved_model

    found = saved_model.read(saved_model.locate(prefix, prefer=(".json", ".pdmodel")))
    return {name: np.array(array) for name, array in found.parameters.items()}
