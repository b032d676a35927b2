"""Which machine a program is for: named by the strategy, the environment or a file, or assumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from paddle_ipu.cost_model.machines import FILE_PREFIX, MACHINES, Machine, machine_named
from paddle_ipu.errors import OptionError

TARGET_OPTIONS = "POPLAR_TARGET_OPTIONS"
_KEY = "machine"


@dataclass(frozen=True, slots=True)
class Choice:
    """A machine, and whether somebody named it; else it is GC200's smallest of enough IPUs.

    `name` is what `ipu_machine` takes for it.
    """

    machine: Machine
    named: bool
    name: str = ""


def choose_machine(
    name: str, ipus: int, tiles: int | None, environment: Mapping[str, str]
) -> Choice:
    """The machine of a program of `ipus` IPUs.

    Args:
        name: the strategy's; "" for none. It goes before ``POPLAR_TARGET_OPTIONS``.
        tiles: tiles of each IPU where the strategy says so; all of the machine's where None.
        environment: ``POPLAR_TARGET_OPTIONS`` is a JSON object; its ``machine`` names one.

    Raises:
        OptionError: an unknown machine, a named one with too few IPUs or tiles, or no JSON object.
    """
    named = name or _from_environment(environment)
    machine = machine_named(named) if named else smallest_of(ipus)
    if ipus > machine.ipus and named:
        raise OptionError(
            f"machine '{machine.name}' has {machine.ipus} IPU(s), but the program takes {ipus}: "
            "lower num_ipus or the number of replicas, or name a larger machine"
        )
    if tiles is not None:
        if tiles > machine.processor.tiles and named:
            raise OptionError(
                f"tiles_per_ipu is {tiles}, but machine '{machine.name}' has "
                f"{machine.processor.tiles} tiles an IPU: leave the option out for all of them"
            )
        machine = machine.with_tiles(tiles)
    is_file = named.startswith(FILE_PREFIX)
    return Choice(machine, bool(named), named if is_file else machine.name)


def _from_environment(environment: Mapping[str, str]) -> str:
    text = environment.get(TARGET_OPTIONS, "")
    if not text:
        return ""
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{TARGET_OPTIONS} is no JSON object: {error}") from error
    if not isinstance(options, dict):
        raise OptionError(f"{TARGET_OPTIONS} is no JSON object: {text!r}")
    return str(options.get(_KEY, ""))


def smallest_of(ipus: int) -> Machine:
    """The smallest GC200 system of at least so many IPUs; the largest where none is."""
    pods = [machine for name, machine in MACHINES.items() if name.startswith("POD")]
    return next((machine for machine in pods if machine.ipus >= ipus), pods[-1])
