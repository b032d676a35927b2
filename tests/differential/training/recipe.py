"""One random training as data: drawn from a seed and a number, and made simpler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace

import numpy as np

from tests.differential.training.choices import Choice, pick
from tests.differential.training.networks import LAYERS, LOSSES, SOURCES
from tests.differential.training.optimizers import CLIPS, DECAYS, OPTIMIZERS, SCHEDULERS

GRADIENT = "gradient of "
"""In front of a parameter's name, that of its gradient."""
SCORES = "scores"
"""The name of what the loss is of."""


@dataclass(frozen=True)
class Training:
    """A training.

    Attributes:
        seed: of weights and data.
        source: what the network is fed.
        layers: of the network.
        loss: what it is trained for.
        optimizer: the update rule.
        rate: its learning rate, or the scheduler's.
        scheduler: of the rate.
        decay: of all weights, by a regulariser.
        clip: of gradients.
        micro: rows of a micro-batch.
        fixed: whether the program says how many rows its feeds have.
        accumulation: micro-batches of an update, None without accumulation.
        replicas: copies of the program, None without replication.
        batches: updates of a run.
        stages: IPUs that the layers are spread over.
        pipelining: whether these are stages of a pipeline.
        average: whether ``need_avg_shard`` spreads them instead of guards.
        add: whether gradients of an update are added up instead of averaged.
        running: whether the mean of an update is a running one.
        precision: ``float32``; ``half``, everything by the strategy's option; ``O1`` or ``O2``, by
            AMP's level.
        scale: the loss's.
        recomputation: ``auto_recomputation``.
        runs: of the compiled program.
        resume: the run after which another program, in another scope, goes on.
        way: how it gets the weights: ``save``, ``state_dict`` or ``program_state``.
        early: whether it is compiled before it gets them.
        moved: whether it is on one IPU, without stages.
        evaluate: the run after which there is one with ``enable_eval``.
        handover: the run that Paddle's executor makes, in the scope of the IPU.
        by_hand: whether ``backward`` and ``apply_gradients`` stand for ``minimize``.
        gradients: whether the parameters' gradients are fetched.
        data: what kind of numbers is fed.
        weights_alone: whether the optimizer is told to train no biases.
    """

    seed: int
    source: Choice
    layers: tuple[Choice, ...]
    loss: Choice
    optimizer: Choice
    rate: float = 0.05
    scheduler: Choice | None = None
    decay: Choice | None = None
    clip: Choice | None = None
    micro: int = 2
    fixed: bool = False
    accumulation: int | None = None
    replicas: int | None = None
    batches: int = 1
    stages: int = 1
    pipelining: bool = False
    average: bool = False
    add: bool = False
    running: bool = False
    precision: str = "float32"
    scale: float = 1.0
    recomputation: int = 0
    runs: int = 1
    resume: int | None = None
    way: str = "save"
    early: bool = False
    moved: bool = False
    evaluate: int | None = None
    handover: int | None = None
    by_hand: bool = False
    gradients: bool = False
    data: str = "normal"
    weights_alone: bool = False

    @property
    def half(self) -> bool:
        """Whether anything is computed in half."""
        return self.precision != "float32"

    @property
    def parts(self) -> int:
        """Micro-batches of an update, those of all replicas."""
        return (self.accumulation or 1) * (self.replicas or 1)

    @property
    def features(self) -> list[str]:
        """What is not as in the simplest training, in a few words each."""
        found = [f"optimizer {self.optimizer.name}", f"loss {self.loss.name}"]
        found += [f"layer {layer.name}" for layer in self.layers]
        for kind in ("scheduler", "decay", "clip"):
            choice = getattr(self, kind)
            if choice is not None:
                found.append(f"{kind} {choice.name}")
        if self.resume is not None:
            found.append(f"resumed by {self.way}")
        for name in _SWITCHES:
            if getattr(self, name) != _FIRST[name]:
                found.append(name)
        return found

    def __str__(self) -> str:
        lines = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _FIRST and value == _FIRST[each.name]:
                continue
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            lines.append(f"{each.name}: {text}")
        return "\n".join(lines)

    def simpler(self) -> Iterator[Training]:
        """Trainings with a little less in them, what is left out first to last."""
        for name, first in _FIRST.items():
            # By gradients it shows whether half's range was left.
            if getattr(self, name) != first and not (name == "gradients" and self.half):
                yield replace(self, **{name: first})
        for index in range(len(self.layers)):
            yield replace(self, layers=self.layers[:index] + self.layers[index + 1 :])
        if self.runs > 2:
            yield replace(self, runs=self.runs - 1)
        for name in ("source", "loss", "optimizer", "scheduler", "decay", "clip"):
            choice = getattr(self, name)
            if choice is not None:
                for simpler in choice.simpler():
                    yield replace(self, **{name: simpler})
        for index, layer in enumerate(self.layers):
            for simpler in layer.simpler():
                layers = (*self.layers[:index], simpler, *self.layers[index + 1 :])
                yield replace(self, layers=layers)
        if self.loss.name != "mse_loss":
            yield replace(self, loss=Choice("mse_loss"))
        if self.optimizer.name != "SGD":
            yield replace(self, optimizer=Choice("SGD"))


WAYS = ("save", "state_dict", "program_state")
DATA = ("normal", "normal", "normal", "small", "large", "zeros")
_FIRST = {each.name: each.default for each in fields(Training) if each.default is not MISSING}
_SWITCHES = (
    "accumulation", "replicas", "batches", "pipelining", "average", "add", "running", "precision",
    "scale", "recomputation", "evaluate", "handover", "gradients", "fixed", "by_hand", "moved",
    "weights_alone",
)  # fmt: skip


def drawn(seed: int, number: int) -> Training:
    """Training `number` of a seed."""
    rng = np.random.default_rng((seed, number))

    def maybe(chance: float) -> bool:
        return bool(rng.random() < chance)

    source = SOURCES.draw(rng)
    layers = tuple(LAYERS.draw(rng) for _ in range(int(rng.integers(1, 5))))
    runs = int(rng.integers(1, 6))
    stages = min(int(rng.integers(2, 4)), len(layers)) if maybe(0.3) else 1
    pipelining = stages > 1 and maybe(0.7)
    accumulation = int(rng.integers(1, 5)) if maybe(0.3) else None
    if pipelining:
        accumulation = 2 * stages - 1 + int(rng.integers(0, 3))
    precision = pick(rng, ("half", "O1", "O2")) if maybe(0.18) else "float32"
    half = precision != "float32"
    # What is refused whatever else there is need not be tried often.
    rules = tuple(name for name in OPTIMIZERS if name != "ASGD" or maybe(0.1))
    return Training(
        seed=int(rng.integers(2**31)),
        source=source,
        layers=layers,
        loss=LOSSES.draw(rng),
        optimizer=OPTIMIZERS.draw(rng, rules),
        rate=pick(rng, (0.05, 0.01, 0.2)),
        scheduler=SCHEDULERS.draw(rng) if maybe(0.5) else None,
        decay=DECAYS.draw(rng) if maybe(0.35) else None,
        clip=CLIPS.draw(rng) if maybe(0.4) else None,
        micro=int(rng.integers(1, 5)),
        fixed=maybe(0.2),
        accumulation=accumulation,
        replicas=int(rng.integers(1, 4)) if maybe(0.2) else None,
        batches=int(rng.integers(2, 4)) if maybe(0.3) else 1,
        stages=stages,
        pipelining=pipelining,
        average=stages > 1 and maybe(0.3),
        add=maybe(0.2),
        running=maybe(0.3),
        precision=precision,
        scale=pick(rng, (1.0, 128.0, 0.5, 1000.0)) if maybe(0.2) or half else 1.0,
        recomputation=int(rng.integers(1, 5)) if maybe(0.15) else 0,
        runs=runs,
        resume=int(rng.integers(1, runs)) if runs > 1 and maybe(0.35) else None,
        way=pick(rng, WAYS),
        early=maybe(0.3),
        moved=stages > 1 and maybe(0.5),
        evaluate=int(rng.integers(1, runs + 1)) if maybe(0.1) else None,
        handover=int(rng.integers(1, runs)) if runs > 1 and maybe(0.1) else None,
        by_hand=maybe(0.15),
        gradients=half or maybe(0.3),
        data="normal" if half else pick(rng, DATA),
        weights_alone=maybe(0.1),
    )


def varied(training: Training, count: int) -> list[Training]:
    """A training and others of the same programs: of other weights, data, runs and checkpoints."""
    rng = np.random.default_rng(training.seed)
    return [training, *(_varied(training, rng) for _ in range(count - 1))]


def _varied(training: Training, rng: np.random.Generator) -> Training:
    runs = int(rng.integers(1, 6))

    def maybe_run(chance: float, first: int, last: int) -> int | None:
        return int(rng.integers(first, last)) if rng.random() < chance and first < last else None

    return replace(
        training,
        seed=int(rng.integers(2**31)),
        runs=runs,
        resume=maybe_run(0.35, 1, runs),
        way=pick(rng, WAYS),
        early=bool(rng.random() < 0.3),
        evaluate=maybe_run(0.1, 1, runs + 1),
        handover=maybe_run(0.1, 1, runs),
        data="normal" if training.half else pick(rng, DATA),
    )
