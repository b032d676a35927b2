"""``paddle-ipu doctor``: looks at everything a run needs, and says what to do."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from paddle_ipu.cli import info, vipu_target
from paddle_ipu.cli.json_output import add_json, print_json
from paddle_ipu.distributed import poprun
from paddle_ipu.errors import LaunchError, OptionError, VipuConnectionError, VipuError
from paddle_ipu.instances import instance

NAME = "doctor"
SUMMARY = "check Paddle, the plugin, the SDK, MPI, the V-IPU and devices, and say what to do"
EXIT_CODES = """\
A line begins with ok, with -- for what is absent and not needed on one host, or with !! for what
keeps programs from running. In JSON these are the status ok, absent or problem of a check.

exit codes:
  0  nothing keeps programs from running
  1  something does; its line says what to do
  2  wrong arguments
"""

_STATUS = {"ok": "ok", "--": "absent", "!!": "problem"}
"""What a mark is in JSON."""


class Finding(NamedTuple):
    """What a check found: ``ok``, ``--`` or ``!!``, and a sentence."""

    mark: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    vipu_target.add_arguments(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints what the checks found."""
    results = list(findings(arguments))
    broken = any(finding.mark == "!!" for _, finding in results)
    if arguments.json:
        checks = [
            {"name": name, "status": _STATUS[mark], "text": text} for name, (mark, text) in results
        ]
        print_json({"ok": not broken, "checks": checks})
        return 1 if broken else 0
    width = max(len(name) for name, _ in results)
    for name, (mark, text) in results:
        print(f"{mark}  {name:<{width}}  {text}")
    return 1 if broken else 0


def findings(arguments: argparse.Namespace) -> Iterator[tuple[str, Finding]]:
    """The name of each check with what it found."""
    report = info.collect()
    paddle, chosen, sdk = report["paddle"], report["compiled_programs"], report["sdk"]
    here = report["platform"]
    yield "platform", Finding("--" if here["missing"] else "ok", here["missing"] or here["name"])
    version = report["versions"]["paddlepaddle"] or "not installed"
    yield "Paddle", Finding("ok" if version != "not installed" else "!!", f"paddlepaddle {version}")
    if paddle["patched"] and not paddle["autoload"]:
        yield (
            "plugin",
            Finding(
                "!!",
                "PADDLE_IPU_AUTOLOAD=0: `import paddle` does not activate it. Unset the variable, "
                "or call paddle_ipu.activate() in the script.",
            ),
        )
    elif paddle["patched"]:
        yield "plugin", Finding("ok", f"paddle_ipu {report['versions']['paddle_ipu']}, active")
    else:
        yield "plugin", Finding("!!", str(paddle["problem"]))
    mark = "ok" if sdk["popart"] else "--"
    yield "SDK", Finding(mark, "popart found" if sdk["popart"] else "no popart: the IPU Model runs")
    device = chosen["device"]
    yield "device", Finding("ok" if device else "!!", f"{device or 'none'}: {chosen['reason']}")
    yield "MPI", _said(lambda: poprun.find_mpirun(os.environ))
    yield "instance", _instance()
    yield "V-IPU", _vipu(arguments)


def _said(check: Callable[[], str]) -> Finding:
    try:
        return Finding("ok", check())
    except LaunchError as error:
        return Finding("--", f"{error} Only poprun needs it.")


def _instance() -> Finding:
    try:
        own = instance.this_instance()
    except OptionError as error:
        return Finding("!!", str(error))
    if not own.is_set:
        return Finding("ok", "outside poprun: one instance, one replica")
    return Finding("ok", f"instance {own.index} of {own.count}")


def _vipu(arguments: argparse.Namespace) -> Finding:
    named = False
    try:
        client, target = vipu_target.client_of(arguments)
        named = bool(target is not None or arguments.partition or arguments.api_host)
        name = arguments.partition or (None if target is None else target.partition)
        partitions = client.call("partitions")
    except VipuConnectionError as error:
        advice = "Start one with `paddle-ipu vipu-server`, or run poprun with --offline-mode=yes."
        return Finding("!!" if named else "--", f"{error}. {advice}")
    except VipuError as error:
        return Finding("!!", str(error))
    listed = ", ".join(p["name"] for p in partitions) or "none"
    where = f"{client.host}:{client.port}"
    if name and name not in [p["name"] for p in partitions]:
        return Finding("!!", f"{where} has no partition {name}; there are: {listed}")
    return Finding("ok", f"{where} answers; partitions: {listed}")
