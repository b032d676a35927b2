"""``paddle.fluid.optimizer``, ``regularizer``, ``initializer``: today's classes, old arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import paddle
from paddle.nn.initializer import normal

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.nn.clip import GradientClipBase
    from paddle.optimizer import Optimizer
    from paddle.optimizer.lr import LRScheduler
    from paddle.regularizer import WeightDecayRegularizer
    from paddle.static import Program

_RENAMED = {"parameter_list": "parameters", "regularization": "weight_decay"}


class _OldForm:
    """The methods of an optimizer that have other arguments today."""

    def minimize(
        self,
        loss: Tensor,
        startup_program: Program | None = None,
        parameter_list: Sequence[Tensor] | None = None,
        no_grad_set: set[Tensor] | None = None,
    ) -> tuple[list[Any], list[tuple[Tensor, Tensor]]]:
        """As today's, with `parameter_list` for `parameters`."""
        return super().minimize(  # type: ignore[misc, no-any-return]
            loss, startup_program, parameter_list, no_grad_set
        )


def _old_form(today: type[Optimizer], name: str, positional: Sequence[str]) -> type[Optimizer]:
    """A subclass of today's optimizer whose arguments have the old names and the old order."""

    def initialise(self: Optimizer, *args: Any, **keywords: Any) -> None:
        if len(args) > len(positional):
            raise TypeError(f"{name} takes {len(positional)} arguments, got {len(args)}.")
        arguments = dict(zip(positional, args, strict=False))
        twice = sorted(arguments.keys() & keywords.keys())
        unknown = sorted(keywords.keys() - set(positional))
        if twice or unknown:
            raise TypeError(
                f"{name} takes {', '.join(positional)}; got "
                f"{', '.join(twice or unknown)} {'twice' if twice else 'beside them'}."
            )
        arguments |= keywords
        today.__init__(self, **{_RENAMED.get(key, key): arguments[key] for key in arguments})

    return type(
        name,
        (_OldForm, today),
        {"__init__": initialise, "__doc__": f"``{today.__name__}``, old form."},
    )


_LAST = ("parameter_list", "regularization", "grad_clip", "name")
_ADAM = ("learning_rate", "beta1", "beta2", "epsilon", *_LAST)

# Epsilons and decay rates have the same defaults as today's unless the class says otherwise.
SGDOptimizer = _old_form(
    paddle.optimizer.SGD,
    "SGDOptimizer",
    ("learning_rate", "parameter_list", "regularization", "grad_clip", "multi_precision", "name"),
)
MomentumOptimizer = _old_form(
    paddle.optimizer.Momentum,
    "MomentumOptimizer",
    (
        "learning_rate",
        "momentum",
        "parameter_list",
        "use_nesterov",
        "regularization",
        "grad_clip",
        "name",
    ),
)
AdamOptimizer = _old_form(paddle.optimizer.Adam, "AdamOptimizer", (*_ADAM, "lazy_mode"))
AdamaxOptimizer = _old_form(paddle.optimizer.Adamax, "AdamaxOptimizer", _ADAM)
AdagradOptimizer = _old_form(
    paddle.optimizer.Adagrad,
    "AdagradOptimizer",
    ("learning_rate", "epsilon", *_LAST, "initial_accumulator_value"),
)
AdadeltaOptimizer = _old_form(
    paddle.optimizer.Adadelta, "AdadeltaOptimizer", ("learning_rate", "epsilon", "rho", *_LAST)
)
RMSPropOptimizer = _old_form(
    paddle.optimizer.RMSProp,
    "RMSPropOptimizer",
    ("learning_rate", "rho", "epsilon", "momentum", "centered", *_LAST),
)


class LambOptimizer(_OldForm, paddle.optimizer.Lamb):  # type: ignore[misc]
    """``Lamb``, old form; its decay is `lamb_weight_decay`.

    Raises:
        ValueError: a `regularization`, which Lamb does not have.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: Sequence[Tensor] | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        exclude_from_weight_decay_fn: Callable[[Tensor], bool] | None = None,
        name: str | None = None,
    ) -> None:
        if regularization is not None:
            raise ValueError(
                f"LambOptimizer(regularization={regularization}): expected None. Give Lamb its "
                "decay as lamb_weight_decay."
            )
        super().__init__(
            learning_rate,
            lamb_weight_decay,
            beta1,
            beta2,
            epsilon,
            parameter_list,
            grad_clip,
            exclude_from_weight_decay_fn,
            name=name,
        )


def l1_decay(regularization_coeff: float = 0.0) -> WeightDecayRegularizer:
    """``paddle.fluid.regularizer.L1Decay``."""
    return paddle.regularizer.L1Decay(regularization_coeff)


def l2_decay(regularization_coeff: float = 0.0) -> WeightDecayRegularizer:
    """``paddle.fluid.regularizer.L2Decay``."""
    return paddle.regularizer.L2Decay(regularization_coeff)


class TruncatedNormalInitializer(normal.TruncatedNormalInitializer):  # type: ignore[misc]
    """A normal distribution cut off at two standard deviations; 3.x cuts off at -2 and 2."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        today = normal.TruncatedNormalInitializer.__init__
        bounds = {"a": loc - 2.0 * scale, "b": loc + 2.0 * scale}
        has_bounds = bounds.keys() <= inspect.signature(today).parameters.keys()
        super().__init__(loc, scale, seed, **(bounds if has_bounds else {}))
