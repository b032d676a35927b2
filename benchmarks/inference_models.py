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
PIXELS, PATCH, VIT_HEADS, VIT_HIDDEN = 224, 16, 6, 384
LLAMA_LAYERS, LLAMA_HEADS, LLAMA_HIDDEN, LLAMA_WIDE, LLAMA_WORDS = 8, 8, 512, 1376, 32000
PAST = 127
"""Tokens before the decoder's."""
RMS_EPSILON = 1e-5
Model = tuple[list[Any], list[Any]]
"""What a program is fed and what it gives."""


def _named(name: str) -> paddle.ParamAttr:
    return paddle.ParamAttr(name=name)


def _linear(
    name: str, x: paddle.static.Variable, rows: int, columns: int
) -> paddle.static.Variable:
    weight, bias = _named(f"{name}.weight"), _named(f"{name}.bias")
    return nn.Linear(rows, columns, weight_attr=weight, bias_attr=bias)(x)


def _norm(name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    scale, bias = _named(f"{name}.scale"), _named(f"{name}.bias")
    return nn.LayerNorm(x.shape[-1], epsilon=NORM_EPSILON, weight_attr=scale, bias_attr=bias)(x)


def _word2vec() -> Model:
    slots = [paddle.static.data(name, [-1, 1], "int64") for name in SLOTS]
    table = nn.Embedding(WORDS, 32, weight_attr=_named("table"))
    joined = paddle.concat([table(slot).flatten(1) for slot in slots], axis=1)
    hidden = functional.sigmoid(_linear("hidden", joined, 128, 256))
    return slots, [functional.softmax(_linear("out", hidden, 256, WORDS))]


def _add() -> Model:
    x = paddle.static.data("x", [-1, 4], "float32")
    return [x], [x + paddle.create_parameter([4], "float32", name="bias")]


def _of_vision(network: Callable[[], nn.Layer]) -> Model:
    image = paddle.static.data("image", [-1, 3, PIXELS, PIXELS], "float32")
    layer = network()
    layer.eval()
    return [image], [layer(image)]


def _bert(layers: int = LAYERS) -> Model:
    """The encoder, with the logits of two classes from the pooled first token."""
    tokens = paddle.static.data("tokens", [-1, SEQUENCE], "int64")
    types = paddle.static.data("types", [-1, SEQUENCE], "int64")
    x = nn.Embedding(VOCABULARY, HIDDEN, weight_attr=_named("embedding.word"))(tokens)
    x = x + nn.Embedding(2, HIDDEN, weight_attr=_named("embedding.type"))(types)
    position = paddle.create_parameter([SEQUENCE, HIDDEN], "float32", name="embedding.position")
    x = _norm("embedding.norm", x + position)
    for number in range(layers):
        name = f"layer{number}"
        x = _norm(f"{name}.attention_norm", x + _attention(name, x, SEQUENCE, HEADS))
        x = _norm(f"{name}.norm", x + _feed_forward(name, x))
    pooled = paddle.tanh(_linear("pooler", x[:, 0], HIDDEN, HIDDEN))
    return [tokens, types], [_linear("classes", pooled, HIDDEN, 2)]


def _vit() -> Model:
    """ViT-S/16: norms come before attention and products, the mean of all patches at the end."""
    image = paddle.static.data("image", [-1, 3, PIXELS, PIXELS], "float32")
    patches = nn.Conv2D(
        3, VIT_HIDDEN, PATCH, PATCH,
        weight_attr=_named("patches.weight"), bias_attr=_named("patches.bias"),
    )(image)  # fmt: skip
    count = (PIXELS // PATCH) ** 2
    position = paddle.create_parameter([count, VIT_HIDDEN], "float32", name="position")
    x = paddle.transpose(patches.flatten(2), [0, 2, 1]) + position
    for number in range(LAYERS):
        name = f"layer{number}"
        x = x + _attention(name, _norm(f"{name}.attention_norm", x), count, VIT_HEADS)
        x = x + _feed_forward(name, _norm(f"{name}.norm", x))
    return [image], [_linear("classes", _norm("norm", x).mean(1), VIT_HIDDEN, 1000)]


def _attention(
    name: str, x: paddle.static.Variable, sequence: int, heads: int
) -> paddle.static.Variable:
    hidden = x.shape[-1]

    def split(part: str) -> paddle.static.Variable:
        projected = _linear(f"{name}.{part}", x, hidden, hidden)
        by_head = paddle.reshape(projected, [-1, sequence, heads, hidden // heads])
        return paddle.transpose(by_head, [0, 2, 1, 3])

    context = _attended(split("query"), split("key"), split("value"))
    joined = paddle.reshape(paddle.transpose(context, [0, 2, 1, 3]), [-1, sequence, hidden])
    return _linear(f"{name}.output", joined, hidden, hidden)


def _attended(
    query: paddle.static.Variable, key: paddle.static.Variable, value: paddle.static.Variable
) -> paddle.static.Variable:
    scores = paddle.matmul(query, key, transpose_y=True) * query.shape[-1] ** -0.5
    return paddle.matmul(functional.softmax(scores), value)


def _feed_forward(name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    hidden = x.shape[-1]
    wide = functional.gelu(_linear(f"{name}.up", x, hidden, 4 * hidden))
    return _linear(f"{name}.down", wide, 4 * hidden, hidden)


def _llama() -> Model:
    """One step of a decoder: a token, its position, the keys and values of those before it.

    Of the results the logits come first; then the keys and values with those of the token.
    """
    token, position = (paddle.static.data(name, [-1, 1], "int64") for name in ("token", "position"))
    caches = [
        paddle.static.data(name, [-1, LLAMA_HEADS, PAST, LLAMA_HIDDEN // LLAMA_HEADS], "float32")
        for name in cache_names()
    ]
    turns = [
        _rotations(part, function)(position)
        for part, function in (("cos", np.cos), ("sin", np.sin))
    ]
    x = nn.Embedding(LLAMA_WORDS, LLAMA_HIDDEN, weight_attr=_named("words"))(token)
    grown = []
    for number in range(LLAMA_LAYERS):
        x, *now = _decoder_layer(f"layer{number}", x, caches[2 * number : 2 * number + 2], turns)
        grown += now
    logits = _product("logits", _rms_norm("norm", x), LLAMA_WORDS)
    return [token, position, *caches], [logits, *grown]


def cache_names() -> list[str]:
    """The decoder's feeds of keys and values, those of a layer beside each other."""
    return [f"{part}{number}" for number in range(LLAMA_LAYERS) for part in ("key", "value")]


def _rotations(part: str, function: Callable[[Any], Any]) -> nn.Layer:
    """A table by position: cosines or sines of the angles by which RoPE turns a head's halves."""
    half = LLAMA_HIDDEN // LLAMA_HEADS // 2
    angles = np.outer(np.arange(2 * PAST), 10000.0 ** -(np.arange(half) / half))
    table = function(np.concatenate([angles, angles], axis=1)).astype(np.float32)
    values = nn.initializer.Assign(table)
    return nn.Embedding(
        *table.shape, weight_attr=paddle.ParamAttr(name=f"rotary.{part}", initializer=values)
    )


def _decoder_layer(
    name: str, x: paddle.static.Variable, caches: list[Any], turns: list[Any]
) -> list[paddle.static.Variable]:
    """Of one token: the layer's result, all keys and all values."""
    normal = _rms_norm(f"{name}.attention_norm", x)
    query, key, value = (
        paddle.reshape(
            _product(f"{name}.{part}", normal, LLAMA_HIDDEN),
            [-1, LLAMA_HEADS, 1, LLAMA_HIDDEN // LLAMA_HEADS],
        )
        for part in ("query", "key", "value")
    )
    keys = paddle.concat([caches[0], _rotated(key, turns)], axis=2)
    values = paddle.concat([caches[1], value], axis=2)
    context = paddle.reshape(_attended(_rotated(query, turns), keys, values), [-1, 1, LLAMA_HIDDEN])
    x = x + _product(f"{name}.output", context, LLAMA_HIDDEN)
    normal = _rms_norm(f"{name}.norm", x)
    gate = functional.silu(_product(f"{name}.gate", normal, LLAMA_WIDE))
    wide = gate * _product(f"{name}.up", normal, LLAMA_WIDE)
    return [x + _product(f"{name}.down", wide, LLAMA_HIDDEN), keys, values]


def _rotated(x: paddle.static.Variable, turns: list[Any]) -> paddle.static.Variable:
    cosines, sines = (paddle.unsqueeze(turn, 1) for turn in turns)
    first, second = paddle.split(x, 2, axis=-1)
    return x * cosines + paddle.concat([-second, first], axis=-1) * sines


def _product(name: str, x: paddle.static.Variable, columns: int) -> paddle.static.Variable:
    return nn.Linear(x.shape[-1], columns, _named(f"{name}.weight"), bias_attr=False)(x)


def _rms_norm(name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    ones = nn.initializer.Constant(1.0)
    scale = paddle.create_parameter(
        [x.shape[-1]], "float32", attr=paddle.ParamAttr(name=f"{name}.scale", initializer=ones)
    )
    return x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + RMS_EPSILON) * scale


MODELS: Mapping[str, Callable[[], Model]] = {
    "add": _add,
    "word2vec": _word2vec,
    "resnet50": lambda: _of_vision(paddle.vision.models.resnet50),
    "mobilenet": lambda: _of_vision(paddle.vision.models.mobilenet_v3_large),
    "bert": _bert,
    "bert-2": lambda: _bert(2),
    "vit": _vit,
    "llama": _llama,
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
        inputs, results = MODELS[name]()
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        prefix = folder / name
        paddle.static.save_inference_model(str(prefix), inputs, results, executor, program=main)
    return prefix


def inputs_of(name: str, batch: int) -> Arrays:
    """What every engine is fed."""
    draw = np.random.default_rng(1)
    if name == "add":
        return {"x": np.ones((batch, 4), np.float32)}
    if name == "word2vec":
        return {slot: np.arange(batch)[:, None] % WORDS for slot in SLOTS}
    if name in ("resnet50", "mobilenet", "vit"):
        return {"image": draw.normal(size=(batch, 3, PIXELS, PIXELS)).astype(np.float32)}
    if name == "llama":
        size = (batch, LLAMA_HEADS, PAST, LLAMA_HIDDEN // LLAMA_HEADS)
        return {
            "token": draw.integers(0, LLAMA_WORDS, (batch, 1)),
            "position": np.full((batch, 1), PAST),
            **{cache: draw.normal(size=size).astype(np.float32) for cache in cache_names()},
        }
    return {
        "tokens": draw.integers(0, VOCABULARY, (batch, SEQUENCE)),
        "types": draw.integers(0, 2, (batch, SEQUENCE)),
    }


def parameters_of(prefix: Path) -> Arrays:
    """The saved weights by name."""
    from paddle_ipu.frontend import saved_model

    found = saved_model.read(saved_model.locate(prefix, prefer=(".json", ".pdmodel")))
    return {name: np.array(array) for name, array in found.parameters.items()}
