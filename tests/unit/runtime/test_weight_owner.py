"""The owner of weights by itself, with devices that are dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import paddle

from paddle_ipu.runtime.weights.owner import WeightOwner

Array = np.ndarray[Any, Any]


class Device:
    """Arrays by tensor id; `before_upload` stands for what other threads do meanwhile."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.before_upload: Callable[[], None] = lambda: None

    def upload(self, arrays: Mapping[str, Array]) -> None:
        if arrays:
            self.before_upload()
        self.arrays |= {name: array.copy() for name, array in arrays.items()}

    def fetch(self, tensors: Collection[str] | None = None) -> None:
        pass

    def read(self, tensor: str, into: Array) -> None:
        into[...] = self.arrays[tensor]

    def has_64_bits(self, tensor: str) -> bool:
        return False


def test_a_run_that_begins_while_another_program_uploads_is_seen_by_its_next_run() -> None:
    scope = paddle.static.Scope()
    scope.var("w").get_tensor().set(np.zeros(2, np.float32), paddle.CPUPlace())
    trained, tested = Device(), Device()
    trains = WeightOwner(scope, trained, {"w": "w"}, {}, changes=True)
    tests = WeightOwner(scope, tested, {"w": "w"}, {}, changes=False)
    trained.arrays["w"] = tested.arrays["w"] = np.zeros(2, np.float32)

    def train() -> None:
        trains.before_run()
        trained.arrays["w"] = trained.arrays["w"] + 1

    train()
    tested.before_upload = train
    tests.before_run()
    tested.before_upload = lambda: None
    tests.before_run()
    np.testing.assert_array_equal(tested.arrays["w"], [2, 2])
    train()
    tests.before_run()
    np.testing.assert_array_equal(tested.arrays["w"], [3, 3])
