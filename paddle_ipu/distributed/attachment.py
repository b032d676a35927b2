"""Has this process's IPUs for itself: attached to a partition, released when the process ends."""

from __future__ import annotations

import atexit
import getpass
import os
import socket
import sys
import threading
import time
from typing import Any

from paddle_ipu.distributed import ipuof
from paddle_ipu.distributed.instance import LAUNCH
from paddle_ipu.distributed.vipu_state import place, start_time
from paddle_ipu.errors import BackendUnavailableError, VipuConnectionError, VipuError

_TIMES = 3
"""How often a lease is renewed before it would end."""
_LOCK = threading.Lock()
_held: dict[tuple[str, int], int] = {}


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
            device = found.client.call(
                "attach",
                name=found.partition,
                gcd=found.gcd,
                ipus=count,
                host=socket.gethostname(),
                command=" ".join(sys.argv)[:200],
                user=_user(),
                launch=os.environ.get(LAUNCH, ""),
                **_myself(),
                started=start_time(os.getpid()),
            )
            key = (found.partition, found.gcd)
            if key not in _held:
                atexit.register(_release, found)
                if device["lease"]:
                    every = float(device["lease"]) / _TIMES
                    threading.Thread(target=_renew, args=(found, every), daemon=True).start()
            _held[key] = int(device["ipus"])
    except VipuError as error:
        raise BackendUnavailableError(
            f"Can't attach IPU, ipu_num = {count}. {error}. `paddle-ipu gc-monitor` shows who has "
            "which IPUs; the partition is that of IPUOF_VIPU_API_PARTITION_ID, else of "
            "IPUOF_CONFIG_PATH."
        ) from error
    return int(device["first"])


def _myself() -> dict[str, Any]:
    return {"pid": os.getpid(), "place": place()}


def _renew(found: ipuof.Target, every: float) -> None:
    """Says from time to time, to a service of another host, that this process lives."""
    started = start_time(os.getpid())
    while True:
        time.sleep(every)
        try:
            found.client.call(
                "renew", name=found.partition, gcd=found.gcd, started=started, **_myself()
            )
        except VipuConnectionError:
            # It may answer the next time.
            continue
        except VipuError as error:
            sys.stderr.write(f"IPUs lost: {error}; another process may have them.\n")
            return


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


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
