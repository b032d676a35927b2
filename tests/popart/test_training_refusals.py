"""What a training session refuses rather than doing it wrong."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import NotSupported


def test_batch_statistics_that_would_have_to_be_written_back() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 3, 4, 4])
    parameters = [
        builder.addInitializedInputTensor(np.full(3, value, np.float32)) for value in (1, 0, 0, 1)
    ]
    normal = builder.aiOnnxOpset11.batchnormalization([x, *parameters], 5)[0]
    loss = builder.aiGraphcore.identityloss([normal])
    with pytest.raises(NotSupported, match="BatchNormalization in its training form"):
        popart.TrainingSession(
            builder.model,
            popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
            loss,
            popart.SGD({"defaultLearningRate": (0.1, True)}),
            popart.DeviceManager().createCpuDevice(),
        )
