"""The custom-operator sample: a model with an operator of the user's own, on IPU and CPU."""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import inference

import paddle_ipu
from examples.inference.predictors import config_of, difference, run, verdict

DESCRIPTION = """\
Build a custom operator in C++, save a model that has it, and run the model on IPU and CPU.

The CPU has the kernel of custom_relu.cc. The IPU Model has what the operator means in Python, by
paddle_ipu.register_custom_op; set_ipu_custom_info names the PopART operator that it is there.
"""

EPILOG = """\
what it writes into the output folder:
  operators/                                        the operator, built by cpp_extension.load
  custom.json or custom.pdmodel, custom.pdiparams   the inference model

exit codes:
  0 done; 1 the IPU and the CPU differ; 2 wrong arguments, or no C++ compiler

examples:
  python -m examples.inference.custom_operator
"""

SOURCE = Path(__file__).with_name("custom_relu.cc")
WITHIN = 1e-6


def build(folder: Path) -> Any:
    """The module with the custom operator; the compiler runs where the folder is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Setuptools and Paddle warn of their own ways while they compile.
        warnings.simplefilter("ignore")
        return paddle.utils.cpp_extension.load(
            name="paddle_ipu_sample_ops",
            sources=[str(SOURCE)],
            extra_cxx_cflags=["-O1"],
            build_directory=str(folder),
        )


def register() -> None:
    """Says what the operator computes on the IPU Model."""
    import jax.numpy as jnp

    paddle_ipu.register_custom_op(
        "custom_relu", lambda x: jnp.maximum(x, 0), popart_op="CustomRelu", domain="custom.ops"
    )


def save(prefix: Path, operators: Any) -> None:
    """Writes a model of two layers with the operator between them."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        paddle.seed(1)
        x = paddle.static.data("x", [-1, 8], "float32")
        result = paddle.nn.Linear(16, 4)(operators.custom_relu(paddle.nn.Linear(8, 16)(x)))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        paddle.static.save_inference_model(str(prefix), [x], [result], executor, program=main)


def main(arguments: Sequence[str] | None = None) -> int:
    """The sample; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.inference.custom_operator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("out/custom_operator"), help="folder")
    options = parser.parse_args(arguments)
    if shutil.which("g++") is None:
        parser.error("the operator is C++, and there is no g++ to build it with")
    paddle.enable_static()
    operators = build(options.output / "operators")
    register()
    prefix = options.output / "custom"
    save(prefix, operators)
    feeds = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}
    config = config_of(prefix)
    config.enable_ipu(1, 4)
    config.set_ipu_custom_info([["custom_relu", "CustomRelu", "custom.ops", "1"]])
    ipu = run(inference.create_predictor(config), feeds)[0]
    cpu = run(inference.create_predictor(config_of(prefix)), feeds)[0]
    apart = difference(ipu, cpu)
    print(f"4 rows through custom_relu: largest difference {apart:.1e}, allowed {WITHIN:.0e}")
    return verdict(apart, WITHIN)


if __name__ == "__main__":
    sys.exit(main())
