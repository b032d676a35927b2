"""The whole models on the way to hardware: Graphcore's module takes every call."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.errors import NotPortableError
from tests.journeys.training import side_by_side
from tests.models import sequence_models, vision_models
from tests.models.side_by_side import compile_beside
from tests.popart_stand_in import StandIn

MODELS = {**vision_models.MODELS, **sequence_models.MODELS}

NOT_PORTABLE = {"vgg16": "SumOfWindows"}
"""Models that need an operator that PopART does not have, and which."""

pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
    pytest.mark.long,
]


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_and_its_weights_are_read(
    name: str, training: bool, graphcores: StandIn
) -> None:
    model = MODELS[name]()
    built = model.built(training=training)
    if name in NOT_PORTABLE:
        with pytest.raises(
            NotPortableError, match=rf"operator ai\.paddle_ipu\.{NOT_PORTABLE[name]} "
        ):
            compile_beside(built, training=training, optimizer_rule="popart")
        return
    both = compile_beside(built, training=training, optimizer_rule="popart")
    before = side_by_side.snapshot(both.ipu, built.parameters)
    for result in both.on_ipu(model.fed(built)):
        assert not np.any(result)
    assert len(graphcores.named("TrainingSession" if training else "InferenceSession")) == 1
    if training:
        both.weights_to_host()
        assert graphcores.named("_Session.readWeights")
        # The stand-in does not train: what it was given comes back.
        for weight, array in before.items():
            np.testing.assert_array_equal(side_by_side.read(both.ipu, weight), array)
