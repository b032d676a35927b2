"""The replacement of ``paddle.static.load_inference_model``."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paddle_ipu.runtime.weights.persistence import loading

if TYPE_CHECKING:
    from paddle.static import Executor


def loading_inference_models(original: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``load_inference_model``, with every format of model and checked input."""

    @functools.wraps(original)
    def load_inference_model(
        path_prefix: str | os.PathLike[str] | None, executor: Executor, **kwargs: Any
    ) -> list[Any]:
        from paddle_ipu.activation.load_model import load

        return load(original, path_prefix, executor, kwargs)

    return loading(load_inference_model)
