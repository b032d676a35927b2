"""Networks of images multiply and add as often as is published."""

from __future__ import annotations

import paddle
import pytest

from paddle_ipu.compiler.prediction_target import target_of_zoo
from paddle_ipu.cost_model.operator_cost import conv_products, matmul_product
from paddle_ipu.cost_model.program import Operator
from paddle_ipu.zoo.models import MODELS

PUBLISHED = {
    "resnet50": 4.09,
    "resnext50": 4.23,
    "resnext101": 15.46,
    "mobilenet-v3-small": 0.06,
    "mobilenet-v3-large": 0.22,
    "efficientnet-b0": 0.39,
    "efficientnet-b4": 4.39,
}
"""Multiply-accumulates of an image, in thousand millions, on torchvision's page of models."""


def products(operator: Operator) -> float:
    """Multiply-accumulates of an operator."""
    if operator.op_type == "Conv":
        return conv_products(operator)[0].flops / 2
    return matmul_product(operator).flops / 2 if operator.op_type == "MatMul" else 0.0


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_image_takes_as_many_operations_as_published(name: str, static_mode: None) -> None:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=1)
    program = target_of_zoo(MODELS[name], strategy).program
    assert sum(map(products, program.operators)) / 1e9 == pytest.approx(PUBLISHED[name], abs=0.01)
