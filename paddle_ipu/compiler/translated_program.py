"""A Paddle program translated: read, rewritten and made a PopART program for a session."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.compiler import optimizer_choice
from paddle_ipu.compiler.cpu_kernels import CpuKernel, Kind, kernel_of
from paddle_ipu.compiler.custom_ops import known_custom_ops
from paddle_ipu.compiler.dump import Dump
from paddle_ipu.compiler.optimizer_choice import ChosenOptimizer
from paddle_ipu.compiler.progress import Percent, between, no_progress
from paddle_ipu.compiler.source import Source
from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import (
    FeedError,
    FetchError,
    InvalidProgramError,
    NotSupported,
    PassError,
    meant,
)
from paddle_ipu.frontend import programs
from paddle_ipu.ops.translate import Translation, translate
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX
from paddle_ipu.passes.pass_base import Compilation, run_passes
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.program import tensors_with_gradient
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.weights import adapted_loss_scale

if TYPE_CHECKING:
    import paddle

_LOG = logging.getLogger("paddle_ipu")

Array = np.ndarray[Any, Any]
ArrayOf = Callable[[str], Array]
"""Gives the array of a weight by its name."""

WeightsOf = Callable[[Mapping[str, ir.Value], PaddleOptimizer | None], ArrayOf]
"""Given the weights by name and the optimizer, gives the array of each."""


@dataclass(frozen=True)
class TranslatedProgram:
    """A PopART program with all that a session needs beside a device.

    Attributes:
        declared: feed -> its value in the dialect graph, which passes may have changed.
        declared_dtypes: feed -> dtype that the user declared.
        dynamic: feeds that were declared with an open first dimension.
        compilation: the dialect graph behind all passes.
        written: parameter or state -> the value it has in the next run.
        translation: the PopART program.
        anchors: fetch -> tensor.
        optimizer: without updates of parameters that the forward graph does not read; None in
            inference.
        chosen: the optimizer of the session, None in inference.
        portability_issues: what keeps the program off the hardware -> the first place of it.
    """

    declared: Mapping[str, ir.Value]
    declared_dtypes: Mapping[str, str]
    dynamic: Collection[str]
    compilation: Compilation
    written: Mapping[str, str]
    translation: Translation
    anchors: Mapping[str, str]
    optimizer: PaddleOptimizer | None
    chosen: ChosenOptimizer | None
    portability_issues: Mapping[str, str]
    dump: Dump


def translate_program(
    popart: ModuleType,
    source: Source,
    weights_of: WeightsOf,
    progress: Percent = no_progress,
    in_64_bits: bool = False,
) -> TranslatedProgram:
    """Reads, rewrites and translates a program.

    Args:
        popart: the module of the session, ours or Graphcore's.
        source: the program; it stays as it is.
        weights_of: reads the weights.
        progress: called with the percentage done, pass by pass and operator by operator.
        in_64_bits: int64 stays INT64, for the IPU Model; else it is INT32, as on the hardware.

    Raises:
        NotSupported, InvalidProgramError, FeedError, FetchError, OptionError, OperandValueError: as
            ``IpuCompiledProgram.compile`` says.
    """
    values = source.values
    feeds, fetches = names_of(source.feeds, "feed_list"), names_of(source.fetches, "fetch_list")
    if not fetches and not values["is_training"]:
        raise FetchError(
            "fetch_list is empty, and a program that does not train gives nothing without it. Name "
            "variables of the program in compile(fetch_list=[...])."
        )
    graph = programs.read(source.program)
    declared = _declared_feeds(graph, feeds)
    declared_dtypes = {name: dialect.dtype_name(value) for name, value in declared.items()}
    dynamic = [name for name, value in declared.items() if dialect.dims_of(value)[:1] == [-1]]
    compilation = Compilation(graph, feeds, fetches, values)
    if values["need_avg_shard"]:
        # It predicts, which other programs do not wait for.
        from paddle_ipu.compiler.average_sharding import part_starts

        compilation.cuts = functools.partial(part_starts, values)
    dump = Dump(values)
    dump.graph("frontend", graph)
    progress(5)
    first = (CheckMicroBatch(),) if source.first_passes is None else source.first_passes
    passes = (*first, *PIPELINE)
    passed = between(progress, 5, 40)
    done = itertools.count(1)

    def listen(name: str, graph: ir.Graph, changed: bool) -> None:
        dump.graph(name, graph)
        passed(100 * next(done) / len(passes))

    with _reporting_damage(graph, source.program):
        run_passes(passes, compilation, listen)
    _check_fed(compilation)
    weights = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] != dialect.FEED}
    array_of = weights_of(weights, compilation.optimizer)
    written = compilation.state_writes()
    ours = target_selection.is_ours(popart)
    with _reporting_damage(graph, source.program):
        translation = translate(
            graph,
            popart,
            array_of,
            place=bool(values["enable_manual_shard"]),
            # The SDK has the user's compiled operators.
            custom_ops=known_custom_ops(values.custom_ops) if ours else values.custom_ops,
            **_host(values, in_64_bits) if ours else {},
            writes=written,
            progress=between(progress, 40, 100),
            in_64_bits=in_64_bits,
        )
    _record_layers(translation)
    anchors = _anchors(compilation, translation)
    optimizer = _restrict(compilation, translation)
    chosen = None
    if optimizer is not None:
        fetches_gradients = any(map(is_gradient, anchors.values()))
        chosen = optimizer_choice.choose(
            popart, optimizer, translation.weights, written, fetches_gradients, values
        )
    own_rule = chosen is not None and chosen.is_paddles
    extensions = {name: dialect.describe(node) for name, node in translation.extensions.items()}
    target_selection.check_portable(popart, extensions, optimizer if own_rule else None)
    _record_memory(translation, values)
    dump.program(translation.builder)
    portability_issues = {
        f"operator ai.paddle_ipu.{name}": place for name, place in extensions.items()
    }
    return TranslatedProgram(
        declared, declared_dtypes, dynamic, compilation, written, translation, anchors, optimizer,
        chosen, portability_issues, dump,
    )  # fmt: skip


@contextmanager
def _reporting_damage(graph: ir.Graph, program: object) -> Iterator[None]:
    """Says which attribute is of the wrong kind, where that may be why passes or translators fail.

    Paddle checks the attributes of what a script builds, and not those of all files.

    Raises:
        InvalidProgramError: there is one.
        ModelFileError: there is none, and a pass fails on what a file holds.
    """
    try:
        yield
    except (InvalidProgramError, PassError) as error:
        # It brings the vocabulary of ProgramDesc.
        from paddle_ipu.frontend.damage import damage_of

        found = damage_of(graph, program, error)
        if found is None:
            raise
        raise found from error


def scope_weights(scope: paddle.static.Scope, in_64_bits: bool = False) -> WeightsOf:
    """The Scope's arrays, as the device takes them."""

    def weights_of(weights: Mapping[str, ir.Value], optimizer: PaddleOptimizer | None) -> ArrayOf:
        adapted_loss_scale.sync_to_host(scope, optimizer)
        return array_weights(scopes.read(scope, weights), in_64_bits)(weights, optimizer)

    return weights_of


def array_weights(arrays: Mapping[str, Array], in_64_bits: bool = False) -> WeightsOf:
    """Arrays by the weights' names, as the device takes them."""

    def weights_of(weights: Mapping[str, ir.Value], optimizer: PaddleOptimizer | None) -> ArrayOf:
        return lambda name: scopes.narrowed(
            name, _in_half(arrays[name], dialect.dtype_name(weights[name])), in_64_bits
        )

    return weights_of


def names_of(items: Sequence[Any], what: str) -> list[str]:
    """The names of variables; names are taken as they are.

    Args:
        items: names or variables.
        what: the argument that they come from, for the message.

    Raises:
        InvalidProgramError: it is no list, or holds something else.
    """
    if isinstance(items, str) or not isinstance(items, (list, tuple)):
        raise InvalidProgramError(
            f"{what} must be a list of names or variables, got {type(items).__name__}."
        )
    return [item if isinstance(item, str) else name_of(item) for item in items]


def _left_dynamic(declared: Mapping[str, ir.Value], feeds: Sequence[str]) -> str:
    """What the IPU backend in Paddle's own tree said of shapes that no feed settles."""
    shapes = {name: dialect.dims_of(declared[name]) for name in declared if name not in feeds}
    left = [f"{name!r} has {dims}" for name, dims in shapes.items() if -1 in dims]
    if not left:
        return ""
    return (
        f" Without a feed, {', '.join(left)}: IPU doesn't support non-positive dimensions. "
        "Please check tensor shape setting."
    )


def _declared_feeds(graph: ir.Graph, feeds: Sequence[str]) -> dict[str, ir.Value]:
    declared = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] == dialect.FEED}
    unknown = [name for name in feeds if name not in declared]
    if unknown:
        raise FeedError(
            f"feed_list names {', '.join(map(repr, unknown))}, which the program does not declare: "
            f"it declares {', '.join(map(repr, declared)) or 'no feeds'}. Declare feeds with "
            f"paddle.static.data.{_left_dynamic(declared, feeds)}"
            f"{meant(unknown[0], declared) if len(unknown) == 1 else ''}"
        )
    return {name: declared[name] for name in feeds}


def _check_fed(compilation: Compilation) -> None:
    missing = [
        str(value.name)
        for value in compilation.graph.inputs
        if value.meta[dialect.ROLE] == dialect.FEED and value.name not in compilation.feeds
    ]
    if missing:
        raise FeedError(
            f"the program reads {', '.join(map(repr, missing))}, which feed_list does not name; "
            f"add {'them' if len(missing) > 1 else 'it'} to compile(feed_list=...)."
        )


def _host(values: StrategyValues, in_64_bits: bool) -> dict[str, Any]:
    """What runs on Paddle's CPU kernels: with ``cpu_fallback`` whatever has no translator.

    Without it only a custom operator of which the IPU Model has nothing but the user's CPU kernel.
    """
    everything = bool(values["cpu_fallback"])

    def fallback(node: ir.Node, kinds: Sequence[Kind | None]) -> CpuKernel:
        if not everything:
            _LOG.warning(
                "%s: the IPU Model does not know %s; the operator's CPU kernel runs in its place. "
                "paddle_ipu.register_custom_op says what it means.",
                dialect.describe(node),
                values.custom_ops[str(node.op_type)],
            )
        return kernel_of(node, kinds, in_64_bits)

    return {"on_host": lambda name: everything or name in values.custom_ops, "fallback": fallback}


def _in_half(array: Array, dtype: str) -> Array:
    """A weight as the program has it, where that or the scope's tensor is half."""
    kinds = {array.dtype.name, dtype}
    return array.astype(dtype) if len(kinds) > 1 and kinds & {"float16", "bfloat16"} else array


def _anchors(compilation: Compilation, translation: Translation) -> dict[str, str]:
    """Fetch name -> the PopART tensor that answers it.

    Gradients that ``ask_for_gradients`` asks for are left out where the loss has none.

    Raises:
        NotSupported: another gradient that the loss does not have.
    """
    gradients = compilation.optimizer.gradients if compilation.optimizer else {}
    anchors, sources = {}, {}
    for name in compilation.fetches:
        of = name.removeprefix(GRADIENT_PREFIX) if compilation.training else name
        if name in gradients:
            sources[name] = translation.weights.get(gradients[name])
        elif of != name:
            sources[name] = translation.tensors.get(of)
        else:
            anchors[name] = translation.tensors[compilation.writes.get(name, name)]
    differentiated = _differentiated(compilation, translation) if sources else set()
    for name, tensor in sources.items():
        if tensor is not None and tensor in differentiated:
            anchors[name] = GRADIENT_PREFIX + tensor
        elif name not in compilation.optional_gradients:
            of = gradients.get(name, name.removeprefix(GRADIENT_PREFIX))
            raise NotSupported(
                f"fetch {name!r} is the gradient of {of!r}, on which the loss does not depend, and "
                "PopART has no such gradient. Do not fetch it; it is zero."
            )
    return {name: anchors[name] for name in compilation.fetches if name in anchors}


def _differentiated(compilation: Compilation, translation: Translation) -> Collection[str]:
    """Tensors by which the loss has a gradient; all, where Graphcore's builder does not say."""
    if not isinstance(translation.builder, Builder):
        return {*translation.tensors.values(), *translation.weights.values()}
    loss = translation.tensors[str(compilation.loss)]
    return tensors_with_gradient(translation.builder.model.graph, loss)


def is_gradient(anchor: str) -> bool:
    """Whether an anchor is the gradient of a tensor."""
    return anchor.startswith(GRADIENT_PREFIX)


def origin_finder(translation: Translation) -> Callable[[ir.Node], NodeOrigin]:
    """Gives what a PopART node was translated from."""
    origins = translation.origins
    nodes = {str(node.name): node for node in origins.values()}

    def origin_of(node: ir.Node) -> NodeOrigin:
        made = [origins.get(str(value.name)) for value in node.outputs]
        origin = next((o for o in made if o is not None), nodes.get(str(node.name)))
        if origin is None:
            return NodeOrigin()
        return NodeOrigin(str(origin.op_type), dialect.source_of(origin), dialect.layer_of(origin))

    return origin_of


def _record_layers(translation: Translation) -> None:
    """Gives the nodes of our own PopART program the layers that they come from, for XLA's names."""
    builder = translation.builder
    if not isinstance(builder, Builder):
        return
    origins = translation.origins
    for node in ir.traversal.RecursiveGraphIterator(builder.model.graph):
        made = (origins.get(str(value.name)) for value in node.outputs)
        origin = next((found for found in made if found is not None), None)
        if origin is not None and (layer := dialect.layer_of(origin)):
            node.meta[dialect.LAYER] = layer


def _restrict(compilation: Compilation, translation: Translation) -> PaddleOptimizer | None:
    """The optimizer without updates of parameters the forward graph does not read."""
    optimizer = compilation.optimizer
    if optimizer is None:
        return None
    kept = tuple(u for u in optimizer.updates if u.parameter in translation.weights)
    return replace(optimizer, updates=kept)


def _record_memory(translation: Translation, values: StrategyValues) -> None:
    """The strategy's available memory, on matmuls, unless one of them has its own."""
    share = float(values["available_memory_proportion"])
    builder = translation.builder
    matmuls = translation.matmuls
    if share and not any(builder.nodeHasAttribute("__available_memory", m) for m in matmuls):
        for outputs in matmuls:
            builder.setAvailableMemoryProportion(outputs, share)
