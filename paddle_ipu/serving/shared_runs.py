"""``enable_model_runtime_executor``: runs of a compiled program that share micro-batches."""

from __future__ import annotations

from paddle_ipu.errors import ServingError
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.runtime.ipu_program import IpuProgram
from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.program_model import ProgramModel, WholeBatches


def share(program: IpuProgram, values: StrategyValues) -> None:
    """Has the program's runs share micro-batches, as the strategy says.

    Raises:
        ServingError: a feed or a fetch has no rows, or a run changes what the next one sees.
    """
    if values["synthetic_data_mode"]:
        return
    automatic = values["timeout_ms"] > 0
    try:
        model = (ProgramModel if automatic else WholeBatches)(program, weak=True)
        # A buffer holds a micro-batch.
        buffer = model.micro_batch // program.micro_batches
        waiting = max(int(values["num_buffers"]) * buffer, model.micro_batch)
        runner = BatchingRunner(model, timeout_ms=float(values["timeout_ms"]), max_waiting=waiting)
    except ServingError as error:
        program.backend.reset()
        raise ServingError(f"enable_model_runtime_executor: {error}") from error
    program.serve_through(runner, whole=not automatic)
