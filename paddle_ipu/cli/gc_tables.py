"""The tables of ``gc-info`` and ``gc-monitor`` for a partition of IPU Models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paddle_ipu.instances.device_blocks import device_blocks

_MODELS_PER_BOARD = 4
_CLOCK = "1330MHz"
_NOT_MEASURED = "N/A"


def devices(partition: Mapping[str, Any]) -> Iterator[list[int]]:
    """The devices of one GCD as lists of IPUs: single ones, pairs, fours, up to all."""
    return map(list, device_blocks(partition["size"] // partition["gcds"]))


def device_list(partition: Mapping[str, Any], host: str) -> str:
    """What ``gc-info -l`` prints.

    Args:
        partition: as the V-IPU service returns it.
        host: of the service.
    """
    lines = [f"Partition: {partition['name']} [{partition['state'].lower()}]"]
    for number, ipus in enumerate(devices(partition)):
        if len(ipus) == 1:
            lines.append(
                f"-+- Id: [{number}], target: [Fabric], IPU-M host: [{host}], "
                f"IPU#: [{_on_board(ipus[0])}]"
            )
            continue
        lines.append(f"-+- Id: [{number}], target: [Multi IPU]")
        lines += [f" |--- Id: [{ipu}], DNC Id: [{place}]" for place, ipu in enumerate(ipus)]
    return "\n".join(lines)


def device_records(partition: Mapping[str, Any]) -> dict[str, Any]:
    """What ``gc-info -l --json`` has of a partition.

    Args:
        partition: as the V-IPU service returns it.
    """
    listed = [{"id": number, "ipu_ids": ipus} for number, ipus in enumerate(devices(partition))]
    return {
        "partition": partition["name"],
        "state": partition["state"].lower(),
        "devices": listed,
    }


def _on_board(ipu: int) -> int:
    """A board's IPUs are numbered from 3 down to 0."""
    return _MODELS_PER_BOARD - 1 - ipu % _MODELS_PER_BOARD


def device_facts(
    partition: Mapping[str, Any], number: int, gcd: int, host: str
) -> dict[str, str | int | bool | list[int]]:
    """What ``gc-info -d N -i`` prints, as far as the IPU Model has it.

    Args:
        partition: the V-IPU partition's record.
        number: the number of the device in it.
        gcd: the Graph Compile Domain that asks.
        host: the IPUoF host to report.

    Raises:
        IndexError: there is no such device.
    """
    ipus = list(devices(partition))[number]
    single = len(ipus) == 1
    users = [
        process
        for process in partition["attached"].get(str(gcd), [])
        if process["first"] <= ipus[-1] and ipus[0] < process["first"] + process["ipus"]
    ]
    facts: dict[str, str | int | bool | list[int]] = {
        "id": number,
        "target": "Fabric" if single else "Multi IPU",
        "type": "IPU Model",
        "number of ipus": len(ipus),
        "ipu ids": ipus,
        "ipu architecture": "ipu2",
        "ipuof host": host,
        "ipuof partition id": str(partition["name"]),
        "ipuof routing type": "DNC",
        "gcd": gcd,
        "partition sync type": str(partition["sync"]),
        "reconfigurable partition": bool(partition["reconfigurable"]),
    }
    for user in users:
        facts["user executable"] = user["command"]
        facts["user name"] = user["user"]
        facts["user process id"] = user["pid"]
    return facts


def shown(value: str | int | bool | list[int]) -> str:
    """A fact as ``gc-info`` prints it."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(int(value) if isinstance(value, bool) else value)


def monitor_record(
    partition: Mapping[str, Any], gcd: int, now: float | None = None
) -> dict[str, Any]:
    """What ``gc-monitor --json`` has of one GCD; not what an IPU Model does not measure.

    Args:
        partition: as the V-IPU service returns it.
        gcd: number of the GCD.
        now: seconds since 1970; the time that processes have had their IPUs is counted to it.
    """
    moment = time.time() if now is None else now
    size = partition["size"] // partition["gcds"]
    return {
        "partition": partition["name"],
        "gcd": gcd,
        "state": partition["state"].lower(),
        "reconfigurable": bool(partition["reconfigurable"]),
        "ipus": [{"id": ipu, "ipu_on_board": _on_board(ipu)} for ipu in range(size)],
        "processes": [
            {
                "pid": process["pid"],
                "command": process["command"],
                "user": process["user"],
                "seconds": max(moment - process["since"], 0.0),
                "ipu_ids": list(range(process["first"], process["first"] + process["ipus"])),
            }
            for process in partition["attached"].get(str(gcd), [])
        ],
    }


def monitor(partition: Mapping[str, Any], gcd: int, host: str, version: str, *,
            cards: bool = True, now: float | None = None) -> str:  # fmt: skip
    """What ``gc-monitor`` prints of one GCD.

    Args:
        partition: as the V-IPU service returns it.
        gcd: number of the GCD.
        host: of the service.
        version: of the service.
        cards: whether to print the table of IPUs.
        now: seconds since 1970; the time that processes have had their IPUs is counted to it.
    """
    size = partition["size"] // partition["gcds"]
    kind = "reconfigurable IPUs" if partition["reconfigurable"] else "IPUs"
    name = partition["name"]
    title = f"Partition: {name} (gcd:{gcd}) [{partition['state'].lower()}] has {size} {kind}"
    lines: list[str] = []
    if cards:
        header = ("IPU-M", "Serial", "IPU-M SW", "Server version", "ICU FW", "Type", "ID", "IPU#",
                  "Routing")  # fmt: skip
        rows = [
            (_short(host), _NOT_MEASURED, _NOT_MEASURED, version, _NOT_MEASURED, "Model", str(ipu),
             str(_on_board(ipu)), "DNC")
            for ipu in range(size)
        ]  # fmt: skip
        lines += _boxed(f"gc-monitor | {title}", header, rows, every=_MODELS_PER_BOARD)
    else:
        lines.append(f"gc-monitor | {title}")
    processes = partition["attached"].get(str(gcd), [])
    if not processes:
        return "\n".join([*lines, f"No attached processes in partition {name}"])
    moment = time.time() if now is None else now
    header = ("PID", "Command", "Time", "User", "ID", "Clock", "Temp", "Board Temp", "Power")
    rows = [
        (str(p["pid"]), p["command"][:32], _duration(moment - p["since"]), p["user"], str(ipu),
         _CLOCK, _NOT_MEASURED, _NOT_MEASURED, _NOT_MEASURED)
        for p in processes
        for ipu in range(p["first"], p["first"] + p["ipus"])
    ]  # fmt: skip
    return "\n".join([*lines, *_boxed(f"Attached processes in partition {name}", header, rows)])


def _short(host: str) -> str:
    return host if len(host) <= 13 else ".." + host[-11:]


def _duration(seconds: float) -> str:
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s"
    return f"{whole // 3600}h{whole % 3600 // 60}m"


def _boxed(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], every: int = 0
) -> list[str]:
    """A table in a box, with a rule after every so many rows."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    missing = len(title) - (sum(widths) + 3 * (len(widths) - 1))
    widths[0] += max(missing, 0)
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    inner = len(rule) - 4
    lines = ["+" + "-" * (inner + 2) + "+", f"| {title:^{inner}} |", rule, _row(header, widths)]
    lines.append(rule)
    for number, row in enumerate(rows, 1):
        lines.append(_row(row, widths))
        if number == len(rows) or (every and number % every == 0):
            lines.append(rule)
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    middle = " | ".join(f"{cell:^{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"| {middle} |"
