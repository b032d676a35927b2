"""The partition of a launch: found, reset, made or made anew, and removed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from paddle_ipu.distributed.mpi_command import Partition
from paddle_ipu.distributed.poprun_arguments import Arguments
from paddle_ipu.distributed.remote_hosts import LOCAL
from paddle_ipu.errors import LaunchError, VipuConnectionError, VipuError
from paddle_ipu.instances.vipu_client import VipuClient, body, configured_host
from paddle_ipu.instances.vipu_state import is_power_of_two

Log = Callable[[str, str], None]
"""Writes a line of a level, E, W, I or D."""
PostLater = Callable[[str, int, str], None]


def client_for(arguments: Arguments, log: Log) -> VipuClient:
    """The service that the options name, else the one that ``vipu`` is set up for."""
    host = arguments.text("vipu-server-host")
    if host is None:
        host = configured_host()
        if host is not None:
            log("I", f"V-IPU server address picked up from 'vipu': {host}")
    port, timeout = arguments.count("vipu-server-port"), arguments.count("vipu-server-timeout")
    return VipuClient(host or "127.0.0.1", port, float(timeout))


@contextmanager
def chosen(
    arguments: Arguments,
    log: Log,
    launch: str,
    post_later: PostLater,
    remote: Sequence[str] = (),
) -> Iterator[Partition]:
    """The partition, for as long as the program runs.

    Args:
        launch: a text for this launch alone, by which the service knows what belongs to it.
        post_later: is given the host, the port and the body of a request to the service that is to
            be sent once ``poprun`` has ended, whatever the reason.
        remote: the other hosts.

    Raises:
        LaunchError: the service does not answer, or there is no partition that fits.
    """
    client = client_for(arguments, log)
    if remote and client.host in LOCAL:
        raise LaunchError(
            f"the V-IPU server's host is {client.host}, which is another one on {remote[0]}, whose "
            "instances must reach it, too: give --vipu-server-host an address that all hosts know "
            "(and `paddle-ipu vipu-server` as --host)"
        )
    post_later(client.host, client.port, body("end_launch", {"launch": launch}))
    try:
        found = _found_or_made(client, arguments, log, launch)
    except VipuConnectionError as error:
        raise LaunchError(
            f"{error}\nCheck --vipu-server-host and --vipu-server-port, and whether the V-IPU "
            "server runs (`paddle-ipu vipu-server` starts one for IPU Models), or do without: "
            "--offline-mode=yes."
        ) from error
    except VipuError as error:
        raise LaunchError(str(error)) from error
    try:
        yield Partition(
            found["name"],
            (client.host, client.port),
            arguments.count("vipu-server-timeout"),
            found["size"],
            found["gcds"],
            found["ilds"],
        )
    finally:
        try:
            for name in client.call("end_launch", launch=launch):
                log("I", f"Partition {name} removed")
        except VipuError as error:
            if found["launch"]:
                log("W", f"partition {found['name']} was not removed: {error}")


def _found_or_made(
    client: VipuClient, arguments: Arguments, log: Log, launch: str
) -> dict[str, Any]:
    """The partition as data."""
    partitions = {entry["name"]: entry for entry in client.call("partitions")}
    name = arguments.text("vipu-partition")
    update = bool(arguments.flag("update-partition"))
    if not name:
        if len(partitions) != 1:
            listed = ", ".join(partitions) or "none"
            raise LaunchError(
                f"--vipu-partition is not given, and there is not exactly one partition: {listed}. "
                "`vipu list partitions` shows them."
            )
        name = next(iter(partitions))
        log("I", f"Partition {name} is used because it is the only one available")
    found = partitions.get(name)
    if found is None and not update:
        listed = ", ".join(partitions) or "none"
        raise LaunchError(
            f"partition {name} not found; there are: {listed}. Make it with `vipu create partition "
            f"{name} --size {_ipus(arguments)}`, or let poprun with --update-partition=yes."
        )
    problem = None if found is None else unfit(found, arguments)
    if found is not None and problem is None:
        log("I", f"Partition {name} already exists and is in state PS_{found['state']}")
        return _reset(client, arguments, found, log)
    if not update:
        raise LaunchError(
            f"partition {name} does not fit: {problem}. Change the options, or let poprun make it "
            "anew with --update-partition=yes."
        )
    if found is not None:
        client.call("remove", name=name)
        log("I", f"Partition {name} removed, as {problem}")
    return _made(client, arguments, name, log, launch)


def _device(arguments: Arguments) -> int:
    """IPUs of an instance's device, which has a power of two of them."""
    instances = arguments.count("num-instances")
    used = arguments.count("num-replicas") * arguments.count("ipus-per-replica") // instances
    return 1 << (used - 1).bit_length()


def _needed(arguments: Arguments) -> int:
    return arguments.count("num-instances") * _device(arguments)


def _ipus(arguments: Arguments) -> int:
    """The size of the smallest partition."""
    return 1 << (_needed(arguments) - 1).bit_length()


def unfit(partition: dict[str, Any], arguments: Arguments) -> str | None:
    """Why a partition cannot run a launch; None where it can."""
    instances, device = arguments.count("num-instances"), _device(arguments)
    gcds = partition["gcds"]
    if partition["size"] < _needed(arguments):
        for_each = f", {device} for each instance" if instances > 1 else ""
        return f"it has {partition['size']} IPUs, and {_needed(arguments)} are needed{for_each}"
    if gcds not in (1, instances):
        return f"it has {gcds} GCDs for {instances} instances"
    ilds = arguments.number("num-ilds")
    if ilds is not None and partition["ilds"] != ilds:
        return f"it has {partition['ilds']} ILDs, and --num-ilds={ilds}"
    return None


def _reset(
    client: VipuClient, arguments: Arguments, partition: dict[str, Any], log: Log
) -> dict[str, Any]:
    wanted = arguments.flag("reset-partition")
    if wanted is None:
        wanted = not partition["reconfigurable"]
    name = partition["name"]
    if not wanted:
        if partition["reconfigurable"]:
            log("I", f"The reconfigurable partition {name} is OK")
        return partition
    found: dict[str, Any] = client.call("reset", name=name)
    log("I", f"Partition {name} reset")
    return found


def _made(
    client: VipuClient, arguments: Arguments, name: str, log: Log, launch: str
) -> dict[str, Any]:
    sync = (arguments.text("sync-type") or "").lower().removeprefix("st_").replace("_", "-")
    attempts = arguments.count("vipu-partition-attempts")
    instances = arguments.count("num-instances")
    for attempt in range(1, attempts + 1):
        try:
            found: dict[str, Any] = client.call(
                "create",
                name=name,
                size=_ipus(arguments),
                allocation=arguments.text("vipu-allocation") or "",
                cluster=arguments.text("vipu-cluster") or "",
                # As many as instances, where they are a power of two; else all take from one.
                gcds=instances if is_power_of_two(instances) else 1,
                ilds=arguments.number("num-ilds") or 0,
                sync=sync,
                launch=launch if arguments.flag("remove-partition") else "",
            )
        except VipuError as error:
            if attempt == attempts:
                raise
            log("W", f"attempt {attempt} of {attempts} to make partition {name}: {error}")
        else:
            log("I", f"Partition {name} made: {found['size']} IPUs, {found['gcds']} GCDs")
            return found
    raise AssertionError(attempts)
