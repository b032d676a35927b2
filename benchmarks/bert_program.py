"""BERT pretraining as a static Paddle program, and the step that runs it on an engine of Paddle's.

The same program runs on Paddle's CPU executor and, compiled by ``IpuCompiledProgram``, on the IPU
Model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import paddle
from bert_config import (
    BETA1,
    BETA2,
    EPSILON,
    LEARNING_RATE,
    NORM_EPSILON,
    Config,
    initial_weights,
    make_batch,
    shapes,
)
from paddle import nn
from paddle.nn import functional
from program_on_ipu import compiled_for_ipu
from step_turns import Prepared


def _attribute(name: str) -> paddle.ParamAttr:
    # The values come from `initial_weights`; zeros are the cheapest that a startup program makes.
    return paddle.ParamAttr(name=name, initializer=nn.initializer.Constant(0.0))


def _linear(config: Config, name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    rows, columns = shapes(config)[f"{name}.weight"]
    layer = nn.Linear(
        rows,
        columns,
        weight_attr=_attribute(f"{name}.weight"),
        bias_attr=_attribute(f"{name}.bias"),
    )
    return layer(x)


def _norm(config: Config, name: str, x: paddle.static.Variable) -> paddle.static.Variable:
    layer = nn.LayerNorm(
        config.hidden,
        epsilon=NORM_EPSILON,
        weight_attr=_attribute(f"{name}.scale"),
        bias_attr=_attribute(f"{name}.bias"),
    )
    return layer(x)


def _parameter(config: Config, name: str) -> paddle.static.Variable:
    return paddle.create_parameter(shapes(config)[name], "float32", attr=_attribute(name))


def _encoder_layer(
    config: Config, name: str, x: paddle.static.Variable, mask: paddle.static.Variable
) -> paddle.static.Variable:
    split = [config.batch, config.sequence, config.heads, config.hidden // config.heads]

    def heads(part: str) -> paddle.static.Variable:
        projected = paddle.reshape(_linear(config, f"{name}.{part}", x), split)
        return paddle.transpose(projected, [0, 2, 1, 3])

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = paddle.matmul(query, key, transpose_y=True) * split[-1] ** -0.5 + mask
    context = paddle.matmul(functional.softmax(scores), value)
    context = paddle.reshape(
        paddle.transpose(context, [0, 2, 1, 3]), [config.batch, config.sequence, config.hidden]
    )
    x = _norm(config, f"{name}.attention_norm", x + _linear(config, f"{name}.output", context))
    wide = functional.gelu(_linear(config, f"{name}.up", x))
    return _norm(config, f"{name}.norm", x + _linear(config, f"{name}.down", wide))


Place = Callable[[int], AbstractContextManager[Any]]


def make_loss(
    config: Config, feeds: dict[str, Any], place: Place = lambda layer: nullcontext()
) -> paddle.static.Variable:
    """MLM plus NSP loss of a batch, a scalar.

    Args:
        config: the model.
        feeds: the batch of `bert_config.make_batch`.
        place: the block that a layer is built in, -1 for the embedding and `config.layers` for the
            heads.
    """
    word = _parameter(config, "embedding.word")
    with place(-1):
        position = _parameter(config, "embedding.position")
        kind = _parameter(config, "embedding.type")
        x = functional.embedding(feeds["tokens"], word) + functional.embedding(feeds["types"], kind)
        x = _norm(config, "embedding.norm", x + position[: config.sequence])
    for layer in range(config.layers):
        with place(layer):
            x = _encoder_layer(config, f"layer{layer}", x, feeds["mask"])
    with place(config.layers):
        return _heads(config, x, word, feeds)


def _heads(
    config: Config,
    x: paddle.static.Variable,
    word: paddle.static.Variable,
    feeds: dict[str, paddle.static.Variable],
) -> paddle.static.Variable:
    rows = paddle.reshape(x, [config.batch * config.sequence, config.hidden])
    masked = paddle.gather(rows, feeds["masked"])
    masked = _norm(config, "mlm.norm", functional.gelu(_linear(config, "mlm.dense", masked)))
    logits = paddle.matmul(masked, word, transpose_y=True) + _parameter(config, "mlm.bias")
    pooled = paddle.tanh(_linear(config, "pooler", x[:, 0]))
    mlm = functional.cross_entropy(logits, feeds["labels"])
    nsp = functional.cross_entropy(_linear(config, "nsp", pooled), feeds["is_next"])
    return mlm + nsp


def build(config: Config) -> tuple[Any, Any, list[str], Any]:
    """(main program, startup program, names of the feeds, loss), with Adam's updates."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        feeds = {
            name: paddle.static.data(name, array.shape, array.dtype.name)
            for name, array in make_batch(config).items()
        }
        loss = make_loss(config, feeds)
        adam = paddle.optimizer.Adam(LEARNING_RATE, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
        adam.minimize(loss)
    return main, startup, list(feeds), loss


def prepare(config: Config, on_ipu: bool, cache_path: str | None) -> Prepared:
    """Builds the program and gets it ready to run.

    Args:
        config: the model.
        on_ipu: compile for the IPU; else Paddle's CPU executor runs it.
        cache_path: a folder that keeps what was compiled for the IPU.
    """
    paddle.enable_static()
    start = time.perf_counter()
    main, startup, feeds, loss = build(config)
    times = {"build": time.perf_counter() - start}
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    scope = paddle.static.global_scope()
    for name, array in initial_weights(config):
        scope.find_var(name).get_tensor().set(array, paddle.CPUPlace())
    program, temporaries = main, None
    if on_ipu:
        program, phases = compiled_for_ipu(main, feeds, loss, cache_path)
        times |= phases
        temporaries = program.report().temporary_bytes
    batch = make_batch(config)

    def step() -> float:
        (result,) = executor.run(program, feed=batch, fetch_list=[loss])
        return float(result)

    return Prepared(step, times, temporaries)
