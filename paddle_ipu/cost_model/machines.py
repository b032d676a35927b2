"""The machines that can be named: processors and systems, with the source of every figure.

A custom machine is a JSON file (:func:`read_machine`); :func:`machine_named` takes a name of the
table or ``ipu:<file>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from paddle_ipu.errors import OptionError, meant

GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Processor:
    """One kind of IPU. Rates are per cycle and tile, memory in bytes, links in bytes a second.

    Attributes:
        tiles: tiles of an IPU.
        tile_memory: bytes of a tile's memory.
        clock: cycles a second.
        workers: worker threads of a tile; each issues one instruction every `workers` cycles.
        half_macs: multiply-accumulates a cycle of a tile's AMP unit, half operands.
        float_macs: likewise for float operands.
        vector_bytes: bytes one vector instruction works on.
        load_bytes: bytes a tile loads a cycle.
        copy_bytes: bytes a tile copies within its memory a cycle.
        exchange_bytes: bytes a tile sends, and receives, a cycle on the IPU's exchange.
        sync_cycles: cycles of an exchange on the IPU however few its bytes are, with the sync
            before it.
        global_sync_cycles: cycles of a sync of several IPUs.
        call_cycles: cycles to start six workers and end them.
        reduce_bytes: bytes of partial sums that a tile adds up in a cycle.
        link_bandwidth: bytes a second of two IPU-Links, each direction: a rail's from IPU to IPU.
        link_efficiency: share of it that is left of packets' heads.
    """

    name: str
    tiles: int
    tile_memory: int
    clock: float
    workers: int
    half_macs: int
    float_macs: int
    vector_bytes: int
    load_bytes: int
    copy_bytes: int
    exchange_bytes: int
    sync_cycles: int
    global_sync_cycles: int
    call_cycles: int
    reduce_bytes: int
    link_bandwidth: float
    link_efficiency: float

    @property
    def memory(self) -> int:
        """Bytes of all tiles."""
        return self.tiles * self.tile_memory

    @property
    def half_flops(self) -> float:
        """Peak floating-point operations a second, half operands."""
        return 2.0 * self.tiles * self.half_macs * self.clock


@dataclass(frozen=True, slots=True)
class Machine:
    """A system of IPUs.

    Attributes:
        ipus: IPUs of the whole system.
        board_ipus: IPUs that share a host link and streaming memory.
        host_bandwidth: bytes a second between a board and its host, each direction.
        streaming_bandwidth: bytes a second between a board's IPUs and its streaming memory.
        streaming_memory: bytes of a board's streaming memory.
        link_domain: IPUs that IPU-Links join; larger systems join such domains by gateways.
        gateway_bandwidth: bytes a second between a board and other domains, each direction.
    """

    name: str
    processor: Processor
    ipus: int
    board_ipus: int
    host_bandwidth: float
    streaming_bandwidth: float
    streaming_memory: float
    link_domain: int
    gateway_bandwidth: float

    def with_tiles(self, tiles: int) -> Machine:
        """The same machine with `tiles` tiles on each IPU."""
        return replace(self, processor=replace(self.processor, tiles=tiles))


_GC200 = Processor(
    name="GC200",
    tiles=1472,
    tile_memory=624 * 1024,
    clock=1.33e9,
    workers=6,
    half_macs=64,
    float_macs=16,
    vector_bytes=8,
    load_bytes=16,
    copy_bytes=8,
    exchange_bytes=4,
    sync_cycles=190,
    global_sync_cycles=600,
    call_cycles=288,
    reduce_bytes=8,
    link_bandwidth=32 * GIGA,
    link_efficiency=0.85,
)
_BOW = replace(_GC200, name="Bow", clock=1.85e9)
_C600 = replace(_GC200, name="C600", clock=1.5e9)

PROCESSORS: Mapping[str, Processor] = {p.name: p for p in (_GC200, _BOW, _C600)}

_POPLIBS = "cycle estimators of poplibs, 64-bit datapath"
_PLANNER = "a public analytical planner citing Poplar's target getters"

PROCESSOR_SOURCES: Mapping[str, str] = {
    "tiles": "PopART and PopTorch: ipu2 and ipu21 have 1472",
    "tile_memory": "624 KiB a tile; 1472 of them are the 900 MB Graphcore states",
    "clock": "Graphcore: GC200 1.33 GHz, Bow 1.85 GHz; C600 (ipu21) about 1.5 GHz, of its 280 "
    "teraFLOP/s",
    "workers": "Poplar's programming guide: six worker threads, round robin",
    "half_macs": "Graphcore: 250 teraFLOP/s of GC200 and 350 of Bow, over tiles and clock",
    "float_macs": "Graphcore: 62.5 teraFLOP/s of GC200 and 87 of Bow, over tiles and clock",
    "vector_bytes": "poplibs: vectors of 4 half or 2 float",
    "load_bytes": "Graphcore: 47.5 TB/s of tile memory; two 8-byte loads and an 8-byte store",
    "copy_bytes": _PLANNER,
    "exchange_bytes": "Poplar: Target::getExchangeBytesPerCycle is 4; 8 TB/s of the exchange",
    "sync_cycles": "poplibs' planner of the CTC loss: 90 for a sync, 100 for the least exchange",
    "global_sync_cycles": _PLANNER + " (Target::getGlobalSyncCycles)",
    "call_cycles": _PLANNER + ": a copy call of six workers",
    "reduce_bytes": _POPLIBS + ": one vector a cycle",
    "link_bandwidth": "Graphcore: 10 links and 320 GB/s an IPU; 64 GB/s, both directions, a pair",
    "link_efficiency": "poplibs: its IPU model's constraints of global exchange",
}
"""Field of :class:`Processor` -> where its figure comes from."""

MACHINE_SOURCES: Mapping[str, str] = {
    "ipus": "Graphcore: 4 IPUs a machine; a Pod's number counts its IPUs; a C600 card has one",
    "board_ipus": "Graphcore: an IPU-M2000 or Bow-2000 has 4 IPUs",
    "host_bandwidth": "assumed: 100 GbE RoCE a machine; a C600 has PCIe Gen4 x8",
    "streaming_bandwidth": "assumed: about 20 GB/s a machine; a C600's "
    "streaming memory is its host's, over PCIe",
    "streaming_memory": "Graphcore: up to 256 GB of DDR4 a machine; a C600 has the host's",
    "link_domain": "Graphcore: IPU-Links join up to 64 IPUs",
    "gateway_bandwidth": "Graphcore: two 100 Gb/s gateway links a machine",
}
"""Field of :class:`Machine` -> where its figure comes from."""

UNCERTAIN: Mapping[str, tuple[float, float]] = {
    "copy_bytes": (0.75, 1.5),
    "sync_cycles": (0.7, 3.0),
    "global_sync_cycles": (0.7, 1.5),
    "call_cycles": (0.7, 1.5),
    "link_efficiency": (0.85, 1.1),
    "host_bandwidth": (0.6, 1.2),
    "streaming_bandwidth": (0.5, 1.5),
    "gateway_bandwidth": (0.6, 1.1),
}
"""Figure that Graphcore did not publish, or that is a link's nominal rate -> factors of it between
which 80 % of the belief lies; assumed."""

_BOARD = Machine(
    name="M2000",
    processor=_GC200,
    ipus=4,
    board_ipus=4,
    host_bandwidth=12.5 * GIGA,
    streaming_bandwidth=20 * GIGA,
    streaming_memory=256 * GIGA,
    link_domain=64,
    gateway_bandwidth=25 * GIGA,
)
_SIZES = (4, 8, 16, 32, 64, 128, 256)

MACHINES: Mapping[str, Machine] = {
    machine.name: machine
    for machine in (
        _BOARD,
        *(replace(_BOARD, name=f"POD{n}", ipus=n) for n in _SIZES),
        replace(_BOARD, name="Bow-2000", processor=_BOW),
        *(replace(_BOARD, name=f"Bow-Pod{n}", processor=_BOW, ipus=n) for n in _SIZES),
        Machine(
            name="C600",
            processor=_C600,
            ipus=1,
            board_ipus=1,
            host_bandwidth=16 * GIGA,
            streaming_bandwidth=16 * GIGA,
            streaming_memory=256 * GIGA,
            link_domain=8,
            gateway_bandwidth=16 * GIGA,
        ),
    )
}
"""The machines by name; :func:`machine_named` finds them however they are spelt."""


def pods_like(machine: Machine) -> list[Machine]:
    """The Pods that have a machine's IPUs, the smallest first.

    Raises:
        OptionError: there are none.
    """
    processor = machine.processor
    pods = [
        tiled
        for name, pod in MACHINES.items()
        if "pod" in name.lower()
        and (tiled := pod.with_tiles(processor.tiles)).processor == processor
    ]
    if not pods:
        raise OptionError(
            f"there are no Pods of machine '{machine.name}', whose processor is a "
            f"{processor.name}: name a Pod, as pod4 or bow-pod4"
        )
    return pods


FILE_PREFIX = "ipu:"
_LEAST, _MOST = 1e-6, 1e15
"""Figures of a file: with others no prediction is a number."""


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("ipu")


def machine_named(name: str) -> Machine:
    """A machine of the table, or of a file where the name is ``ipu:<file>``.

    Capitals, spaces and dashes do not matter, nor does a leading ``IPU-``.

    Raises:
        OptionError: no such machine, or a file that describes none.
    """
    if name.startswith(FILE_PREFIX):
        return read_machine(Path(name.removeprefix(FILE_PREFIX)))
    for known, machine in MACHINES.items():
        if _key(known) == _key(name):
            return machine
    raise OptionError(
        f"unknown machine '{name}': expected one of {', '.join(MACHINES)}, or ipu:<file> for one "
        f"that a JSON file describes.{meant(name, MACHINES)}"
    )


def read_machine(path: Path) -> Machine:
    """The machine that a JSON file describes.

    The file has an object with any of :class:`Machine`'s fields; ``processor`` is a name of
    :data:`PROCESSORS` or an object with any of :class:`Processor`'s fields. ``base`` names the
    machine, and within ``processor`` the processor, whose figures hold where the file gives none;
    a Bow-2000 and a Bow by default.

    Raises:
        OptionError: the file cannot be read, or says something that no machine has.
    """
    try:
        described = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"machine file '{path}': {error}") from error
    if not isinstance(described, dict):
        raise OptionError(f"machine file '{path}': expected one JSON object")
    base = described.pop("base", "Bow-2000")
    if not isinstance(base, str) or base not in MACHINES:
        raise _wrong(path, "base", "one of " + ", ".join(MACHINES), base)
    processor = described.pop("processor", None)
    figures = {"name": str(path), **_figures(path, Machine, described)}
    machine = replace(MACHINES[base], **figures)
    if processor is None:
        return machine
    if isinstance(processor, str):
        if processor not in PROCESSORS:
            raise _wrong(path, "processor", "one of " + ", ".join(PROCESSORS), processor)
        return replace(machine, processor=PROCESSORS[processor])
    if not isinstance(processor, dict):
        raise _wrong(path, "processor", "a name or an object", processor)
    kind = processor.pop("base", machine.processor.name)
    if not isinstance(kind, str) or kind not in PROCESSORS:
        raise _wrong(path, "processor.base", "one of " + ", ".join(PROCESSORS), kind)
    figures = _figures(path, Processor, processor, "processor.")
    return replace(machine, processor=replace(PROCESSORS[kind], **figures))


def _figures(
    path: Path, kind: type[Any], given: Mapping[str, Any], where: str = ""
) -> dict[str, Any]:
    known = {field.name: field.type for field in fields(kind) if field.name != "processor"}
    figures: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise OptionError(
                f"machine file '{path}': unknown field {_shown(where + name)}; there are "
                f"{', '.join(known)}"
            )
        if name == "name":
            if not isinstance(value, str):
                raise _wrong(path, where + name, "a text", value)
            figures[name] = value
            continue
        whole = known[name] == "int"
        # So that it is no NaN either.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise _wrong(path, where + name, "a number above 0", value)
        if not _LEAST <= value <= _MOST:
            raise _wrong(path, where + name, f"a number from {_LEAST:g} to {_MOST:g}", value)
        if whole and value != int(value):
            raise _wrong(path, where + name, "a whole number above 0", value)
        figures[name] = int(value) if whole else float(value)
    return figures


def _wrong(path: Path, name: str, expected: str, got: object) -> OptionError:
    return OptionError(f"machine file '{path}': {name} must be {expected}, got {_shown(got)}")


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
