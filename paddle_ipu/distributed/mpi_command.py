"""The command line of ``mpirun`` for one launch, and the environment of each instance."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paddle_ipu.distributed import instance_guard
from paddle_ipu.distributed.poprun_arguments import Arguments
from paddle_ipu.instances import heartbeat, instance

_MAPPINGS = {
    "scattersocket": "package",
    "scatternuma": "numa",
    "close": "core",
}
_MPI_PLACEMENT = ("--map-by", "--bind-to", "--rank-by")
_FORWARDED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_FORWARDED_PREFIXES = ("POPLAR_", "POPART_", "POPXL_", "PADDLE_IPU_", "PVTI_", "GCDA_")


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition of a launch.

    Attributes:
        name: of the partition.
        server: host and port of the V-IPU server.
        timeout: seconds to wait for its answers.
        size: IPUs.
        gcds: graph compile domains; an instance takes one of its own where there are as many.
        ilds: IPU-Link domains.
    """

    name: str
    server: tuple[str, int]
    timeout: int
    size: int
    gcds: int
    ilds: int


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that the command line of ``mpirun`` depends on.

    Attributes:
        arguments: of ``poprun``.
        mpirun: path of Open MPI's ``mpirun``.
        coordinator: ``host:port`` where instance 0 waits for the others.
        cache: folder for compiled programs, "" for none.
        folders: other host -> its folder for temporary files.
        partition: None in offline mode.
        environment: ``poprun``'s own.
        numa_nodes: processors of each NUMA node of this host, as ``taskset`` takes them.
        processors: of this host.
    """

    arguments: Arguments
    mpirun: str
    coordinator: str
    cache: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    partition: Partition | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    numa_nodes: Sequence[str] = ("",)
    processors: int = 1

    @property
    def instances(self) -> int:
        """How many processes there are."""
        return self.arguments.count("num-instances")

    @property
    def per_host(self) -> int:
        """Instances on each host."""
        return self.instances // max(len(self.arguments.hosts), 1)

    @property
    def is_local(self) -> bool:
        """Whether all instances run on this host."""
        return not self.folders

    def host(self, number: int) -> str:
        """The host of an instance; "" where none is named."""
        hosts = self.arguments.hosts
        return hosts[number // self.per_host] if hosts else ""


def command(launch: Launch) -> list[str]:
    """The words of the command line; the instances follow one another, divided by colons."""
    words = [launch.mpirun, "--tag-output"]
    if launch.arguments.flag("allow-run-as-root"):
        words.append("--allow-run-as-root")
    words += _placement(launch)
    words += global_words(launch.arguments)
    for number in range(launch.instances):
        if number:
            words.append(":")
        words += _instance(launch, number)
    return words


def global_words(arguments: Arguments) -> list[str]:
    """``--mpi-global-args`` without the words that ``poprun`` adds itself."""
    words = arguments.words("mpi-global-args")
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif arguments.placement != "disabled" and word in _MPI_PLACEMENT:
            skip = True
        elif word not in ("--tag-output", "-tag-output") and not (
            word == "--allow-run-as-root" and arguments.flag("allow-run-as-root")
        ):
            kept.append(word)
    return kept


def ignored_words(arguments: Arguments) -> list[str]:
    """Placement in ``--mpi-global-args``, which another process placement overrides."""
    if arguments.placement == "disabled":
        return []
    return [word for word in arguments.words("mpi-global-args") if word in _MPI_PLACEMENT]


def _placement(launch: Launch) -> list[str]:
    placement = launch.arguments.placement
    if placement == "disabled":
        return []
    if placement in _MAPPINGS:
        # mpirun does not map several programs by cores and oversubscribed at the same time.
        if launch.per_host > launch.processors:
            return ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "core:overload-allowed"]
        return ["--map-by", _MAPPINGS[placement], "--bind-to", "core"]
    if len(launch.numa_nodes) > 1 and launch.per_host >= len(launch.numa_nodes):
        return ["--map-by", "numa:OVERSUBSCRIBE", "--bind-to", "numa:overload-allowed"]
    return ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]


def _instance(launch: Launch, number: int) -> list[str]:
    arguments = launch.arguments
    words = ["-np", "1"]
    if arguments.hosts:
        words += ["--host", f"{launch.host(number)}:{launch.per_host}"]
    for name, value in environment_of(launch, number).items():
        words += ["-x", f"{name}={value}"]
    if not launch.is_local:
        names = [n for n in launch.environment if n in _FORWARDED or _is_forwarded(n)]
        exported = {word.partition("=")[0] for word in _exported(arguments, number)}
        for name in names:
            if name not in exported and name not in environment_of(launch, number):
                words += ["-x", name]
    words += arguments.words("mpi-local-args")
    words += arguments.words_of_instance(number)
    words += _bound(launch, number)
    if not launch.is_local:
        # It also unsets IPUOF_CONFIG_PATH, which the other host may set.
        guard = [sys.executable, "-I", "-S", str(instance_guard.__file__)]
        folder = launch.folders.get(launch.host(number), launch.environment[heartbeat.FOLDER])
        words += [*guard, folder, str(number)]
    return [*words, *arguments.program]


def _is_forwarded(name: str) -> bool:
    return name.startswith(_FORWARDED_PREFIXES)


def _exported(arguments: Arguments, number: int) -> list[str]:
    words = [*arguments.words("mpi-local-args"), *arguments.words_of_instance(number)]
    return [word for flag, word in zip(words, words[1:], strict=False) if flag == "-x"]


def _bound(launch: Launch, number: int) -> list[str]:
    """Binds an instance to several NUMA nodes, which mpirun's own mapping cannot."""
    nodes, per_host = launch.numa_nodes, launch.per_host
    if launch.arguments.placement != "spreadnuma" or len(nodes) <= per_host or not launch.is_local:
        return []
    local = number % per_host
    own = nodes[local * len(nodes) // per_host : (local + 1) * len(nodes) // per_host]
    return ["taskset", "-c", ",".join(own)]


def environment_of(launch: Launch, number: int) -> dict[str, str]:
    """The variables that ``poprun`` sets for one instance."""
    arguments = launch.arguments
    replicas = arguments.count("num-replicas")
    local = replicas // launch.instances
    ipus = arguments.count("ipus-per-replica")
    found = {
        instance.TOTAL_REPLICAS: str(replicas),
        instance.LOCAL_REPLICAS: str(local),
        instance.IPUS_PER_REPLICA: str(ipus),
        instance.UNIFORM: "1",
        instance.REPLICA_OFFSET: str(number * local),
        instance.LOCAL_INSTANCE: str(number % launch.per_host),
        instance.COORDINATOR: launch.coordinator,
        "IPUOF_LOG_LEVEL": launch.environment.get("IPUOF_LOG_LEVEL", "WARN"),
    }
    folder = launch.folders.get(launch.host(number))
    if launch.cache:
        # A fixed folder is at the same place on all hosts.
        fixed = arguments.text("executable-cache-path")
        found["POPART_CACHE_DIR"] = launch.cache if fixed or not folder else folder
    if folder:
        # The counts of the instances of that host.
        found[heartbeat.FOLDER] = folder
    report = arguments.text("autoreport-dir")
    if report:
        found[instance.AUTOREPORT] = report
    if launch.partition is not None:
        found.update(_partition_environment(launch, launch.partition, number, local * ipus))
    return found


def _partition_environment(
    launch: Launch, partition: Partition, number: int, ipus: int
) -> dict[str, str]:
    host, port = partition.server
    gcd = number if partition.gcds >= launch.instances else 0
    found = {
        "IPUOF_VIPU_API_HOST": host,
        "IPUOF_VIPU_API_PORT": str(port),
        "IPUOF_VIPU_API_PARTITION_ID": partition.name,
        "IPUOF_VIPU_API_TIMEOUT": str(partition.timeout),
        "IPUOF_VIPU_API_GCD_ID": str(gcd),
    }
    if "POPLAR_TARGET_OPTIONS" not in launch.environment:
        options = {
            "ipuLinkDomainSize": str(partition.size // partition.ilds),
            "ipuLinkConfiguration": "Default",
            "ipuLinkTopology": "Mesh",
            "gatewayMode": "true" if partition.ilds > 1 else "false",
            "instanceSize": str(ipus),
        }
        found["POPLAR_TARGET_OPTIONS"] = json.dumps(options, separators=(",", ":"))
    return found


def topology(launch: Launch) -> str:
    """The boxed table of ``--print-topology``: hosts, IPU-Link domains, instances, replicas."""
    hosts = launch.arguments.hosts or ["localhost"]
    ilds = 1 if launch.partition is None else launch.partition.ilds
    replicas = launch.arguments.count("num-replicas")
    local = replicas // launch.instances
    rows = [
        ("hosts", [f"{host}" for host in hosts]),
        ("ILDs", [str(number) for number in range(ilds)]),
        ("instances", [str(number) for number in range(launch.instances)]),
        ("replicas", [_span(number * local, local) for number in range(launch.instances)]),
    ]
    widest = max(sum(len(cell) for cell in cells) + 3 * (len(cells) - 1) for _, cells in rows)
    columns = max(len(cells) for _, cells in rows)
    width = max(widest, 4 * columns - 3, 24)
    title = " poprun topology "
    rule = f"+-----------+{'-' * (width + 2)}+"
    lines = [f"+{title:=^{width + 14}}+", rule]
    for name, cells in rows:
        lines += [f"| {name:<9} | {_cells(cells, width)} |", rule]
    return "\n".join(lines)


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _cells(cells: Sequence[str], width: int) -> str:
    """Cells of as equal a width as fits, divided by bars."""
    inner = width - 3 * (len(cells) - 1)
    widths = [inner // len(cells)] * len(cells)
    widths[-1] += inner - sum(widths)
    if any(len(cell) > size for cell, size in zip(cells, widths, strict=True)):
        return f"{' | '.join(cells):<{width}}"
    return " | ".join(f"{cell:^{size}}" for cell, size in zip(cells, widths, strict=True))
