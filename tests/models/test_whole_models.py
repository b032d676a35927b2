"""Whole models on the IPU Model, beside Paddle's CPU executor.

The quick ones alone, or with ``PADDLE_IPU_MODELS=vision`` or ``sequence`` all of that family.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.models import sequence_models, vision_models
from tests.models.side_by_side import assert_infers_alike, assert_trains_alike

FAMILIES = {"vision": vision_models.MODELS, "sequence": sequence_models.MODELS}
MODELS = {**vision_models.MODELS, **sequence_models.MODELS}
CHOSEN: Sequence[str] = ("vit", "lstm", "llama")
if family := os.environ.get("PADDLE_IPU_MODELS"):
    CHOSEN = list(FAMILIES[family])

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
