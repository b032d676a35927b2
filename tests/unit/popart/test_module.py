"""The module: names resolve on first use and importing it imports nothing heavy."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import paddle_ipu.popart as popart
from paddle_ipu.errors import NotSupported, popart_exception
from paddle_ipu.popart import enums, names
from paddle_ipu.popart.absent import absent_names
from paddle_ipu.popart.tensorinfo import TensorInfo

# Written elsewhere and not part of the graph half.
SESSIONS = {"InferenceSession", "TrainingSession"}


def test_every_name_resolves() -> None:
    for name in popart.__all__:
        if name not in SESSIONS:
            assert getattr(popart, name) is not None
        assert name in dir(popart)
    with pytest.raises(AttributeError, match=r"'paddle_ipu.popart' has no attribute 'Nothing'"):
        _ = popart.Nothing


def test_every_enumeration_is_exported() -> None:
    found = {
        name
        for name, value in vars(enums).items()
        if isinstance(value, type)
        and issubclass(value, Enum)
        and value.__module__ == enums.__name__
    }
    assert found - {"_PopartEnum"} <= set(popart.__all__)


def test_the_graph_half_imports_without_paddle_and_jax(run_python: Callable[..., Any]) -> None:
    run_python(
        "import sys, paddle_ipu.popart as p\n"
        "assert 'numpy' not in sys.modules and 'onnx_ir' not in sys.modules\n"
        "for n in ('Builder', 'DataFlow', 'SGD', 'SessionOptions', 'PyStepIO', 'DeviceManager',\n"
        "          'Patterns'):\n"
        "    getattr(p, n)\n"
        "assert not {'jax', 'paddle', 'popart'} & set(sys.modules)\n"
    )


def test_versions_and_prefixes() -> None:
    assert names.versionNumber() == (3, 4, 0)
    assert names.versionString() == "3.4.0 (paddle_ipu)"
    assert (names.defaultAiOnnxOpset, names.defaultAiGraphcoreOpset) == (10, 1)
    found = {name: getattr(names, name)() for name in dir(names) if name.endswith("Prefix")}
    assert found["reservedGradientPrefix"] == "Gradient___"
    assert found["reservedLossScalingPrefix"] == "lossScaling_"
    assert sorted(found.values()) == sorted(names.reservedPrefixes())


def test_the_prefixes_of_an_optimizers_numbers() -> None:
    assert popart.reservedDefaultAdamEpsPrefix() == "adamEps___default___"
    assert popart.reservedSpecificScaledWeightDecay1Prefix() == "scaledWeightDecay1___specific___"
    assert popart.reservedDefaultLossScalingPrefix() == "lossScaling___default___"
    assert "weight" in str(popart.reservedSpecificStepPrefix.__doc__)
    assert {name for name in names.__dict__ if name.endswith("Prefix")} <= set(popart.__all__)


def test_sync_patterns_have_names() -> None:
    for pattern in popart.SyncPattern:
        assert popart.syncPatternFromString(popart.syncPatternToString(pattern)) is pattern
    assert popart.syncPatternToString(popart.SyncPattern.SinglePipeline) == "singlePipeline"
    with pytest.raises(
        popart_exception, match=r"^Unknown syncPattern setting: Full\. There are full,"
    ):
        popart.syncPatternFromString("Full")


def test_poplars_errors_can_be_expected() -> None:
    assert issubclass(popart.poplar_recoverable_runtime_error, popart.poplar_system_runtime_error)
    assert issubclass(popart.poplar_system_runtime_error, popart.poplar_runtime_error)
    assert issubclass(popart.poplar_runtime_error, popart.poplar_exception)
    assert not issubclass(popart.poplar_exception, popart_exception)
    assert not issubclass(popart.poplibs_exception, popart.poplar_exception)


def test_a_name_that_only_graphcores_module_has_says_why() -> None:
    with pytest.raises(NotSupported, match="does not have 'closePoplarDebugInfo': no Poplar runs"):
        _ = popart.closePoplarDebugInfo
    assert not hasattr(popart, "initializePoplarDebugInfo")


def test_loggers(caplog: pytest.LogCaptureFixture) -> None:
    logger = popart.getLogger()
    parent = logging.getLogger("popart")
    before, handlers = parent.level, list(parent.handlers)
    try:
        for level, shown in (
            ("WARN", ["warn", "error", "critical"]),
            ("ERR", ["error", "critical"]),
            ("OFF", []),
            ("unknown", []),
        ):
            caplog.clear()
            logger.setLevel(level)
            for method in ("debug", "info", "warn", "error", "critical"):
                getattr(logger, method)(method)
            assert [record.message for record in caplog.records] == shown
        popart.getLogger("python").setLevel("DEBUG")
        caplog.clear()
        logger.debug("100 %s")
        assert [(record.name, record.message) for record in caplog.records] == [
            ("popart.python", "100 %s")
        ]
    finally:
        parent.setLevel(before)
        parent.handlers[:] = handlers
        logging.getLogger("popart.python").setLevel(logging.NOTSET)


def test_a_logger_writes_to_standard_error_where_nothing_else_does(run_python: Any) -> None:
    run_python(
        "import io, sys\n"
        "sys.stderr = io.StringIO()\n"
        "import paddle_ipu.popart as popart\n"
        "logger = popart.getLogger()\n"
        "logger.setLevel('INFO')\n"
        "logger.setLevel('INFO')\n"
        "logger.info('told')\n"
        "assert sys.stderr.getvalue() == 'told\\n', sys.stderr.getvalue()\n"
        "sys.stderr = io.StringIO()\n"
        "logger.info('again')\n"
        "assert sys.stderr.getvalue() == 'again\\n', sys.stderr.getvalue()\n"
    )


@pytest.mark.parametrize("where", ["stderr", "stdout"])
def test_a_logger_leaves_messages_to_the_programs_own_handler(run_python: Any, where: str) -> None:
    run_python(
        "import io, logging, sys\n"
        "sys.stderr, sys.stdout = io.StringIO(), io.StringIO()\n"
        f"logging.basicConfig(format='own %(message)s', stream=sys.{where})\n"
        "import paddle_ipu.popart as popart\n"
        "popart.getLogger().setLevel('INFO')\n"
        "popart.getLogger().info('told')\n"
        "shown = sys.stderr.getvalue() + sys.stdout.getvalue()\n"
        "assert shown == 'own told\\n', shown\n"
    )


def test_a_logger_shows_messages_beside_a_handler_that_keeps_them(run_python: Any) -> None:
    run_python(
        "import io, logging, sys\n"
        "sys.stderr, kept = io.StringIO(), io.StringIO()\n"
        "logging.getLogger().addHandler(logging.StreamHandler(kept))\n"
        "import paddle_ipu.popart as popart\n"
        "popart.getLogger('session').setLevel('INFO')\n"
        "popart.getLogger('devicex').setLevel('INFO')\n"
        "logging.getLogger('popart.session').info('told')\n"
        "assert (sys.stderr.getvalue(), kept.getvalue()) == ('told\\n', 'told\\n')\n"
    )


def test_memory_that_suffices_is_told_as_popart_does() -> None:
    told = popart.OutOfMemoryError()
    assert told.isSuccessful()
    assert str(told) == "No memory_allocation_err raised"
    assert repr(told) == "popart.OutOfMemoryError: No memory_allocation_err raised"
    assert (told.getSummaryReport(), told.getProfilePath()) == ("", "")
    error = popart.OutOfMemoryException(told)
    assert error.error is told and error.args == (str(told),)


def test_memory_that_does_not_suffice_is_told_with_its_report() -> None:
    told = popart.OutOfMemoryError()
    told.exception = popart.OutOfMemoryException("too much")
    told.exception.summary, told.exception.profile_path = "tile 3", "/reports"
    assert not told.isSuccessful()
    error = popart.OutOfMemoryException(told)
    assert (error.args, error.getSummaryReport(), error.getProfilePath()) == (
        ("too much",), "tile 3", "/reports",
    )  # fmt: skip


def test_tensor_info() -> None:
    info = TensorInfo("FLOAT16", [2, 3])
    assert (info.shape(), info.rank(), info.nelms()) == ([2, 3], 2, 6)
    assert (info.data_type(), info.data_type_lcase()) == ("FLOAT16", "float16")
    assert str(info) == "FLOAT16 [2 3]"
    assert info == TensorInfo(np.float16, (2, 3)) == TensorInfo(np.zeros((2, 3), np.float16))
    assert hash(info) == hash(TensorInfo(np.dtype("float16"), [2, 3]))
    assert info != TensorInfo(ir.DataType.FLOAT, [2, 3])
    assert repr(names.getTensorInfo(np.zeros(1, np.int64))) == "TensorInfo('INT64', [1])"
    assert TensorInfo("FLOAT8_143", []).data_type() == "FLOAT8_143"
    for wrong in ((), ("FLOAT",), (3, [1]), (np.void, [1]), ("FLOAT", 3)):
        with pytest.raises(TypeError, match="Can not create TensorInfo with args"):
            TensorInfo(*wrong)
    with pytest.raises(popart_exception, match="'float32' is not a PopART data type. Use one of"):
        TensorInfo("float32", [1])
    with pytest.raises(AttributeError, match="TensorInfo is immutable"):
        info.dims = (1,)


def test_what_a_tensor_info_knows_of_its_bytes() -> None:
    info = TensorInfo(popart.DataType.FLOAT16, [2, 3, 4])
    array = np.zeros((2, 3, 4), np.float16)
    assert info.dataType() is popart.DataType.FLOAT16
    assert (info.nbytes(), info.dim(1), info.metaShape()) == (array.nbytes, 3, [])
    assert info.strides(info.shape()) == list(array.strides)
    assert (info.strides([5]), info.strides([])) == ([2], [])
    with pytest.raises(popart_exception, match=r"^Invalid input dimension 3, tensor of rank 3$"):
        info.dim(3)
    with pytest.raises(NotSupported, match="'TensorInfo' does not have 'set': a TensorInfo does"):
        info.set(popart.DataType.FLOAT)


def test_a_shape_may_be_a_text() -> None:
    assert TensorInfo("INT32", "(2,3)").shape() == [2, 3]
    assert TensorInfo("INT32", "()").shape() == []
    for text, message in (
        ("2,3", "invalid string for shape: '2,3'. Write it as"),
        ("(2, 3)", "s contains a space : not valid shape string"),
        ("(2,x)", "invalid string for shape"),
    ):
        with pytest.raises(popart_exception, match=re.escape(message)):
            TensorInfo("INT32", text)


def test_the_operators_there_are() -> None:
    known = popart.getSupportedOperations(False)
    assert len(set(known)) == len(known)
    assert popart.OperatorIdentifier("ai.onnx", "Gemm", 11) in known
    assert {named.domain for named in known} == {"ai.onnx", "ai.graphcore"}
    assert set(popart.getSupportedOperations(True)) > set(known)
    definitions = popart.getSupportedOperationsDefinition(False)
    assert list(definitions) == known
    gather = definitions[popart.OperatorIdentifier("ai.onnx", "Gather", 11)]
    assert gather.attributes == ("axis",) and gather.outputs == (1, 1)
    assert "INT32" in gather.inputs[1] and "FLOAT" not in gather.inputs[1]


def test_the_operators_that_only_a_builder_has() -> None:
    missing = popart.getUnsupportedOperations(11)
    assert missing and not set(missing) & set(popart.getSupportedOperations(True))
    assert {named.domain for named in missing} == {"ai.onnx"}


def test_what_classes_do_not_have_is_said_by_name() -> None:
    for kind, known in (
        (popart.Builder, "aiOnnxMl"),
        (popart.InferenceSession, "fromIr"),
        (popart.TrainingSession, "connectStreamToCallback"),
    ):
        names = absent_names(kind)
        assert known in names
        for name, why in names.items():
            assert not hasattr(kind, name)
            with pytest.raises(NotSupported, match=f"'{kind.__name__}' does not have '{name}': "):
                getattr(kind, name)
            assert why


def test_arguments_have_the_names_that_they_have_in_popart() -> None:
    builder = popart.Builder()
    assert popart.Patterns(patterns=["PostNRepl"]).isPatternEnabled("PostNRepl")
    off_chip = popart.TensorStorage.OffChip
    assert popart.TensorLocationSettings(storage=off_chip).location.storage is off_chip
    batch = popart.ExecutionPhaseSchedule.Batch
    assert popart.ExecutionPhaseSettings(optimizerSchedule=batch).schedule is batch
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), "x")
    y = builder.aiOnnx.add([x, x])
    builder.recomputeOutputInBackwardPass(nodeOutputNames={y})
    assert builder.getRecomputeOutputInBackwardPass(nodeOutputNames={y})
    z = builder.aiOnnx.matmul([x, y])
    builder.setAvailableMemoryProportion(nodeOutputNames={z}, availableMemoryProportion=0.5)
    assert builder.getFloatNodeAttribute("__available_memory", {z}) == 0.5
    flat = builder.reshape_const(builder.aiOnnx, [y], shape=range(2, 3), debugContext="flat")
    assert builder.getTensorShape(flat) == [2]
