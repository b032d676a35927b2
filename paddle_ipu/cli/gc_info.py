"""``paddle-ipu gc-info``: the devices of a partition."""

from __future__ import annotations

import argparse
import sys

from paddle_ipu.cli import gc_tables, vipu_target
from paddle_ipu.cli.json_output import add_json, print_json
from paddle_ipu.errors import VipuError

NAME = "gc-info"
SUMMARY = "list the devices of a partition, or tell about one"
EXIT_CODES = """\
exit codes:
  0  there are devices
  1  no V-IPU service answers, or there is no such partition or device
  2  wrong arguments
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    vipu_target.add_arguments(parser)
    parser.add_argument("--all-partitions", action="store_true", help="of all partitions")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-l", "--list-devices", action="store_true", help="list the devices")
    what.add_argument("-d", "--device-id", type=int, metavar="N", help="tell about one device")
    parser.add_argument(
        "-i", "--device-info", action="store_true", help="with -d: all about it; the default"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the devices."""
    try:
        client, partitions = vipu_target.partitions_of(arguments, arguments.all_partitions)
        if arguments.list_devices:
            if arguments.json:
                listed = [gc_tables.device_records(partition) for partition, _ in partitions]
                print_json({"host": client.host, "partitions": listed})
                return 0
            print("Graphcore device listing:")
            for partition, _ in partitions:
                print(f"\n{gc_tables.device_list(partition, client.host)}")
            return 0
        partition, gcd = partitions[0]
        number = arguments.device_id
        devices = len(list(gc_tables.devices(partition)))
        if not 0 <= number < devices:
            raise VipuError(
                f"device {number} not found: partition {partition['name']} has devices 0 to "
                f"{devices - 1}"
            )
    except VipuError as error:
        print(error, file=sys.stderr)
        return 1
    facts = gc_tables.device_facts(partition, number, gcd, client.host)
    if arguments.json:
        print_json({key.replace(" ", "_"): value for key, value in facts.items()})
        return 0
    for key, value in facts.items():
        print(f"{key}: {gc_tables.shown(value)}")
    return 0
