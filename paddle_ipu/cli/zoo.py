"""The options of ``plan`` that name a model instead of a script."""

from __future__ import annotations

import argparse
import sys

import paddle_ipu
from paddle_ipu.cli.json_output import print_json
from paddle_ipu.cli.numbers import positive
from paddle_ipu.cli.scripts import attempt
from paddle_ipu.cli.targets import WRONG_ARGUMENTS
from paddle_ipu.compiler.prediction_target import PredictionTarget, target_of_zoo
from paddle_ipu.errors import OptionError
from paddle_ipu.zoo.models import MODELS, Model, model_named


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the model and what it is asked for."""
    add = parser.add_argument
    add(
        "--model", type=_model, metavar="NAME",
        help="a well-known model, in place of a script or saved model",
    )  # fmt: skip
    add("--models", action="store_true", help="list the models and end")
    add("--sequence", type=positive, metavar="N", help="tokens of a row of --model")
    add("--inference", action="store_true", help="--model is not trained")


def print_models(*, json: bool) -> int:
    """Prints the models; returns the exit code."""
    if json:
        records = [
            {
                "name": name,
                "parameters": model.parameters,
                "network": str(model.network),
                "row": {model.network.items or "pixels": model.network.size},
                "batch": model.batch,
                "optimizer": model.network.optimizer,
                "source": model.source,
            }
            for name, model in MODELS.items()
        ]
        print_json({"models": records})
        return 0
    width = max(map(len, MODELS))
    for name, model in MODELS.items():
        network = model.network
        row = (
            f"{network.size} {network.items}"
            if network.items
            else f"{network.size} x {network.size}"
        )
        print(
            f"{name:<{width}} {model.parameters / 1e6:>6,.0f} M  {row:<11}  "
            f"batch {model.batch:>5}  {network}; {model.source}"
        )
    return 0


def model_target(arguments: argparse.Namespace) -> PredictionTarget | int | None:
    """The model that the arguments name; an exit code after a message, None without one."""
    why = _contradiction(arguments)
    if why:
        print(why, file=sys.stderr)
        return WRONG_ARGUMENTS
    if arguments.model is None or arguments.machines:
        return None
    model: Model = arguments.model
    return attempt(lambda: _built(model, arguments), model.name, "before it was planned")


def _contradiction(arguments: argparse.Namespace) -> str:
    """Which arguments do not go together, "" where all do."""
    model: Model | None = arguments.model
    if model is None:
        for option, given in (
            ("--sequence", arguments.sequence is not None),
            ("--inference", arguments.inference),
        ):
            if given:
                return f"{option} is for --model: a script or saved model says this itself"
        return ""
    if arguments.target is not None:
        return f"--model builds its own program: leave {arguments.target} out, or --model"
    if arguments.skip_startup:
        return "--skip-startup is for a script: no startup program of --model is run"
    try:
        model.row_size(arguments.sequence or 0, "--sequence")
    except OptionError as error:
        return str(error)
    return ""


def _model(name: str) -> Model:
    """The model of an argument."""
    try:
        return model_named(name)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _built(model: Model, arguments: argparse.Namespace) -> PredictionTarget:
    import paddle

    paddle_ipu.activate()
    paddle.enable_static()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        is_training=not arguments.inference, micro_batch_size=arguments.rows or model.network.rows
    )
    strategy.set_precision_config(enable_fp16=arguments.fp16)
    return target_of_zoo(
        model, strategy, sequence=arguments.sequence or 0, machine=arguments.machine
    )
