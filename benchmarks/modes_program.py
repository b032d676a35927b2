"""A mode of training on an engine of Paddle's: the IPU Model, or Paddle's CPU executor."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from bert_config import BETA1, BETA2, EPSILON, LEARNING_RATE, Config, initial_weights, make_batch
from bert_program import make_loss
from training_mode import Mode, as_one_batch, fed_step

if TYPE_CHECKING:
    from paddle_ipu.runtime.ipu_program import IpuProgram

STANDARD = 1
"""``RecomputationType.Standard``: backward computes again what is between layers' results."""


def prepare(config: Config, mode: Mode, on_ipu: bool) -> tuple[Callable[[], float], dict[str, Any]]:
    """Builds the program and gets it ready to run.

    Args:
        config: the model, with the batch of one micro-batch.
        mode: how to train. The CPU executor gets all rows of a step as one batch, in fp32.
        on_ipu: compile for the IPU; else Paddle's CPU executor runs it.

    Returns:
        A function that makes one step and returns its loss; seconds by phase, and bytes of
        temporary buffers in the compiled step.
    """
    paddle.enable_static()
    if on_ipu:
        import paddle_ipu  # noqa: F401  (activates it where the installation has not)

        feeds = fed_step(config, mode)
    else:
        config, feeds = as_one_batch(config, mode)
    main, loss = _build(config, mode, on_ipu)
    executor = paddle.static.Executor(paddle.CPUPlace())
    program = main
    found: dict[str, Any] = {}
    if on_ipu:
        start = time.perf_counter()
        program = _compile(main, list(feeds), loss, mode)
        found["compile"] = time.perf_counter() - start
        found["temporaries"] = program.report().temporary_bytes

    def step() -> float:
        (result,) = executor.run(program, feed=feeds, fetch_list=[loss])
        if result.dtype == np.uint16:  # Paddle's bfloat16, the upper half of a float32
            result = (result.astype(np.uint32) << 16).view(np.float32)
        return float(result.mean())

    return step, found


def _build(config: Config, mode: Mode, on_ipu: bool) -> tuple[Any, Any]:
    """The program and its loss, with the weights in the scope."""
    main, startup = paddle.static.Program(), paddle.static.Program()

    def place(layer: int) -> AbstractContextManager[Any]:
        inner = range(config.layers)
        ipu = layer * mode.ipus // config.layers if layer in inner else 0
        # The first IPU has the first stage and the last; its own layers make one more.
        stage = 0 if layer < 0 else mode.ipus + 1 if layer not in inner else ipu + 1
        return paddle.static.ipu_shard_guard(ipu, stage)

    with paddle.static.program_guard(main, startup):
        data = {
            name: paddle.static.data(name, array.shape, array.dtype.name)
            for name, array in make_batch(config).items()
        }
        pipelined = on_ipu and mode.ipus > 1
        loss = make_loss(config, data, place) if pipelined else make_loss(config, data)
        adam = paddle.optimizer.Adam(LEARNING_RATE, beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
        if mode.precision == "bf16":
            adam = paddle.static.amp.decorate(
                adam, level="O2", dtype="bfloat16", use_amp_guard=False
            )
        adam.minimize(loss, startup)
    paddle.static.Executor(paddle.CPUPlace()).run(startup)
    scope = paddle.static.global_scope()
    for name, array in initial_weights(config):
        scope.find_var(name).get_tensor().set(array, paddle.CPUPlace())
    if mode.precision == "bf16":
        adam.amp_init(paddle.CPUPlace(), scope=scope)
    return main, loss


def _compile(
    main: paddle.static.Program, feeds: list[str], loss: paddle.static.Variable, mode: Mode
) -> IpuProgram:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        num_ipus=mode.ipus * mode.replicas,
        is_training=True,
        micro_batch_size=1,
        enable_manual_shard=mode.ipus > 1,
    )
    options: dict[str, Any] = {}
    if mode.accumulation > 1:
        options |= {
            "enable_gradient_accumulation": True,
            "accumulation_factor": mode.accumulation,
        }
    if mode.ipus > 1:
        options |= {"enable_pipelining": True}
    if mode.replicas > 1:
        options |= {
            "enable_replicated_graphs": True,
            "replicated_graph_count": mode.replicas,
        }
    if mode.recompute:
        options |= {"auto_recomputation": STANDARD}
    if mode.precision == "fp16":
        options |= {"enable_fp16": True}
    strategy.set_options(options)
    return paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(feeds, [loss])
