"""Reads the optimizer operators of a training program into a description.

PIR programs mark neither the loss nor the operators of backward and optimizer, so they are found
by structure; ProgramDesc programs do, and their marks (``passes/roles.py``) come first. From each
optimizer operator the gradient is followed upwards:

    adam_(param, grad, ...)          grad = add_n(clipped, scale(param, l2))     L2 decay
                                     clipped = multiply(raw, divide(c, maximum(norm, c)))
                                                                                 global-norm clip
                                     clipped = clip_by_norm(raw) | clip(raw)     other clips
                                     raw                                         from backward

and from the raw gradients down to the ``full_like(loss, 1.0)`` where backward began, which is a
``full`` called ``<loss>@GRAD`` in ProgramDesc programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.dialect import attribute, describe, operand, scalar_constant
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.passes import roles
from paddle_ipu.passes.pipeline import Compilation
from paddle_ipu.popart.paddle_optimizer import (
    MASTER,
    RULES,
    Clip,
    LossScale,
    PaddleOptimizer,
    ParameterUpdate,
)

OPTIMIZER_OPS = frozenset(
    {
        "sgd_", "momentum_", "adam_", "adamw_", "lamb_", "adamax_", "adagrad_", "adadelta_",
        "rmsprop_", "nadam_", "radam_", "asgd_", "rprop_", "lars_momentum_", "merged_momentum_",
        "merged_adam_", "decayed_adagrad", "ftrl", "dpsgd", "dgc_momentum",
        "distributed_fused_lamb",
    }
)  # fmt: skip
"""Every operator with which Paddle 3.3 updates a parameter."""


def is_update(node: ir.Node) -> bool:
    """Whether a node updates a parameter: Paddle's optimizers, and what is marked as one."""
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


_STATE_OPERANDS = {
    "velocity": "velocity",
    "moment1": "moment1",
    "moment2": "moment2",
    "beta1_pow": "beta1_pow",
    "beta2_pow": "beta2_pow",
}


def _states(node: ir.Node, rule: str) -> dict[str, str]:
    """State -> variable; half parameters of ``multi_precision`` have a float32 one beside them."""
    states = {state: str(_required(node, _STATE_OPERANDS[state]).name) for state in RULES[rule]}
    master = operand(node, "master_param") if attribute(node, "multi_precision", 0) else None
    return states if master is None else {**states, MASTER: str(master.name)}


class ExtractOptimizer:
    """Sets ``compilation.optimizer`` and ``compilation.loss``; the graph stays as it is."""

    name = "extract_optimizer"

    def run(self, compilation: Compilation) -> bool:
        if not compilation.training:
            return False
        nodes = [node for node in compilation.graph if is_update(node)]
        if not nodes:
            raise InvalidProgramError(
                "the strategy asks for training, but the program has no optimizer: call "
                "optimizer.minimize(loss) before compiling, or "
                "set_graph_config(is_training=False) for inference."
            )
        reading = _Reading()
        updates = tuple(reading.update(node) for node in nodes)
        _check_updated_once(updates)
        names = set(reading.learning_rates)
        if len(names) > 1:
            raise NotSupported(
                f"the program has more than one learning-rate variable: {', '.join(sorted(names))}."
                " Use one optimizer for the whole program; per-parameter factors are supported."
            )
        compilation.optimizer = PaddleOptimizer(
            updates=updates,
            clips=tuple(reading.clips),
            learning_rate_name=names.pop(),
            loss_scaling=float(compilation.options["loss_scaling"]),
            bias_correction=not compilation.options["use_no_bias_optimizer"],
            gradients=reading.raw_gradients,
            loss_scale=reading.loss_scale,
        )
        loss = _find_loss(compilation.graph, list(reading.raw_values.values()))
        compilation.loss = _without_scale(compilation.graph, loss, reading.loss_scale)
        return True


def _check_updated_once(updates: Sequence[ParameterUpdate]) -> None:
    seen: set[str] = set()
    for update in updates:
        if update.parameter in seen:
            raise NotSupported(
                f"parameter {update.parameter!r} is updated more than once a step. Under Paddle 3 "
                f"each layer that is given ParamAttr(name={update.parameter!r}) makes a parameter "
                "and updates it alone: use one layer of paddle.nn, or its weight, in all places; "
                "and call minimize once."
            )
        seen.add(update.parameter)


@dataclass
class _Reading:
    """What following the gradients has found so far."""

    clips: list[Clip] = field(default_factory=list)
    learning_rates: dict[str, None] = field(default_factory=dict)
    raw_gradients: dict[str, str] = field(default_factory=dict)
    raw_values: dict[str, ir.Value] = field(default_factory=dict)
    loss_scale: LossScale | None = None
    _groups: dict[object, int] = field(default_factory=dict)

    def update(self, node: ir.Node) -> ParameterUpdate:
        rule = str(node.op_type).rstrip("_")
        if rule not in RULES:
            raise NotSupported(
                f"optimizer {node.op_type} (at {dialect.source_of(node)}) is not supported yet; "
                f"supported: {', '.join(sorted(RULES))}."
            )
        if attribute(node, "lazy_mode", 0):
            raise NotSupported(
                f"{describe(node)}: lazy_mode=True updates touched rows only and is not supported; "
                "use lazy_mode=False."
            )
        if attribute(node, "amsgrad", 0):
            raise NotSupported(f"{describe(node)}: amsgrad=True is not supported yet.")
        parameter = _required(node, "param")
        gradient = _required(node, "grad")
        learning_rate, factor = _learning_rate(_required(node, "learning_rate"))
        self.learning_rates[learning_rate] = None
        raw, l2, clip = self._follow(gradient, parameter)
        raw = self._unscaled(raw)
        _check_unchanged(raw, parameter)
        self.raw_gradients[str(raw.name)] = str(parameter.name)
        self.raw_values[str(raw.name)] = raw
        return ParameterUpdate(
            parameter=str(parameter.name),
            rule=rule,
            settings=_SETTINGS[rule](node),
            states=_states(node, rule),
            learning_rate_scale=factor,
            l2=l2,
            clip=clip,
        )

    def _unscaled(self, gradient: ir.Value) -> ir.Value:
        """The gradient of the scaled loss, where AMP scales it."""
        node = gradient.producer()
        while node is not None and str(node.op_type).rstrip("_") in _LOSS_SCALING:
            if self.loss_scale is None:
                self.loss_scale = _loss_scale(node)
            # Gradients come first among operands and among results.
            found = node.inputs[list(node.outputs).index(gradient)]
            assert found is not None
            gradient, node = found, found.producer()
        return gradient

    def _follow(
        self, gradient: ir.Value, parameter: ir.Value
    ) -> tuple[ir.Value, float, int | None]:
        l2, clip = 0.0, None
        decay = _l2_decay(gradient, parameter)
        if decay is not None:
            gradient, l2 = decay
        found = _clip(gradient)
        if found is not None:
            gradient, kind, group = found
            if group not in self._groups:
                self._groups[group] = len(self.clips)
                self.clips.append(kind)
            clip = self._groups[group]
        return gradient, l2, clip


_LOSS_SCALING = frozenset({"check_finite_and_unscale", "update_loss_scaling"})


def _loss_scale(node: ir.Node) -> LossScale:
    """What an operator of `_LOSS_SCALING` does, the last one before the optimizer."""

    def variable(name: str) -> str:
        value = _required(node, name)
        return str(value.meta.get(dialect.VARIABLE, value.name))

    if str(node.op_type).startswith("check"):
        return LossScale(variable("scale"))
    return LossScale(
        variable("prev_loss_scaling"),
        variable("in_good_steps"),
        variable("in_bad_steps"),
        int(attribute(node, "incr_every_n_steps")),
        int(attribute(node, "decr_every_n_nan_or_inf")),
        float(attribute(node, "incr_ratio")),
        float(attribute(node, "decr_ratio")),
    )


def _without_scale(graph: ir.Graph, loss: str, scale: LossScale | None) -> str:
    """The loss itself, where AMP multiplies it before backward."""
    if scale is None:
        return loss
    for node in graph:
        if node.op_type == "multiply" and node.outputs[0].name == loss:
            factors = [value for value in node.inputs if value is not None]
            rest = [v for v in factors if v.meta.get(dialect.VARIABLE, v.name) != scale.variable]
            if len(rest) == 1:
                return str(rest[0].name)
    raise NotSupported(
        f"the loss {loss!r} is not a product with the loss scaling {scale.variable!r}, by which "
        "gradients are divided. Let the optimizer of paddle.static.amp.decorate scale it."
    )


_MIRRORS: Mapping[str, frozenset[str]] = {
    "assign": frozenset({"assign"}),
    "cast": frozenset({"cast"}),
    "concat": frozenset({"split", "split_with_num"}),
    "flip": frozenset({"flip"}),
    "reverse": frozenset({"reverse"}),
    "scale": frozenset({"scale", "add_n", "sign"}),
    "stack": frozenset({"unbind"}),
}
"""Operators of forward that stand in backward too -> what reads the parameter in forward then."""


def _check_unchanged(raw: ir.Value, parameter: ir.Value) -> None:
    """Refuses a gradient that something else than a clip or L2 decay has changed.

    The device derives gradients itself and would leave the change out.
    """
    stack = [raw]
    while stack:
        node = stack.pop().producer()
        if node is None or str(node.op_type).endswith(("_grad", "_grad_")):
            continue
        if node.op_type == "add_n" or _is_cast_of_floats(node) or _hands_on(node):
            stack.extend(value for value in node.inputs if value is not None)
        elif not _mirrors_forward(node, parameter):
            raise NotSupported(
                f"the gradient of {parameter.name} is changed by {describe(node)} before the "
                "optimizer reads it, which is not supported yet. Clips and L2Decay that are "
                "given to the optimizer are."
            )


def _hands_on(node: ir.Node) -> bool:
    """Whether control flow of backward only chooses among gradients, as after a cond that does."""
    plain = {"add_n", "full_like", *dialect.CONSTANT_OPS}
    inner = [found for block in dialect.blocks(node) for found in block]
    return node.op_type == "if" and all(
        found.op_type in plain or _hands_on(found) for found in inner
    )


def _is_cast_of_floats(node: ir.Node) -> bool:
    """AMP casts gradients; what they lose by it the device loses too, or keeps."""
    values = (*node.inputs, *node.outputs)
    floats = [v is not None and v.dtype is not None and v.dtype.is_floating_point() for v in values]
    return node.op_type == "cast" and all(floats)


def _mirrors_forward(node: ir.Node, parameter: ir.Value) -> bool:
    kinds = _MIRRORS.get(str(node.op_type), frozenset())
    readers = [use.node for use in parameter.uses() if use.node is not node]
    return any(reader.op_type in kinds and _slope(reader) == _slope(node) for reader in readers)


def _slope(node: ir.Node) -> float | None:
    """The factor that the derivative of an operator in `_MIRRORS` has."""
    if node.op_type == "scale":
        return scalar_constant(operand(node, "scale"))
    return 0.0 if node.op_type == "sign" else 1.0


def _required(node: ir.Node, name: str) -> ir.Value:
    value = operand(node, name)
    if value is None:
        raise InvalidProgramError(f"{describe(node)}: operand {name!r} is missing.")
    return value


def _number(node: ir.Node, name: str) -> float:
    """A hyper-parameter: an attribute, or a constant operand of that name."""
    if name in node.attributes:
        return float(attribute(node, name))
    found = scalar_constant(operand(node, name))
    if found is None:
        raise NotSupported(
            f"{describe(node)}: {name} must be a number, got a tensor computed in the program."
        )
    return found


def _momentum_settings(node: ir.Node) -> Mapping[str, float]:
    decay = attribute(node, "regularization_method", "")
    if decay not in ("", "l2_decay"):
        raise NotSupported(f"{describe(node)}: regularization {decay!r} is not supported yet.")
    return {
        "mu": _number(node, "mu"),
        "use_nesterov": float(attribute(node, "use_nesterov", 0)),
        "l2": _number(node, "regularization_coeff") if decay else 0.0,
        "rescale_grad": float(attribute(node, "rescale_grad", 1.0)),
    }


def _adam_settings(node: ir.Node) -> Mapping[str, float]:
    return {name: _number(node, name) for name in ("beta1", "beta2", "epsilon")}


def _adamw_settings(node: ir.Node) -> Mapping[str, float]:
    with_decay = bool(attribute(node, "with_decay", 0))
    return {
        **_adam_settings(node),
        "coeff": _number(node, "coeff") if with_decay else 0.0,
        "lr_ratio": float(attribute(node, "lr_ratio", 1.0)),
    }


def _lamb_settings(node: ir.Node) -> Mapping[str, float]:
    return {
        **_adam_settings(node),
        "weight_decay": _number(node, "weight_decay"),
        "always_adapt": float(attribute(node, "always_adapt", 0)),
    }


_SETTINGS: Mapping[str, Callable[[ir.Node], Mapping[str, float]]] = {
    "sgd": lambda node: {},
    "momentum": _momentum_settings,
    "adam": _adam_settings,
    "adamw": _adamw_settings,
    "lamb": _lamb_settings,
}


def _learning_rate(value: ir.Value) -> tuple[str, float]:
    """The learning-rate variable and the constant factors between it and the optimizer."""
    factor = 1.0
    node = value.producer()
    while node is not None:
        operands = [found for found in node.inputs if found is not None]
        constants = [scalar_constant(found) for found in operands]
        numbers = [number for number in constants if number is not None]
        rest = [found for found, number in zip(operands, constants, strict=True) if number is None]
        plain_scale = node.op_type == "scale" and attribute(node, "bias", 0.0) == 0.0
        if (plain_scale or node.op_type == "multiply") and len(numbers) == len(rest) == 1:
            factor *= numbers[0]
            value = rest[0]
        elif node.op_type in ("cast", "assign") and len(rest) == 1:
            value = rest[0]
        else:
            raise NotSupported(
                f"{describe(node)}: the learning rate is computed inside the program. Use a "
                "scheduler of paddle.optimizer.lr, whose value is fed before each run."
            )
        node = value.producer()
    return str(value.name), factor


def _l2_decay(gradient: ir.Value, parameter: ir.Value) -> tuple[ir.Value, float] | None:
    node = gradient.producer()
    if node is None or node.op_type not in ("add_n", "add") or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    decay = None if second is None else second.producer()
    if first is None or decay is None or not decay.inputs:
        return None
    if decay.op_type == "scale" and decay.inputs[0] is parameter:
        factor = scalar_constant(operand(decay, "scale"))
        return None if factor is None else (first, factor)
    sign = decay.inputs[0].producer() if decay.inputs[0] is not None else None
    if decay.op_type == "scale" and sign is not None and sign.op_type == "sign":
        raise NotSupported(
            f"parameter {parameter.name}: L1 regularisation is not supported yet; use L2Decay."
        )
    return None


def _clip(gradient: ir.Value) -> tuple[ir.Value, Clip, object] | None:
    """(gradient before the clip, the clip, what tells its group) when one was applied."""
    node = gradient.producer()
    if node is None:
        return None
    if node.op_type == "clip_by_norm" and node.inputs[0] is not None:
        limit = float(attribute(node, "max_norm"))
        return node.inputs[0], Clip("norm", limit), ("norm", limit)
    if node.op_type == "clip":
        low, high = scalar_constant(operand(node, "min")), scalar_constant(operand(node, "max"))
        if low is not None and high is not None and node.inputs[0] is not None:
            return node.inputs[0], Clip("value", high, low), ("value", low, high)
    if node.op_type != "multiply" or len(node.inputs) != 2:
        return None
    before, factor = node.inputs
    limit_of = _global_norm_limit(factor)
    if before is None or factor is None or limit_of is None:
        return None
    return before, Clip("global_norm", limit_of), id(factor)


def _global_norm_limit(factor: ir.Value | None) -> float | None:
    """c where `factor` is c / max(norm, c) with norm a square root, else None."""
    division = None if factor is None else factor.producer()
    if division is not None and division.op_type == "cast" and division.inputs[0] is not None:
        division = division.inputs[0].producer()
    if division is None or division.op_type != "divide":
        return None
    limit = scalar_constant(division.inputs[0])
    largest = None if division.inputs[1] is None else division.inputs[1].producer()
    if limit is None or largest is None or largest.op_type != "maximum":
        return None
    norms = [value.producer() for value in largest.inputs if value is not None]
    return limit if any(norm is not None and norm.op_type == "sqrt" for norm in norms) else None


def _find_loss(graph: ir.Graph, gradients: list[ir.Value]) -> str:
    """The value that is marked as the loss, or whose gradient backward starts from."""
    seeds = dict.fromkeys(roles.losses(graph)) or _backward_seeds(gradients)
    if len(seeds) != 1:
        raise InvalidProgramError(
            "training needs exactly one loss, found "
            + (f"{len(seeds)}: {', '.join(sorted(seeds))}" if seeds else "none")
            + ". Call optimizer.minimize(loss) once, with a loss that depends on the parameters."
        )
    return next(iter(seeds))


def _backward_seeds(gradients: list[ir.Value]) -> dict[str, None]:
    seeds: dict[str, None] = {}
    seen: set[int] = set()
    stack = [gradient.producer() for gradient in gradients]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.op_type == "full_like" and scalar_constant(node.inputs[1]) == 1.0:
            target = node.inputs[0]
            if target is not None and _feeds_gradients(node):
                seeds[str(target.name)] = None
                continue
        if node.op_type == "full" and scalar_constant(node.outputs[0]) == 1.0:
            loss, mark, _ = str(node.outputs[0].name).partition(roles.GRADIENT_MARK)
            if mark:
                seeds[loss] = None
                continue
        stack.extend(value.producer() for value in _gradient_operands(node))
    return seeds


def _gradient_operands(node: ir.Node) -> list[ir.Value]:
    """The operands of a backward operator that are gradients themselves."""
    named = list(dialect.operands(node))
    if str(node.op_type).endswith(("_grad", "_grad_")):
        return [value for name, value in named if value is not None and name.endswith("_grad")]
    return [value for _, value in named if value is not None]


def _feeds_gradients(seed: ir.Node) -> bool:
    return any(use.node.op_type != "full_like" for use in seed.outputs[0].uses())
