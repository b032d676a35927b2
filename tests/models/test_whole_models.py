"""Whole models on the IPU Model, beside Paddle: three of them, and in `make test-all` all."""

from __future__ import annotations

import pytest

from tests.models import sequence_models, vision_models
from tests.models.side_by_side import assert_infers_alike, assert_trains_alike

QUICK = ("vit", "lstm", "llama")
MODELS = {**vision_models.MODELS, **sequence_models.MODELS}
CHOSEN = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in MODELS]

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
