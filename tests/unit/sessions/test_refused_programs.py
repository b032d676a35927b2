"""Programs that PopART's sessions refuse when they are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, infer, run


def test_a_program_without_anything_to_compute() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    make.aiOnnx.sqrt([x])
    told = (
        "^All operations in the main graph were pruned, nothing to compute\n"
        "No operator makes one of the anchors: x.$"
    )
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {x: "All"})


def test_a_program_that_only_updates_a_variable() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    w = make.addInitializedInputTensor(np.zeros(2, np.float32), "w")
    make.aiGraphcore.copyvarupdate([w, make.aiOnnx.neg([x])])
    given = np.asarray([1, 2], np.float32)
    np.testing.assert_array_equal(
        run(infer(make.getModelProto(), {x: "All"}), {"x": given})[x], given
    )


def test_a_pattern_that_is_none_cannot_be_excluded() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    y = make.aiOnnx.neg([x])
    make.excludePatterns(y, ["PreUniRepl", "InPlace", "SGD0Decompose"])
    infer(make.getModelProto(), {y: "All"})
    z = make.aiOnnx.neg([y], "last")
    make.excludePatterns(z, ["Nothing"])
    told = (
        r"^Invalid pattern name 'Nothing' in Op::excludePatterns of Op\(last \(ai.onnx.Neg:6\), "
        r"inputs=\[Neg:0\], outputs=\[Neg:0/1\]\). Patterns are AbsGradOp, "
    )
    with pytest.raises(popart_exception, match=told):
        infer(make.getModelProto(), {z: "All"})


def test_a_model_without_weights_is_written_as_it_was(tmp_path: Path) -> None:
    make = builder()
    make.embedReplicationFactor(1)
    x = make.addInputTensor("FLOAT", [2], "x")
    y = make.aiOnnx.add([x, make.aiOnnx.constant(np.ones(2, np.float32))])
    loss = make.aiGraphcore.identityloss([y])
    model = make.getModelProto()
    session = popart.TrainingSession(
        model,
        popart.DataFlow(1, [y], popart.AnchorReturnType("All")),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    path = tmp_path / "model.onnx"
    session.modelToHost(str(path))
    assert path.read_bytes() == model
