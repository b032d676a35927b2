"""The state of a V-IPU service: allocations of IPUs, their partitions, and attached processes.

Rules are the V-IPU's: a partition's size is a power of two, an IPU belongs to one partition, and a
process that is attached to IPUs has them for itself.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paddle_ipu.errors import VipuError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
SYNC_TYPES = ("c2-compatible", "pod-native-default")
_HIGHEST = 65536
LEASE = 30.0
"""Seconds for which a process of another host keeps its IPUs without a renewal."""


def is_power_of_two(number: int) -> bool:
    """Whether a number from 1 on is one."""
    return number > 0 and not number & (number - 1)


@dataclass(frozen=True, slots=True)
class Allocation:
    """IPUs that partitions are made of."""

    name: str
    cluster: str
    ipus: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is attached to IPUs.

    Attributes:
        pid: its id.
        host: where it runs, for people.
        place: the kernel and PID namespace of its id, by `place`.
        started: when, as its host counts; tells it from a later process of the same id.
        command: what it runs.
        user: who runs it.
        first: the first of its IPUs, counted in its GCD.
        ipus: how many it has.
        since: when it was attached, in seconds since 1970.
        launch: of ``poprun``, which ends it; "" for none.
        by_number: whether it asked for these very IPUs.
    """

    pid: int
    host: str
    place: str
    started: int
    command: str
    user: str
    first: int
    ipus: int
    since: float
    launch: str
    by_number: bool = False

    def overlaps(self, first: int, ipus: int) -> bool:
        """Whether it has some of so many IPUs from `first` on."""
        return first < self.first + self.ipus and self.first < first + ipus


@dataclass(slots=True)
class PartitionState:
    """A partition.

    Attributes:
        name: of the partition.
        allocation: what it is made of.
        cluster: of the allocation.
        first: the first of its IPUs in the allocation.
        size: IPUs.
        gcds: graph compile domains, each of as many IPUs.
        ilds: IPU-Link domains.
        reconfigurable: whether smaller devices of it can be attached.
        sync: how its IPUs wait for one another.
        state: ``ACTIVE``.
        attached: GCD -> the processes that have IPUs of it.
        launch: of ``poprun``, which has it removed at its end; "" for none.
    """

    name: str
    allocation: str
    cluster: str
    first: int
    size: int
    gcds: int
    ilds: int
    reconfigurable: bool
    sync: str
    state: str = "ACTIVE"
    attached: dict[int, list[Process]] = field(default_factory=dict)
    launch: str = ""


class VipuState:
    """All partitions of a cluster; safe to use from several threads.

    Args:
        allocations: what partitions can be made of.
        ild_size: IPUs of an IPU-Link domain, where nobody asks for a number of domains.
        place: of the processes whose end can be seen, by `place`; others must renew a lease.
        clock: gives the seconds since 1970.
    """

    def __init__(
        self, allocations: list[Allocation], ild_size: int, place: str, clock: Callable[[], float]
    ) -> None:
        self._allocations = {allocation.name: allocation for allocation in allocations}
        self._ild_size, self._place, self._clock = ild_size, place, clock
        self._renewed: dict[tuple[str, int, int], float] = {}
        self._partitions: dict[str, PartitionState] = {}
        self._lock = threading.Lock()

    def allocations(self) -> list[dict[str, Any]]:
        """The allocations."""
        return [asdict(allocation) for allocation in self._allocations.values()]

    def partitions(self) -> list[dict[str, Any]]:
        """The partitions, in the order in which they were made."""
        with self._lock:
            self._release_ended()
            return [asdict(partition) for partition in self._partitions.values()]

    def partition(self, name: str) -> dict[str, Any]:
        """One partition."""
        with self._lock:
            self._release_ended()
            return asdict(self._named(name))

    def create(
        self,
        name: str,
        size: int,
        allocation: str = "",
        cluster: str = "",
        gcds: int = 1,
        ilds: int = 0,
        reconfigurable: bool = False,
        sync: str = "",
        launch: str = "",
    ) -> dict[str, Any]:
        """Makes a partition.

        Raises:
            VipuError: it has the name of another one, an impossible shape, or too many IPUs.
        """
        with self._lock:
            self._release_ended()
            if not _NAME.fullmatch(name):
                raise VipuError(
                    f"{name!r} is no partition name: letters, digits and . _ - are, up to 64"
                )
            if name in self._partitions:
                raise VipuError(f"partition {name} already exists")
            for what, number in (("size", size), ("number of GCDs", gcds), ("ILDs", ilds or 1)):
                if not is_power_of_two(number) or number > _HIGHEST:
                    raise VipuError(f"a partition's {what} must be a power of 2, got {number}")
            ilds = ilds or max(1, size // self._ild_size)
            if gcds > size or ilds > size:
                raise VipuError(f"{size} IPUs cannot have {gcds} GCDs and {ilds} ILDs")
            sync = sync or ("c2-compatible" if reconfigurable else "pod-native-default")
            if sync not in SYNC_TYPES:
                raise VipuError(f"sync type {sync!r} is none of {', '.join(SYNC_TYPES)}")
            if reconfigurable and sync != "c2-compatible":
                raise VipuError("a reconfigurable partition must have sync type c2-compatible")
            if reconfigurable and gcds > 1:
                raise VipuError("a reconfigurable partition has one GCD")
            chosen = self._allocation(allocation, cluster)
            first = self._free_block(chosen, size)
            partition = PartitionState(
                name, chosen.name, chosen.cluster, first, size, gcds, ilds, reconfigurable, sync,
                launch=launch,
            )  # fmt: skip
            self._partitions[name] = partition
            return asdict(partition)

    def _allocation(self, name: str, cluster: str) -> Allocation:
        if name:
            if name not in self._allocations:
                raise VipuError(f"allocation {name} not found")
            return self._allocations[name]
        allocations = [a for a in self._allocations.values() if cluster in ("", a.cluster)]
        if len(allocations) != 1:
            names = ", ".join(allocation.name for allocation in allocations) or "none"
            raise VipuError(f"name an allocation, there is not one alone: {names}")
        return allocations[0]

    def _free_block(self, allocation: Allocation, size: int) -> int:
        """The first IPU of a free block that begins at a multiple of its size."""
        others = [p for p in self._partitions.values() if p.allocation == allocation.name]
        for first in range(0, allocation.ipus - size + 1, size):
            if all(first + size <= p.first or p.first + p.size <= first for p in others):
                return first
        free = allocation.ipus - sum(p.size for p in others)
        raise VipuError(
            f"allocation {allocation.name} has not enough IPUs: {size} asked for, {free} of "
            f"{allocation.ipus} free. Remove a partition, or ask for fewer"
        )

    def reset(self, name: str) -> dict[str, Any]:
        """Brings a partition's IPUs back to their first state."""
        with self._lock:
            partition = self._idle(name, "reset")
            partition.state = "ACTIVE"
            return asdict(partition)

    def remove(self, name: str) -> None:
        """Removes a partition.

        Raises:
            VipuError: there is none of that name, or a process is attached to it.
        """
        with self._lock:
            del self._partitions[self._idle(name, "removed").name]

    def _idle(self, name: str, what: str) -> PartitionState:
        self._release_ended()
        partition = self._named(name)
        for processes in partition.attached.values():
            raise VipuError(f"partition {name} cannot be {what}: {_in_use(processes)}")
        return partition

    def _named(self, name: str) -> PartitionState:
        if name not in self._partitions:
            raise VipuError(f"partition {name} not found")
        return self._partitions[name]

    def attach(self, name: str, gcd: int, ipus: int, pid: int, host: str, place: str, started: int,
               command: str, user: str, launch: str = "",
               first: int = -1) -> dict[str, Any]:  # fmt: skip
        """Gives IPUs of a GCD to a process, which may ask again and then has what it asked last.

        Args:
            name: of the partition.
            gcd: number of the GCD.
            ipus: how many.
            pid: of the process, as are `host`, `place`, `started`, `command`, `user`, `launch`.
            first: the number of the first IPU, a multiple of `ipus`; the process keeps what it has
                asked for so already. -1 for any that are free.

        Returns:
            The process as data; ``lease``, the seconds after which it must `renew`, 0 for never.

        Raises:
            VipuError: there are no such IPUs, or they are in use.
        """
        with self._lock:
            self._release_ended()
            partition = self._named(name)
            if not 0 <= gcd < partition.gcds:
                raise VipuError(f"partition {name} has GCDs 0 to {partition.gcds - 1}, got {gcd}")
            size = partition.size // partition.gcds
            if not is_power_of_two(ipus):
                raise VipuError(f"a device's IPUs must be a power of 2, got {ipus}")
            if ipus > size:
                raise VipuError(f"GCD {gcd} of partition {name} has {size} IPUs, {ipus} asked for")
            lease = 0.0 if place == self._place else LEASE
            attached = partition.attached.get(gcd, [])
            mine = [p for p in attached if (p.pid, p.place, p.started) == (pid, place, started)]
            others = [p for p in attached if p not in mine]
            by_number = first >= 0
            if by_number:
                if first % ipus or first + ipus > size:
                    raise VipuError(f"GCD {gcd} of partition {name} has no {ipus} IPUs at {first}")
                enough = [p for p in mine if p.overlaps(first, ipus) and p.ipus >= ipus]
                firsts = range(first, first + 1)
            else:
                enough = [p for p in mine if p.ipus >= ipus and not p.by_number]
                firsts = range(0, size - ipus + 1, ipus)
            if enough:
                return {**asdict(enough[0]), "lease": lease}
            for start in firsts:
                if not any(p.overlaps(start, ipus) for p in others):
                    break
            else:
                raise VipuError(f"{ipus} IPUs of partition {name} are not free: {_in_use(others)}")
            now = self._clock()
            process = Process(
                pid, _shown(host, 255), place, started, _shown(command, 256), _shown(user, 64),
                start, ipus, now, launch, by_number,
            )  # fmt: skip
            # A device's blocks are aligned, so that one that overlaps lies within.
            kept = [p for p in mine if not p.overlaps(start, ipus) and (p.by_number or by_number)]
            partition.attached[gcd] = [*others, *kept, process]
            self._renewed[place, pid, started] = now
            return {**asdict(process), "lease": lease}

    def renew(self, name: str, gcd: int, pid: int, place: str, started: int) -> None:
        """Renews the lease of a process of another host.

        Raises:
            VipuError: it has no IPUs there any more.
        """
        with self._lock:
            self._release_ended()
            attached = self._named(name).attached.get(gcd, [])
            if not any((p.pid, p.place, p.started) == (pid, place, started) for p in attached):
                raise VipuError(f"process {pid} has no IPUs of partition {name} any more")
            self._renewed[place, pid, started] = self._clock()

    def release(self, name: str, gcd: int, pid: int, place: str, first: int = -1) -> None:
        """Releases a process's IPUs; does nothing where it has none.

        Args:
            name: of the partition.
            gcd: number of the GCD.
            pid: of the process.
            place: of the process.
            first: the first of those to release, which it asked for by number; -1 for all.
        """
        with self._lock:
            partition = self._partitions.get(name)
            if partition is not None:
                kept = [
                    process
                    for process in partition.attached.get(gcd, [])
                    if (process.pid, process.place) != (pid, place)
                    or (first >= 0 and not (process.by_number and process.first == first))
                ]
                partition.attached[gcd] = kept
                self._release_ended()

    def end_launch(self, launch: str) -> list[str]:
        """Releases the IPUs of a launch's processes, which ``poprun`` has ended.

        Returns:
            The partitions that were made for it, and are removed.
        """
        with self._lock:
            if not launch:
                return []
            self._keep(lambda process: process.launch != launch)
            removed = [p.name for p in self._partitions.values() if p.launch == launch]
            for name in removed:
                del self._partitions[name]
            return removed

    def _release_ended(self) -> None:
        """Releases the IPUs of processes that ended without releasing them."""
        self._keep(self._lives)
        self._renewed = {
            (p.place, p.pid, p.started): self._renewed[p.place, p.pid, p.started]
            for partition in self._partitions.values()
            for processes in partition.attached.values()
            for p in processes
        }

    def _lives(self, process: Process) -> bool:
        if process.place == self._place:
            return is_alive(process)
        renewed = self._renewed[process.place, process.pid, process.started]
        return self._clock() - renewed <= LEASE

    def _keep(self, wanted: Callable[[Process], bool]) -> None:
        for partition in self._partitions.values():
            partition.attached = {
                gcd: kept
                for gcd, processes in partition.attached.items()
                if (kept := [process for process in processes if wanted(process)])
            }


def _shown(text: str, most: int) -> str:
    """A text without control characters, which others print on their terminals."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])


def _in_use(processes: list[Process]) -> str:
    named = [f"PID {p.pid} ({p.command or '?'}) on {p.host}" for p in processes]
    return "in use by " + ", ".join(named)


def place() -> str:
    """Identifies the kernel and the PID namespace that this process's id belongs to."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def is_alive(process: Process) -> bool:
    """Whether a process of this host still runs, and is not another one of the same id."""
    # 0: there is no such process.
    return start_time(process.pid) == process.started != 0


def start_time(pid: int) -> int:
    """When a process of this host started, in the kernel's ticks since boot; 0 for none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return 0
    fields = stat.rpartition(")")[2].split()
    # Z: it has ended, and its parent has not waited for it.
    return 0 if fields[0] == "Z" else int(fields[19])
