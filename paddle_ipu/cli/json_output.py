"""The option ``--json`` of subcommands that print tables."""

from __future__ import annotations

import argparse
import json


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def print_json(record: object) -> None:
    """Prints a record of plain data, which holds neither NaN nor infinity, as one document."""
    print(json.dumps(record, indent=2, allow_nan=False))
