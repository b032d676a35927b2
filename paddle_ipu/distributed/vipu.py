"""``vipu``: makes, lists, resets and removes partitions of a V-IPU service."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from paddle_ipu.distributed import sdk_programs
from paddle_ipu.errors import VipuError
from paddle_ipu.instances import ipuof
from paddle_ipu.instances.vipu_client import PORT, VipuClient, configured_host
from paddle_ipu.instances.vipu_state import SYNC_TYPES

_EPILOG = """\
examples:
  vipu create partition p1 --size 4
  vipu list partitions
  vipu get partition p1 --ipu-configs > p1.conf
  vipu remove partition p1

exit codes:
  0  done
  1  the service refused, or does not answer
  2  wrong arguments
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``vipu``."""
    parser = argparse.ArgumentParser(
        prog="vipu",
        description="Partitions of IPUs. `paddle-ipu vipu-server` starts the service.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-H", "--api-host", help="host of the service; default: 127.0.0.1")
    parser.add_argument("--api-port", type=int, default=PORT, help="its port; default: 8090")
    parser.add_argument(
        "--timeout", type=float, default=10.0, help="seconds to wait for it; default: 10"
    )
    parser.add_argument("--server-version", action="store_true", help="print the service's version")
    verbs = parser.add_subparsers(dest="verb", metavar="create|list|get|reset|remove")
    create = _object(verbs, "create", "make a partition")
    create.add_argument("name")
    create.add_argument("--size", type=int, required=True, help="IPUs, a power of 2")
    create.add_argument("--allocation", default="", help="what to make it of")
    create.add_argument("--cluster", default="", help="the cluster of its allocation")
    create.add_argument("--gcds", "--num-gcds", type=int, default=1, help="graph compile domains")
    create.add_argument("--num-ilds", type=int, default=0, help="IPU-Link domains")
    create.add_argument("--reconfigurable", action="store_true", help="allow smaller devices")
    create.add_argument("--sync-type", default="", choices=SYNC_TYPES)
    listed = verbs.add_parser("list", help="list partitions or allocations")
    listed.add_argument("what", choices=["partition", "partitions", "allocation", "allocations"])
    get = _object(verbs, "get", "show a partition")
    get.add_argument("name")
    get.add_argument("--gcd", type=int, default=0, help="of which GCD, with --ipu-configs")
    get.add_argument(
        "--ipu-configs", "--ipuof-configs", action="store_true", help="print its ipuof.conf"
    )
    for verb in ("reset", "remove"):
        _object(verbs, verb, f"{verb} a partition").add_argument("name")
    for subparser in verbs.choices.values():
        # Scripts write the host after the verb, too.
        subparser.add_argument("-H", "--api-host", default=argparse.SUPPRESS, help="as above")
    return parser


def _object(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: str, summary: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(verb, help=summary)
    parser.add_argument("what", choices=["partition"])
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs ``vipu``; returns the exit code.

    Args:
        words: the command line without the program's name; that of the process by default.
    """
    words = sys.argv[1:] if words is None else list(words)
    sdk_programs.become("vipu", words, os.environ)
    parser = build_parser()
    arguments = parser.parse_args(words)
    if arguments.verb is None and not arguments.server_version:
        parser.error("say what to do: create, list, get, reset or remove")
    host = arguments.api_host or configured_host() or "127.0.0.1"
    client = VipuClient(host, arguments.api_port, arguments.timeout)
    try:
        print(_done(client, arguments))
    except VipuError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _done(client: VipuClient, arguments: argparse.Namespace) -> str:
    """Does what the arguments ask for; returns the text to print."""
    if arguments.verb is None:
        return str(client.call("version"))
    if arguments.verb == "list":
        if arguments.what.startswith("allocation"):
            return allocations_table(client.call("allocations"))
        return partitions_table(client.call("partitions"))
    name, files = arguments.name, ipuof.folder(os.environ)
    if arguments.verb == "create":
        made = client.call(
            "create",
            name=name,
            size=arguments.size,
            allocation=arguments.allocation,
            cluster=arguments.cluster,
            gcds=arguments.gcds,
            ilds=arguments.num_ilds,
            reconfigurable=arguments.reconfigurable,
            sync=arguments.sync_type,
        )
        written = ipuof.write_all(made, client, files)
        return f"create partition ({name}): success.\n" + "\n".join(map(str, written))
    partition = client.call("partition", name=name)
    if arguments.verb == "get":
        if not arguments.ipu_configs:
            return "\n".join(f"{key}: {value}" for key, value in _facts(partition).items())
        if not 0 <= arguments.gcd < partition["gcds"]:
            last = partition["gcds"] - 1
            raise VipuError(f"partition {name} has GCDs 0 to {last}, got {arguments.gcd}")
        return ipuof.text_of(partition, arguments.gcd, client)
    client.call(arguments.verb, name=name)
    if arguments.verb == "remove":
        ipuof.remove_all(partition, files)
    return f"{arguments.verb} partition ({name}): success."


def _facts(partition: Mapping[str, Any]) -> dict[str, Any]:
    processes = [p for found in partition["attached"].values() for p in found]
    return {
        "Partition": partition["name"],
        "Cluster": partition["cluster"],
        "Allocation": partition["allocation"],
        "Size": partition["size"],
        "GCDs": partition["gcds"],
        "ILDs": partition["ilds"],
        "Reconfigurable": "yes" if partition["reconfigurable"] else "no",
        "Sync type": partition["sync"],
        "State": partition["state"],
        "Attached": ", ".join(f"PID {p['pid']}" for p in processes) or "none",
    }


def partitions_table(partitions: Sequence[Mapping[str, Any]]) -> str:
    """The table of ``vipu list partitions``."""
    header = ("Cluster", "Allocation", "Partition", "ILDs", "GW Routing", "ILD Routing", "Size",
              "GCDs", "State")  # fmt: skip
    rows = [
        (p["cluster"], p["allocation"], p["name"], p["ilds"], "DEFAULT", "DNC", p["size"],
         p["gcds"], p["state"])
        for p in partitions
    ]  # fmt: skip
    return _table(header, rows)


def allocations_table(allocations: Sequence[Mapping[str, Any]]) -> str:
    """The table of ``vipu list allocations``."""
    rows = [(a["name"], a["cluster"], a["ipus"]) for a in allocations]
    return _table(("Allocation ID", "Cluster", "IPUs"), rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    rule = "-" * (sum(widths) + 3 * (len(widths) - 1))
    return "\n".join([lines[0], rule, *lines[1:], rule])


if __name__ == "__main__":
    sys.exit(main())
