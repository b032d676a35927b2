"""Paddle's optimizer operators: which they are, and the settings of each parameter's update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import attribute, constant, describe, operand, scalar_constant
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.passes.support import roles
from paddle_ipu.popart.paddle_optimizer import MASTER, RULES

OPTIMIZER_OPS = frozenset(
    {
        "sgd_", "momentum_", "adam_", "adamw_", "lamb_", "adamax_", "adagrad_", "adadelta_",
        "rmsprop_", "nadam_", "radam_", "asgd_", "rprop_", "lars_momentum_", "merged_momentum_",
        "merged_adam_", "decayed_adagrad", "ftrl", "dpsgd", "dgc_momentum",
        "distributed_fused_lamb",
    }
)  # fmt: skip
"""Every operator with which Paddle 3.3 updates a parameter."""

_MERGED: Mapping[str, str] = {"merged_adam": "adam", "merged_momentum": "momentum"}
"""Operators that update several parameters -> the rule of each update."""


def is_update(node: ir.Node) -> bool:
    """Whether a node updates a parameter, by its type or its role."""
    if node.op_type in OPTIMIZER_OPS:
        return True
    role = roles.role_of(node)
    return role is not None and bool(role & roles.OPTIMIZE) and _writes_a_parameter(node)


def _writes_a_parameter(node: ir.Node) -> bool:
    variables = {value.meta.get(dialect.VARIABLE) for value in node.outputs} - {None}
    return any(
        value is not None
        and value.meta.get(dialect.TRAINABLE, False)
        and value.meta.get(dialect.VARIABLE) in variables
        for value in node.inputs
    )


def updated(node: ir.Node) -> list[ir.Value]:
    """The parameters that an optimizer operator updates."""
    return [value for name, value in dialect.operands(node) if name == "param" and value]


@dataclass(frozen=True, slots=True)
class Update:
    """One parameter's update by an optimizer operator; merged operators have several.

    Attributes:
        node: the operator.
        index: the parameter's index in the operator's lists.
    """

    node: ir.Node
    index: int = 0

    def operand(self, name: str) -> ir.Value | None:
        """The parameter's operand of that name; a list of one is shared by all parameters."""
        values = [
            value for operand_name, value in dialect.operands(self.node) if operand_name == name
        ]
        return None if not values else values[min(self.index, len(values) - 1)]

    def required(self, name: str) -> ir.Value:
        """The operand of that name.

        Raises:
            InvalidProgramError: there is none.
        """
        value = self.operand(name)
        if value is None:
            raise InvalidProgramError(f"{describe(self.node)}: operand {name!r} is missing.")
        return value

    def number(self, name: str) -> float:
        """A hyper-parameter: an attribute or a constant operand, rounded to float32 as in Paddle.

        Raises:
            NotSupported: the operand is not constant.
        """
        if name in self.node.attributes:
            setting = attribute(self.node, name)
            one = setting if isinstance(setting, (int, float)) else setting[self.index]
            return float(np.float32(one))
        scalar = scalar_constant(operand(self.node, name))
        if scalar is None:
            raise NotSupported(
                f"{describe(self.node)}: {name} must be a number, got a tensor computed in the "
                "program."
            )
        return scalar

    def range(self, name: str) -> tuple[float, float]:
        """A hyper-parameter of two numbers, a constant operand.

        Raises:
            NotSupported: the operand is not constant.
        """
        value = self.required(name)
        node = value.producer()
        # Paddle writes it over a constant of zeros.
        written = node is not None and node.op_type == "assign_value_"
        pair = attribute(node, "values") if written and node else constant(value)
        if pair is None or np.size(pair) != 2:
            raise NotSupported(
                f"{describe(self.node)}: {name} must be two numbers, got a tensor computed in the "
                "program."
            )
        low, high = np.asarray(pair, np.float32).reshape(2)
        return float(low), float(high)

    @property
    def rule(self) -> str:
        """The update rule of the operator, a key of ``RULES``.

        Raises:
            NotSupported: the operator has none, or not with these attributes.
        """
        operator = str(self.node.op_type).rstrip("_")
        rule = _MERGED.get(operator, operator)
        if rule == "asgd":
            raise NotSupported(
                f"optimizer asgd_ (at {dialect.source_of(self.node)}) is not supported. In a "
                "static program Paddle's does not average either: it never keeps its count of "
                "steps, and each step is that of paddle.optimizer.SGD. Use SGD, which gives the "
                "same weights."
            )
        if rule not in RULES:
            raise NotSupported(
                f"optimizer {self.node.op_type} (at {dialect.source_of(self.node)}) is not "
                f"supported; supported: {', '.join(sorted(RULES))}."
            )
        if attribute(self.node, "lazy_mode", 0) and self._has_sparse_gradient:
            table = self.required("param").name
            raise NotSupported(
                f"{describe(self.node)}: lazy_mode=True leaves the rows of {table} alone that no "
                "id of a step names, which is not supported: the device's gradient of an "
                "embedding has all rows. Use lazy_mode=False, or an embedding with sparse=False, "
                "with which lazy_mode changes nothing."
            )
        return rule

    @property
    def _has_sparse_gradient(self) -> bool:
        """Whether Paddle's gradient is sparse: ``lazy_mode`` matters to no other."""
        return any(
            use.node.op_type == "embedding" and attribute(use.node, "sparse", 0)
            for use in self.required("param").uses()
        )

    def settings(self) -> Mapping[str, float]:
        """The rule's hyper-parameters."""
        return _SETTINGS[self.rule](self)

    def states(self) -> dict[str, str]:
        """State or power of the rule -> its variable in the scope.

        With ``multi_precision`` a half parameter has a float32 master too.
        """
        rule = RULES[self.rule]
        names = [
            name
            for name in rule.states
            if name not in rule.optional or attribute(self.node, rule.optional[name], 0)
        ]
        states = {name: str(self.required(name).name) for name in (*names, *rule.powers)}
        multi_precision = attribute(self.node, "multi_precision", 0)
        master = self.operand("master_param") if multi_precision else None
        return states if master is None else {**states, MASTER: str(master.name)}


def updates_of(node: ir.Node) -> list[Update]:
    """The updates of an optimizer operator, one for each parameter."""
    return [Update(node, index) for index in range(max(1, len(updated(node))))]


_Settings = Callable[[Update], Mapping[str, float]]


def _numbers(*names: str) -> _Settings:
    return lambda update: {name: update.number(name) for name in names}


def _momentum(update: Update) -> Mapping[str, float]:
    method = attribute(update.node, "regularization_method", "")
    if not isinstance(method, str):
        method = method[update.index] if method else ""
    if method not in ("", "l2_decay"):
        raise NotSupported(
            f"{describe(update.node)}: regularization {method!r} is not supported; give "
            "weight_decay=paddle.regularizer.L1Decay(...) or L2Decay(...)."
        )
    return {
        "mu": update.number("mu"),
        "use_nesterov": float(attribute(update.node, "use_nesterov", 0)),
        "l2": update.number("regularization_coeff") if method else 0.0,
        "rescale_grad": float(attribute(update.node, "rescale_grad", 1.0)),
    }


_adam = _numbers("beta1", "beta2", "epsilon")


def _adamw(update: Update) -> Mapping[str, float]:
    with_decay = bool(attribute(update.node, "with_decay", 0))
    return {
        **_adam(update),
        "coeff": update.number("coeff") if with_decay else 0.0,
        "lr_ratio": float(attribute(update.node, "lr_ratio", 1.0)),
    }


def _lamb(update: Update) -> Mapping[str, float]:
    return {
        **_adam(update),
        "weight_decay": update.number("weight_decay"),
        "always_adapt": float(attribute(update.node, "always_adapt", 0)),
    }


def _rprop(update: Update) -> Mapping[str, float]:
    (rate_min, rate_max), (eta_negative, eta_positive) = (
        update.range(name) for name in ("learning_rate_range", "etas")
    )
    return {
        "rate_min": rate_min,
        "rate_max": rate_max,
        "eta_negative": eta_negative,
        "eta_positive": eta_positive,
    }


_SETTINGS: Mapping[str, _Settings] = {
    "sgd": _numbers(),
    "momentum": _momentum,
    "lars_momentum": _numbers("mu", "lars_coeff", "lars_weight_decay", "epsilon", "rescale_grad"),
    "adam": _adam,
    "adamw": _adamw,
    "lamb": _lamb,
    "adamax": _adam,
    "nadam": _numbers("beta1", "beta2", "epsilon", "momentum_decay"),
    "radam": _adam,
    "adagrad": _numbers("epsilon"),
    "decayed_adagrad": _numbers("decay", "epsilon"),
    "adadelta": _numbers("rho", "epsilon"),
    "rmsprop": _numbers("decay", "epsilon", "momentum", "centered"),
    "rprop": _rprop,
}
"""Rule -> its numbers, by the names that ``xla/optimizers/update_rules.py`` reads them by."""
