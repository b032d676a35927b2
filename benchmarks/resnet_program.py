"""ResNet-50's training as a static Paddle program, and the step that runs it on a Paddle engine.

The same program runs on Paddle's CPU executor and, compiled by ``IpuCompiledProgram``, on the IPU
Model.
"""

from __future__ import annotations

import time

import paddle
from program_on_ipu import compiled_for_ipu
from resnet_config import LEARNING_RATE, MOMENTUM, Config, initial_weights, make_batch
from step_turns import Prepared


def prepare(config: Config, on_ipu: bool, cache_path: str | None) -> Prepared:
    """Builds the program and gets it ready to run.

    Args:
        config: the network's input.
        on_ipu: compile for the IPU; else Paddle's CPU executor runs it.
        cache_path: a folder that keeps what was compiled for the IPU.
    """
    paddle.enable_static()
    start = time.perf_counter()
    batch = make_batch(config)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        feeds = {
            name: paddle.static.data(name, array.shape, array.dtype.name)
            for name, array in batch.items()
        }
        network = paddle.vision.models.resnet50(num_classes=config.classes)
        network.train()
        logits = network(feeds["image"])
        loss = paddle.nn.functional.cross_entropy(logits, feeds["label"])
        paddle.optimizer.Momentum(LEARNING_RATE, MOMENTUM).minimize(loss)
    times = {"build": time.perf_counter() - start}
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    scope = paddle.static.global_scope()
    for name, array in initial_weights(config):
        scope.find_var(name).get_tensor().set(array, paddle.CPUPlace())
    program, temporaries = main, None
    if on_ipu:
        program, phases = compiled_for_ipu(main, [*feeds], loss, cache_path)
        times |= phases
        temporaries = program.report().temporary_bytes

    def step() -> float:
        (result,) = executor.run(program, feed=batch, fetch_list=[loss])
        return float(result)

    return Prepared(step, times, temporaries)
