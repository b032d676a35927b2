"""Machines: the table, names, files, and how one is chosen."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from paddle_ipu.cost_model.choice import choose_machine
from paddle_ipu.cost_model.machines import (
    MACHINE_SOURCES,
    MACHINES,
    PROCESSOR_SOURCES,
    PROCESSORS,
    Machine,
    Processor,
    machine_named,
    read_machine,
)
from paddle_ipu.errors import OptionError


def test_every_figure_has_a_source() -> None:
    assert {f.name for f in fields(Processor)} - {"name"} == set(PROCESSOR_SOURCES)
    assert {f.name for f in fields(Machine)} - {"name", "processor"} == set(MACHINE_SOURCES)


def test_the_figures_give_the_peaks_that_graphcore_states() -> None:
    gc200, bow = PROCESSORS["GC200"], PROCESSORS["Bow"]
    assert gc200.half_flops == pytest.approx(250e12, rel=0.01)
    assert bow.half_flops == pytest.approx(350e12, rel=0.01)
    assert PROCESSORS["C600"].half_flops == pytest.approx(280e12, rel=0.02)
    assert gc200.memory == pytest.approx(900 * 1024**2, rel=0.01)
    assert gc200.tiles * gc200.exchange_bytes * gc200.clock == pytest.approx(8e12, rel=0.03)


@pytest.mark.parametrize("name", ["pod16", "POD16", "IPU-POD16", "ipu pod 16"])
def test_names_are_found_however_they_are_spelt(name: str) -> None:
    assert machine_named(name) is MACHINES["POD16"]
    assert machine_named("bow_pod64").ipus == 64


def test_an_unknown_machine_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        OptionError, match=r"unknown machine 'pod17'.*POD16.*Bow-Pod256.*C600.*ipu:"
    ):
        machine_named("pod17")


def test_a_file_describes_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text(json.dumps({"base": "POD4", "ipus": 2, "processor": {"tiles": 736}}))
    machine = machine_named(f"ipu:{path}")
    assert (machine.ipus, machine.processor.tiles, machine.processor.clock) == (2, 736, 1.33e9)
    assert machine.processor.memory == PROCESSORS["GC200"].memory // 2
    assert machine.name == str(path)
    path.write_text(json.dumps({"name": "half", "processor": {"name": "small"}}))
    assert (read_machine(path).name, read_machine(path).processor.name) == ("half", "small")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected one JSON object"),
        ('{"speed": 3}', "unknown field 'speed'; there are name, ipus"),
        ('{"ipus": 0}', "ipus must be a number above 0, got 0"),
        ('{"ipus": 1.5}', "ipus must be a whole number above 0, got 1.5"),
        ('{"base": "POD3"}', "base must be one of M2000, POD4"),
        ('{"processor": "GC3"}', "processor must be one of GC200, Bow, C600, got 'GC3'"),
        ('{"processor": 3}', "processor must be a name or an object, got 3"),
        ('{"processor": {"tiles": true}}', "processor.tiles must be a number above 0, got True"),
        ('{"host_bandwidth": NaN}', "host_bandwidth must be a number above 0, got nan"),
        ('{"clock": 1}', "unknown field 'clock'; there are name, ipus"),
        (
            '{"host_bandwidth": Infinity}',
            "host_bandwidth must be a number from 1e-06 to 1e+15, got inf",
        ),
        (
            f'{{"processor": {{"tiles": 1{"0" * 400}}}}}',
            f"processor.tiles must be a number from 1e-06 to 1e+15, got 1{'0' * 56}...",
        ),
        ('{"name": {}}', "name must be a text, got {}"),
        ('{"processor": {"base": "x"}}', "processor.base must be one of GC200, Bow, C600"),
    ],
)
def test_a_file_that_describes_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(OptionError) as caught:
        read_machine(path)
    assert str(caught.value).startswith(f"machine file '{path}': ")
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        read_machine(tmp_path / "none.json")


def test_the_strategy_goes_before_the_environment_and_both_name_a_machine() -> None:
    environment = {"POPLAR_TARGET_OPTIONS": '{"machine": "bow-pod4", "ipuLinkDomainSize": 4}'}
    assert choose_machine("", 4, None, environment).machine.name == "Bow-Pod4"
    chosen = choose_machine("pod16", 4, None, environment)
    assert (chosen.machine.name, chosen.named) == ("POD16", True)


def test_without_a_name_it_is_the_smallest_gc200_system_with_all_its_tiles() -> None:
    chosen = choose_machine("", 6, None, {"POPLAR_IPUMODEL": "1"})
    assert (chosen.machine.name, chosen.named) == ("POD8", False)
    assert chosen.machine.processor.tiles == 1472
    assert choose_machine("", 1, 4, {}).machine.processor.tiles == 4
    assert choose_machine("", 512, None, {}) == choose_machine("", 256, None, {})


@pytest.mark.parametrize(
    ("name", "ipus", "tiles", "options", "message"),
    [
        ("m2000", 8, None, "", "machine 'M2000' has 4 IPU\\(s\\), but the program takes 8: lower"),
        ("c600", 1, 2000, "", "tiles_per_ipu is 2000, but machine 'C600' has 1472 tiles"),
        ("", 1, None, "{", "POPLAR_TARGET_OPTIONS is no JSON object: "),
        ("", 1, None, "[1]", r"POPLAR_TARGET_OPTIONS is no JSON object: '\[1\]'"),
    ],
)
def test_contradictions_are_refused(
    name: str, ipus: int, tiles: int | None, options: str, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        choose_machine(name, ipus, tiles, {"POPLAR_TARGET_OPTIONS": options})
