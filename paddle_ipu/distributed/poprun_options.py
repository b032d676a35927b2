"""The table of ``poprun``'s options: parsing, ``--help``, documentation and tests read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["switch", "yes_no", "count", "number", "text", "choice", "words", "repeated"]

PLACEMENTS = ("spreadnuma", "scattersocket", "scatternuma", "close", "disabled")
VERSION_FORMATS = ("text", "full-json", "full-text")


@dataclass(frozen=True, slots=True)
class PoprunOption:
    """One option.

    Attributes:
        name: without dashes, ``num-replicas``.
        kind: what it takes: nothing, yes or no, a number from 1 or from 0, a text, one of
            `choices`, arguments for ``mpirun`` (given again, they add up), or such for one
            instance, as ``0:"-x NAME=value"``.
        default: as one would type it; None where leaving it out means something else than any
            value, which `meaning` says.
        meaning: a sentence for ``--help`` and the documentation.
        group: heading under which ``--help`` lists it.
        metavar: what ``--help`` calls its value.
        choices: of kind ``choice``.
        short: its other spellings, dashes included.
        old: whether it is an old spelling, which is left out of ``--help``'s list of options.
    """

    name: str
    kind: Kind
    default: str | None
    meaning: str
    group: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    old: bool = False


_GENERAL, _LAUNCH, _MPI = "General", "Instances and hosts", "mpirun"
_VIPU, _CACHE, _CONFIG = "V-IPU", "Caching and profiling", "Configuration files"


def _row(group: str, name: str, kind: Kind, default: str | None, meaning: str,
         metavar: str = "", *, choices: tuple[str, ...] = (), short: tuple[str, ...] = (),
         old: bool = False) -> PoprunOption:  # fmt: skip
    return PoprunOption(name, kind, default, meaning, group, metavar, choices, short, old)


# One row an option, as a table.
# fmt: off
_ROWS = (
    _row(_GENERAL, "help", "switch", None, "Print this and exit.", short=("-h",)),
    _row(_GENERAL, "version", "switch", None, "Print the version and exit."),
    _row(_GENERAL, "version-format", "choice", "text", "How `--version` prints.", "FORMAT",
         choices=VERSION_FORMATS),
    _row(_GENERAL, "v", "switch", None, "Say what is being done.", short=("-v",)),
    _row(_GENERAL, "vv", "switch", None, "Say everything: the environment and mpirun's command.",
         short=("-vv", "--vv")),
    _row(_GENERAL, "print-topology", "yes_no", "no",
         "Print which hosts, instances and replicas there are.", "yes|no"),
    _row(_GENERAL, "hang-timeout", "count", None,
         "End the instances where none of them begins a run for so many seconds, and say which one "
         "the others waited for; longer than the longest compilation. Left out, they may take any "
         "time. Not an option of Graphcore's.", "SECONDS"),
    _row(_GENERAL, "only-output-from-instance", "number", None,
         "Show what this instance prints, errors included, and hide the others' output.", "N"),
    _row(_LAUNCH, "num-replicas", "count", "1",
         "Replicas of all instances, divided evenly among them.", "N"),
    _row(_LAUNCH, "num-instances", "count", "1", "Processes to start.", "N"),
    _row(_LAUNCH, "ipus-per-replica", "count", "1", "IPUs that one replica takes.", "N"),
    _row(_LAUNCH, "num-ilds", "count", None,
         "IPU-Link domains; left out, the V-IPU server decides.", "N"),
    _row(_LAUNCH, "host", "text", None,
         "Hosts, divided by commas, with ranges: `h0,h1`, `pod[1-4]`, `host[0-2,4]`.", "LIST",
         short=("-H",)),
    _row(_LAUNCH, "hostfile", "text", None, "A file with a host on each line.", "FILE"),
    _row(_LAUNCH, "process-placement", "choice", "spreadnuma",
         "Which processors an instance runs on. spreadnuma divides the NUMA nodes among the "
         "instances; the others bind each instance to one core: scattersocket and scatternuma far "
         "apart, close side by side; disabled leaves it to `--mpi-global-args`.", "PLACEMENT",
         choices=PLACEMENTS),
    _row(_LAUNCH, "numa-aware", "yes_no", None,
         "Old spelling: yes is `--process-placement spreadnuma`, no is `disabled`.", "yes|no",
         old=True),
    _row(_LAUNCH, "allow-run-as-root", "switch", None, "Have mpirun start programs for root."),
    _row(_MPI, "mpi-global-args", "words", "", "Arguments for mpirun itself.", "ARGS"),
    _row(_MPI, "mpi-local-args", "words", "",
         "Arguments for mpirun about every instance, mostly `-x NAME=value`.", "ARGS"),
    _row(_MPI, "instance-mpi-local-args", "repeated", "",
         "Arguments for mpirun about one instance: its number, a colon, and the arguments. "
         "May be given for each.", "N:ARGS"),
    _row(_VIPU, "vipu-server-host", "text", None,
         "The V-IPU server's host; left out, the one that `vipu` is set up for, else localhost.",
         "HOST"),
    _row(_VIPU, "vipu-server-port", "count", "8090", "Its port.", "PORT"),
    _row(_VIPU, "vipu-server-timeout", "count", "120", "Seconds to wait for its answers.",
         "SECONDS"),
    _row(_VIPU, "vipu-partition", "text", None,
         "The partition; left out, the only one that there is.", "NAME"),
    _row(_VIPU, "vipu-partition-attempts", "count", "1",
         "How often to try to get a partition made.", "N"),
    _row(_VIPU, "vipu-allocation", "text", None, "Where to make a partition.", "NAME"),
    _row(_VIPU, "vipu-cluster", "text", None,
         "Old spelling of where to make a partition; give an allocation.", "NAME", old=True),
    _row(_VIPU, "update-partition", "yes_no", "no",
         "Make the partition, or make it anew, where it does not fit.", "yes|no"),
    _row(_VIPU, "reset-partition", "yes_no", None,
         "Reset the partition first; left out, those that are not reconfigurable are.", "yes|no"),
    _row(_VIPU, "remove-partition", "yes_no", "yes",
         "Remove a partition that poprun made when it exits.", "yes|no"),
    _row(_VIPU, "sync-type", "text", None,
         "Synchronisation of a partition that poprun makes: `ST_POD_NATIVE_DEFAULT` or "
         "`ST_C2_COMPATIBLE`.", "TYPE"),
    _row(_VIPU, "offline-mode", "yes_no", "no", "Do without the V-IPU server.", "yes|no"),
    _row(_CACHE, "executable-cache-path", "text", None,
         "A folder for compiled programs, which stays. Left out, the instances of a host share a "
         "temporary one, and a single instance of this host has none; empty, there is none.",
         "DIR"),
    _row(_CACHE, "autoreport-dir", "text", None,
         "A folder for profiles, with one in it for each instance.", "DIR"),
    _row(_CONFIG, "import-config", "text", None,
         "Take options and program from a file; those of the command line come first.", "FILE"),
    _row(_CONFIG, "export-config", "text", None,
         "Write options and program to a file, and go on.", "FILE"),
    _row(_CONFIG, "overwrite-config", "yes_no", "no",
         "Whether `--export-config` may replace a file; otherwise it adds the time to the name.",
         "yes|no"),
)
# fmt: on

OPTIONS: dict[str, PoprunOption] = {row.name: row for row in _ROWS}

EXCLUSIVE: tuple[tuple[str, str], ...] = (
    ("import-config", "export-config"),
    ("host", "hostfile"),
    ("vipu-allocation", "vipu-cluster"),
    ("process-placement", "numa-aware"),
)
"""Pairs of options that cannot be used at the same time."""

TRUE, FALSE = ("yes", "on", "true", "1"), ("no", "off", "false", "0")
"""Spellings of what kind ``yes_no`` takes."""


def spellings(option: PoprunOption) -> tuple[str, ...]:
    """How the command line names an option."""
    long = () if option.name in ("v", "vv") else (f"--{option.name}",)
    return (*option.short, *long)


def help_text() -> str:
    """What ``poprun --help`` prints."""
    lines = [
        "usage: poprun [options] program [arguments]",
        "",
        "Starts a program several times, on one or more hosts, so that its instances train one",
        "model together. Options come before the program.",
        "",
        "  poprun --num-instances=2 --num-replicas=4 --offline-mode=yes python3 train.py",
    ]
    group = ""
    for option in OPTIONS.values():
        if option.group != group:
            group = option.group
            lines += ["", f"{group}:"]
        metavar = f" {option.metavar}" if option.metavar else ""
        lines.append(f"  {', '.join(spellings(option))}{metavar}")
        default = f" Default: {option.default}." if option.default else ""
        lines += _wrapped(option.meaning + default)
        if option.choices:
            lines += _wrapped("One of " + ", ".join(option.choices) + ".")
    lines += [
        "",
        "exit codes:",
        "  0    every instance ended with 0",
        "  1    wrong options, or the V-IPU server, a partition or a host refused",
        "  124  the instances hung, by --hang-timeout",
        "  N    the code of the instance that failed first; 128 + signal where one was killed",
        "",
        "docs/poprun.md has runs to learn from.",
    ]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    lines, line = [], "     "
    for word in text.split():
        if len(line) + 1 + len(word) > 88:
            lines.append(line)
            line = "     "
        line += f" {word}"
    return [*lines, line]
