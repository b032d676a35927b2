"""The IPU place and Paddle's device functions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle
import pytest
from paddle.base import core
from paddle.base.framework import _get_paddle_place

import paddle_ipu


@pytest.fixture(autouse=True)
def _active() -> None:
    paddle_ipu.activate()


@pytest.fixture
def _device_restored() -> Iterator[None]:
    yield
    paddle.set_device("cpu")


def test_paddle_says_it_has_ipus() -> None:
    assert paddle.is_compiled_with_ipu() is True
    assert paddle.device.is_compiled_with_ipu() is True
    assert core.is_compiled_with_ipu() is True
    assert core.get_ipu_device_count() == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: paddle.IPUPlace(),
        lambda: paddle.device.IPUPlace(),
        lambda: core.IPUPlace(),
        lambda: _get_paddle_place("ipu:0"),
        lambda: paddle.device._convert_to_place("ipu"),
    ],
)
def test_every_way_to_a_place(make: Any) -> None:
    place = make()
    assert isinstance(place, core.IPUPlace)
    # What Paddle's C++ code takes it for.
    assert isinstance(place, core.CPUPlace)
    assert place.is_ipu_place() and not place.is_cpu_place()
    assert place.get_device_id() == place.ipu_device_id() == 0
    assert repr(place) == str(place) == "Place(ipu:0)"


def test_places_are_equal_to_ipu_places_only() -> None:
    place = paddle.IPUPlace()
    assert place == paddle.IPUPlace()
    assert len({place, paddle.IPUPlace()}) == 1
    assert place != paddle.CPUPlace()
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)) == place


def test_there_is_one_device_id() -> None:
    with pytest.raises(ValueError, match=r"one device id, 0, got 2\. .*set_graph_config\(num_ipus"):
        _get_paddle_place("ipu:2")


@pytest.mark.usefixtures("_device_restored")
def test_set_device_and_get_device() -> None:
    assert paddle.get_device() == "cpu"
    assert paddle.set_device("ipu") == paddle.IPUPlace()
    assert paddle.get_device() == paddle.device.get_device() == "ipus:{0-0}"
    assert paddle.device._convert_to_place(paddle.get_device()) == paddle.IPUPlace()
    paddle.set_device("cpu")
    assert paddle.get_device() == "cpu"


@pytest.mark.usefixtures("_device_restored")
def test_dynamic_tensors_on_the_ipu_live_in_host_memory() -> None:
    paddle.set_device("ipu")
    tensor = paddle.to_tensor([1.0, 2.0])
    assert tensor.place.is_cpu_place()
    assert (tensor + 1).numpy().tolist() == [2, 3]
    assert paddle.to_tensor([3.0], place=paddle.IPUPlace()).numpy().tolist() == [3]


@pytest.mark.usefixtures("_device_restored")
@pytest.mark.skipif(
    not paddle.__version__.startswith("3.3"), reason="get_device takes no tensor before Paddle 3.3"
)
def test_the_device_of_a_tensor_is_paddles_to_tell() -> None:
    paddle.set_device("ipu")
    assert paddle.get_device(paddle.to_tensor([1.0])) == -1
    assert paddle.get_device(input=paddle.to_tensor([1.0])) == -1


@pytest.mark.usefixtures("_device_restored")
def test_static_constants_after_set_device(static_program: Any) -> None:
    """``paddle.to_tensor`` guards what it writes by the name of the place."""
    paddle.set_device("ipu")
    constant = paddle.to_tensor([1.0, 2.0])
    with paddle.static.device_guard("ipu"):
        doubled = constant * 2
    paddle.set_device("cpu")
    with pytest.raises(ValueError, match="should be 'cpu'"), paddle.static.device_guard("tpu"):
        pass
    (got,) = paddle.static.Executor(paddle.IPUPlace()).run(static_program, fetch_list=[doubled])
    assert got.tolist() == [2, 4]


def test_executor_on_the_place(static_program: Any) -> None:
    x = paddle.static.data("x", [2], "float32")
    y = paddle.tanh(x)
    feed = {"x": np.array([0.5, -2], "float32")}
    (got,) = paddle.static.Executor(paddle.IPUPlace()).run(
        static_program, feed=feed, fetch_list=[y]
    )
    np.testing.assert_allclose(got, np.tanh(feed["x"]), rtol=1e-6)


def test_learning_rate_scheduler_on_the_place(static_program: Any) -> None:
    """Stock code takes another path for the learning rate where Paddle has IPUs."""
    x = paddle.static.data("x", [1], "float32")
    parameter = paddle.create_parameter(
        [1], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)
    )
    scheduler = paddle.optimizer.lr.StepDecay(0.5, step_size=1, gamma=0.1)
    optimizer = paddle.optimizer.SGD(scheduler)
    optimizer.minimize(paddle.mean(parameter * x))
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        executor = paddle.static.Executor(paddle.IPUPlace())
        executor.run(paddle.static.default_startup_program())
        seen = []
        for _ in range(2):
            (value,) = executor.run(
                static_program, feed={"x": np.ones([1], "float32")}, fetch_list=[parameter]
            )
            seen.append(float(value[0]))
            scheduler.step()
    assert seen == pytest.approx([1 - 0.5, 1 - 0.5 - 0.05])


def test_the_launcher_takes_devices_as_a_number_of_ipus() -> None:
    from paddle.distributed.launch.context.device import Device

    device = Device.detect_device()
    assert device.get_selected_device_key() == "FLAGS_selected_ipus"
    assert device.get_selected_devices("16") == ["16"]
    assert device.get_selected_devices() == ["0", "1"]
    other = Device(dtype="cpu")
    other.labels = ["3", "5"]
    assert other.get_selected_devices("5") == ["1"]
