"""Has this process's IPUs for itself: attached to a partition, released when the process ends."""

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

_TIMES = 3
"""How often a lease is renewed before it would end."""
_LOCK = threading.Lock()
_held: dict[tuple[str, int], dict[str, Any]] = {}
_lost: dict[tuple[str, int], str] = {}


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
    try:
        found = ipuof.target()
        if found is None:
            return None
        with _LOCK:
            device = _attached(found, count)
            key = (found.partition, found.gcd)
            if key not in _held:
                atexit.register(_leave, found)
                if device["lease"]:
                    lease = float(device["lease"])
                    threading.Thread(target=_renew, args=(found, lease), daemon=True).start()
            _held[key] = device
            _lost.pop(key, None)
    except VipuError as error:
        raise BackendUnavailableError(
            f"Can't attach IPU, ipu_num = {count}. {error}. `paddle-ipu gc-monitor` shows who has "
            "which IPUs; the partition is that of IPUOF_VIPU_API_PARTITION_ID, else of "
            "IPUOF_CONFIG_PATH."
        ) from error
    return int(device["first"])


def check() -> None:
    """Looks whether this process has its IPUs still.

    Raises:
        BackendUnavailableError: it lost them.
    """
    for why in tuple(_lost.values()):
        raise BackendUnavailableError(why)


def _attached(found: ipuof.Target, ipus: int) -> dict[str, Any]:
    """This process, as the service has it now."""
    device: dict[str, Any] = found.client.call(
        "attach",
        name=found.partition,
        gcd=found.gcd,
        ipus=ipus,
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


def _renew(found: ipuof.Target, lease: float) -> None:
    """Says from time to time, to a service of another host, that this process lives."""
    started, every = start_time(os.getpid()), lease / _TIMES
    found = replace(found, client=replace(found.client, timeout=min(found.client.timeout, every)))
    heard, told = time.monotonic(), False
    while True:
        time.sleep(every)
        try:
            found.client.call(
                "renew", name=found.partition, gcd=found.gcd, started=started, **_myself()
            )
        except VipuConnectionError as error:
            # It may answer the next time.
            if not told and time.monotonic() - heard > lease:
                told = True
                _say(f"{error}. A service that hears nothing from this process for {lease:g} s "
                     f"gives its IPUs of partition {found.partition} to others.")  # fmt: skip
            continue
        except VipuError as error:
            if not _taken_back(found, error):
                return
        heard, told = time.monotonic(), False


def _taken_back(found: ipuof.Target, reason: VipuError) -> bool:
    """Attaches to the same IPUs again, where they are free still; notes the loss otherwise."""
    key = (found.partition, found.gcd)
    with _LOCK:
        if key not in _held:
            # This process ends.
            return False
        try:
            device = _attached(found, int(_held[key]["ipus"]))
        except VipuConnectionError:
            # As long as nobody answers, nobody gives them away.
            return True
        except VipuError as error:
            reason = error
        else:
            if device["first"] == _held[key]["first"]:
                _say(f"{reason}; they were free still, and are attached again.")
                return True
            _release(found)
        lease = float(_held.pop(key)["lease"])
        _lost[key] = (
            f"This process lost its IPUs of partition {found.partition}: {reason}. The V-IPU "
            f"service at {found.client.host}:{found.client.port} had heard nothing from it for "
            f"{lease:g} s or began anew, or the partition was removed. Start the program again; a "
            "training goes on from its last checkpoint."
        )
        _say(_lost[key])
    return False


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def _leave(found: ipuof.Target) -> None:
    """At the end of this process."""
    with _LOCK:
        _held.pop((found.partition, found.gcd), None)
    _release(found)


def _release(found: ipuof.Target) -> None:
    try:
        found.client.call(
            "release",
            name=found.partition,
            gcd=found.gcd,
            **_myself(),
        )
    except VipuError:
        # The service is gone, or will see that this process is.
        return
