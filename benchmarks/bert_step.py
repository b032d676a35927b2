"""Times one training step of BERT on the IPU Model, in JAX, torch and on Paddle's CPU executor.

The engines run in processes of their own, one step at a time and in turns, from the same weights
on the same batch. Their losses must agree.
"""

from __future__ import annotations

import argparse
import sys

from bert_config import Config, step_flops
from step_turns import KEPT_MEMORY, PLAIN_PADDLE, Benchmark, Preparing, arguments_of, main

TUNED = {"OMP_NUM_THREADS": "2", "MKL_DEBUG_CPU_TYPE": "5", "FLAGS_new_executor_serial_run": "1"}


def _load(name: str) -> Preparing:
    if name.startswith("jax"):
        import bert_jax

        return bert_jax.prepare
    if name == "torch":
        import bert_torch

        return lambda config, cache_path: bert_torch.prepare(config)
    import bert_program

    on_ipu = name == "paddle_ipu"
    return lambda config, cache_path: bert_program.prepare(config, on_ipu, cache_path)


_BENCHMARK = Benchmark(
    script=__file__,
    sizes=("batch", "layers", "hidden", "sequence", "predictions", "vocabulary"),
    engines={
        "paddle_ipu": ("paddle_ipu: IpuCompiledProgram", {}),
        "jax": ("JAX, written by hand", {}),
        "jax-tuned": ("JAX, freed memory kept", KEPT_MEMORY),
        "paddle": ("Paddle's CPU executor, default", PLAIN_PADDLE),
        "paddle-tuned": ("Paddle's CPU executor, tuned", PLAIN_PADDLE | TUNED),
        "torch": ("torch, eager", {}),
    },
    load=_load,
    flops=step_flops,
    tolerance=1e-4,
)


def _main() -> int:
    parser = argparse.ArgumentParser(
        description=(
            "Time one training step of BERT (forward, backward, Adam; fp32, no dropout) on "
            "paddle_ipu's IPU Model, in hand-written JAX, on Paddle's CPU executor with its "
            "defaults and tuned, and in eager torch where that is installed. The engines take "
            "turns in one run; their losses must agree."
        ),
        epilog=(
            "Quick trial: --layers 2 --hidden 128 --sequence 32 --vocabulary 1000 --steps 3. The "
            "exit status is 1 where losses differ by more than 1e-4 relative. Where jax[cuda] is "
            "installed, paddle_ipu, the two JAX engines and JAX's sgemm peak run on the GPU, with "
            "float32 products not rounded to TF32; the other engines and NumPy's peak stay on the "
            "CPU, peak GB is the host's memory, and what keeps freed memory is for the CPU. "
            "JAX_PLATFORMS=cpu keeps all on the CPU. Tuned Paddle is "
            + " ".join(f"{k}={v}" for k, v in TUNED.items())
            + ", tuned JAX "
            + " ".join(f"{k}={v}" for k, v in KEPT_MEMORY.items())
            + "."
        ),
    )
    arguments = arguments_of(parser, _BENCHMARK, Config())
    if arguments.hidden % 64:
        parser.error(f"--hidden must be a multiple of 64, the width of a head: {arguments.hidden}")
    if arguments.predictions > arguments.sequence:
        parser.error(
            f"--predictions must be at most --sequence: {arguments.predictions} masked positions "
            f"in {arguments.sequence}"
        )
    config = Config(**{name: getattr(arguments, name) for name in _BENCHMARK.sizes})
    return main(_BENCHMARK, config, arguments)


if __name__ == "__main__":
    sys.exit(_main())
