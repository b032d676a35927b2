"""Which partition a launch runs on: found, reset, made or made anew, and removed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from paddle_ipu.distributed.mpi_command import Partition
from paddle_ipu.distributed.poprun_arguments import Arguments
from paddle_ipu.distributed.vipu_client import VipuClient, configured_host
from paddle_ipu.errors import LaunchError, VipuConnectionError, VipuError

Say = Callable[[str, str], None]


def client_for(arguments: Arguments, say: Say) -> VipuClient:
    """The service that the options name, else the one that ``vipu`` is set up for."""
    host = arguments.text("vipu-server-host")
    if host is None:
        host = configured_host()
        if host is not None:
            say("I", f"V-IPU server address picked up from 'vipu': {host}")
    port, timeout = arguments.count("vipu-server-port"), arguments.count("vipu-server-timeout")
    return VipuClient(host or "127.0.0.1", port, float(timeout))


@contextmanager
def chosen(arguments: Arguments, say: Say) -> Iterator[Partition]:
    """The partition, for as long as the program runs.

    Raises:
        LaunchError: the service does not answer, or there is no partition that fits.
    """
    client = client_for(arguments, say)
    try:
        found, made = _found_or_made(client, arguments, say)
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
        if made and arguments.flag("remove-partition"):
            try:
                client.call("remove", name=found["name"])
                say("I", f"Partition {found['name']} removed")
            except VipuError as error:
                say("W", f"partition {found['name']} was not removed: {error}")


def _found_or_made(
    client: VipuClient, arguments: Arguments, say: Say
) -> tuple[dict[str, Any], bool]:
    """(the partition, whether it was made for this launch)."""
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
        say("I", f"Partition {name} is used because it is the only one available")
    found = partitions.get(name)
    if found is None and not update:
        listed = ", ".join(partitions) or "none"
        raise LaunchError(
            f"partition {name} not found; there are: {listed}. Make it with `vipu create partition "
            f"{name} --size {_ipus(arguments)}`, or let poprun with --update-partition=yes."
        )
    problem = None if found is None else unfit(found, arguments)
    if found is not None and problem is None:
        say("I", f"Partition {name} already exists and is in state PS_{found['state']}")
        return _reset(client, arguments, found, say), False
    if not update:
        raise LaunchError(
            f"partition {name} does not fit: {problem}. Change the options, or let poprun make it "
            "anew with --update-partition=yes."
        )
    if found is not None:
        client.call("remove", name=name)
        say("I", f"Partition {name} removed, as {problem}")
    return _made(client, arguments, name, say), True


def _ipus(arguments: Arguments) -> int:
    wanted = arguments.count("num-replicas") * arguments.count("ipus-per-replica")
    return 1 << (wanted - 1).bit_length()


def unfit(partition: dict[str, Any], arguments: Arguments) -> str | None:
    """Why a partition cannot run a launch; None where it can."""
    needed = arguments.count("num-replicas") * arguments.count("ipus-per-replica")
    if partition["size"] < needed:
        return f"it has {partition['size']} IPUs, and {needed} are needed"
    instances = arguments.count("num-instances")
    if partition["gcds"] not in (1, instances):
        return f"it has {partition['gcds']} GCDs for {instances} instances"
    ilds = arguments.number("num-ilds")
    if ilds is not None and partition["ilds"] != ilds:
        return f"it has {partition['ilds']} ILDs, and --num-ilds={ilds}"
    return None


def _reset(
    client: VipuClient, arguments: Arguments, partition: dict[str, Any], say: Say
) -> dict[str, Any]:
    wanted = arguments.flag("reset-partition")
    if wanted is None:
        wanted = not partition["reconfigurable"]
    name = partition["name"]
    if not wanted:
        if partition["reconfigurable"]:
            say("I", f"The reconfigurable partition {name} is OK")
        return partition
    found: dict[str, Any] = client.call("reset", name=name)
    say("I", f"Partition {name} reset")
    return found


def _made(client: VipuClient, arguments: Arguments, name: str, say: Say) -> dict[str, Any]:
    sync = (arguments.text("sync-type") or "").lower().removeprefix("st_").replace("_", "-")
    attempts = arguments.count("vipu-partition-attempts")
    for attempt in range(1, attempts + 1):
        try:
            found: dict[str, Any] = client.call(
                "create",
                name=name,
                size=_ipus(arguments),
                allocation=arguments.text("vipu-allocation") or "",
                cluster=arguments.text("vipu-cluster") or "",
                gcds=arguments.count("num-instances"),
                ilds=arguments.number("num-ilds") or 0,
                sync=sync,
            )
        except VipuError as error:
            if attempt == attempts:
                raise
            say("W", f"attempt {attempt} of {attempts} to make partition {name}: {error}")
        else:
            say("I", f"Partition {name} made: {found['size']} IPUs, {found['gcds']} GCDs")
            return found
    raise AssertionError(attempts)
