"""A session's reports: on the IPU Model they are predictions, and nothing in them is measured.

What predicts is imported by who asks: a start would wait for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.cost_model.choice import Choice, choose_machine
from paddle_ipu.cost_model.report.auto_report import auto_report
from paddle_ipu.cost_model.small_programs import is_small
from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import Instrumentation
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.sessions.devices import DeviceInfo
from paddle_ipu.sessions.option_checks import replication_factor
from paddle_ipu.sessions.paddle_program import PaddleProgram

if TYPE_CHECKING:
    from paddle_ipu.cost_model.machines import Machine
    from paddle_ipu.cost_model.program import Program
    from paddle_ipu.cost_model.report.contents import Report as Prediction
    from paddle_ipu.sessions.profile import Report

_NOT_PREPARED = "Session must have been prepared before a report can be fetched"
_NO_EXECUTION = (
    "Execution profiling not enabled: the IPU Model predicts an IPU's time and measures none."
)


class SessionReports:
    """Reports of a session, which sets the attributes without a value."""

    name: str
    dataFlow: DataFlow
    _options: SessionOptions
    _model: ir.Model
    _loss: str | None
    _optimizer: Optimizer | PaddleOptimizer | None
    _device: DeviceInfo
    _prepared: bool
    _has_run: bool
    _predicted: Prediction | None = None
    _paddle: PaddleProgram

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """The report as text.

        Args:
            resetProfile: of no consequence: a prediction is always the same.

        Raises:
            popart_runtime_error: not prepared.
        """
        from paddle_ipu.cost_model.report.directory import text_of

        self._require_report()
        return f"{text_of(self._prediction())}\n\n{_NO_EXECUTION}\n"

    def getReport(self) -> Report:
        """The report by the names of Graphcore's ``pva`` library.

        Raises:
            popart_runtime_error: not prepared.
        """
        from paddle_ipu.sessions.profile import Report

        self._require_report()
        return Report(self._prediction())

    def getCycleCount(self, id: str = "") -> int:
        """Cycles that an IPU's tile would take for a run, predicted by the cost model.

        Args:
            id: "" for the run, where ``hardwareInstrumentations`` has ``Outer``;
                ``inner_ipu_<number>`` for a batch on one IPU of a replica, where it has ``Inner``.
                IPUs wait for each other, so all of them take as long.

        Raises:
            popart_runtime_error: before a run, without ``instrumentWithHardwareCycleCounter``, or
                no such counter.
        """
        options = self._options
        if not self._has_run:
            raise popart_runtime_error("Must call run before getCycleCount.")
        if not options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be set to true in order "
                "to measure cycle count"
            )
        cycles = self._prediction().prediction.cycles
        counters = {}
        if Instrumentation.Outer in options.hardwareInstrumentations:
            counters[""] = cycles.per_run
        if Instrumentation.Inner in options.hardwareInstrumentations:
            of_a_replica = int(self._device.numIpus) // replication_factor(options)
            batch = cycles.per_run / self.dataFlow.batchesPerStep()
            counters |= {f"inner_ipu_{number}": batch for number in range(of_a_replica)}
        if id not in counters:
            raise popart_runtime_error(
                f"Invalid id for cycle counter, '{id}', there are "
                f"{', '.join(map(repr, counters)) or 'none'}. Make sure you have set "
                "SessionOption::hardwareInstrumentations correctly."
            )
        return round(counters[id])

    def _require_report(self) -> None:
        if not self._prepared:
            raise popart_runtime_error(_NOT_PREPARED)

    def _prediction(self) -> Prediction:
        if self._predicted is None:
            from paddle_ipu.cost_model.report.contents import make_report

            program, machine = (self._paddle.prediction or self._read_program)()
            self._predicted = make_report(program, machine, name=self.name)
        return self._predicted

    def _read_program(self) -> tuple[Program, Machine]:
        from paddle_ipu.cost_model.program import read_program

        program = read_program(
            self._model, self.dataFlow, self._options, self._optimizer, loss=self._loss,
            ipus=self._ipus,
        )  # fmt: skip
        return program, self._choice.machine

    @property
    def _ipus(self) -> int:
        """IPUs of all replicas, those of other instances too."""
        options = self._options
        of_a_replica = int(self._device.numIpus) // replication_factor(options)
        return of_a_replica * int(options.getGlobalReplicationFactor())

    @property
    def _choice(self) -> Choice:
        """The machine that the environment names, else a GC200's, with all its tiles."""
        return choose_machine("", self._ipus, None, os.environ)

    def _check_memory(self) -> None:
        """Refuses a program that the machine of ``POPLAR_TARGET_OPTIONS`` cannot hold.

        For a Paddle program the compiler has checked it.

        Raises:
            OutOfMemoryException: by the IPU Model's prediction it does not fit.
            OptionError: an unknown machine, or one with too few IPUs.
        """
        if self._paddle.prediction is None and not is_small(self._model.graph, self._choice):
            from paddle_ipu.cost_model.report.refusal import check_before_compiling

            check_before_compiling(
                self._choice, lambda: self._read_program()[0],
                self._options.engineOptions, os.environ, self.name,
            )  # fmt: skip

    def _write_auto_report(self) -> None:
        """Writes the report that the engine options ask for.

        Raises:
            OptionError: autoReport options that make no sense.
            ReportError: it cannot be written.
        """
        settings = auto_report(self._options.engineOptions, os.environ)
        if settings is not None:
            from paddle_ipu.cost_model.report.auto_report_folder import write_auto_report

            write_auto_report(settings, self.name, self._prediction())
