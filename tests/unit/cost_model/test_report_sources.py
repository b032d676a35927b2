"""Where the figures of a report come from: what the page says of them holds for their values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.report.as_json import report_as_json
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.sources import sources
from tests.unit.cost_model.programs import chain

PROGRAMS = {
    "a pipeline in training": chain(8, stages=4, accumulation=16, replicas=2),
    "training on one IPU": chain(4, accumulation=4),
    "a pipeline in inference": chain(8, stages=4, training=False),
    "inference on one IPU": chain(4, training=False),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_figures_of_the_summary_are_computed_as_the_page_says(program: Program) -> None:
    found = report_as_json(make_report(program, machine_named("pod16")))
    settings, cycles = found["program"]["settings"], found["cycles"]
    processor, stages = found["machine"]["processor"], found["pipeline"]["stages"]
    ipus = settings["ipus"] // settings["replicas"]
    runs = settings["accumulation"] if settings["training"] else 1
    host = found["host_seconds"]
    assert host == found["constants"]["run_seconds"]
    assert found["seconds"] == pytest.approx(host + cycles["run"] / processor["clock"])
    assert found["throughput"] == pytest.approx(found["program"]["samples"] / found["seconds"])
    assert cycles["update"] == pytest.approx(sum(cycles["phases"].values()))
    flops = sum(stage["forward"]["flops"] + stage["backward"]["flops"] for stage in stages)
    could = ipus * processor["tiles"] * processor["half_macs"] * 2 * cycles["update"]
    assert found["utilisation"] == pytest.approx(flops * runs / could)
    busy = sum(stage["cycles"] for stage in stages) * runs
    rest = cycles["update"] - sum(cycles["weight_update"].values())
    assert found["bubble"] == pytest.approx(max(0, 1 - busy / (ipus * rest)))
    if not settings["training"]:
        one = cycles["steady"] * len(stages) if len(stages) > 1 else cycles["update"]
        assert found["latency"] == pytest.approx(host + one / processor["clock"])
    for ipu in found["memory"]["ipus"]:
        code = ipu["categories"]["code"]
        tile = (ipu["peak"] - code) / processor["tiles"] * found["constants"]["tile_imbalance"]
        assert ipu["tile"]["peak"] == pytest.approx(tile + code / processor["tiles"], abs=2)


def test_every_figure_of_a_machine_and_every_constant_has_a_source() -> None:
    machine = machine_named("bow-pod16")
    found = {source.name: source for source in sources(machine)}
    assert all(source.source for source in found.values())
    assert found["clock"].value == 1.85e9 and "Graphcore" in found["clock"].source
    assert found["exchange_efficiency"].kind == "fitted"
    assert found["norm_forward"].kind == "counted" and "poplibs" in found["norm_forward"].source
    assert found["hop_seconds"].kind == "assumed"
    influences = make_report(PROGRAMS["training on one IPU"], machine).interval.influences
    assert {influence.name for influence in influences} <= found.keys()


def test_a_figure_that_no_listed_machine_has_is_said_to_be_given() -> None:
    machine = machine_named("pod16")
    mine = replace(machine, processor=replace(machine.processor, clock=2e9))
    found = {source.name: source.source for source in sources(mine)}
    assert found["clock"] == "given with the machine"
    assert found["tiles"] != "given with the machine"


def test_layers_of_categories_add_up_where_their_tensors_are_known() -> None:
    program = PROGRAMS["a pipeline in training"]
    for ipu in report_as_json(make_report(program, machine_named("pod16")))["memory"]["ipus"]:
        known = ipu["category_layers"]
        assert {"weights", "accumulators"} <= known.keys() <= ipu["categories"].keys()
        for name, layers in known.items():
            assert sum(layers.values()) == ipu["categories"][name]
