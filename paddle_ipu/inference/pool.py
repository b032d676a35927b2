"""``paddle.inference.PredictorPool`` for configs that ask for the IPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import paddle

from paddle_ipu.errors import OptionError
from paddle_ipu.inference.predictor import IpuPredictor
from paddle_ipu.inference.settings import settings_of

if TYPE_CHECKING:
    from paddle.inference import Config


class IpuPredictorPool:
    """Predictors on the IPU for so many threads: one and its clones.

    Args:
        create: ``create_predictor``.
        config: of the predictors.
        size: how many, at least 1.

    Raises:
        OptionError: a size below 1.
    """

    def __init__(self, create: Callable[[Config], IpuPredictor], config: Config, size: int) -> None:
        if not _is_int(size) or size < 1:
            raise OptionError(f"PredictorPool: size is {size!r}, expected an int of at least 1.")
        first = create(config)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def retrieve(self, idx: int) -> IpuPredictor:
        """The predictor of that number, from 0.

        Raises:
            OptionError: there is none, or it is no int.
        """
        if not _is_int(idx) or not 0 <= idx < len(self._predictors):
            raise OptionError(
                f"PredictorPool.retrieve({idx!r}): the pool has the predictors 0 to "
                f"{len(self._predictors) - 1}; give one of these, as an int."
            )
        return self._predictors[idx]

    retrive = retrieve
    """Paddle 2.6's spelling."""


def _is_int(number: object) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)


class _PoolKind(type):
    """Every pool is a ``paddle.inference.PredictorPool``, Paddle's own and ours."""

    stock: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (cls.stock, IpuPredictorPool))


def pooling(original: type) -> type:
    """``PredictorPool``, which gives configs with ``enable_ipu`` predictors on the IPU."""

    class PredictorPool(metaclass=_PoolKind):
        """``PredictorPool(config, size)``: Paddle's own pool, or one on the IPU."""

        stock = original

        def __new__(cls, config: Config, size: int) -> object:  # type: ignore[misc]
            if settings_of(config).enabled:
                return IpuPredictorPool(paddle.inference.create_predictor, config, size)
            return original(config, size)

    return PredictorPool
