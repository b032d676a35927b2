"""Whole models on the IPU Model, beside Paddle's CPU executor.

The quick ones run always. ``PADDLE_IPU_MODELS=all`` adds the others, ``PADDLE_IPU_MODELS=2/6`` the
third, the ninth and so on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.models import sequence_models, vision_models
from tests.models.side_by_side import assert_infers_alike, assert_trains_alike

MODELS = {**vision_models.MODELS, **sequence_models.MODELS}

QUICK = ("vit", "lstm", "llama")


def _chosen(choice: str) -> Sequence[str]:
    """Names of models, of a value of ``PADDLE_IPU_MODELS``."""
    if choice == "all":
        return list(MODELS)
    turn, _, count = choice.partition("/")
    taken = list(MODELS)[int(turn) % int(count) :: int(count)] if choice else []
    return [name for name in MODELS if name in QUICK or name in taken]


CHOSEN = _chosen(os.environ.get("PADDLE_IPU_MODELS", ""))

pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]


@pytest.mark.parametrize("name", CHOSEN)
def test_inference_gives_paddles_outputs(name: str) -> None:
    assert_infers_alike(MODELS[name]())


@pytest.mark.parametrize("name", CHOSEN)
def test_a_training_step_gives_paddles_weights(name: str) -> None:
    assert_trains_alike(MODELS[name]())
