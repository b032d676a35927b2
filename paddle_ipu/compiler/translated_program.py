"""A Paddle program translated: read, rewritten and made a PopART program for a session."""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu.compiler import optimizer_choice
from paddle_ipu.compiler.cpu_kernels import kernel_of
from paddle_ipu.compiler.custom_ops import known_custom_ops
from paddle_ipu.compiler.dump import Dump
from paddle_ipu.compiler.progress import Percent, between
from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import FeedError, FetchError, InvalidProgramError
from paddle_ipu.frontend import programs
from paddle_ipu.ops.context import device_dtype
from paddle_ipu.ops.translate import Translation, translate
from paddle_ipu.options.strategy import (
    StrategyValues,
    check_python_interface,
    record_on,
    record_patterns_on,
)
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX
from paddle_ipu.passes.pass_base import Compilation, Pass, run_passes
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.popart.program import tensors_with_gradient
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.weights import adapted_loss_scale

_LOG = logging.getLogger("paddle_ipu")


@dataclass(frozen=True)
class TranslatedProgram:
    """A program on its way: everything but a device and a session.

    `dynamic` names the feeds whose first dimension was open.
    """

    declared: Mapping[str, Any]
    declared_dtypes: Mapping[str, str]
    dynamic: Collection[str]
    compilation: Compilation
    written: Mapping[str, str]
    translation: Translation
    anchors: Mapping[str, str]
    optimizer: Any
    chosen: Any
    portability_issues: Mapping[str, str]
    dump: Dump


Cuts = Callable[[StrategyValues, "Compilation", Sequence[Any], int], Sequence[int]]
"""(values, compilation, operators in order, parts) -> in front of which operators parts begin."""


def translate_program(
    popart: Any,
    program: Any,
    values: StrategyValues,
    feed_list: Sequence[Any],
    fetch_list: Sequence[Any],
    progress: Percent,
    first_passes: Sequence[Pass] | None,
    weights_of: Callable[[Mapping[str, Any], Any], Callable[[str], Any]],
    cuts: Cuts,
    in_64_bits: bool = False,
) -> TranslatedProgram:
    """Reads, rewrites and translates a program.

    Args:
        progress: told how many percent of it are done, pass by pass and operator by operator.
        first_passes: go before those of ``passes``. None for a program as the user declared it,
            whose batch the options must not contradict.
        weights_of: given the weights by name and the optimizer, what gives the array of each.
        cuts: where parts of equal time begin, for ``need_avg_shard``.
        in_64_bits: int64 stays INT64, for the IPU Model; else it is INT32, as on the hardware.
    """
    feeds, fetches = _names(feed_list, "feed_list"), _names(fetch_list, "fetch_list")
    if not fetches and not values["is_training"]:
        raise FetchError(
            "fetch_list is empty, and a program that does not train gives nothing without it. Name "
            "variables of the program in compile(fetch_list=[...])."
        )
    graph = programs.read(program)
    declared = _declared_feeds(graph, feeds)
    declared_dtypes = {name: dialect.dtype_name(value) for name, value in declared.items()}
    dynamic = [name for name, value in declared.items() if dialect.dims_of(value)[:1] == [-1]]
    compilation = Compilation(graph, feeds, fetches, values)
    if values["need_avg_shard"]:
        compilation.cuts = functools.partial(cuts, values)
    dump = Dump(values)
    dump.graph("frontend", graph)
    progress(5)
    passes = (*((CheckMicroBatch(),) if first_passes is None else first_passes), *PIPELINE)
    passed = between(progress, 5, 40)
    done = itertools.count(1)

    def listen(name: str, graph: Any, changed: bool) -> None:
        dump.graph(name, graph)
        passed(100 * next(done) / len(passes))

    run_passes(passes, compilation, listen)
    _check_fed(compilation)
    weights = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] != dialect.FEED}
    array_of = weights_of(weights, compilation.optimizer)
    written = compilation.state_writes()
    translation = translate(
        graph,
        popart,
        array_of,
        place=bool(values["enable_manual_shard"]),
        custom_ops=_custom_ops(popart, values),
        **_host(popart, values, in_64_bits),
        writes=written,
        progress=between(progress, 40, 100),
        in_64_bits=in_64_bits,
    )
    anchors = _anchors(compilation, translation)
    optimizer = _restrict(compilation, translation)
    chosen = _chosen(popart, optimizer, translation, written, anchors, values)
    own_rule = chosen is not None and chosen.is_paddles
    extensions = {name: place_of(node) for name, node in translation.extensions.items()}
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


def scope_weights(
    scope: Any, in_64_bits: bool = False
) -> Callable[[Mapping[str, Any], Any], Callable[[str], Any]]:
    """The Scope's arrays, as the device takes them."""

    def weights_of(weights: Mapping[str, Any], optimizer: Any) -> Callable[[str], Any]:
        adapted_loss_scale.bring_back(scope, optimizer)
        return array_weights(scopes.read(scope, weights), in_64_bits)(weights, optimizer)

    return weights_of


def array_weights(
    arrays: Mapping[str, Any], in_64_bits: bool = False
) -> Callable[[Mapping[str, Any], Any], Callable[[str], Any]]:
    """Arrays by the weights' names, as the device takes them."""

    def weights_of(weights: Mapping[str, Any], optimizer: Any) -> Callable[[str], Any]:
        return lambda name: scopes.narrowed(
            name, _in_half(arrays[name], dialect.dtype_name(weights[name])), in_64_bits
        )

    return weights_of


def stand_ins(weights: Mapping[str, Any], optimizer: Any) -> Callable[[str], Any]:
    """Zeros for every weight, which take no memory as long as nobody touches them."""
    return lambda name: np.zeros(
        dialect.dims_of(weights[name]), device_dtype(dialect.dtype_name(weights[name]))
    )


def _names(items: Sequence[Any], what: str) -> list[str]:
    if isinstance(items, str) or not isinstance(items, (list, tuple)):
        raise InvalidProgramError(
            f"{what} must be a list of names or variables, got {type(items).__name__}."
        )
    return [item if isinstance(item, str) else name_of(item) for item in items]


def _left_dynamic(declared: Mapping[str, Any], feeds: Sequence[str]) -> str:
    """What the IPU backend in Paddle's own tree said of shapes that no feed settles."""
    shapes = {name: dialect.dims_of(declared[name]) for name in declared if name not in feeds}
    left = [f"{name!r} has {dims}" for name, dims in shapes.items() if -1 in dims]
    if not left:
        return ""
    return (
        f" Without a feed, {', '.join(left)}: IPU doesn't support non-positive dimensions. "
        "Please check tensor shape setting."
    )


def _declared_feeds(graph: Any, feeds: Sequence[str]) -> dict[str, Any]:
    declared = {str(v.name): v for v in graph.inputs if v.meta[dialect.ROLE] == dialect.FEED}
    unknown = [name for name in feeds if name not in declared]
    if unknown:
        raise FeedError(
            f"feed_list names {', '.join(map(repr, unknown))}, which the program does not declare: "
            f"it declares {', '.join(map(repr, declared)) or 'no feeds'}. Declare feeds with "
            f"paddle.static.data.{_left_dynamic(declared, feeds)}"
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


def _custom_ops(popart: Any, values: StrategyValues) -> Mapping[str, Any]:
    """The custom operators that the device can run; the SDK has the user's compiled ones."""
    return (
        known_custom_ops(values.custom_ops)
        if target_selection.is_ours(popart)
        else values.custom_ops
    )


def _host(popart: Any, values: StrategyValues, in_64_bits: bool) -> dict[str, Any]:
    """What runs on Paddle's CPU kernels: with ``cpu_fallback`` whatever has no translator.

    On the IPU Model also a custom operator of which it has nothing but the user's CPU kernel.
    """
    if not target_selection.is_ours(popart):
        return {}
    everything = bool(values["cpu_fallback"])

    def fallback(node: Any, kinds: Any) -> Any:
        if not everything:
            _LOG.warning(
                "%s: the IPU Model does not know %s; the operator's CPU kernel runs in its place. "
                "paddle_ipu.register_custom_op says what it means.",
                place_of(node),
                values.custom_ops[str(node.op_type)],
            )
        return kernel_of(node, kinds, in_64_bits)

    return {"on_host": lambda name: everything or name in values.custom_ops, "fallback": fallback}


def _in_half(array: Any, dtype: str) -> Any:
    """A weight as the program has it, where that or the scope's tensor is half."""
    kinds = {array.dtype.name, dtype}
    return array.astype(dtype) if len(kinds) > 1 and kinds & {"float16", "bfloat16"} else array


def _anchors(compilation: Compilation, translation: Translation) -> dict[str, str]:
    """Fetch name -> the PopART tensor that answers it."""
    gradients = compilation.optimizer.gradients if compilation.optimizer else {}
    lacking = _without_gradient(compilation, translation)
    anchors = {}
    for name in compilation.fetches:
        of = name.removeprefix(GRADIENT_PREFIX) if compilation.training else name
        if name in lacking:
            continue
        if name in gradients:
            anchors[name] = GRADIENT_PREFIX + translation.weights[gradients[name]]
        elif of != name:
            anchors[name] = GRADIENT_PREFIX + translation.tensors[of]
        else:
            anchors[name] = translation.tensors[compilation.writes.get(name, name)]
    return anchors


def _without_gradient(compilation: Compilation, translation: Translation) -> set[str]:
    """Fetches that ``ask_for_gradients`` asks for, of what the loss is not computed of."""
    if not compilation.asked or compilation.optimizer is None:
        return set()
    weights = compilation.optimizer.gradients
    loss = translation.tensors[str(compilation.loss)]
    found = tensors_with_gradient(translation.builder.model.graph, loss)
    tensors = {
        name: translation.weights.get(weights[name])
        if name in weights
        else translation.tensors.get(name.removeprefix(GRADIENT_PREFIX))
        for name in compilation.asked
    }
    return {name for name, tensor in tensors.items() if tensor not in found}


def is_gradient(anchor: str) -> bool:
    return anchor.startswith(GRADIENT_PREFIX)


def place_of(node: Any) -> str:
    return dialect.describe(node)


def origin_finder(translation: Translation) -> Callable[[Any], tuple[str, str]]:
    """Gives (Paddle's operator, the user's ``file:line``) of a PopART node, "" where unknown."""
    origins = translation.origins
    nodes = {str(node.name): node for node in origins.values()}

    def origin_of(node: Any) -> tuple[str, str]:
        made = [origins.get(str(value.name)) for value in node.outputs]
        origin = next((o for o in made if o is not None), nodes.get(str(node.name)))
        return ("", "") if origin is None else (str(origin.op_type), dialect.source_of(origin))

    return origin_of


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
    if optimizer is None:
        return None
    fetches_gradients = any(map(is_gradient, anchors.values()))
    return optimizer_choice.choose(
        popart, optimizer, translation.weights, written, fetches_gradients, values
    )


def _record_memory(translation: Translation, values: StrategyValues) -> None:
    """The strategy's available memory, on matmuls, unless one of them has its own."""
    share = float(values["available_memory_proportion"])
    builder = translation.builder
    matmuls = translation.matmuls
    if share and not any(builder.nodeHasAttribute("__available_memory", m) for m in matmuls):
        for outputs in matmuls:
            builder.setAvailableMemoryProportion(outputs, share)


def session_options(popart: Any, values: StrategyValues) -> Any:
    if not target_selection.is_ours(popart):
        check_python_interface(values)
    options = popart.SessionOptions()
    # The Scope's weights go to an inference session too, and may change later.
    options.constantWeights = False
    record_on(values, options, lambda kind, member: getattr(getattr(popart, kind), member))
    if path := os.environ.get("IPU_CACHE_PATH"):
        options.enableEngineCaching, options.cachePath = True, path
    return options


def session_patterns(popart: Any, values: StrategyValues) -> Any:
    patterns = popart.Patterns()
    record_patterns_on(values, patterns.enablePattern)
    return patterns


def data_flow(popart: Any, values: StrategyValues, anchors: Mapping[str, str]) -> Any:
    return popart.DataFlow(
        int(values["batches_per_step"]),
        {anchor: popart.AnchorReturnType("All") for anchor in anchors.values()},
    )
