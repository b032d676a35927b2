"""A stage in several processes, as ``poprun`` starts them: who writes, whose rows, whose means.

Every instance reads the same batches and feeds its own replicas' rows of them. Instance 0 writes
and prints; all load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.files import DataError
from examples.bert.stages.settings import Settings

Feeds = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Replicas:
    """The replicas of this process among all: ``own`` of ``total``, the first is ``offset``."""

    total: int
    own: int
    offset: int
    instances: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.offset == 0

    def rows(self, feeds: Mapping[str, NDArray[Any]], micro_batch: int) -> Feeds:
        """Of a run's rows, [micro-batches, replicas, micro-batch] in this order, the own ones."""
        if self.own == self.total:
            return dict(feeds)
        last = self.offset + self.own

        def part(array: NDArray[Any]) -> NDArray[Any]:
            divided = array.reshape(-1, self.total, micro_batch, *array.shape[1:])
            return divided[:, self.offset : last].reshape(-1, *array.shape[1:])

        return {name: part(array) for name, array in feeds.items()}

    def means(self, values: Mapping[str, float]) -> dict[str, float]:
        """The means of all instances' numbers; all must call it with the same names."""
        if self.instances == 1:
            return dict(values)
        import popdist

        names = sorted(values)
        together = popdist.allReduce(np.array([values[name] for name in names]), "mean")
        return {name: float(value) for name, value in zip(names, together, strict=True)}

    def check_same_start(self, start: int, folder: str) -> None:
        """All instances go on from the same run; all must call it.

        Raises:
            DataError: they found other checkpoints: the folder is not the same one everywhere.
        """
        if self.instances == 1:
            return
        import popdist

        starts = [int(number) for number in popdist.allGather(np.int32(start))]
        if len(set(starts)) > 1:
            raise DataError(
                f"--output_dir {folder}: expected all instances to go on after the same step, got "
                f"{starts}; give a folder that is the same one on every host"
            )


def replicas_of(settings: Settings, device: str) -> Replicas:
    """This process's part of ``--num_replica``.

    Raises:
        ValueError: ``poprun`` was given other numbers, or for what one process does.
    """
    alone = Replicas(settings.num_replica, settings.num_replica, 0)
    try:
        import popdist
    except ImportError:
        return alone  # Paddle without paddle_ipu, on its own executor
    if not popdist.isPopdistEnvSet():
        return alone
    checks = (
        ("num_replica", settings.num_replica, popdist.getNumTotalReplicas(), "num-replicas"),
        ("num_ipus", settings.num_ipus, popdist.getNumIpusPerReplica(), "ipus-per-replica"),
    )
    for name, own, launched, option in checks:
        if own != launched:
            raise ValueError(
                f"--{name}: expected {launched}, as poprun's --{option}, got {own}; make them equal"
            )
    if popdist.getNumInstances() == 1:
        return alone
    if device == "cpu":
        raise ValueError("--device cpu: expected one process, but poprun started several")
    if not settings.is_training or settings.questions:
        raise ValueError(
            "validation: expected one process, but poprun started several; run it without poprun"
        )
    return Replicas(
        settings.num_replica,
        popdist.getNumLocalReplicas(),
        popdist.getReplicaIndexOffset(),
        popdist.getNumInstances(),
    )
