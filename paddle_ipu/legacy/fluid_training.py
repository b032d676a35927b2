"""``paddle.fluid.optimizer``, ``regularizer``, ``initializer``: today's classes, old arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import paddle
from paddle.nn.initializer import normal

_RENAMED = {"parameter_list": "parameters", "regularization": "weight_decay"}


def _old_form(today: Any, name: str, positional: Sequence[str]) -> type:
    """A subclass of today's optimizer whose arguments have the old names and the old order."""

    def initialise(self: Any, *args: Any, **keywords: Any) -> None:
        if len(args) > len(positional):
            raise TypeError(f"{name} takes {len(positional)} arguments, got {len(args)}.")
        given = dict(zip(positional, args, strict=False))
        twice = sorted(given.keys() & keywords.keys())
        unknown = sorted(keywords.keys() - set(positional))
        if twice or unknown:
            raise TypeError(
                f"{name} takes {', '.join(positional)}; got "
                f"{', '.join(twice or unknown)} {'twice' if twice else 'beside them'}."
            )
        given |= keywords
        today.__init__(self, **{_RENAMED.get(key, key): value for key, value in given.items()})

    def minimize(
        self: Any,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As today's, with `parameter_list` for `parameters`."""
        return today.minimize(self, loss, startup_program, parameter_list, no_grad_set)

    return type(
        name,
        (today,),
        {
            "__init__": initialise,
            "minimize": minimize,
            "__doc__": f"``{today.__name__}``, old form.",
        },
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


class LambOptimizer(paddle.optimizer.Lamb):  # type: ignore[misc]
    """``Lamb``, old form; its decay is `lamb_weight_decay`.

    Raises:
        ValueError: a `regularization`, which Lamb does not have.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: Any = None,
        regularization: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
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

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """As today's, with `parameter_list` for `parameters`."""
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)


def l1_decay(regularization_coeff: float = 0.0) -> Any:
    """``paddle.fluid.regularizer.L1Decay``."""
    return paddle.regularizer.L1Decay(regularization_coeff)


def l2_decay(regularization_coeff: float = 0.0) -> Any:
    """``paddle.fluid.regularizer.L2Decay``."""
    return paddle.regularizer.L2Decay(regularization_coeff)


class TruncatedNormalInitializer(normal.TruncatedNormalInitializer):  # type: ignore[misc]
    """A normal distribution cut off at two standard deviations; 3.x cuts off at -2 and 2."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        today = normal.TruncatedNormalInitializer.__init__
        bounds = {"a": loc - 2.0 * scale, "b": loc + 2.0 * scale}
        has_bounds = bounds.keys() <= inspect.signature(today).parameters.keys()
        super().__init__(loc, scale, seed, **(bounds if has_bounds else {}))
