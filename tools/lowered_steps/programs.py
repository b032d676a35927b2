"""The programs whose steps are lowered: rows of operators, training, whole models, examples.

All are made by public names of Paddle and ``paddle_ipu``, whatever the package looks like inside.
A program is a function that is given an empty folder, and compiles one or more steps.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle

from tests.journeys.placement.networks import PLACES, staged
from tests.journeys.training import tiny_bert
from tests.journeys.training.side_by_side import Built, initialised, mlp, rows, strategy
from tests.models import sequence_models, vision_models
from tests.models.side_by_side import Model
from tests.operators.built_case import build_case, compile_case, lacks
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import CASES
from tests.unit.inference import folded_network, transformers
from tests.versions.training_programs import BUILDERS, VARIANTS
from tools.lowered_steps.sessions import sessions

if TYPE_CHECKING:
    from paddle_ipu.runtime.ipu_program import IpuProgram

Program = Callable[[Path], object]
Options = Mapping[str, Any]

_ACCUMULATION = {"enable_gradient_accumulation": True}
_REPLICAS = {"enable_replicated_graphs": True, "replicated_graph_count": 2}
_HALF = {"enable_fp16": True}
_MEAN = "mean_accumulation_and_replication_reduction_strategy"
_REDUCTION = "accumulation_and_replication_reduction_type"

STRATEGIES: Mapping[str, Options] = {
    "evaluation": {"is_training": False},
    "accumulation": {**_ACCUMULATION, "accumulation_factor": 3},
    "accumulation, running mean": {**_ACCUMULATION, "accumulation_factor": 3, _MEAN: 0},
    "accumulation, sum": {**_ACCUMULATION, "accumulation_factor": 2, _REDUCTION: 0},
    "accumulation in half": {**_ACCUMULATION, "accumulation_factor": 3, **_HALF},
    "batches": {"batches_per_step": 4},
    "replicas": {**_REPLICAS, "num_ipus": 2},
    "replicas, accumulation and batches": {
        **_REPLICAS, **_ACCUMULATION, "accumulation_factor": 2, "batches_per_step": 3,
        "num_ipus": 2,
    },
    "replicas, evaluation": {**_REPLICAS, "num_ipus": 2, "is_training": False},
    "equal parts": {
        "need_avg_shard": True, "enable_manual_shard": True, "num_ipus": 2,
        "enable_pipelining": True, **_ACCUMULATION, "accumulation_factor": 5,
    },
    "half": _HALF,
    "half, evaluation": {**_HALF, "is_training": False},
    "half partials": {**_HALF, "available_memory_proportion": 0.3, "enable_half_partial": True},
    "half, loss scaling": {**_HALF, "loss_scaling": 128.0},
    "half, scaled state": {**_HALF, "loss_scaling": 8.0, "scaled_optimizer_state": True},
    "half, automatic loss scaling": {
        **_HALF, **_ACCUMULATION, "accumulation_factor": 3, "loss_scaling": 16.0,
        "automatic_loss_scaling_settings.enabled": True,
    },
    "half, stochastic rounding": {
        **_HALF, "enable_stochastic_rounding": True, "random_seed": 5,
    },
    **{
        f"recomputation {kind}": {"auto_recomputation": kind, "enable_stochastic_rounding": False}
        for kind in range(1, 5)
    },
    "floating-point checks": {"enable_floating_point_checks": True},
    "synthetic data": {"synthetic_data_mode": 1},
    "PopART's rules": {"optimizer_rule": "popart"},
    "PopART's rules, accumulation": {
        "optimizer_rule": "popart", **_ACCUMULATION, "accumulation_factor": 3,
    },
    "PopART's rules, half": {"optimizer_rule": "popart", **_HALF, "loss_scaling": 8.0},
    "PopART's rules, no bias": {"optimizer_rule": "popart", "use_no_bias_optimizer": True},
    "PopART's rules, decay": {"optimizer_rule": "popart", "weight_decay_mode": "decay"},
    "PopART's rules, L2": {"optimizer_rule": "popart", "weight_decay_mode": "l2_regularization"},
    "PopART's rules, bounded": {"optimizer_rule": "popart", "max_weight_norm": 0.5},
}  # fmt: skip
"""Name -> options; those of ``set_graph_config`` go there, all others to ``set_options``."""

PIPELINES: Mapping[str, Options] = {
    "plain": {},
    "accumulation": {**_ACCUMULATION, "accumulation_factor": 8, "enable_pipelining": True},
    "batches": {"batches_per_step": 9, "enable_pipelining": True},
    "replicas": {
        **_REPLICAS, **_ACCUMULATION, "accumulation_factor": 8, "enable_pipelining": True,
        "batches_per_step": 2,
    },
    "recomputation": {
        **_ACCUMULATION, "accumulation_factor": 8, "enable_pipelining": True,
        "auto_recomputation": 3,
    },
}  # fmt: skip
"""Name -> options for networks that are cut into stages."""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "examples.mnist.train": ("--smoke",),
    "examples.resnet50.train": ("--smoke",),
    "examples.ernie.infer": ("--smoke",),
    "examples.text_generation.generate": ("--smoke", "--prompt", "the cat", "--tokens", "9"),
    "examples.bert.pretrain": ("--preset", "smoke"),
    "examples.inference.word2vec": (),
    "examples.inference.resnet50": ("--smoke", "--runs", "1"),
}
"""Module -> arguments at its smallest size."""


def all_programs() -> dict[str, Program]:
    """Name -> program; the same names in the same order for every checkout of the package."""
    found: dict[str, Program] = {}
    for name, program in _programs():
        if name in found:
            raise ValueError(f"two programs are named {name}")
        found[name] = program
    return found


def warm_up() -> None:
    """Compiles something small, which has the package import all that compiling takes."""
    _compile(lambda: mlp(paddle.optimizer.SGD), {})


def _programs() -> Iterator[tuple[str, Program]]:
    for case in CASES:
        if not lacks(case):
            yield f"operators/{case.name}", partial(_compile_case, case)
    for name, build in BUILDERS.items():
        yield f"training/{name}", _step(build, {})
    for name, options in STRATEGIES.items():
        yield f"strategies/MLP, {name}", _step(_normalising, options)
        yield f"strategies/tiny BERT, {name}", _step(_dropping, options)
    for name, optimizer in VARIANTS.items():
        rule = {"optimizer_rule": "popart"}
        yield f"strategies/{name}, PopART's rule", _step(partial(mlp, optimizer), rule)
    for name, options in (("MLP", {}), ("MLP, batches", {**STRATEGIES["batches"]})):
        yield f"strategies/{name}, without updates", partial(_evaluate, options)
    yield from _pipelines()
    for name, compile_session in sessions().items():
        yield f"popart/{name}", partial(_without_folder, compile_session)
    models = {**vision_models.MODELS, **sequence_models.MODELS}
    for name, make in models.items():
        options = {"micro_batch_size": 1}
        yield f"models/{name}, training", _step(partial(_training, make), options)
        yield f"predictors/{name}", partial(_predict_model, make)
    for make, _ in transformers.CASES:
        yield f"predictors/{make.__name__}", partial(_predict_transformer, make)
    yield "predictors/folded norms", _predict_folded
    for module, arguments in EXAMPLES.items():
        yield module.replace(".", "/", 1), partial(_run_example, module, arguments)
    yield "examples/bert.run_pretrain", partial(_run_stages, "run_pretrain")
    yield "examples/bert.run_squad", partial(_run_stages, "run_squad")


def _pipelines() -> Iterator[tuple[str, Program]]:
    for stages, places in PLACES.items():
        ipus = 1 + max(ipu for ipu, _ in places)
        build = partial(staged, places, lambda: paddle.optimizer.Adam(0.01))
        for name, given in PIPELINES.items():
            replicas = given.get("replicated_graph_count", 1)
            placed = {"num_ipus": ipus * replicas, "enable_manual_shard": ipus > 1}
            options = {**given, **placed, "micro_batch_size": 2}
            if ipus == 1:
                options.pop("enable_pipelining", None)
            yield f"strategies/{stages} stages, {name}", _step(build, options)


def _without_folder(program: Callable[[], object], _folder: Path) -> None:
    program()


def _compile_case(case: OperatorCase, _folder: Path) -> None:
    compile_case(build_case(case))


def _normalising() -> Built:
    """Momentum on a network with running statistics."""
    return mlp(lambda rate: paddle.optimizer.Momentum(rate, 0.9), normalise=True)


def _dropping() -> Built:
    """Adam on a transformer with dropout."""
    return tiny_bert.pretraining(tiny_bert.OPTIMIZERS["adam"], dropout=0.1).built


def _training(make: Callable[[], Model]) -> Built:
    return make().built(training=True)


def _step(build: Callable[[], Built], options: Options) -> Program:
    return lambda _folder: _compile(build, options)


def _evaluate(options: Options, _folder: Path) -> None:
    """A run of the training program that changes nothing, which is a step of its own."""
    built = _normalising()
    program = _compile(lambda: built, {**options, "runtime_options.enable_eval": True})
    feed = rows(4 * options.get("batches_per_step", 1))
    paddle.static.Executor(paddle.IPUPlace()).run(program, feed=feed, fetch_list=built.fetches)


def _compile(build: Callable[[], Built], options: Options) -> IpuProgram:
    built = build()
    graph = ("num_ipus", "is_training", "micro_batch_size", "enable_manual_shard")
    made = strategy(
        {name: value for name, value in options.items() if name not in graph},
        **{name: value for name, value in options.items() if name in graph},
    )
    compiler = paddle.static.IpuCompiledProgram(
        built.main, scope=initialised(built), ipu_strategy=made
    )
    program: IpuProgram = compiler.compile(built.feeds, built.fetches)
    return program


def _predict(config: paddle.inference.Config, feeds: Mapping[str, Any]) -> None:
    from examples.inference.predictors import run

    config.enable_ipu(1, len(next(iter(feeds.values()))))
    run(paddle.inference.create_predictor(config), feeds)


def _predict_model(make: Callable[[], Model], folder: Path) -> None:
    from examples.inference.predictors import config_of

    model = make()
    built = model.built(training=False)
    scope, prefix = initialised(built), folder / "model"
    with paddle.static.scope_guard(scope), paddle.static.program_guard(built.main):
        feeds = [_variable(built.main, name) for name in built.feeds]
        paddle.static.save_inference_model(
            str(prefix), feeds, built.fetches, paddle.static.Executor(), program=built.main
        )
    _predict(config_of(prefix), model.fed(built))


def _variable(
    program: paddle.static.Program, name: str
) -> paddle.pir.Value | paddle.static.Variable:
    block = program.global_block()
    if hasattr(block, "has_var"):
        return block.var(name)
    found = (op for op in block.ops if op.name() == "pd_op.data" and op.attrs()["name"] == name)
    return next(found).result(0)


def _predict_transformer(make: Callable[[], Any], folder: Path) -> None:
    paddle.disable_static()
    config = transformers.saved(make, folder / "network")
    _predict(config, transformers.feeds())


def _predict_folded(folder: Path) -> None:
    import numpy as np

    paddle.disable_static()
    config = folded_network.saved(folder / "network")
    (name,) = paddle.inference.create_predictor(config).get_input_names()
    _predict(config, {name: np.ones((2, 3, 8, 8), np.float32)})


def _run_example(module: str, arguments: tuple[str, ...], folder: Path) -> None:
    _run(module, [*arguments, "--output", str(folder)])


def _run(module: str, arguments: Sequence[str]) -> None:
    # 1 says that numbers, which are all zero here, are wrong.
    if (code := importlib.import_module(module).main(arguments)) not in (0, 1):
        raise RuntimeError(f"{module} ended with {code}")


def _run_stages(module: str, folder: Path) -> None:
    # By name, as the examples are: they have more of Paddle in them than is checked here.
    stage_data = importlib.import_module("tests.journeys.examples.stage_data")
    if module == "run_pretrain":
        samples = stage_data.write_samples_folder(folder / "samples")
        preset, files = "smoke-phase1", ["--input_files", str(samples)]
    else:
        vocabulary = stage_data.write_vocabulary(folder / "vocab.txt")
        squad = stage_data.write_squad(folder / "squad.json", 40)
        preset, files = "smoke-squad", ["--input_files", str(squad), "--questions", "40"]
        files += ["--vocab_file", str(vocabulary)]
    # A layer for each of the IPUs that the presets have, beside the embedding's.
    sizes = [*stage_data.SIZES, "--num_hidden_layers", "3", "--max_steps", "2"]
    output = ["--output_dir", str(folder / "output")]
    arguments = ["--preset", preset, "--device", "ipu", *sizes, *files, *output]
    _run(f"examples.bert.{module}", arguments)
