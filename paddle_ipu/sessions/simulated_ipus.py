"""The simulated IPUs of this process: how many it sees, and which of them a device has attached.

A process has a machine of its own, as the process that runs an IPU Model computes it. Only a V-IPU
service makes processes share IPUs.
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass

from paddle_ipu.cost_model.choice import choose_machine
from paddle_ipu.cost_model.machines import MACHINES, Machine
from paddle_ipu.errors import BackendUnavailableError
from paddle_ipu.instances import attachment
from paddle_ipu.instances.instance import this_instance

_UNNAMED = "POD16"
_LOCK = threading.RLock()
_attached: list[range] = []


@dataclass(frozen=True, slots=True)
class VisibleIpus:
    """What devices can be made of.

    Attributes:
        count: how many IPUs.
        machine: what each of them is like.
    """

    count: int
    machine: Machine


def visible_ipus() -> VisibleIpus:
    """The IPUs that this process sees.

    There are as many as the partition has that the environment names, else as ``poprun`` set aside
    for all replicas, else as the machine of ``POPLAR_TARGET_OPTIONS`` has, else 16, a POD16's.

    Raises:
        BackendUnavailableError: no V-IPU service answers, or there is no such partition.
        OptionError: the variables that name the machine or the instance make no sense.
    """
    choice = choose_machine("", 1, None, os.environ)
    machine = choice.machine if choice.named else MACHINES[_UNNAMED]
    count, instance = attachment.visible_ipus(), this_instance()
    if count is None and instance.is_set:
        count = 1 << (instance.total_replicas * instance.ipus_per_replica - 1).bit_length()
    return VisibleIpus(count or machine.ipus, machine)


def attach(block: range, collect: bool = True) -> None:
    """Takes the IPUs of a device until `detach`.

    Args:
        collect: where some are in use, ask Python's collector first for devices that nobody
            refers to any more, and detach them. It takes seconds in a process of many objects.

    Raises:
        BackendUnavailableError: another device of this process, or another process of the
            partition, has some of them.
    """
    with _LOCK:
        if collect and _in_use(block):
            gc.collect()
        if _in_use(block):
            raise BackendUnavailableError(
                f"another device of this process has IPUs of {block.start} to {block.stop - 1}"
            )
        attachment.attach_block(block)
        _attached.append(block)


def detach(block: range) -> None:
    """Releases the IPUs of a device."""
    with _LOCK:
        _attached.remove(block)
        attachment.release_block(block)


def _in_use(block: range) -> bool:
    # A copy, as the collector may detach a device at any time.
    return any(block.start < had.stop and had.start < block.stop for had in list(_attached))
