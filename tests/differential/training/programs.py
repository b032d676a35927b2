"""The programs of a training: the one that is compiled, and those that its oracle runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import paddle
from paddle import nn

from tests.differential.training.networks import (
    CLASSES,
    LAYERS,
    SOURCES,
    Network,
    loss_of,
    scores_of,
)
from tests.differential.training.optimizers import CLIPS, DECAYS, OPTIMIZERS, SCHEDULERS
from tests.differential.training.recipe import GRADIENT, SCORES, Training
from tests.journeys.training.side_by_side import Built, build, variables

Feed = dict[str, np.ndarray]

FEEDS = ["x", "labels", "targets"]
SPREAD = {"normal": 1.0, "small": 1e-3, "large": 10.0, "zeros": 0.0}


def feed_of(training: Training, run: int) -> Feed:
    """What one run is fed: rows of all batches, micro-batches and replicas."""
    rng = np.random.default_rng((training.seed, run))
    rows = training.micro * training.parts * training.batches
    source = SOURCES.make(training.source)
    if source.words:
        x = rng.integers(0, source.words, (rows, *source.shape))
    else:
        spread = SPREAD[training.data]
        x = (spread * rng.standard_normal((rows, *source.shape))).astype(np.float32)
    labels = rng.integers(0, CLASSES, (rows, 1))
    targets = rng.standard_normal((rows, CLASSES)).astype(np.float32)
    return {"x": x, "labels": labels, "targets": targets}


def forward(
    training: Training,
    placed: bool,
    sparse: bool = True,
    after_layer: Callable[[Any], Any] = lambda x: x,
) -> dict[str, Any]:
    """Feeds, layers and loss in the program that is being built.

    Args:
        training: what is built.
        placed: whether layers are under ``ipu_shard_guard``.
        sparse: whether gradients may be of rows alone.
        after_layer: what is done to the result of each.
    """
    source = SOURCES.make(training.source)
    rows = training.micro if training.fixed else -1
    x = paddle.static.data("x", [rows, *source.shape], "int64" if source.words else None)
    labels = paddle.static.data("labels", [rows, 1], "int64")
    targets = paddle.static.data("targets", [rows, CLASSES])
    network = Network(training.micro, sparse)
    stages = training.stages if placed and not training.average else 1
    count = len(training.layers)
    for index in range(stages):
        place = paddle.static.ipu_shard_guard(
            index=index, stage=index if training.pipelining else -1
        )
        with place if stages > 1 else nullcontext():
            if index == 0 and source.words:
                x = nn.Embedding(source.words, 4)(x)
            for layer in training.layers[index * count // stages : (index + 1) * count // stages]:
                x = after_layer(LAYERS.make(layer, network, x))
            if index == stages - 1:
                scores = scores_of(training.loss, x)
                loss = loss_of(training.loss, network, scores, labels, targets)
    return {"loss": loss, "hidden": x, SCORES: scores}


def optimizer_of(training: Training) -> tuple[Any, Any]:
    """(optimizer, scheduler or None)."""
    scheduler = training.scheduler and SCHEDULERS.make(training.scheduler, training.rate)
    clip = training.clip and CLIPS.make(training.clip)
    decay = training.decay and DECAYS.make(training.decay)
    rate = training.rate if scheduler is None else scheduler
    return OPTIMIZERS.make(training.optimizer, rate, decay, clip), scheduler


@dataclass
class Program(Built):
    """A program with its optimizer."""

    optimizer: Any = None

    @cached_property
    def kept(self) -> list[str]:
        """Names of everything that it keeps from run to run."""
        return variables(self.main)


def whole(training: Training, on_ipu: bool) -> Program:
    """The training's own program; for the IPU with its places and precision."""
    optimizers = []

    def make() -> tuple[list[str], dict[str, Any], Any]:
        values = forward(training, on_ipu)
        optimizer, scheduler = optimizer_of(training)
        if on_ipu and training.precision in ("O1", "O2"):
            optimizer = paddle.static.amp.decorate(
                optimizer, init_loss_scaling=training.scale, level=training.precision,
                dtype="float16", use_amp_guard=False, use_dynamic_loss_scaling=False,
            )  # fmt: skip
        optimizers.append(optimizer)
        if training.by_hand and training.precision in ("float32", "half"):
            pairs = optimizer.backward(values["loss"], None, trained_of(training))
            optimizer.apply_gradients(pairs)
        else:
            _, pairs = optimizer.minimize(values["loss"], None, trained_of(training))
        if training.gradients:
            values |= gradients_of(pairs)
        return FEEDS, values, scheduler

    built = build(make)
    return Program(**vars(built), optimizer=optimizers[0])


def trained_of(training: Training) -> list[Any] | None:
    """What the optimizer of the program that is being built is told to train; None for all."""
    if not training.weights_alone:
        return None
    parameters = paddle.static.default_main_program().all_parameters()
    return [each for each in parameters if each.trainable and ".b_" not in each.name]


def gradients_of(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Dense gradients by a name each."""
    return {
        f"{GRADIENT}{parameter.name}": gradient
        for parameter, gradient in pairs
        if gradient is not None and not _is_sparse(gradient)
    }


def _is_sparse(gradient: Any) -> bool:
    kind = getattr(gradient, "type", None)
    if isinstance(kind, paddle.base.core.VarDesc.VarType):
        return bool(kind == paddle.base.core.VarDesc.VarType.SELECTED_ROWS)
    return bool(gradient.is_selected_row_type())


@dataclass
class Backward(Built):
    """Forward and backward of a micro-batch.

    Attributes:
        trained: the parameter of each gradient's name.
        factors: shapes of feeds that layers' results are multiplied by, by name; ones change
            nothing.
    """

    trained: dict[str, str] = field(default_factory=dict)
    factors: dict[str, list[int]] = field(default_factory=dict)


def backward(training: Training) -> Backward:
    """Forward and backward of a micro-batch of a training."""
    trained: dict[str, str] = {}
    factors: dict[str, list[int]] = {}

    def with_factor(x: Any) -> Any:
        name = f"factor_{len(factors)}"
        factors[name] = [1, *x.shape[1:]]
        return x * paddle.static.data(name, factors[name])

    def make() -> tuple[list[str], dict[str, Any], Any]:
        values = forward(training, placed=False, sparse=False, after_layer=with_factor)
        pairs = paddle.static.append_backward(values["loss"], trained_of(training))
        pairs = [each for each in pairs if each[1] is not None]
        found = gradients_of(pairs)
        trained.update({f"{GRADIENT}{p.name}": p.name for p, _ in pairs})
        return FEEDS, {**values, **found}, None

    return Backward(**vars(build(make)), trained=trained, factors=factors)


def update(training: Training, trained: Mapping[str, Any]) -> Built:
    """The optimizer on gradients that are fed: the loss is the sum of each parameter times one.

    Args:
        training: whose optimizer.
        trained: parameters of the training's own program, by the feed's name.
    """

    def make() -> tuple[list[str], dict[str, Any], Any]:
        terms = []
        for feed, parameter in trained.items():
            own = paddle.ParamAttr(
                name=parameter.name,
                learning_rate=parameter.optimize_attr["learning_rate"],
                regularizer=parameter.regularizer,
                need_clip=parameter.need_clip,
            )
            shape = list(parameter.shape)
            made = paddle.create_parameter(shape, paddle.get_default_dtype(), attr=own)
            terms.append(paddle.sum(made * paddle.static.data(feed, shape)))
        optimizer, scheduler = optimizer_of(training)
        optimizer.minimize(paddle.add_n(terms))
        return list(trained), {}, scheduler

    return build(make)
