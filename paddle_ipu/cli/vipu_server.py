"""``paddle-ipu vipu-server``: the V-IPU service, with IPU Models to make partitions of."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from types import FrameType

from paddle_ipu.distributed.vipu_server import PORT, VipuServer, new_state
from paddle_ipu.errors import VipuError
from paddle_ipu.instances.vipu_state import is_power_of_two
from paddle_ipu.operating_system import platforms

NAME = "vipu-server"
SUMMARY = "serve partitions of IPU Models to poprun, vipu and compiled programs, until interrupted"
EXIT_CODES = """\
The service keeps what it knows in memory. Whoever reaches it may make and remove partitions, so it
listens on this host alone; --host 0.0.0.0 opens it to the network.

exit codes:
  0  it was interrupted
  1  it cannot listen there, or this is no Linux
  2  wrong arguments
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; default: 127.0.0.1"
    )
    parser.add_argument("--port", type=int, default=PORT, help="port; default: 8090, 0 takes any")
    parser.add_argument("--ipus", type=_ipus, default=64, help="how many there are; default: 64")
    parser.add_argument("--cluster", default="cluster0", help="its name; default: cluster0")
    parser.add_argument(
        "--allocation",
        action="append",
        default=[],
        type=_allocation,
        metavar="NAME=IPUS",
        help="may be given again; default: one with all IPUs, named as the cluster",
    )
    parser.add_argument(
        "--ild-size", type=_ipus, default=64, help="IPUs of an IPU-Link domain; default: 64"
    )
    parser.add_argument(
        "--partition",
        action="append",
        default=[],
        type=_allocation,
        metavar="NAME=SIZE",
        help="a partition to begin with; may be given again",
    )


def _ipus(text: str) -> int:
    if not text.isdecimal() or not is_power_of_two(int(text)):
        raise argparse.ArgumentTypeError(f"a number of IPUs is a power of 2, got {text!r}")
    return int(text)


def _allocation(text: str) -> tuple[str, int]:
    name, equals, size = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=IPUS, got {text!r}")
    return name, _ipus(size)


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM."""
    if not platforms.runs_jobs():
        here = platforms.this_platform().name
        print(
            f"the V-IPU service runs on Linux alone, and this is {here}: it looks in /proc for the "
            "processes that hold IPUs. Run it on a host with Linux, and give programs its address.",
            file=sys.stderr,
        )
        return 1
    state = new_state(
        arguments.ipus, dict(arguments.allocation), arguments.cluster, arguments.ild_size
    )
    try:
        for name, size in arguments.partition:
            state.create(name, size)
        server = VipuServer(state, arguments.host, arguments.port)
    except VipuError as error:
        print(error, file=sys.stderr)
        return 1
    host, port = server.server_address[:2]
    print(f"V-IPU service for {arguments.ipus} IPU Models on {host!s}:{port}", flush=True)

    def stop(number: int, frame: FrameType | None) -> None:
        # `shutdown` waits for the loop that this signal interrupts.
        threading.Thread(target=server.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0
