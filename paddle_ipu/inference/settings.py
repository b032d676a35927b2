"""The IPU settings of one ``paddle.inference.Config``, and the strategy options they stand for."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddle_ipu.errors import OptionError, meant
from paddle_ipu.options.strategy import OPTIONS, CoreIpuStrategy
from paddle_ipu.options.values import Flag, Mismatch, Number, Stored, Valid, Whole

if TYPE_CHECKING:
    from paddle.inference import Config

_COUNT = Whole(low=1, high=2**31 - 1)

SCALARS: Mapping[str, tuple[Valid, Stored]] = {
    "ipu_device_num": (_COUNT, 1),
    "ipu_micro_batch_size": (_COUNT, 1),
    "ipu_enable_pipelining": (Flag(), False),
    "ipu_batches_per_step": (_COUNT, 1),
    "ipu_enable_fp16": (Flag(), False),
    "ipu_replica_num": (_COUNT, 1),
    "ipu_available_memory_proportion": (Number(low=0.0, high=1.0), 1.0),
    "ipu_enable_half_partial": (Flag(), False),
    "ipu_enable_model_runtime_executor": (Flag(), False),
}
"""Setting -> its values and its default. ``Config``'s methods have arguments of these names, and
configuration files have keys."""

CONTAINERS = ("ipu_custom_ops_info", "ipu_custom_patterns")

_OP_FIELDS = ("paddle_op", "popart_op", "domain", "version")


@dataclass(slots=True)
class IpuSettings:
    """The IPU settings of a config.

    Attributes:
        enabled: ``enable_ipu`` was called.
        scalars: the settings that were made, by name.
        custom_ops: the operators of ``set_ipu_custom_info``.
        patterns: those of ``set_ipu_custom_info``, and whether each is on.
        options: those of ``set_ipu_options`` by name.
        model: the parts of ``set_model_buffer``, which Paddle does not return.
    """

    enabled: bool = False
    scalars: dict[str, Any] = field(default_factory=dict)
    custom_ops: list[dict[str, Any]] = field(default_factory=list)
    patterns: dict[str, bool] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    model: tuple[bytes, bytes] | None = None

    def __getitem__(self, name: str) -> Stored:
        return self.scalars.get(name, SCALARS[name][1])

    def set(self, values: Mapping[str, Any], where: str) -> None:
        """Takes settings by name: all of them or, on an error, none.

        Args:
            values: by name, of `SCALARS` and `CONTAINERS`.
            where: what messages say the values were given to.

        Raises:
            OptionError: an unknown name, a wrong type, or a value out of range.
        """
        scalars = {
            name: _checked(name, value, where)
            for name, value in values.items()
            if name not in CONTAINERS
        }
        operators = _operators(values.get("ipu_custom_ops_info", ()), where)
        patterns = _patterns(values.get("ipu_custom_patterns", {}), where)
        self.scalars.update(scalars)
        self.custom_ops += operators
        self.patterns.update(patterns)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Takes options of ``paddle.static.IpuStrategy``; raises OptionError as it does."""
        CoreIpuStrategy().set_options(options)
        own = [name for name in options if name in _SET_HERE]
        if own:
            raise OptionError(
                f"Config.set_ipu_options: {own[0]} is what {_SET_HERE[own[0]]} says. Give it there."
            )
        self.options.update(options)

    def strategy(self) -> CoreIpuStrategy:
        """The strategy options of these settings.

        Raises:
            OptionError: pipelining with fewer batches than IPUs.
        """
        devices, replicas = self["ipu_device_num"], self["ipu_replica_num"]
        options: dict[str, Any] = {
            "is_training": False,
            "num_ipus": devices * replicas,
            "micro_batch_size": self["ipu_micro_batch_size"],
            "enable_fp16": self["ipu_enable_fp16"],
            # A matmul may take all memory unless the config says less.
            "available_memory_proportion": self.scalars.get("ipu_available_memory_proportion", 0.0),
            "enable_model_runtime_executor": self["ipu_enable_model_runtime_executor"],
        }
        if devices > 1:
            options.update(enable_manual_shard=True, need_avg_shard=True)
        if replicas > 1:
            options.update(enable_replicated_graphs=True, replicated_graph_count=replicas)
        if self["ipu_enable_pipelining"]:
            batches = self["ipu_batches_per_step"]
            if batches < devices:
                raise OptionError(
                    "Batches per step should be equal or greater than the number of IPUs: "
                    f"ipu_enable_pipelining is on, ipu_batches_per_step is {batches} and "
                    f"ipu_device_num {devices}. Give enable_ipu(ipu_batches_per_step={devices}), "
                    "or leave pipelining off."
                )
            options.update(enable_pipelining=True, batches_per_step=batches)
        if self["ipu_enable_fp16"] and self["ipu_enable_half_partial"]:
            options["enable_half_partial"] = True
        made = CoreIpuStrategy()
        made.set_options({**options, **self.options})
        for operator in self.custom_ops:
            made.set_options({"custom_op": operator})
        for name, enabled in self.patterns.items():
            (made.enable_pattern if enabled else made.disable_pattern)(name)
        return made

    def rows(self) -> list[tuple[str, str]]:
        """The rows that ``Config.summary()`` shows."""
        shown = [("use_ipu", _shown(self.enabled))]
        if not self.enabled:
            return shown
        shown += [(name, _shown(self[name])) for name in SCALARS]
        shown += [("ipu_custom_op", f"{row['paddle_op']}") for row in self.custom_ops]
        shown += [(f"ipu_pattern {name}", _shown(on)) for name, on in self.patterns.items()]
        shown += [(name, _shown(value)) for name, value in self.options.items()]
        return shown


_SET_HERE: Mapping[str, str] = {
    "num_ipus": "ipu_device_num of enable_ipu with ipu_replica_num of set_ipu_config",
    "micro_batch_size": "ipu_micro_batch_size of enable_ipu",
    "enable_pipelining": "ipu_enable_pipelining of enable_ipu",
    "batches_per_step": "ipu_batches_per_step of enable_ipu",
    "enable_fp16": "ipu_enable_fp16 of set_ipu_config",
    "enable_replicated_graphs": "ipu_replica_num of set_ipu_config",
    "replicated_graph_count": "ipu_replica_num of set_ipu_config",
    "available_memory_proportion": "ipu_available_memory_proportion of set_ipu_config",
    "enable_model_runtime_executor": "ipu_enable_model_runtime_executor of set_ipu_config",
    "is_training": "that it is an inference model",
    "enable_gradient_accumulation": "that it is an inference model",
    "accumulation_factor": "that it is an inference model",
}

_SETTINGS: weakref.WeakKeyDictionary[Config, IpuSettings] = weakref.WeakKeyDictionary()
"""Paddle's configs are objects of C++, which hold no attributes of Python's."""


def settings_of(config: Config) -> IpuSettings:
    """The settings of a config, to be changed in place."""
    return _SETTINGS.setdefault(config, IpuSettings())


def copy_settings(config: Config, source: Config) -> None:
    """Gives a config the settings of another."""
    if source in _SETTINGS:
        _SETTINGS[config] = copy.deepcopy(_SETTINGS[source])


def unknown_setting(name: str, where: str) -> OptionError:
    """The error about a name that no setting has."""
    known = (*SCALARS, *CONTAINERS)
    hint = meant(name, known)
    if name in OPTIONS:
        hint = " It is an option of IpuStrategy: Config.set_ipu_options({...}) takes those."
    return OptionError(f"{where}: unknown key {name!r}; there are {', '.join(known)}.{hint}")


def _checked(name: str, value: object, where: str) -> Stored:
    if name not in SCALARS:
        raise unknown_setting(name, where)
    valid, default = SCALARS[name]
    try:
        return valid.check(value)
    except Mismatch:
        raise OptionError(
            f"{where}: {name} got {value!r} of type {type(value).__name__}, expected "
            f"{valid.describe()}. For instance {name}={valid.example(value, default)!r}."
        ) from None


def _operators(rows: Iterable[object], where: str) -> list[dict[str, Any]]:
    operators = []
    for row in rows:
        fields = [str(item) for item in row] if isinstance(row, (list, tuple)) else []
        if len(fields) != len(_OP_FIELDS) or not fields[-1].isdigit():
            raise OptionError(
                f"{where}: ipu_custom_ops_info has {row!r}, expected a list of four: Paddle's "
                "operator, PopART's operator, its domain and its version, for instance "
                "['custom_relu', 'Relu', 'custom.ops', '1']."
            )
        operator = {**dict(zip(_OP_FIELDS, fields, strict=True)), "version": int(fields[-1])}
        CoreIpuStrategy().set_options({"custom_op": operator})
        operators.append(operator)
    return operators


def _patterns(patterns: object, where: str) -> dict[str, bool]:
    if not isinstance(patterns, Mapping) or not all(
        isinstance(on, bool) for on in patterns.values()
    ):
        raise OptionError(
            f"{where}: ipu_custom_patterns got {patterns!r}, expected a dict from names of "
            "patterns to True or False, for instance {'AccumulatePriorityPattern': False}."
        )
    trial = CoreIpuStrategy()
    for name, enabled in patterns.items():
        (trial.enable_pattern if enabled else trial.disable_pattern)(name)
    return dict(patterns)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
