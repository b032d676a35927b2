"""``paddle.static.IpuCompiledProgram``: a Paddle program becomes a program for the IPU.

The road in one place: read (``frontend``), rewrite (``passes``), translate (``ops``), hand to a
session (``popart``), upload weights (``backend``). Heavy modules are imported by ``compile``.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.lowered_program import (
    LoweredProgram,
    data_flow,
    is_gradient,
    lower,
    origin_finder,
    place_of,
    scope_weights,
    session_options,
    session_patterns,
)
from paddle_ipu.compiler.predicted_program import (
    check_fits,
    choice_of,
    is_machine_named,
    program_of,
)
from paddle_ipu.compiler.progress import Percent, between, progress_of
from paddle_ipu.errors import (
    IndexRangeError,
    InvalidProgramError,
    NotSupported,
)
from paddle_ipu.options.strategy import StrategyValues, check_consistent
from paddle_ipu.runtime import shared_runs
from paddle_ipu.runtime.executor import IpuProgram, tell_origin
from paddle_ipu.runtime.feeds import Feed
from paddle_ipu.runtime.fetches import Fetch
from paddle_ipu.runtime.random_seed import Seed, fixed_seed
from paddle_ipu.runtime.weights.backend import IpuBackend, has_other_owner
from paddle_ipu.runtime.weights.early_state import EarlyState

if TYPE_CHECKING:
    from paddle_ipu.ops.translate import Translation
    from paddle_ipu.passes.pipeline import Compilation, Pass

_LOG = logging.getLogger("paddle_ipu")


class IpuCompiledProgram:
    """Compiles a program for the IPU.

    Args:
        program: a PIR program, or a ProgramDesc program (Paddle 2.6, and saved models); the
            default main program where None.
        scope: holds the program's parameters; the global scope where None.
        ipu_strategy: a ``paddle.static.IpuStrategy``; one with default options where None.
    """

    def __init__(self, program: Any = None, scope: Any = None, ipu_strategy: Any = None) -> None:
        import paddle

        from paddle_ipu.frontend import programs

        self._program = paddle.static.default_main_program() if program is None else program
        if not programs.is_program(self._program):
            kind = type(self._program)
            raise NotSupported(
                f"IpuCompiledProgram takes a paddle.static.Program, got {kind.__module__}."
                f"{kind.__name__}. Pass the program that the layers were built in, for instance "
                "paddle.static.default_main_program()."
            )
        self._scope = paddle.static.global_scope() if scope is None else scope
        if not hasattr(self._scope, "find_var"):
            raise InvalidProgramError(
                f"IpuCompiledProgram: scope must be a paddle.static.Scope, got {_kind(scope)}. "
                "Leave it out for the global scope."
            )
        self._ipu_strategy = paddle.static.IpuStrategy() if ipu_strategy is None else ipu_strategy
        if not hasattr(self._ipu_strategy, "_ipu_strategy"):
            raise InvalidProgramError(
                f"IpuCompiledProgram: ipu_strategy must be a paddle.static.IpuStrategy, got "
                f"{_kind(ipu_strategy)}. Leave it out for one with default options."
            )
        self._backend = IpuBackend(self._ipu_strategy._ipu_strategy)
        self._first_passes: Sequence[Pass] = ()

    def compile(self, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> IpuProgram:
        """Compiles the program and puts the scope's weights on the device.

        The program stays as it is, and so does the scope where compiling fails. Afterwards large
        optimizer state is on the device only, until ``weights_to_host`` or a function of Paddle
        that reads the scope brings it back.

        Args:
            feed_list: names or variables that every run feeds.
            fetch_list: names or variables that runs may fetch, of any kind: parameters and their
                gradients too.

        Returns:
            What ``Executor.run`` takes as its program.

        Raises:
            NotSupported: operators that have no support, in one error.
            InvalidProgramError: a program that cannot be compiled as it is.
            FeedError, FetchError: a name that is not in the program.
            IndexRangeError: a constant index that does not exist.
        """
        values = self._ipu_strategy._ipu_strategy.snapshot()
        check_consistent(values)
        progress = progress_of(values)
        progress(0)
        # A backend belongs to one compilation: an earlier program of this object keeps its own.
        if self._backend.is_attached:
            self._backend = IpuBackend(self._ipu_strategy._ipu_strategy)
        try:
            with _collection_put_off():
                compiled = _compile(
                    self._program, self._scope, values, feed_list, fetch_list, self._backend,
                    progress, self._first_passes,
                )  # fmt: skip
            try:
                progress(100)
            except BaseException:
                self._backend.reset()
                raise
        except BaseException:
            progress.failed()
            raise
        self._ipu_strategy.need_compile = False
        return compiled


def _kind(given: object) -> str:
    return f"{type(given).__name__} ({given!r})"


@contextmanager
def _collection_put_off() -> Iterator[None]:
    """Puts off the collection of garbage in cycles, of which compiling makes next to none.

    It makes a million other objects, and every so many of them Python looks through all there are.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile(
    program: Any,
    scope: Any,
    values: StrategyValues,
    feed_list: Sequence[Any],
    fetch_list: Sequence[Any],
    backend: IpuBackend,
    progress: Percent,
    first_passes: Sequence[Pass],
) -> IpuProgram:
    from paddle_ipu.runtime import target_selection
    from paddle_ipu.runtime.weights import adapted_loss_scale

    popart = target_selection.select()
    lowered = lower(
        popart, program, values, feed_list, fetch_list, between(progress, 0, 25), first_passes,
        scope_weights(scope),
    )  # fmt: skip
    if target_selection.is_ours(popart) and is_machine_named(values):
        check_fits(lowered, values)
    compilation, translation = lowered.compilation, lowered.translation
    anchors, optimizer, chosen = lowered.anchors, lowered.optimizer, lowered.chosen
    own_rule = chosen is not None and chosen.is_paddles
    rate = _learning_rate(program, scope, optimizer)
    device = target_selection.acquire(popart, int(values["num_ipus"]), int(values["tiles_per_ipu"]))
    first = None if chosen is None else chosen.make(optimizer, rate() if rate else 0.0)
    states = {} if chosen is None else chosen.states
    # Made-up data leaves the Scope alone; what another program has too, that one gives back first.
    waits = bool(values["synthetic_data_mode"]) or has_other_owner(scope, states)
    early = EarlyState(scope, {} if waits else states)
    try:
        session = _session(
            program, popart, device, lowered, values, anchors, first, early, progress
        )
        with adapted_loss_scale.started(scope, optimizer):
            backend.attach(
                popart,
                session,
                device,
                translation.builder,
                scope,
                translation.weights,
                states,
                changes=compilation.training or bool(lowered.written),
                compiled=bool(values["compile_engine"]),
                early=early,
            )
    except BaseException as error:
        if isinstance(error, IndexRangeError):
            tell_origin(error, _describer(translation))
        # Nobody else could give it back.
        if backend.is_attached:
            backend.reset()
        else:
            device.detach()
        early.give_back()
        raise
    because = list(lowered.because)
    if own_rule and optimizer is not None:
        because += sorted({f"Paddle's {update.rule} rule" for update in optimizer.updates})
    compiled = IpuProgram(
        program,
        backend,
        _feeds(lowered.declared, lowered.declared_dtypes, translation),
        {name: _fetch(compilation, name, anchor) for name, anchor in anchors.items()},
        _axes(values),
        rate,
        optimizer,
        None if chosen is None else chosen.make,
        popart,
        because,
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


def _asserts(graph: Any) -> Iterator[str]:
    """Operators that stop a run, those in blocks too, each with the user's line."""
    from paddle_ipu.dialect import dialect

    for node in graph:
        if node.op_type == "assert":
            # Paddle 3 does not say where one was written, but where its condition was.
            maker = node.inputs[0].producer()
            known = dialect.source_of(node) or maker is None
            yield dialect.describe(node) if known else f"assert of {dialect.describe(maker)}"
        for block in dialect.blocks(node):
            yield from _asserts(block)


def _describer(translation: Translation) -> Callable[[str], str]:
    """Gives Paddle's operator and the user's line for the name of a PopART node."""
    nodes = {str(node.name): node for node in translation.origins.values()}
    return lambda name: place_of(nodes[name]) if name in nodes else name


# -- names --------------------------------------------------------------------------------------


def _feeds(
    declared: Mapping[str, Any], dtypes: Mapping[str, str], translation: Translation
) -> dict[str, Feed]:
    """Feeds as the user declared them; passes may have given them another dtype."""
    from paddle_ipu.dialect import dialect
    from paddle_ipu.ops.context import device_dtype

    feeds = {}
    for name, value in declared.items():
        shape = tuple(dialect.dims_of(value))
        on_device = device_dtype(dialect.dtype_name(value))
        feeds[name] = Feed(translation.feeds.get(name), shape, dtypes[name], on_device)
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
    from paddle_ipu.dialect import dialect

    value = compilation.value(name)
    # A raw gradient's value went with the backward graph; gradients are float32.
    return "float32" if value is None else dialect.dtype_name(value)


# -- optimizer ----------------------------------------------------------------------------------


def _learning_rate(program: Any, scope: Any, optimizer: Any) -> Callable[[], float] | None:
    """Gives the learning rate of the next run: the scheduler's, else the variable's."""
    from paddle_ipu.runtime import scope as scopes

    if optimizer is None or not optimizer.learning_rate_name:
        return None
    if getattr(program, "lr_scheduler", None) is not None:
        # Asked of the program each time: it may be given another one.
        return lambda: float(program.lr_scheduler())
    name = optimizer.learning_rate_name
    scopes.read(scope, [name])
    return lambda: float(scopes.view(scopes.tensor(scope, name)).reshape(()))


# -- session ------------------------------------------------------------------------------------


def _axes(values: StrategyValues) -> dict[str, int]:
    """What a fetch has in front of the tensor's own shape, as an IPU build of Paddle adds it."""
    axes = {}
    if values["batches_per_step"] > 1:
        axes["batches_per_step"] = int(values["batches_per_step"])
    if values["enable_gradient_accumulation"]:
        axes["accumulation_factor"] = int(values["accumulation_factor"])
    if values["enable_replicated_graphs"]:
        axes["replicated_graph_count"] = int(values["replicated_graph_count"])
    return axes


def _session(
    program: Any,
    popart: Any,
    device: Any,
    lowered: LoweredProgram,
    values: StrategyValues,
    anchors: Mapping[str, str],
    optimizer: Any,
    early: EarlyState,
    progress: Percent,
) -> Any:
    from paddle_ipu.runtime import target_selection

    translation, compilation = lowered.translation, lowered.compilation
    arguments = {
        "fnModel": target_selection.model_of(popart, translation.builder),
        "dataFlow": data_flow(popart, values, anchors),
        "deviceInfo": device,
        "patterns": session_patterns(popart, values),
        "userOptions": session_options(popart, values),
    }
    if compilation.training:
        session = popart.TrainingSession(
            loss=translation.tensors[str(compilation.loss)], optimizer=optimizer, **arguments
        )
    else:
        session = popart.InferenceSession(**arguments)
    if target_selection.is_ours(popart):
        built = between(progress, 25, 99)
        session.setProgressListener(lambda done, total: built(100 * done / total))
        session.setCpuKernels(translation.kernels)
        session.setIndicesFromZero(translation.from_zero)

        def beside() -> None:
            early.send(session)
            if not is_machine_named(values):
                # What the log then says of a GC200 need not be waited for.
                check_fits(lowered, values)

        session.setWorkBeside(beside)
        session.setPredicted(lambda: (program_of(lowered, values), choice_of(values).machine))
    if not values["compile_engine"]:
        session.prepareDevice(False)
        return session
    session.prepareDevice()
    seed = fixed_seed(program, values)
    if seed is not None:
        session.setRandomSeed(seed)
    return session
