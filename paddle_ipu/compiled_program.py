"""``paddle.static.IpuCompiledProgram``: a Paddle program becomes a program for the IPU.

The road in one place: read (``frontend``), rewrite (``passes``), translate (``ops``), hand to a
session (``popart``), upload weights (``backend``). Heavy modules are imported by ``compile``.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddle_ipu.backend import IpuBackend
from paddle_ipu.errors import (
    FeedError,
    IndexRangeError,
    InvalidProgramError,
    NotSupported,
    ServingError,
)
from paddle_ipu.executor import Fetch, IpuProgram, tell_origin
from paddle_ipu.feeds import Feed
from paddle_ipu.random_seed import Seed, fixed_seed
from paddle_ipu.strategy import StrategyValues, check_consistent
from paddle_ipu.value_names import name_of

if TYPE_CHECKING:
    from paddle_ipu.ops.translate import Translation
    from paddle_ipu.passes.pipeline import Compilation, Pass

Progress = Callable[[int], None]

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
        progress = _progress(values)
        progress(0)
        # A backend belongs to one compilation: an earlier program of this object keeps its own.
        if self._backend.is_attached:
            self._backend = IpuBackend(self._ipu_strategy._ipu_strategy)
        with _collection_put_off():
            compiled = _compile(
                self._program, self._scope, values, feed_list, fetch_list, self._backend, progress,
                self._first_passes,
            )  # fmt: skip
        progress(100)
        self._ipu_strategy.need_compile = False
        return compiled


def _kind(given: object) -> str:
    return f"{type(given).__name__} ({given!r})"


def _progress(values: StrategyValues) -> Progress:
    logger = values["compilation_progress_logger"]
    total = int(values["compilation_progress_total"])
    if logger is None:
        return lambda percent: None
    return lambda percent: logger(percent * total // 100, total)


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
    progress: Progress,
    first_passes: Sequence[Pass],
) -> IpuProgram:
    from paddle_ipu import adapted_loss_scale, dialect, seam
    from paddle_ipu import scope as scopes
    from paddle_ipu.dump import Dump
    from paddle_ipu.frontend import programs
    from paddle_ipu.ops.translate import translate
    from paddle_ipu.passes.ipu_pipeline import PIPELINE
    from paddle_ipu.passes.pipeline import Compilation, run_passes

    popart = seam.select()
    feeds, fetches = _names(feed_list, "feed_list"), _names(fetch_list, "fetch_list")
    graph = programs.read(program)
    declared = _declared_feeds(graph, feeds)
    declared_dtypes = {name: dialect.dtype_name(value) for name, value in declared.items()}
    compilation = Compilation(graph, feeds, fetches, values)
    dump = Dump(values)
    dump.graph("frontend", graph)
    run_passes((*first_passes, *PIPELINE), compilation, dump.graph)
    _check_fed(compilation)
    progress(10)
    weights = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] != dialect.FEED}
    adapted_loss_scale.bring_back(scope, compilation.optimizer)
    arrays = scopes.read(scope, weights)
    written = compilation.state_writes()
    translation = translate(
        graph,
        popart,
        lambda name: scopes.narrowed(
            name, _in_half(arrays[name], dialect.dtype_name(weights[name]))
        ),
        place=bool(values["enable_manual_shard"]),
        custom_ops=_custom_ops(popart, values),
        **_host(popart, values),
        writes=written,
    )
    progress(25)
    anchors = _anchors(compilation, translation)
    optimizer = _restrict(compilation, translation)
    chosen = _chosen(popart, optimizer, translation, written, anchors, values)
    own_rule = chosen is not None and chosen.is_paddles
    extensions = {name: _place(node) for name, node in translation.extensions.items()}
    seam.check_portable(popart, extensions, optimizer if own_rule else None)
    _record_memory(translation, values)
    dump.program(translation.builder)
    rate = _learning_rate(program, scope, optimizer)
    device = seam.acquire(popart, int(values["num_ipus"]), int(values["tiles_per_ipu"]))
    first = None if chosen is None else chosen.make(optimizer, rate() if rate else 0.0)
    states = {} if chosen is None else chosen.states
    try:
        session = _session(
            program, popart, device, translation, compilation, values, anchors, first, progress
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
                changes=compilation.training or bool(written),
                compiled=bool(values["compile_engine"]),
            )
    except BaseException as error:
        if isinstance(error, IndexRangeError):
            tell_origin(error, _describer(translation))
        # Nobody else could give it back.
        if backend.is_attached:
            backend.reset()
        else:
            device.detach()
        raise
    because = [f"operator ai.paddle_ipu.{name}" for name in extensions]
    if own_rule and optimizer is not None:
        because += sorted({f"Paddle's {update.rule} rule" for update in optimizer.updates})
    compiled = IpuProgram(
        program,
        backend,
        _feeds(declared, declared_dtypes, translation),
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
            drawn=not seam.is_ours(popart) or session.drawsRandomNumbers(),
        )
        if values["compile_engine"]
        else None,
        forward_only=bool(values["create_implicit_pipelining_fwd_only_program"]),
        asserts=list(_asserts(compilation.graph)),
    )
    if values["enable_model_runtime_executor"] and values["compile_engine"]:
        _serve(compiled, values)
    return compiled


def _serve(program: IpuProgram, values: StrategyValues) -> None:
    """Has the program's runs share micro-batches, as the strategy says."""
    from paddle_ipu.serving.batching_runner import BatchingRunner
    from paddle_ipu.serving.program_model import ProgramModel, WholeBatches

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


def _asserts(graph: Any) -> Iterator[str]:
    """Operators that stop a run, those in blocks too, each with the user's line."""
    from paddle_ipu import dialect

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
    return lambda name: _place(nodes[name]) if name in nodes else name


# -- names --------------------------------------------------------------------------------------


def _names(items: Sequence[Any], what: str) -> list[str]:
    if isinstance(items, str) or not isinstance(items, (list, tuple)):
        raise InvalidProgramError(
            f"{what} must be a list of names or variables, got {type(items).__name__}."
        )
    return [item if isinstance(item, str) else name_of(item) for item in items]


def _declared_feeds(graph: Any, feeds: Sequence[str]) -> dict[str, Any]:
    from paddle_ipu import dialect

    declared = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] == dialect.FEED}
    unknown = [name for name in feeds if name not in declared]
    if unknown:
        raise FeedError(
            f"feed_list names {', '.join(map(repr, unknown))}, but the program declares "
            f"{', '.join(map(repr, declared)) or 'no feeds'}. Declare feeds with "
            f"paddle.static.data.{_left_dynamic(declared, feeds)}"
        )
    return {name: declared[name] for name in feeds}


def _left_dynamic(declared: Mapping[str, Any], feeds: Sequence[str]) -> str:
    """What the IPU backend in Paddle's own tree said of shapes that no feed settles."""
    from paddle_ipu import dialect

    shapes = {name: dialect.dims_of(declared[name]) for name in declared if name not in feeds}
    left = [f"{name!r} has {dims}" for name, dims in shapes.items() if -1 in dims]
    if not left:
        return ""
    return (
        f" Without a feed, {', '.join(left)}: IPU doesn't support non-positive dimensions. "
        "Please check tensor shape setting."
    )


def _check_fed(compilation: Compilation) -> None:
    from paddle_ipu import dialect

    missing = [
        str(value.name)
        for value in compilation.graph.inputs
        if value.meta[dialect.ROLE] == dialect.FEED and value.name not in compilation.feeds
    ]
    if missing:
        raise FeedError(
            f"the program reads {', '.join(map(repr, missing))}, which feed_list does not name; "
            "add it to compile(feed_list=...)."
        )


def _custom_ops(popart: Any, values: StrategyValues) -> Mapping[str, Any]:
    """The custom operators that the device can run; the SDK has the user's compiled ones."""
    from paddle_ipu import seam
    from paddle_ipu.custom_ops import known_custom_ops

    return known_custom_ops(values.custom_ops) if seam.is_ours(popart) else values.custom_ops


def _host(popart: Any, values: StrategyValues) -> dict[str, Any]:
    """What runs on Paddle's CPU kernels: with ``cpu_fallback`` whatever has no translator.

    On the IPU Model also a custom operator of which it has nothing but the user's CPU kernel.
    """
    from paddle_ipu import seam
    from paddle_ipu.cpu_kernels import kernel_of

    if not seam.is_ours(popart):
        return {}
    everything = bool(values["cpu_fallback"])

    def fallback(node: Any, kinds: Any) -> Any:
        if not everything:
            _LOG.warning(
                "%s: the IPU Model does not know %s; the operator's CPU kernel runs in its place. "
                "paddle_ipu.register_custom_op says what it means.",
                _place(node),
                values.custom_ops[str(node.op_type)],
            )
        return kernel_of(node, kinds)

    return {"on_host": lambda name: everything or name in values.custom_ops, "fallback": fallback}


def _in_half(array: Any, dtype: str) -> Any:
    """A weight as the program has it, where that or the scope's tensor is half."""
    kinds = {array.dtype.name, dtype}
    return array.astype(dtype) if len(kinds) > 1 and kinds & {"float16", "bfloat16"} else array


def _feeds(
    declared: Mapping[str, Any], dtypes: Mapping[str, str], translation: Translation
) -> dict[str, Feed]:
    """Feeds as the user declared them; passes may have given them another dtype."""
    from paddle_ipu import dialect
    from paddle_ipu.ops.context import device_dtype

    feeds = {}
    for name, value in declared.items():
        shape = tuple(dialect.dims_of(value))
        on_device = device_dtype(dialect.dtype_name(value))
        feeds[name] = Feed(translation.feeds.get(name), shape, dtypes[name], on_device)
    return feeds


def _anchors(compilation: Compilation, translation: Translation) -> dict[str, str]:
    """Fetch name -> the PopART tensor that answers it."""
    from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX

    gradients = compilation.optimizer.gradients if compilation.optimizer else {}
    anchors = {}
    for name in compilation.fetches:
        of = name.removeprefix(GRADIENT_PREFIX) if compilation.training else name
        if name in gradients:
            anchors[name] = GRADIENT_PREFIX + translation.weights[gradients[name]]
        elif of != name:
            anchors[name] = GRADIENT_PREFIX + translation.tensors[of]
        else:
            anchors[name] = translation.tensors[compilation.writes.get(name, name)]
    return anchors


def _fetch(compilation: Compilation, name: str, anchor: str) -> Fetch:
    """A fetch; PopART's gradients are those of the scaled loss, Paddle's are not."""
    optimizer, scale = compilation.optimizer, 1.0
    # By a scale of the program's own, or one that adapts, the device divides, and by the option's
    # with it.
    if (
        optimizer is not None
        and optimizer.loss_scale is None
        and not optimizer.automatic_loss_scaling
        and _is_gradient(anchor)
    ):
        scale = optimizer.loss_scaling
    return Fetch(anchor, _fetch_dtype(compilation, name), scale)


def _is_gradient(anchor: str) -> bool:
    from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX

    return anchor.startswith(GRADIENT_PREFIX)


def _fetch_dtype(compilation: Compilation, name: str) -> str:
    from paddle_ipu import dialect

    value = compilation.value(name)
    # A raw gradient's value went with the backward graph; gradients are float32.
    return "float32" if value is None else dialect.dtype_name(value)


def _place(node: Any) -> str:
    from paddle_ipu import dialect

    return dialect.describe(node)


# -- optimizer ----------------------------------------------------------------------------------


def _restrict(compilation: Compilation, translation: Translation) -> Any:
    """The optimizer without updates of parameters the forward graph does not read."""
    from dataclasses import replace

    optimizer = compilation.optimizer
    if optimizer is None:
        return None
    kept = tuple(u for u in optimizer.updates if u.parameter in translation.weights)
    return replace(optimizer, updates=kept)


def _chosen(
    popart: Any,
    optimizer: Any,
    translation: Translation,
    written: Collection[str],
    anchors: Mapping[str, str],
    values: StrategyValues,
) -> Any:
    """The optimizer for the session, None in inference."""
    from paddle_ipu import optimizer_rules

    if optimizer is None:
        return None
    fetches_gradients = any(map(_is_gradient, anchors.values()))
    return optimizer_rules.choose(
        popart, optimizer, translation.weights, written, fetches_gradients, values
    )


def _learning_rate(program: Any, scope: Any, optimizer: Any) -> Callable[[], float] | None:
    """Gives the learning rate of the next run: the scheduler's, else the variable's."""
    from paddle_ipu import scope as scopes

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


def _record_memory(translation: Translation, values: StrategyValues) -> None:
    """The strategy's available memory, on matmuls, unless one of them has its own."""
    share = float(values["available_memory_proportion"])
    builder = translation.builder
    matmuls = translation.matmuls
    if share and not any(builder.nodeHasAttribute("__available_memory", m) for m in matmuls):
        for outputs in matmuls:
            builder.setAvailableMemoryProportion(outputs, share)


def _session(
    program: Any,
    popart: Any,
    device: Any,
    translation: Translation,
    compilation: Compilation,
    values: StrategyValues,
    anchors: Mapping[str, str],
    optimizer: Any,
    progress: Progress,
) -> Any:
    from paddle_ipu import seam
    from paddle_ipu.strategy import check_python_interface, record_on, record_patterns_on

    if not seam.is_ours(popart):
        check_python_interface(values)
    options = popart.SessionOptions()
    # The Scope's weights go to an inference session too, and may change later.
    options.constantWeights = False
    record_on(values, options, lambda kind, member: getattr(getattr(popart, kind), member))
    if path := os.environ.get("IPU_CACHE_PATH"):
        options.enableEngineCaching, options.cachePath = True, path
    patterns = popart.Patterns()
    record_patterns_on(values, patterns.enablePattern)
    flow = popart.DataFlow(
        int(values["batches_per_step"]),
        {anchor: popart.AnchorReturnType("All") for anchor in anchors.values()},
    )
    arguments = {
        "fnModel": seam.model_of(popart, translation.builder),
        "dataFlow": flow,
        "deviceInfo": device,
        "patterns": patterns,
        "userOptions": options,
    }
    if compilation.training:
        session = popart.TrainingSession(
            loss=translation.tensors[str(compilation.loss)], optimizer=optimizer, **arguments
        )
    else:
        session = popart.InferenceSession(**arguments)
    if seam.is_ours(popart):
        session.setProgressListener(lambda done, total: progress(25 + 74 * done // total))
        session.setCpuKernels(translation.kernels)
        session.setIndicesFromZero(translation.from_zero)
    if not values["compile_engine"]:
        session.prepareDevice(False)
        return session
    session.prepareDevice()
    seed = fixed_seed(program, values)
    if seed is not None:
        session.setRandomSeed(seed)
    return session
