"""What a user asks of a compilation: the options and patterns behind `paddle.static.IpuStrategy`.

`CoreIpuStrategy` stands where an IPU build of Paddle has ``core.IpuStrategy``. A compilation
takes `CoreIpuStrategy.snapshot`, passes it through `check_consistent`, and writes it on PopART's
settings with `record_on`.

An IPU build matched Python types strictly: ``loss_scaling: 128`` was an error there. Here an
integer is taken where a double is meant, on purpose; a bool is never taken as a number.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from paddle_ipu.errors import NotSupported, OptionError, meant
from paddle_ipu.notebook.html_table import html_table
from paddle_ipu.options.patterns import (
    DEFAULT_PATTERNS,
    MANDATORY_PATTERNS,
    POPART_PATTERNS,
    USER_PATTERNS,
)
from paddle_ipu.options.table import ALIASES, IN_CPP_ONLY, OPTIONS, PREFETCH_DEPTH_UNSET
from paddle_ipu.options.values import EnumLookup, Members, Option, Stored

__all__ = [
    "OPTIONS",
    "CoreIpuStrategy",
    "CustomOp",
    "Option",
    "Strategy",
    "StrategyValues",
    "check_consistent",
    "check_python_interface",
    "record_on",
    "record_patterns_on",
]

_SESSION_OPTIONS = "SessionOptions."
_SERIAL = 1
"""The number of ``AccumulateOuterFragmentSchedule.Serial``, PopART's default."""
_IMPLIED = {
    "virtual_graph_mode": "enable_manual_shard",
    "partials_type_matmuls": "enable_half_partial",
    "custom_op": "custom_ops",
}
"""Options, by name, whose value another one tells where that differs from its default."""
_LISTED = "paddle.static.IpuStrategy()._ipu_strategy.get_all_option_names()"


@dataclass(frozen=True)
class CustomOp:
    """The PopART operator that a Paddle operator of the user's becomes."""

    paddle_op: str
    popart_op: str
    domain: str
    version: int

    def __str__(self) -> str:
        return (
            f"paddle_op: {self.paddle_op}, domain: {self.domain}, "
            f"type: {self.popart_op}, version: {self.version}"
        )


def _option(name: object) -> Option:
    if isinstance(name, str) and name in OPTIONS:
        return OPTIONS[name]
    message = f"There is no strategy option {name!r}; {_LISTED} lists them."
    raise OptionError(message + meant(name, OPTIONS))


def _check_pattern(name: object) -> str:
    known = POPART_PATTERNS | USER_PATTERNS.keys()
    if isinstance(name, str) and name in known:
        return name
    message = f"There is no graph pattern {name!r}, PopART's or a known user's."
    raise OptionError(message + meant(name, sorted(known)))


def _copy(value: Stored) -> Stored:
    """A copy the caller may change, down to nested lists and dicts."""
    if isinstance(value, dict):
        return {key: _copy(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, list) else value


def _freeze(value: Stored) -> Stored:
    if isinstance(value, dict):
        return MappingProxyType({key: _freeze(entry) for key, entry in value.items()})
    return tuple(value) if isinstance(value, list) else value


class StrategyValues(Mapping[str, Any]):
    """Every option's value at one moment, by name; immutable, lists as tuples.

    ``explicit`` names the options that were set, aliases included; ``patterns`` maps the graph
    patterns that were enabled or disabled to which of the two; ``custom_ops`` maps Paddle operator
    names to `CustomOp`.
    """

    __slots__ = ("_values", "custom_ops", "explicit", "patterns")

    def __init__(
        self,
        values: Mapping[str, Any],
        explicit: Iterable[str],
        patterns: Mapping[str, bool],
        custom_ops: Mapping[str, CustomOp],
    ) -> None:
        self._values = {name: _freeze(value) for name, value in values.items()}
        self.explicit = frozenset(explicit)
        self.patterns: Mapping[str, bool] = MappingProxyType(dict(patterns))
        self.custom_ops: Mapping[str, CustomOp] = MappingProxyType(dict(custom_ops))

    def __getitem__(self, name: str) -> Stored:
        return self._values[_option(name).name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def changed(self, **values: Stored) -> StrategyValues:
        """The same with other values of some options."""
        new = {_option(name).name: value for name, value in values.items()}
        return StrategyValues(
            {**self._values, **new}, self.explicit, self.patterns, self.custom_ops
        )

    def member(self, name: str) -> str:
        """PopART's name of an enum option's value, "Manual" for `virtual_graph_mode` 1."""
        valid = _option(name).valid
        if not isinstance(valid, Members):
            raise OptionError(f"Option '{name}' holds a {valid.kind}, not a member of an enum.")
        member: str = valid.names[self._values[name]]
        return member


class CoreIpuStrategy:
    """The options and patterns of one strategy, read and written by name.

    ``paddle.static.IpuStrategy`` holds one and forwards its calls. Every call checks its arguments
    and raises `OptionError`; a compilation checks that the values agree.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._aliases_set: set[str] = set()
        self._patterns: dict[str, bool] = {}
        self._custom_ops: dict[str, CustomOp] = {}

    def __repr__(self) -> str:
        return f"CoreIpuStrategy({_assignments(self._different())})"

    def _different(self) -> dict[str, Stored]:
        """The options whose values differ from the defaults, in the order of the documentation."""
        every = {name: self._value(name) for name in OPTIONS}
        different = {name for name, value in every.items() if value != OPTIONS[name].default}
        different -= {name for name, other in _IMPLIED.items() if other in different}
        return {name: value for name, value in every.items() if name in different}

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Set the options of a dict, in its order; all of them or, on an error, none.

        A scalar replaces what was there. A dict option replaces the keys it is given and keeps
        the others, a list option adds the items it does not hold yet.
        """
        if not isinstance(options, Mapping):
            raise OptionError(
                f"set_options got {reprlib.repr(options)} of type {type(options).__name__}, "
                "expected a dict from option names to values."
            )
        checked = [(_option(name), _option(name).check(value)) for name, value in options.items()]
        for option, value in checked:
            self._set(option, value)

    def _set(self, option: Option, value: Stored) -> None:
        if option.name == "enable_manual_shard":
            self._merge("virtual_graph_mode", int(value))
        elif option.name == "enable_half_partial":
            self._merge("partials_type_matmuls", "half" if value else "float")
            self._merge("convolution_options", {"partialsType": "half" if value else "float"})
        else:
            self._merge(option.name, value)
        if option.name in ALIASES:
            self._aliases_set.add(option.name)
        if option.name == "custom_op":
            self._custom_ops[value["paddle_op"]] = CustomOp(**value)

    def _merge(self, name: str, value: Stored) -> None:
        self._values[name] = OPTIONS[name].valid.merge(self._value(name), value)

    def _value(self, name: str) -> Stored:
        if name == "enable_manual_shard":
            return self._value("virtual_graph_mode") == 1
        if name == "enable_half_partial":
            return self._value("partials_type_matmuls") == "half"
        if name == "custom_ops":
            return [str(operator) for operator in self._custom_ops.values()]
        return self._values.get(name, OPTIONS[name].default)

    def get_option(self, name: str) -> dict[str, Any]:
        """``name``, ``type`` and ``value`` of an option; scalars have ``value_s``, its text, too.

        ``type`` is bool, uint64 (enums too), double, string, vector, map or callable. ``value``
        is what was set, to the last bit, in a copy of its own. `custom_op` gives the last one set.
        """
        option = _option(name)
        value = _copy(self._value(name))
        kind = option.valid.value_type
        entry = {"name": name, "type": kind, "value": value}
        if kind in ("bool", "uint64", "double", "string"):
            entry["value_s"] = str(int(value)) if kind == "bool" else str(value)
        return entry

    def get_all_option_names(self) -> list[str]:
        """The names of all options, in the order of the documentation."""
        return list(OPTIONS)

    def enable_pattern(self, name: str) -> None:
        """Turn a graph pattern on; raises OptionError for a name nobody knows."""
        self._patterns[_check_pattern(name)] = True

    def disable_pattern(self, name: str) -> None:
        """Turn a graph pattern off; raises OptionError for one that PopART cannot do without."""
        if _check_pattern(name) in MANDATORY_PATTERNS:
            raise OptionError(f"Pattern '{name}' is mandatory and cannot be disabled")
        self._patterns[name] = False

    def is_pattern_enabled(self, name: str) -> bool:
        """Whether a graph pattern is on, by PopART's default or by a call here."""
        default = _check_pattern(name) in MANDATORY_PATTERNS | DEFAULT_PATTERNS
        return self._patterns.get(name, default)

    def snapshot(self) -> StrategyValues:
        """All values as they are now; later changes of the strategy do not reach it."""
        return StrategyValues(
            {name: self._value(name) for name in OPTIONS},
            self._values.keys() | self._aliases_set,
            self._patterns,
            self._custom_ops,
        )


def represented(strategy: Strategy) -> str:
    """The ``repr`` of a ``paddle.static.IpuStrategy``: the options that a new one does not have."""
    return f"IpuStrategy({_assignments(_changed(strategy))})"


def represented_in_html(strategy: Strategy, owner: str = "IpuStrategy") -> str:
    """The same as a notebook shows it: a table that says what each of these options does.

    Args:
        owner: what has the strategy, for the caption.
    """
    rows = [
        (name, repr(value), OPTIONS[name].meaning) for name, value in _changed(strategy).items()
    ]
    caption = owner if rows else f"{owner} with the options of a new IpuStrategy"
    return html_table(("option", "value", "what it does"), rows, caption)


def _changed(strategy: Strategy) -> dict[str, Stored]:
    """The options that a new strategy does not have."""
    # A user's subclass may ask for arguments; Paddle's own class is the last that has options.
    kind = [each for each in type(strategy).__mro__ if hasattr(each, "set_options")][-1]
    # In dynamic mode a new strategy registers itself for layers of to_static; this one must not.
    unregistered = type(kind.__name__, (kind,), {"register_patch": lambda self: None})
    new = unregistered()._ipu_strategy._different()
    own = strategy._ipu_strategy._different()
    return {n: own.get(n, OPTIONS[n].default) for n in OPTIONS if own.get(n) != new.get(n)}


def _assignments(values: Mapping[str, Stored]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


class Strategy(Protocol):
    """``paddle.static.IpuStrategy``, as far as this package uses it."""

    _ipu_strategy: CoreIpuStrategy
    need_compile: bool
    """Whether options changed since the last compilation."""
    is_training: bool
    enable_fp16: bool

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets options by name."""

    def set_graph_config(
        self,
        num_ipus: int = ...,
        is_training: bool = ...,
        micro_batch_size: int = ...,
        enable_manual_shard: bool = ...,
    ) -> None:
        """Sets options of the graph, those of the arguments' names."""

    def set_precision_config(self, enable_fp16: bool = ...) -> None:
        """Sets options of precision."""

    def set_pipelining_config(
        self, enable_pipelining: bool = ..., batches_per_step: int = ...
    ) -> None:
        """Sets options of pipelining."""


def check_consistent(values: StrategyValues) -> None:
    """Checks that options do not contradict each other, in PopART's words where it checks the same.

    Whether there are enough micro-batches for the pipeline is checked with the program's stages.

    Raises:
        OptionError: some do; it lists all that do.
    """
    problems = []
    accumulating = values["enable_gradient_accumulation"]
    factor = values["accumulation_factor"]
    ipus = values["num_ipus"]
    manual = values["enable_manual_shard"]
    replicas = values["replicated_graph_count"] if values["enable_replicated_graphs"] else 1
    if factor > 1 and not accumulating:
        problems.append(
            "enableGradientAccumulation is false, but accumulationFactor > 1. Set "
            f"enable_gradient_accumulation to True, or accumulation_factor (now {factor}) to 1."
        )
    if accumulating and not values["is_training"]:
        problems.append(
            "Gradient Accumulation only available when training. Set is_training to True, or "
            "enable_gradient_accumulation to False."
        )
    if values["enable_pipelining"] and (ipus <= replicas or values["virtual_graph_mode"] == 0):
        problems.append(
            f"Pipelining requires more than 1 IPU (currently {ipus // replicas}) and the "
            "'virtualGraphMode' "
            "session option to not be VirtualGraphMode::Off (currently "
            f"VirtualGraphMode::{values.member('virtual_graph_mode')}). Set num_ipus and "
            "enable_manual_shard, or enable_pipelining to False."
        )
    if replicas == 1 and values["replicated_graph_count"] > 1:
        problems.append(
            "enableReplicatedGraphs is false, but replicatedGraphCount > 1. Set "
            "enable_replicated_graphs to True, or replicated_graph_count (now "
            f"{values['replicated_graph_count']}) to 1."
        )
    if ipus % replicas:
        problems.append(
            "For replicated graphs, the number of IPUs must be divisible by the replication "
            f"factor. Set num_ipus (now {ipus}) to replicated_graph_count (now {replicas}) times "
            "the IPUs of a replica."
        )
    if values["create_implicit_pipelining_fwd_only_program"]:
        needed = ("enable_pipelining", "enable_gradient_accumulation", "is_training")
        off = [name for name in needed if not values[name]]
        if off:
            problems.append(
                "Implicit pipelining forward-only program is not supported without implicit "
                f"pipelining and gradient accumulation. Set {' and '.join(off)} to True, or "
                "create_implicit_pipelining_fwd_only_program to False: "
                "runtime_options.enable_eval needs it not."
            )
    if manual and ipus <= 1:
        problems.append(
            "Only if num_ipus > 1, enable_manual_shard is able to be set True. Set num_ipus (now "
            f"{ipus}) to the number of IPUs, or enable_manual_shard to False."
        )
    if values["virtual_graph_mode"] == 0 and ipus != replicas:
        problems.append(
            f"If virtual graphs are disabled, the replicated graph count ({replicas}) needs to be "
            f"equal to the number of IPUs ({ipus}). Set enable_manual_shard to True and place "
            "operators with ipu_shard_guard; for copies of the program enable_replicated_graphs to "
            f"True and replicated_graph_count to {ipus}; or num_ipus to {replicas}."
        )
    if values["enable_model_runtime_executor"] and values["is_training"]:
        problems.append(
            "enable_model_runtime_executor serves inference, and is_training is True: steps that "
            "train cannot be shared. Set is_training to False, or enable_model_runtime_executor "
            "to False."
        )
    mode = values.member("virtual_graph_mode")
    if values["enable_pipelining"] and mode in ("Auto", "ExecutionPhases"):
        problems.append(
            f"The stages of a pipeline are those of ipu_shard_guard, and virtual_graph_mode {mode} "
            "leaves the placement to PopART. Set virtual_graph_mode to 1 (Manual), or "
            "enable_pipelining to False."
        )
    if values["need_avg_shard"] and mode in ("Auto", "ExecutionPhases"):
        problems.append(
            f"need_avg_shard places operators, and virtual_graph_mode {mode} leaves that to "
            "PopART. Set virtual_graph_mode to 1 (Manual), or need_avg_shard to False."
        )
    tiles = values["num_io_tiles"]
    if mode != "Off" and (tiles % 2 or 0 < tiles < 32):
        problems.append(
            f"{tiles} is an invalid number of IO tiles. Set num_io_tiles to 0, or to an even "
            "number >= 32."
        )
    if values["enable_explicit_main_loops"] and not values["use_host_copy_ops"]:
        problems.append(
            "enableExplicitMainLoops requires useHostCopyOps. Set use_host_copy_ops to True, or "
            "enable_explicit_main_loops to False."
        )
    explicit = values["enable_explicit_main_loops"] and values["use_host_copy_ops"]
    recomputed = values["explicit_recomputation"]
    if values["enable_pipelining"] and explicit and not recomputed:
        problems.append(
            "Explicit pipelining requires explicit recomputation to be enabled. Set "
            "explicit_recomputation to True, or enable_explicit_main_loops to False."
        )
    in_stages = values["enable_pipelining"] and (explicit or not recomputed)
    phased = values["execution_phase_settings.phases"] > 1
    if values.member("auto_recomputation") == "Pipeline" and not in_stages and not phased:
        problems.append(
            "auto_recomputation Pipeline computes the stages of a pipeline again, and "
            f"enable_pipelining is {values['enable_pipelining']}, explicit_recomputation "
            f"{recomputed}. Set auto_recomputation to 1 (Standard), or enable_pipelining to True "
            "and explicit_recomputation to False."
        )
    if values["alias_zero_copy"] and values["enable_pipelining"] and not explicit:
        problems.append(
            "Alias zero copy is not supported with implicit pipelining. Set alias_zero_copy to "
            "False, or enable_explicit_main_loops, use_host_copy_ops and explicit_recomputation "
            "to True."
        )
    elif values["alias_zero_copy"] and not recomputed:
        problems.append(
            "Alias zero copy is currently not supported with implicit recomputation. Set "
            "explicit_recomputation to True, or alias_zero_copy to False."
        )
    collectives = values["replicated_collectives_settings"]
    schedules = values["accumulate_outer_fragment"] or {_SERIAL: []}
    if collectives.get("prepare_schedule_for_merging_collectives") and _SERIAL in schedules:
        problems.append(
            "prepare_schedule_for_merging_collectives of replicated_collectives_settings is "
            "incompatible with the schedule Serial of accumulate_outer_fragment. Set "
            "{'accumulate_outer_fragment': {0: []}}, or it to False."
        )
    if values["opx_modify_checking"] and replicas > 1:
        problems.append(
            "opxModifyChecking looks at one replica only. Set opx_modify_checking to False, or "
            f"replicated_graph_count (now {replicas}) to 1."
        )
    phases = values["execution_phase_settings.phases"]
    if phases > 1 and mode != "ExecutionPhases":
        problems.append(
            "> 1 execution phases requires VirtualGraphMode::ExecutionPhases. Set "
            f"virtual_graph_mode to 3, or execution_phase_settings.phases (now {phases}) to 0."
        )
    if problems:
        raise OptionError("The options contradict each other:\n  " + "\n  ".join(problems))


def check_python_interface(values: StrategyValues) -> None:
    """Checks that Graphcore's Python module has all options that are set.

    Raises:
        NotSupported: it lacks some; it lists all of them.
    """
    lines = [
        f"{name} = {values[name]!r} (default {option.default!r})"
        for name, option in OPTIONS.items()
        if option.seam == IN_CPP_ONLY and values[name] != option.default
    ]
    if lines:
        raise NotSupported(
            "PopART has these settings in its C++ interface only, so a program for Graphcore's SDK "
            "cannot have them:\n  " + "\n  ".join(lines) + "\nLeave them at their defaults, or "
            "use the IPU Model (PADDLE_IPU_DEVICE=model), which has no use for them."
        )


def record_on(values: StrategyValues, session_options: object, enum: EnumLookup) -> None:
    """Writes the options that were set on PopART's SessionOptions, under its field names.

    Other options are left alone: PopART has the same defaults, and takes some from the
    environment.

    Args:
        values: of the strategy.
        session_options: PopART's.
        enum: (type name, member name) -> PopART's enum member.
    """
    for name, option in OPTIONS.items():
        if name not in values.explicit or name in ALIASES:
            continue
        if not option.seam.startswith(_SESSION_OPTIONS):
            continue
        if name == "default_prefetch_buffering_depth" and values[name] == PREFETCH_DEPTH_UNSET:
            continue
        *path, attribute = option.seam.removeprefix(_SESSION_OPTIONS).split(".")
        target = session_options
        for part in path:
            target = getattr(target, part)
        option.valid.record(target, attribute, values[name], enum)


def record_patterns_on(
    values: StrategyValues, enable: Callable[[str, bool], Any], *, user: bool = False
) -> None:
    """Calls PopART's ``Patterns.enablePattern`` for each pattern that was enabled or disabled.

    Args:
        values: of the strategy.
        enable: ``Patterns.enablePattern``.
        user: users' patterns too, which exist only where their compiled library is loaded.
    """
    for name, enabled in values.patterns.items():
        if user or name in POPART_PATTERNS:
            enable(name, enabled)
