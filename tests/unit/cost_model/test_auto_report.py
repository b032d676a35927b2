"""Poplar's autoReport settings, and what sessions report: predictions, in folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu import popart
from paddle_ipu.cost_model.report.auto_report import AutoReport, auto_report, engine_options
from paddle_ipu.cost_model.report.directory import FORMS
from paddle_ipu.errors import (
    OptionError,
    OutOfMemoryException,
    ReportError,
    popart_runtime_error,
)

POPRUN = {
    "POPDIST_AUTOREPORT_DIRECTORY": "/prof",
    "POPDIST_NUM_TOTAL_REPLICAS": "4",
    "POPDIST_NUM_LOCAL_REPLICAS": "2",
    "POPDIST_REPLICA_INDEX_OFFSET": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
}


def environment(options: Mapping[str, Any], **others: str) -> dict[str, str]:
    return {"POPLAR_ENGINE_OPTIONS": json.dumps(options), **others}


@pytest.mark.parametrize(
    ("given", "around", "folder"),
    [
        ({}, {}, None),
        ({"autoReport.all": "true"}, {}, "."),
        ({"autoReport.directory": "/d"}, {}, None),
        ({"autoReport.directory": "/d", "autoReport.outputGraphProfile": "true"}, {}, "/d"),
        ({"autoReport.outputExecutionProfile": "True"}, {}, "."),
        ({"autoReport.all": "true", "autoReport.outputGraphProfile": "false"}, {}, "."),
        ({"autoReport.outputArchive": "true"}, {}, None),
        ({"debug.instrument": "true"}, {}, None),
        ({}, environment({"autoReport.all": True, "autoReport.directory": "/e"}), "/e"),
        ({"autoReport.all": "true"}, environment({"autoReport.all": "false"}), None),
        ({}, POPRUN, "/prof/1"),
        ({"autoReport.outputArchive": "false"}, POPRUN, None),
        ({}, environment({"autoReport.all": "false"}, **POPRUN), None),
        ({}, environment({"debug.instrument": True}, **POPRUN), "/prof/1"),
        ({}, {"POPDIST_AUTOREPORT_DIRECTORY": "/prof"}, "/prof/0"),
    ],
)
def test_where_reports_go(
    given: dict[str, str], around: dict[str, str], folder: str | None
) -> None:
    found = auto_report(given, around)
    assert (found and found.directory) == (folder and Path(folder))


def test_what_of_poplars_is_not_written() -> None:
    found = auto_report({"autoReport.all": "true", "autoReport.outputArchive": "false"}, {})
    assert found == AutoReport(
        Path("."), ("profile.pop", "debug.cbor", "lowered variables", "serialized_graph.capnp")
    )


def test_the_environment_goes_before_the_program() -> None:
    around = environment({"debug.instrument": False, "target.workerStackSizeInBytes": 64})
    assert engine_options({"debug.instrument": "true", "opt.a": "b"}, around) == {
        "debug.instrument": "false", "target.workerStackSizeInBytes": "64", "opt.a": "b",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "around", "message"),
    [
        ({}, {"POPLAR_ENGINE_OPTIONS": "autoReport.all"}, "POPLAR_ENGINE_OPTIONS is no JSON obj"),
        ({}, {"POPLAR_ENGINE_OPTIONS": "[1]"}, r"no JSON object of texts, .*: '\[1\]'"),
        ({}, environment({"autoReport.all": ["true"]}), "no JSON object of texts"),
        ({"autoReport.al": "true"}, {}, "unknown engine option autoReport.al; those of autoReport"),
        ({"autoReport.all": "yes"}, {}, "autoReport.all takes true or false, got 'yes'"),
        ({"autoReport.directory": "/d"}, POPRUN,
         "autoReport.directory is '/d' in the engine options, but poprun --autoreport-dir says "
         "'/prof': leave one of them out"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(
    given: dict[str, str], around: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        auto_report(given, around)


def session(
    options: Mapping[str, str] | None = None,
    name: str = "inference",
    settings: popart.SessionOptions | None = None,
) -> Any:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 8])
    w = builder.addInitializedInputTensor(np.ones((8, 8), np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    settings = settings or popart.SessionOptions()
    settings.engineOptions = dict(options or {})
    return popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(2, {y: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1472}),
        userOptions=settings,
        name=name,
    )


def test_a_session_reports_when_it_is_prepared() -> None:
    made = session()
    for ask in (made.getReport, made.getSummaryReport):
        with pytest.raises(popart_runtime_error, match="Session must have been prepared before a"):
            ask()
    made.prepareDevice()
    text = made.getSummaryReport()
    assert text.startswith("inference on POD4: 1 IPU(s) of 1472 tiles")
    assert "Execution profiling not enabled" in text
    report = made.getReport()
    target = report.compilation.target
    assert (target.architecture, target.numIPUs, target.tilesPerIpu) == ("ipu2", 1, 1472)
    assert target.numTiles == 1472 and target.totalMemory == 1472 * 624 * 1024
    assert target.clockFrequency == 1.33e9 and target.numReplicas == 1
    assert len(report.compilation.tiles) == 1472
    fullest = report.prediction.prediction.memory.worst.per_tile
    assert report.compilation.tiles[5].memory.total.includingGaps == fullest
    assert report.compilation.graph.numComputeSets >= 1
    (weight,) = report.compilation.alwaysLiveVariables
    assert (weight.name, weight.size) == ("w", 8 * 8 * 4)
    steps = report.compilation.livenessProgramSteps
    assert any("MatMul" in step.program.name for step in steps)
    assert all(step.notAlwaysLiveMemory.bytes >= 0 for step in steps)
    (stage,) = report.execution.steps
    assert stage.program.name == "stage 0 forward" and stage.ipus[0].cycles > 0
    # Two batches a step, one after the other.
    assert report.execution.runs[0].cycles == pytest.approx(2 * stage.ipus[0].cycles, abs=2)
    assert report.poplarVersion.string == popart.versionString()


def test_cycle_counts_are_predicted() -> None:
    made = session()
    made.prepareDevice()
    anchors = made.initAnchorArrays()
    step = popart.PyStepIO({made.graph.inputs[0].name: np.ones((2, 4, 8), np.float32)}, anchors)
    with pytest.raises(popart_runtime_error, match="Must call run before getCycleCount"):
        made.getCycleCount()
    made.run(step)
    with pytest.raises(popart_runtime_error, match="'instrumentWithHardwareCycleCounter' must be"):
        made.getCycleCount()
    settings = popart.SessionOptions()
    settings.instrumentWithHardwareCycleCounter = True
    settings.hardwareInstrumentations = {
        popart.Instrumentation.Outer,
        popart.Instrumentation.Inner,
    }
    made = session(settings=settings)
    made.prepareDevice()
    made.run(step)
    predicted = made.getReport().execution.runs[0].cycles
    assert made.getCycleCount() == pytest.approx(predicted, abs=2)
    assert made.getCycleCount("inner_ipu_0") == pytest.approx(predicted / 2, abs=2)
    with pytest.raises(popart_runtime_error, match=r"'inner_ipu_1', there are '', 'inner_ipu_0'"):
        made.getCycleCount("inner_ipu_1")


def test_sessions_write_their_folders(tmp_path: Path) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "reports")}
    for _ in range(2):
        session(options).prepareDevice()
    assert sorted(os.listdir(tmp_path / "reports")) == ["inference", "inference-2"]
    for folder in ("inference", "inference-2"):
        assert sorted(os.listdir(tmp_path / "reports" / folder)) == sorted(FORMS)


def test_a_session_s_name_is_no_path(tmp_path: Path) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "reports")}
    for name in ("../elsewhere", "/a b", "..", "run.1"):
        session(options, name).prepareDevice()
    assert os.listdir(tmp_path) == ["reports"]
    folders = ["_a_b", "_elsewhere", "run.1", "session"]
    assert sorted(os.listdir(tmp_path / "reports")) == sorted(folders)


def test_a_folder_that_cannot_be_written_ends_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "file")}
    made = session(options)
    with pytest.raises(ReportError, match="a report cannot be written to .*file/inference: Not a"):
        made.prepareDevice()
    with pytest.raises(popart_runtime_error, match="must have been prepared"):
        made.getReport()


def compiled(options: Mapping[str, Any]) -> Any:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [8, 64], "float32")
        y = paddle.tanh(paddle.nn.Linear(64, 64)(x))
    paddle.static.Executor(paddle.CPUPlace()).run(startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=8)
    strategy.set_options(dict(options))
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
    return program.compile(["x"], [y])


def test_reports_of_paddle_programs_have_the_users_lines(
    static_mode: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = environment({"autoReport.all": True, "autoReport.directory": str(tmp_path)})
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", around["POPLAR_ENGINE_OPTIONS"])
    program = compiled({"ipu_machine": "bow-2000"})
    found = json.loads((tmp_path / "inference" / "report.json").read_text())
    assert found["machine"]["name"] == "Bow-2000"
    assert any("test_auto_report.py:" in row["source"] for row in found["operators"])
    assert "on Bow-2000" in program.backend.session.getSummaryReport()


def test_what_does_not_fit_is_reported_too(static_mode: None, tmp_path: Path) -> None:
    tiny = tmp_path / "tiny.json"
    tiny.write_text('{"base": "POD4", "processor": {"tile_memory": 1024, "tiles": 4}}')
    settings = {"autoReport.outputGraphProfile": "true", "autoReport.directory": str(tmp_path)}
    with pytest.raises(OutOfMemoryException) as refused:
        compiled({"ipu_machine": f"ipu:{tiny}", "engine_options": settings})
    assert refused.value.getProfilePath() == str(tmp_path / "inference")
    assert "lacks" in refused.value.getSummaryReport()
    assert json.loads((tmp_path / "inference" / "report.json").read_text())["advice"]
    with pytest.raises(OutOfMemoryException) as refused:
        compiled({"ipu_machine": f"ipu:{tiny}"})
    assert refused.value.getProfilePath() == "" and refused.value.getSummaryReport()


def test_the_environment_allows_what_does_not_fit(
    static_mode: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = tmp_path / "tiny.json"
    tiny.write_text('{"base": "POD4", "processor": {"tile_memory": 1024, "tiles": 4}}')
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"debug.allowOutOfMemory": true}')
    compiled({"ipu_machine": f"ipu:{tiny}"})
