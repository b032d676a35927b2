"""The step for platforms of JAX's that this machine may lack: nothing in it is the CPU's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import paddle
import pytest

from tests.journeys.training import tiny_bert
from tests.journeys.training.side_by_side import pair

pytestmark = pytest.mark.thorough

# JAX draws random numbers on NVIDIA and AMD GPUs with a kernel of its own.
KERNELS = {"cuda": {"cu_threefry2x32_ffi"}, "rocm": {"hip_threefry2x32_ffi"}, "tpu": set()}

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: paddle.optimizer.Adam(2e-3, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)),
    "lamb": lambda: paddle.optimizer.Lamb(2e-3),
}


@pytest.fixture(scope="module", params=OPTIMIZERS)
def executable(request: Any) -> Any:
    paddle.enable_static()
    built = tiny_bert.pretraining(OPTIMIZERS[request.param], dropout=0.1).built
    both = pair(
        built,
        {
            "batches_per_step": 2,
            "enable_gradient_accumulation": True,
            "accumulation_factor": 2,
            "random_seed": 7,
        },
    )
    return both.program.backend.session._executable


@pytest.mark.parametrize("platform", KERNELS)
def test_a_training_step_of_bert_lowers(executable: Any, platform: str) -> None:
    text = executable.text_for(platform)
    called = set(re.findall(r"custom_call @(\w+)", text))
    assert called <= KERNELS[platform]
    assert "callback" not in text
    assert "stablehlo.while" in text
    assert text.count("jax.buffer_donor") + text.count("tf.aliasing_output") >= len(
        executable.weights
    )


@pytest.mark.parametrize("platform", KERNELS)
def test_float32_products_are_not_rounded(executable: Any, platform: str) -> None:
    text = executable.text_for(platform)
    products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert products
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)


def test_the_text_of_the_own_platform(executable: Any) -> None:
    assert jax.default_backend() == "cpu"
    text = executable.text_for("cpu")
    assert "custom_call" not in text
    assert "HIGHEST" not in text
