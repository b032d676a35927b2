"""Which instance of a distributed program this process is, by the variables that ``poprun`` sets.

``poprun`` starts the same program several times. Each process is an *instance*; the replicas of the
program are divided among the instances, and numbered through all of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from paddle_ipu.errors import OptionError

COORDINATOR = "PADDLE_IPU_COORDINATOR"
"""``host:port`` where instance 0 waits for the others; ``poprun`` sets it."""

LAUNCH = "PADDLE_IPU_LAUNCH"
"""One text for all processes of a launch, and for no others; ``poprun`` sets it."""

TOTAL_REPLICAS = "POPDIST_NUM_TOTAL_REPLICAS"
LOCAL_REPLICAS = "POPDIST_NUM_LOCAL_REPLICAS"
IPUS_PER_REPLICA = "POPDIST_NUM_IPUS_PER_REPLICA"
UNIFORM = "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE"
REPLICA_OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"
LOCAL_INSTANCE = "POPDIST_LOCAL_INSTANCE_INDEX"
AUTOREPORT = "POPDIST_AUTOREPORT_DIRECTORY"
_RANK, _SIZE = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance among all.

    Attributes:
        index: its number, from 0.
        count: how many instances there are.
        local_index: its number among the instances of its host.
        total_replicas: replicas of all instances.
        local_replicas: its own replicas.
        replica_offset: the number of its first replica.
        ipus_per_replica: IPUs that one replica takes.
        is_uniform: whether all instances have equally many replicas.
        is_set: whether ``poprun`` started it; the others are the only instance of their program.
        coordinator: ``host:port`` where instance 0 waits for the others, "" where it is not set.
    """

    index: int = 0
    count: int = 1
    local_index: int = 0
    total_replicas: int = 1
    local_replicas: int = 1
    replica_offset: int = 0
    ipus_per_replica: int = 1
    is_uniform: bool = True
    is_set: bool = False
    coordinator: str = ""


def this_instance(environment: Mapping[str, str] | None = None) -> Instance:
    """The instance that this process is; one instance with one replica outside ``poprun``.

    Args:
        environment: of the process, unless another is given.

    Raises:
        OptionError: a variable is no number, or they contradict one another.
    """
    values = os.environ if environment is None else environment
    if TOTAL_REPLICAS not in values:
        return Instance()

    def number(name: str, default: int) -> int:
        text = values.get(name, "")
        if not text:
            return default
        if not text.isdecimal():
            raise OptionError(
                f"{name}={text!r} is not a number. poprun sets this variable; unset it to run the "
                "program by itself."
            )
        return int(text)

    total, local = number(TOTAL_REPLICAS, 1), number(LOCAL_REPLICAS, 1)
    offset = number(REPLICA_OFFSET, 0)
    even = max(local, 1)
    instance = Instance(
        index=number(_RANK, offset // even),
        count=number(_SIZE, max(total // even, 1)),
        local_index=number(LOCAL_INSTANCE, 0),
        total_replicas=total,
        local_replicas=local,
        replica_offset=offset,
        ipus_per_replica=number(IPUS_PER_REPLICA, 1),
        is_uniform=values.get(UNIFORM, "1").lower() not in ("0", "false"),
        is_set=True,
        coordinator=values.get(COORDINATOR, ""),
    )
    if local < 1 or offset + local > total or not instance.index < instance.count:
        raise OptionError(
            f"{LOCAL_REPLICAS}={local} and {REPLICA_OFFSET}={offset} are not part of "
            f"{TOTAL_REPLICAS}={total} replicas in {instance.count} instances, of which this is "
            f"number {instance.index}. poprun sets these variables; unset them to run the program "
            "by itself."
        )
    return instance
