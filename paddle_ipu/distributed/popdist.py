"""PopDist's Python API: what a program asks about its instances and replicas.

Names and their case are PopDist's. Outside ``poprun`` a program is one instance with one replica.
Scripts write ``import popdist``; the package installs that name, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from paddle_ipu.errors import OptionError, popart_exception
from paddle_ipu.instances import ipuof
from paddle_ipu.instances.instance import this_instance

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
T = TypeVar("T")

_REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": lambda values: values.sum(axis=0),
    "mean": lambda values: values.mean(axis=0),
    "min": lambda values: values.min(axis=0),
    "max": lambda values: values.max(axis=0),
}


def isPopdistEnvSet() -> bool:
    """Whether ``poprun`` started this process."""
    return this_instance().is_set


def getNumTotalReplicas() -> int:
    """Replicas of all instances."""
    return this_instance().total_replicas


def getNumLocalReplicas() -> int:
    """Replicas of this instance."""
    return this_instance().local_replicas


def getReplicaIndexOffset() -> int:
    """The number, among all replicas, of this instance's first one."""
    return this_instance().replica_offset


def getInstanceIndex() -> int:
    """The number of this instance, from 0."""
    return this_instance().index


def getLocalInstanceIndex() -> int:
    """The number of this instance among those of its host, from 0."""
    return this_instance().local_index


def getNumInstances() -> int:
    """How many instances there are."""
    return this_instance().count


def getNumIpusPerReplica() -> int:
    """IPUs that one replica takes."""
    return this_instance().ipus_per_replica


def checkNumIpusPerReplica(numIpusPerReplica: int) -> None:
    """Compares a program's own number with ``poprun``'s.

    Raises:
        popart_exception: they differ.
    """
    expected = getNumIpusPerReplica()
    if numIpusPerReplica != expected:
        raise popart_exception(
            f"The number of IPUs per replica is {numIpusPerReplica}, but poprun was given "
            f"--ipus-per-replica={expected}. Make them the same."
        )


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """The number of this instance's device among those that it sees, as ``gc-info -l`` has them.

    It sees the IPUs of its GCD: single ones first, then the pairs, and so on. Its device has all
    IPUs of its replicas; instances that share a GCD have consecutive devices.

    Args:
        ipusPerReplica: IPUs of a replica; 0 asks ``poprun``.

    Raises:
        popart_exception: no device has as many IPUs: not a power of two, or more than there are.
        VipuError: the partition is gone.
    """
    instance = this_instance()
    size = instance.local_replicas * (ipusPerReplica or instance.ipus_per_replica)
    if size & (size - 1):
        raise popart_exception(
            f"no device has {size} IPUs, as {instance.local_replicas} replicas of "
            f"{size // instance.local_replicas} take: the number of IPUs must be a power of two"
        )
    place = instance.replica_offset // instance.local_replicas
    found = ipuof.target()
    if found is None:
        seen = 1 << (instance.total_replicas * size // instance.local_replicas - 1).bit_length()
    else:
        partition = found.client.call("partition", name=found.partition)
        seen = partition["size"] // partition["gcds"]
        if partition["gcds"] > 1:
            place = 0
    if (place + 1) * size > seen:
        raise popart_exception(
            f"no device has {size} IPUs behind {place * size} of other instances: GCDs of "
            f"partition {found.partition if found else ''} have {seen}"
        )
    before, singles = 0, 1
    while singles < size:
        before += seen // singles
        singles *= 2
    return before + place


def _collectives() -> ModuleType:
    # It imports JAX, which a single instance does not need.
    from paddle_ipu.xla.step import instance_collectives

    return instance_collectives


def init() -> None:
    """Connects this instance with the others; waits for all of them.

    The first distributed program that is compiled does it by itself.

    Raises:
        BackendUnavailableError: they cannot be connected.
    """
    if getNumInstances() > 1:
        _collectives().joined()


def isBackendInitialized() -> bool:
    """Whether this instance is connected with the others; a single instance always is."""
    if getNumInstances() == 1:
        return True
    return bool(_collectives().is_joined())


def execute_on_instances(
    instances: Collection[int], func: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Calls a function on some instances only.

    Returns:
        Its result there, None on the others, which do not wait: where they need the result, for
        instance a file, call `barrier` next.

    Raises:
        OptionError: there is no such instance.
    """
    count = getNumInstances()
    wrong = sorted(number for number in instances if not 0 <= number < count)
    if wrong:
        raise OptionError(
            f"execute_on_instances got instance {wrong[0]}, but there are {count}, numbered from 0"
        )
    return func(*args, **kwargs) if getInstanceIndex() in instances else None


def allGather(value: npt.ArrayLike) -> Array:
    """The values of all instances, [instances, *shape]; all must call it with equal shapes.

    PopDist has no such function; programs use mpi4py or Horovod for it.

    Args:
        value: a number or an array.

    Raises:
        BackendUnavailableError: the instances cannot be connected.
    """
    array = np.asarray(value)
    if getNumInstances() == 1:
        return array[None].copy()
    gathered: Array = _collectives().joined().gathered(array)
    return gathered


def allReduce(value: npt.ArrayLike, reduction: str = "mean") -> Array:
    """The values of all instances reduced to one, for instance a metric; all must call it.

    Args:
        value: a number or an array, of one shape on all instances.
        reduction: ``mean``, ``sum``, ``min`` or ``max``.

    Raises:
        OptionError: another reduction.
        BackendUnavailableError: the instances cannot be connected.
    """
    if reduction not in _REDUCTIONS:
        raise OptionError(
            f"allReduce takes {', '.join(_REDUCTIONS)} as reduction, got {reduction!r}"
        )
    return np.asarray(_REDUCTIONS[reduction](allGather(value)))


def barrier() -> None:
    """Waits until every instance is here."""
    allGather(np.zeros(1, np.uint8))
