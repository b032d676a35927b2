"""The IPUs of this process: attached to a partition, released when the process ends."""

from __future__ import annotations

import atexit
import getpass
import os
import socket
import sys
import threading
import time
from dataclasses import replace
from typing import Any

from paddle_ipu.errors import BackendUnavailableError, VipuConnectionError, VipuError
from paddle_ipu.instances import ipuof
from paddle_ipu.instances.instance import LAUNCH
from paddle_ipu.instances.vipu_state import place, start_time
from paddle_ipu.operating_system import users

_TIMES = 3
"""How often a lease is renewed before it would end."""
_LOCK = threading.RLock()
"""Taken again by a thread that has it where the collector detaches a device."""
_held: dict[tuple[str, int], dict[int | None, dict[str, Any]]] = {}
"""By partition and GCD: what was attached by the number of its first IPU, by None for programs."""
_lost: dict[tuple[str, int], str] = {}
_renewing: set[tuple[str, int]] = set()
_targets: dict[tuple[str, int], ipuof.Target] = {}


def attach(ipus: int) -> int | None:
    """Takes IPUs of the partition that the environment names.

    A process that asks again has the larger of both numbers: its programs share its IPUs.

    Args:
        ipus: how many; as on hardware a device has a power of two of them.

    Returns:
        The first of them, counted in its GCD; None where the environment names no partition.

    Raises:
        BackendUnavailableError: they are in use, or there is no such partition.
    """
    count = 1 << max(ipus - 1, 0).bit_length()
    return _attach(count, None)


def attach_block(block: range) -> None:
    """Takes certain IPUs of the partition that the environment names, until `release_block`.

    Without a partition there is nothing to take.

    Args:
        block: numbers of a device's IPUs in the GCD.

    Raises:
        BackendUnavailableError: they are in use, or there is no such partition.
    """
    _attach(len(block), block.start)


def _attach(count: int, first: int | None) -> int | None:
    try:
        target = ipuof.target()
        if target is None:
            return None
        with _LOCK:
            device = _attached(target, count, first)
            key = (target.partition, target.gcd)
            if key not in _targets:
                atexit.register(_release_at_exit, target)
            _targets[key] = target
            if device["lease"] and key not in _renewing:
                _renewing.add(key)
                lease = float(device["lease"])
                threading.Thread(target=_renew, args=(target, lease), daemon=True).start()
            _held.setdefault(key, {})[first] = device
            _lost.pop(key, None)
    except VipuError as error:
        raise BackendUnavailableError(
            f"Can't attach IPU, ipu_num = {count}. {error}. `paddle-ipu gc-monitor` shows who has "
            "which IPUs; the partition is that of IPUOF_VIPU_API_PARTITION_ID, else of "
            "IPUOF_CONFIG_PATH."
        ) from error
    return int(device["first"])


def release_block(block: range) -> None:
    """Releases what `attach_block` took."""
    with _LOCK:
        for target in list(_targets.values()):
            blocks = _held.get((target.partition, target.gcd), {})
            if blocks.pop(block.start, None) is not None:
                _release(target, first=block.start)
                if not blocks:
                    del _held[target.partition, target.gcd]


def visible_ipus() -> int | None:
    """IPUs of the GCD that the environment names; None where it names no partition.

    Raises:
        BackendUnavailableError: no V-IPU service answers, or there is no such partition.
    """
    try:
        target = ipuof.target()
        if target is None:
            return None
        partition = target.client.call("partition", name=target.partition)
    except VipuError as error:
        raise BackendUnavailableError(f"Can't see the IPUs of the partition: {error}") from error
    return int(partition["size"]) // int(partition["gcds"])


def check() -> None:
    """Checks that this process still has its IPUs.

    Raises:
        BackendUnavailableError: it lost them.
    """
    for why in tuple(_lost.values()):
        raise BackendUnavailableError(why)


def _attached(target: ipuof.Target, ipus: int, first: int | None) -> dict[str, Any]:
    """This process, as the service has it now.

    Args:
        target: the GCD.
        ipus: how many.
        first: the number of the first; None for any that are free.
    """
    certain = {} if first is None else {"first": first}
    device: dict[str, Any] = target.client.call(
        "attach",
        name=target.partition,
        gcd=target.gcd,
        ipus=ipus,
        **certain,
        host=socket.gethostname(),
        command=" ".join(sys.argv)[:200],
        user=_user(),
        launch=os.environ.get(LAUNCH, ""),
        **_myself(),
        started=start_time(os.getpid()),
    )
    return device


def _myself() -> dict[str, Any]:
    return {"pid": os.getpid(), "place": place()}


def _renew(target: ipuof.Target, lease: float) -> None:
    """Renews the lease of a service on another host until this process ends or loses its IPUs."""
    started, every = start_time(os.getpid()), lease / _TIMES
    target = replace(
        target, client=replace(target.client, timeout=min(target.client.timeout, every))
    )
    renewed, warned = time.monotonic(), False
    while True:
        time.sleep(every)
        try:
            target.client.call(
                "renew", name=target.partition, gcd=target.gcd, started=started, **_myself()
            )
        except VipuConnectionError as error:
            # It may answer the next call.
            if not warned and time.monotonic() - renewed > lease:
                warned = True
                _print(f"{error}. A service that hears nothing from this process for {lease:g} s "
                     f"gives its IPUs of partition {target.partition} to others.")  # fmt: skip
            continue
        except VipuError as error:
            if not _reattached(target, error):
                return
        renewed, warned = time.monotonic(), False


def _reattached(target: ipuof.Target, reason: VipuError) -> bool:
    """Attaches to the same IPUs again where they are free; else notes the loss.

    Returns:
        Whether this process has IPUs to renew.
    """
    key = (target.partition, target.gcd)
    with _LOCK:
        if key not in _held:
            # This process ends, or has detached its devices.
            _renewing.discard(key)
            return False
        lease = 0.0
        try:
            for first, had in list(_held[key].items()):
                lease = float(had["lease"])
                if _attached(target, int(had["ipus"]), first)["first"] != had["first"]:
                    _release(target)
                    break
            else:
                _print(f"{reason}; they were free still, and are attached again.")
                return True
        except VipuConnectionError:
            # A service that does not answer gives them to nobody else.
            return True
        except VipuError as error:
            reason = error
        _held.pop(key, None)
        _renewing.discard(key)
        _lost[key] = (
            f"This process lost its IPUs of partition {target.partition}: {reason}. The V-IPU "
            f"service at {target.client.host}:{target.client.port} had heard nothing from it for "
            f"{lease:g} s or began anew, or the partition was removed. Start the program again; a "
            "training goes on from its last checkpoint."
        )
        _print(_lost[key])
    return False


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return str(users.this_user())


def _release_at_exit(target: ipuof.Target) -> None:
    """Releases the IPUs at the end of this process."""
    with _LOCK:
        _held.pop((target.partition, target.gcd), None)
    _release(target)


def _release(target: ipuof.Target, **certain: int) -> None:
    try:
        target.client.call("release", name=target.partition, gcd=target.gcd, **_myself(), **certain)
    except VipuError:
        # The service is gone, or will notice that this process is.
        return
