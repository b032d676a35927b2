"""``paddle-ipu gc-monitor``: the IPUs of a partition and the processes that have them."""

from __future__ import annotations

import argparse
import sys

from paddle_ipu.cli import gc_tables, vipu_target
from paddle_ipu.cli.json_output import add_json, print_json
from paddle_ipu.errors import VipuError

NAME = "gc-monitor"
SUMMARY = "show the IPUs of a partition and which process has which"
EXIT_CODES = """\
An IPU Model measures no temperature and no power: N/A.

exit codes:
  0  shown
  1  no V-IPU service answers, or there is no such partition
  2  wrong arguments
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    vipu_target.add_arguments(parser)
    parser.add_argument("--all-partitions", action="store_true", help="show all partitions")
    parser.add_argument("--no-card-info", action="store_true", help="leave out the table of IPUs")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the tables."""
    try:
        client, partitions = vipu_target.partitions_of(arguments, arguments.all_partitions)
        version = str(client.call("version")).split()[0]
    except VipuError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.json:
        records = [gc_tables.monitor_record(partition, gcd) for partition, gcd in partitions]
        print_json({"host": client.host, "server_version": version, "gcds": records})
        return 0
    cards = not arguments.no_card_info
    for partition, gcd in partitions:
        print(gc_tables.monitor(partition, gcd, client.host, version, cards=cards))
    return 0
