"""``paddle.static.load_inference_model``: what takes the place of Paddle's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paddle_ipu.runtime.weights.persistence import loading


def loading_inference_models(original: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``load_inference_model``, with every format of model and checked input."""

    @functools.wraps(original)
    def load_inference_model(path_prefix: Any, executor: Any, **kwargs: Any) -> Any:
        from paddle_ipu.activation.load_model import load

        return load(original, path_prefix, executor, kwargs)

    return loading(load_inference_model)
