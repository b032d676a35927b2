"""The road from top to bottom: a Paddle program is compiled for the IPU.

Read (``frontend``), rewrite (``passes``), translate (``ops``), hand to a session (``popart``,
``sessions``), upload weights (``runtime.weights``). What predicts is imported by who asks: a start
would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.compiler.machine_choice import choice_of, choice_with_all_tiles
from paddle_ipu.compiler.progress import Percent, between
from paddle_ipu.compiler.session_arguments import data_flow, session_options, session_patterns
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import (
    TranslatedProgram,
    is_gradient,
    origin_finder,
    scope_weights,
    translate_program,
)
from paddle_ipu.cost_model.small_programs import is_small
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import (
    LoweringError,
    OperandValueError,
)
from paddle_ipu.ops.context import device_dtype
from paddle_ipu.ops.translate import Translation
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime import shared_runs, target_selection
from paddle_ipu.runtime.feeds import Feed
from paddle_ipu.runtime.fetches import Fetch, axes_of
from paddle_ipu.runtime.ipu_backend import IpuBackend
from paddle_ipu.runtime.ipu_program import IpuProgram, attach_source
from paddle_ipu.runtime.random_seed import Seed, fixed_seed
from paddle_ipu.runtime.weights import adapted_loss_scale
from paddle_ipu.runtime.weights.owner import owners
from paddle_ipu.runtime.weights.state_upload import StateUpload
from paddle_ipu.sessions.devices import DeviceInfo
from paddle_ipu.sessions.paddle_program import PaddleProgram
from paddle_ipu.sessions.session import Session
from paddle_ipu.sessions.weights import SessionWeights
from paddle_ipu.xla.step.early_load import EarlyLoad

if TYPE_CHECKING:
    import paddle

    from paddle_ipu.cost_model.machines import Machine
    from paddle_ipu.cost_model.program import Program


def compiled_for_ipu(
    source: Source,
    scope: paddle.static.Scope,
    backend: IpuBackend,
    progress: Percent,
    cache: str | None,
    early: EarlyLoad | None,
) -> IpuProgram:
    """Reads, rewrites, translates and compiles a program; its weights go to the device.

    Args:
        source: the program; it stays as it is.
        scope: holds its parameters.
        backend: takes the session; of this program alone.
        progress: called with the percentage done.
        cache: the folder of compiled programs, None for no cache.
        early: what is being loaded from it meanwhile.

    Raises:
        NotSupported, InvalidProgramError, FeedError, FetchError, OperandValueError: as
            ``IpuCompiledProgram.compile`` says.
    """
    popart = target_selection.select()
    in_64_bits = target_selection.is_ours(popart)
    program, values = source.program, source.values
    translated = translate_program(
        popart, source, scope_weights(scope, in_64_bits), between(progress, 0, 25), in_64_bits
    )
    if target_selection.is_ours(popart) and choice_of(values).named:
        _check_fits(translated, values)
    compilation, translation = translated.compilation, translated.translation
    anchors, optimizer, chosen = translated.anchors, translated.optimizer, translated.chosen
    own_rule = chosen is not None and chosen.is_paddles
    rate = _learning_rate(program, scope, optimizer)
    device = target_selection.acquire(popart, int(values["num_ipus"]), int(values["tiles_per_ipu"]))
    first = None
    if chosen is not None and optimizer is not None:
        first = chosen.make(optimizer, rate() if rate else 0.0)
    states = {} if chosen is None else chosen.states
    # Synthetic data leaves the Scope alone; state that another program has is read from it first.
    waits = bool(values["synthetic_data_mode"]) or bool(owners(scope, states))
    state = StateUpload(scope, {} if waits else states)
    paddle_program = _paddle_program(translated, values, state, progress, early)
    try:
        session = _session(popart, source, translated, device, first, paddle_program, cache)
        with adapted_loss_scale.started(scope, optimizer):
            backend.attach(
                popart,
                session,
                device,
                translation.builder,
                scope,
                translation.weights,
                states,
                changes=compilation.training or bool(translated.written),
                early=state if values["compile_engine"] else None,
            )
    except BaseException as error:
        if isinstance(error, (LoweringError, OperandValueError)):
            attach_source(error, _describer(translation))
        if backend.is_attached:
            backend.reset()
        else:
            device.detach()
        state.restore()
        raise
    portability_issues = list(translated.portability_issues)
    if own_rule and optimizer is not None:
        portability_issues += sorted(
            {f"Paddle's {update.rule} rule" for update in optimizer.updates}
        )
    compiled = IpuProgram(
        program,
        backend,
        _feeds(translated, translation, backend.has_64_bits),
        {name: _fetch(compilation, name, anchor) for name, anchor in anchors.items()},
        axes_of(values),
        rate,
        optimizer,
        None if chosen is None else chosen.make,
        popart,
        portability_issues,
        _describer(translation),
        list(translation.kernels.values()),
        synthetic=values["synthetic_data_mode"] != 0,
        seed=Seed(
            fixed=fixed_seed(program, values) is not None,
            drawn=not target_selection.is_ours(popart) or session.drawsRandomNumbers(),
        )
        if values["compile_engine"]
        else None,
        forward_only=bool(values["create_implicit_pipelining_fwd_only_program"]),
        asserts=list(_asserts(compilation.graph)),
        origin_of=origin_finder(translation),
    )
    if values["enable_model_runtime_executor"] and values["compile_engine"]:
        shared_runs.begin(compiled, values)
    return compiled


def _asserts(graph: ir.Graph) -> Iterator[str]:
    """Operators that stop a run, those in blocks too, each with the user's line."""
    for node in graph:
        if node.op_type == "assert":
            # Paddle 3 does not record the line of an assert, but that of its condition.
            condition = node.inputs[0]
            maker = None if condition is None else condition.producer()
            if dialect.source_of(node) or maker is None:
                yield dialect.describe(node)
            else:
                yield f"assert of {dialect.describe(maker)}"
        for block in dialect.blocks(node):
            yield from _asserts(block)


def _describer(translation: Translation) -> Callable[[str], str]:
    """Gives Paddle's operator and the user's line for the name of a PopART node."""
    nodes = {str(node.name): node for node in translation.origins.values()}
    return lambda name: dialect.describe(nodes[name]) if name in nodes else name


# -- names --------------------------------------------------------------------------------------


def _feeds(
    translated: TranslatedProgram, translation: Translation, has_64_bits: Callable[[str], bool]
) -> dict[str, Feed]:
    """Feeds as the user declared them; passes may have given them another dtype."""
    feeds = {}
    for name, value in translated.declared.items():
        tensor = translation.feeds.get(name)
        wide = tensor is not None and has_64_bits(tensor)
        feeds[name] = Feed(
            tensor,
            tuple(dialect.dims_of(value)),
            translated.declared_dtypes[name],
            device_dtype(dialect.dtype_name(value), wide),
            has_own_rows=name not in translated.dynamic,
        )
    return feeds


def _fetch(compilation: Compilation, name: str, anchor: str) -> Fetch:
    """A fetch; PopART's gradients are those of the scaled loss, Paddle's are not."""
    optimizer, scale = compilation.optimizer, 1.0
    # By a scale of the program's own, or one that adapts, the device divides, and by the option's
    # with it.
    if (
        optimizer is not None
        and optimizer.loss_scale is None
        and not optimizer.automatic_loss_scaling
        and is_gradient(anchor)
    ):
        scale = optimizer.loss_scaling
    return Fetch(anchor, _fetch_dtype(compilation, name), scale)


def _fetch_dtype(compilation: Compilation, name: str) -> str:
    value = compilation.value(name)
    if value is not None:
        return dialect.dtype_name(value)
    # A raw gradient's value went with the backward graph. Gradients are float32, Paddle's of a
    # float64 parameter is float64.
    gradients = compilation.optimizer.gradients if compilation.optimizer else {}
    parameter = compilation.value(gradients.get(name, name))
    is_double = parameter is not None and dialect.dtype_name(parameter) == "float64"
    return "float64" if is_double else "float32"


# -- optimizer ----------------------------------------------------------------------------------


def _learning_rate(
    program: paddle.static.Program, scope: paddle.static.Scope, optimizer: PaddleOptimizer | None
) -> Callable[[], float] | None:
    """Gives the learning rate of the next run: the scheduler's, else the variable's."""
    if optimizer is None or not optimizer.learning_rate_name:
        return None
    if getattr(program, "lr_scheduler", None) is not None:
        # Read anew each time: the program may get another scheduler.
        return lambda: float(program.lr_scheduler())
    name = optimizer.learning_rate_name
    scopes.read(scope, [name])
    return lambda: float(scopes.view(scopes.tensor(scope, name)).reshape(()))


# -- session ------------------------------------------------------------------------------------


def _session(
    popart: ModuleType,
    source: Source,
    translated: TranslatedProgram,
    device: DeviceInfo,
    optimizer: Optimizer | PaddleOptimizer | None,
    paddle_program: PaddleProgram,
    cache: str | None,
) -> Session:
    """The prepared session of a program; Graphcore's has the same interface."""
    values = source.values
    translation, compilation = translated.translation, translated.compilation
    arguments = {
        "fnModel": target_selection.model_of(popart, translation.builder),
        "dataFlow": data_flow(popart, values, translated.anchors),
        "deviceInfo": device,
        "patterns": session_patterns(popart, values),
        "userOptions": session_options(popart, values, cache),
    }
    if target_selection.is_ours(popart):
        arguments["paddleProgram"] = paddle_program
    session: Session
    if compilation.training:
        session = popart.TrainingSession(
            loss=translation.tensors[str(compilation.loss)], optimizer=optimizer, **arguments
        )
    else:
        session = popart.InferenceSession(**arguments)
    if not values["compile_engine"]:
        session.prepareDevice(False)
        return session
    session.prepareDevice()
    seed = fixed_seed(source.program, values)
    if seed is not None:
        session.setRandomSeed(seed)
    return session


def _paddle_program(
    translated: TranslatedProgram,
    values: StrategyValues,
    state: StateUpload,
    progress: Percent,
    early: EarlyLoad | None,
) -> PaddleProgram:
    """What a session of ours takes beside PopART's arguments."""

    def while_compiling(session: SessionWeights) -> None:
        state.send(session)
        if not choice_of(values).named:
            # This logs a line about a GC200 at most, for which compiling does not wait.
            _check_fits(translated, values)

    def prediction() -> tuple[Program, Machine]:
        from paddle_ipu.compiler.predicted_program import program_of

        return program_of(translated, values), choice_of(values).machine

    return PaddleProgram(
        kernels=translated.translation.kernels,
        operand_ranges=translated.translation.operand_ranges,
        progress=between(progress, 25, 99),
        rewritten=translated.dump.rewritten,
        while_compiling=while_compiling,
        early=early,
        prediction=prediction,
    )


def _check_fits(translated: TranslatedProgram, values: StrategyValues) -> None:
    """As :func:`~paddle_ipu.compiler.predicted_program.check_fits`; small programs fit."""
    graph = translated.translation.builder.model.graph
    if not is_small(graph, choice_with_all_tiles(values)):
        from paddle_ipu.compiler.predicted_program import check_fits

        check_fits(translated, values)
