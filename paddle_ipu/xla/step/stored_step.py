"""Compiled steps in the executable cache: found by their program or by what was traced, and kept.

An entry under the traced step's key holds the executable. One under the program's key says which
that is and what tracing would have found, so that a program that is found there is not traced.
An executable is JAX's own serialisation, read after the cache has checked its digest; names and
shapes of arguments and results are those of the program at hand.

The same entries go into a file that a session saves, and are found in it alike.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.experimental import serialize_executable

from paddle_ipu.errors import popart_exception
from paddle_ipu.xla import process
from paddle_ipu.xla.lowerings import range_checks
from paddle_ipu.xla.lowerings.range_checks import RangeCheck
from paddle_ipu.xla.precision import integers
from paddle_ipu.xla.step import stored_executable
from paddle_ipu.xla.step.early_load import EarlyLoad
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.program_key import NoKeyError, program_key, traced_key
from paddle_ipu.xla.step.stored_executable import (
    OTHER_FORM,
    Entries,
    Form,
    describe,
    discard,
    form_of,
    tree_of,
)
from paddle_ipu.xla.step.traced_step import Step

_LOG = logging.getLogger("paddle_ipu")
_POPART = logging.getLogger("popart.devicex")

_ON_HOST = re.compile(r"custom_call\s+@\S*callback")

_told: set[str] = set()
"""Why programs were not kept, as far as it was said."""


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step that can run.

    Attributes:
        compiled: JAX's compiled function.
        temporary_bytes: memory of a run beside arguments and results, by XLA's account.
        draws: whether it draws random numbers.
        origin: ``compiled``, or ``loaded`` from the cache.
        not_kept: why the cache does not have it; "" where it has it, or where there is none.
        content: JAX's serialisation of a loaded one, which cannot be made of it again.
    """

    compiled: Any
    temporary_bytes: int
    draws: bool
    origin: str = "compiled"
    not_kept: str = ""
    content: bytes = field(default=b"", repr=False)


def obtain(
    step: Step,
    arguments: Sequence[Any],
    devices: Sequence[Any],
    folder: str,
    lower: Callable[[], Any],
    options: Callable[[], Mapping[str, Any]],
    is_traced: bool = False,
    early: EarlyLoad | None = None,
) -> CompiledStep:
    """The compiled step: the one in the cache, else a new one, which the cache then has.

    Args:
        step: what to compile; where it is not traced, what tracing would set is put into it.
        arguments: the step's arguments as specs.
        devices: JAX's, on which it runs.
        folder: of the cache.
        lower: traces the step, or gives what was traced.
        options: the compiler's, known once the step is traced.
        is_traced: the step is traced already and need not be found by its program.
        early: what is being loaded meanwhile.

    Raises:
        CacheError: the folder cannot be used.
    """
    cache = ExecutableCache(folder)
    if reason := _runs_on_host(step):
        return _not_kept(compile_step(step, lower(), options()), reason)
    key = "" if is_traced else key_of(step, devices)
    if key and (stored := _by_program(cache, key, step, arguments, devices, early)) is not None:
        return stored
    with cache.alone(key) if key else nullcontext():
        # Another process may have compiled it while this one waited.
        if key and (stored := _by_program(cache, key, step, arguments, devices, early)) is not None:
            return stored
        return _by_trace(cache, key, step, arguments, devices, lower(), options(), early)


def key_of(step: Step, devices: Sequence[Any]) -> str:
    """The program's key of a step that is not traced; "" where it has to be traced."""
    try:
        return program_key(step, devices)
    except NoKeyError as error:
        _LOG.debug("A step has to be traced before it is looked for in the cache: %s.", error)
        return ""


def compile_step(
    step: Step, lowered: jax.stages.Lowered, options: Mapping[str, Any]
) -> CompiledStep:
    """Compiles what was traced, and says so by PopART's words."""
    needs_64_bits = bool(jax.config.values["jax_enable_x64"])

    def compiled_by_xla() -> jax.stages.Compiled:
        # What is set for a thread is not set for another.
        with integers.allowed_if(needs_64_bits):
            compiled: jax.stages.Compiled = lowered.compile(compiler_options=dict(options))
            return compiled

    _POPART.info("Starting compilation")
    compiled = process.beside(compiled_by_xla)
    _POPART.info("Graph compiled")
    analysis = compiled.memory_analysis()
    temporary = 0 if analysis is None else int(analysis.temp_size_in_bytes)
    return CompiledStep(compiled, temporary, step.graph.draws)


def _runs_on_host(step: Step) -> str:
    """Why no other process could run the step: which operators call this one; "" for none."""
    names = dict.fromkeys(_on_host(step.graph))
    return f"{', '.join(names)} runs on the host" if names else ""


def _on_host(graph: LoweredGraph) -> Iterator[str]:
    for node in graph.nodes:
        inner = [name for block in node.blocks.values() for name in _on_host(block.graph)]
        yield from inner
        if not inner and graph.runs_on_host(node):
            yield f"{node.domain}.{node.op_type}"


def _not_kept(made: CompiledStep, reason: str) -> CompiledStep:
    if reason not in _told:
        _told.add(reason)
        _LOG.warning("A compiled program is not kept in the executable cache: %s.", reason)
    return dataclasses.replace(made, not_kept=reason)


# -- by the program ---------------------------------------------------------------------------


def _by_program(
    cache: Entries,
    key: str,
    step: Step,
    arguments: Sequence[Any],
    devices: Sequence[Any],
    early: EarlyLoad | None = None,
) -> CompiledStep | None:
    entry = cache.load(key)
    if entry is None:
        return None
    description, _ = entry
    by_result = {node.outputs[0]: node for node in step.graph.nodes if node.outputs}
    try:
        traced, draws = str(description["step"]), bool(description["draws"])
        checked = [by_result[name] for name in description["checked"]]
        checks = tuple(_check(row) for row in description["checks"])
        results = _results_of(step, arguments, bool(checks))
        if results != description["results"]:
            raise ValueError(f"its results are {description['results']}, the program's {results}")
        fed_checks = tuple((str(name), _check(row)) for name, row in description["fed_checks"])
    except OTHER_FORM as error:
        discard(cache, key, error)
        return None
    loaded = _load(cache, traced, arguments, devices, tree_of(results), early)
    if loaded is None:
        return None
    step.checked, step.checks, step.fed_checks = checked, checks, fed_checks
    return dataclasses.replace(loaded, draws=draws)


def _results_of(step: Step, arguments: Sequence[Any], has_checks: bool) -> Form:
    """What the step returns."""
    program = step.program
    anchors = {str(anchor.tensor) for anchor in program.anchors}
    if has_checks:
        anchors.add(range_checks.NAME)
    weights, state = arguments[:2]
    changed = [sorted(weights), sorted(state)] if step.changes or program.instances > 1 else []
    return [*changed, sorted(anchors), 0 if program.check_floats else None]


def _description(step: Step, traced: str, results: Any, draws: bool) -> dict[str, Any]:
    """What leads from the program to the traced step."""
    return {
        "step": traced,
        "results": form_of(results),
        "draws": draws,
        "checked": [node.outputs[0] for node in step.checked],
        "checks": [_row(check) for check in step.checks],
        "fed_checks": [(name, _row(check)) for name, check in step.fed_checks],
    }


def _row(check: RangeCheck) -> list[Any]:
    ignored = None if check.ignored is None else int(check.ignored)
    inside = None if check.inside is None else [_row(each) for each in check.inside]
    low, high = int(check.low), int(check.high)
    names = check.node, check.op_type, check.what
    return [*names, low, high, ignored, inside, check.nonzero, check.effect]


def _check(row: Sequence[Any]) -> RangeCheck:
    node, op_type, what, low, high, ignored, blocks, nonzero, effect = row
    ignored = None if ignored is None else int(ignored)
    inside = None if blocks is None else [_check(each) for each in blocks]
    names = str(node), str(op_type), str(what)
    return RangeCheck(*names, int(low), int(high), ignored, inside, bool(nonzero), str(effect))


# -- by what was traced -----------------------------------------------------------------------


def _by_trace(
    cache: ExecutableCache,
    key: str,
    step: Step,
    arguments: Sequence[Any],
    devices: Sequence[Any],
    lowered: jax.stages.Lowered,
    options: Mapping[str, Any],
    early: EarlyLoad | None,
) -> CompiledStep:
    text = lowered.as_text()
    if _ON_HOST.search(text):
        made = compile_step(step, lowered, options)
        return _not_kept(made, "a custom operator calls Python on the host")
    traced = _traced_key(lowered, text, devices, options)
    draws = step.graph.draws
    with cache.alone(traced):
        loaded = _load(cache, traced, arguments, devices, lowered.out_tree, early)
        if loaded is not None:
            made = dataclasses.replace(loaded, draws=draws)
        else:
            with process.without_jaxs_cache():
                made = compile_step(step, lowered, options)
            try:
                content, _, _ = serialize_executable.serialize(made.compiled)
            except (ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
                return _not_kept(made, f"JAX cannot serialise it: {error}")
            described = describe(made.temporary_bytes, lowered)
            if not cache.store(traced, described, content):
                return dataclasses.replace(made, not_kept=f"{cache.folder} did not take it")
        if key:
            cache.store(key, _description(step, traced, lowered.out_tree, draws), b"")
    if early is not None:
        early.remember(traced)
    return made


def _traced_key(
    lowered: jax.stages.Lowered, text: str, devices: Sequence[Any], options: Mapping[str, Any]
) -> str:
    kept = lowered._lowering.compile_args["kept_var_idx"]
    return traced_key(text, f"{lowered.in_tree} {lowered.out_tree}", kept, devices, options)


def _load(
    cache: Entries,
    key: str,
    arguments: Sequence[Any],
    devices: Sequence[Any],
    results: Any,
    early: EarlyLoad | None = None,
) -> CompiledStep | None:
    """The compiled step of an entry, without what it draws; None where there is none."""
    trees = jax.tree.structure((tuple(arguments), {})), results
    found = None if early is None else early.take(key, trees, devices)
    if found is None:
        found = stored_executable.load(cache, key, trees, devices)
        if found is None:
            return None
    if early is not None:
        early.remember(key)
    return CompiledStep(
        found.compiled, found.temporary_bytes, False, "loaded", content=found.content
    )


# -- in a file ----------------------------------------------------------------------------------


def saved(
    step: Step,
    made: CompiledStep,
    devices: Sequence[Any],
    lowered: jax.stages.Lowered,
    options: Mapping[str, Any],
) -> dict[str, tuple[dict[str, Any], bytes]]:
    """The entries of a compiled step: key -> (description, content).

    Args:
        step: what was compiled, traced once more.
        made: the compiled step.
        devices: JAX's, on which it runs.
        lowered: what was traced.
        options: the compiler's.

    Raises:
        popart_exception: no other process could run it, or JAX cannot serialise it.
    """
    text = lowered.as_text()
    reason = _runs_on_host(step)
    if not reason and _ON_HOST.search(text):
        reason = "a custom operator calls Python on the host"
    if reason:
        raise popart_exception(f"The compiled program cannot be saved: {reason}.")
    content = made.content
    if not content:
        try:
            if process.may_be_of_jaxs_cache():
                # What JAX loads from its own cache it does not serialise whole.
                with process.without_jaxs_cache():
                    made = compile_step(step, lowered, options)
            content, _, _ = serialize_executable.serialize(made.compiled)
        except (ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
            raise popart_exception(
                f"The compiled program cannot be saved: JAX cannot serialise it: {error}"
            ) from error
    traced = _traced_key(lowered, text, devices, options)
    draws = step.graph.draws
    entries = {traced: (describe(made.temporary_bytes, lowered), content)}
    if key := key_of(step, devices):
        entries[key] = _description(step, traced, lowered.out_tree, draws), b""
    return entries


def found(
    entries: Entries,
    step: Step,
    arguments: Sequence[Any],
    devices: Sequence[Any],
    lower: Callable[[], Any],
    options: Callable[[], Mapping[str, Any]],
) -> CompiledStep | None:
    """The step among the entries of a file; None where they are another's.

    It is traced where its program is not among them: one whose optimizer has other values is the
    same step. The arguments are those of :func:`obtain`.
    """
    key = key_of(step, devices)
    if key and (stored := _by_program(entries, key, step, arguments, devices)) is not None:
        return stored
    lowered = lower()
    traced = _traced_key(lowered, lowered.as_text(), devices, options())
    loaded = _load(entries, traced, arguments, devices, lowered.out_tree)
    return None if loaded is None else dataclasses.replace(loaded, draws=step.graph.draws)
