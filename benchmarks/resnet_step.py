"""Times one training step of ResNet-50 on the IPU Model, in JAX, torch and on Paddle's executor.

The engines run in processes of their own, one step at a time and in turns, from the same weights
on the same batch. Their losses must agree.
"""

from __future__ import annotations

import argparse
import sys

from resnet_config import Config, step_flops
from step_turns import KEPT_MEMORY, PLAIN_PADDLE, Benchmark, Preparing, arguments_of, main

TUNED = {"OMP_NUM_THREADS": "2", "FLAGS_new_executor_serial_run": "1"}


def _load(name: str) -> Preparing:
    if name.startswith("jax"):
        import resnet_jax

        return resnet_jax.prepare
    if name.startswith("torch"):
        import resnet_torch

        channels_last = name == "torch-channels-last"
        return lambda config, cache_path: resnet_torch.prepare(config, channels_last)
    import resnet_program

    on_ipu = name == "paddle_ipu"
    return lambda config, cache_path: resnet_program.prepare(config, on_ipu, cache_path)


_BENCHMARK = Benchmark(
    script=__file__,
    sizes=("batch", "image", "classes"),
    engines={
        "paddle_ipu": ("paddle_ipu: IpuCompiledProgram", {}),
        "jax": ("JAX, written by hand", {}),
        "jax-tuned": ("JAX, freed memory kept", KEPT_MEMORY),
        "paddle": ("Paddle's CPU executor, default", PLAIN_PADDLE),
        "paddle-tuned": ("Paddle's CPU executor, tuned", PLAIN_PADDLE | TUNED),
        "torch": ("torch, eager", {}),
        "torch-channels-last": ("torch, eager, channels last", {}),
    },
    load=_load,
    flops=step_flops,
    tolerance=1e-4,
    products="convolutions",
)


def _main() -> int:
    parser = argparse.ArgumentParser(
        description=(
            "Time one training step of ResNet-50 (forward, backward, SGD with momentum; fp32, "
            "batch norm over the batch) on paddle_ipu's IPU Model, in hand-written JAX, on "
            "Paddle's CPU executor with its defaults and tuned, and in eager torch, where that is "
            "installed, in both of its layouts. The engines take turns in one run; their losses "
            "must agree."
        ),
        epilog=(
            "Quick trial: --batch 2 --image 64 --steps 3. The exit status is 1 where losses "
            f"differ by more than {_BENCHMARK.tolerance:g} relative. Tuned Paddle is "
            + " ".join(f"{k}={v}" for k, v in TUNED.items())
            + ", tuned JAX "
            + " ".join(f"{k}={v}" for k, v in KEPT_MEMORY.items())
            + "."
        ),
    )
    arguments = arguments_of(parser, _BENCHMARK, Config())
    config = Config(**{name: getattr(arguments, name) for name in _BENCHMARK.sizes})
    return main(_BENCHMARK, config, arguments)


if __name__ == "__main__":
    sys.exit(_main())
