"""Each layer of ``paddle.nn`` trains by to_static as in Paddle's dynamic mode on the CPU."""

from __future__ import annotations

from typing import Any

import paddle
import pytest
from paddle import nn

from paddle_ipu.errors import NotSupported
from tests.unit.dygraph.layer_cases import FAMILIES, KINDS, NOT_LAYERS
from tests.unit.dygraph.layers import assert_same, strategy
from tests.unit.dygraph.several_layers import trained

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

_TOLERANCE = 2e-5
"""Of the norm of each result, and of what training changes of each parameter and buffer."""


@pytest.mark.parametrize(
    "loop", [False, pytest.param(True, marks=pytest.mark.long)], ids=["call", "loop"]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_results_and_updates_equal_those_on_the_cpu(family: str, loop: bool) -> None:
    cases = FAMILIES[family]
    assert len({case.name for case in cases}) == len(cases)
    expected = trained(cases, on_ipu=False)
    got = trained(cases, on_ipu=True, loop=loop)
    assert got.keys() == expected.keys()
    wrong = []
    for name, array in expected.items():
        try:
            assert_same([got[name]], [array], _TOLERANCE)
        except AssertionError:
            wrong.append(f"{name}\n got      {got[name].tolist()}\n expected {array.tolist()}")
    assert not wrong, "\n".join(wrong)


def test_every_class_of_paddle_nn_has_a_row() -> None:
    rows = [*KINDS, *NOT_LAYERS]
    covered = [getattr(nn, name) for name in rows if hasattr(nn, name)]
    missing = [name for name in nn.__all__ if getattr(nn, name) not in covered]
    assert not missing


def test_sync_batch_norm_of_several_replicas_is_refused() -> None:
    layer = paddle.jit.to_static(nn.SyncBatchNorm(4))
    registered = strategy()
    registered.set_graph_config(num_ipus=2)
    registered.set_options({"enable_replicated_graphs": True, "replicated_graph_count": 2})
    with pytest.raises(NotSupported, match=r"SyncBatchNorm takes.*all 2 replicas.*BatchNorm2D"):
        layer(paddle.ones([2, 4, 3, 3]))


class _WrittenByHand(nn.Layer):  # type: ignore[misc]
    """Writes a buffer by a method that static mode has from the plugin, and only for the Scope."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", paddle.zeros([3]))

    def forward(self, x: Any) -> Any:
        self.seen.set_value(self.seen + x.sum(0))
        return self.seen * 2.0


@pytest.mark.skipif(paddle.__version__.startswith("2."), reason="2.6 has the method itself")
def test_what_the_plugin_replaces_is_called_and_not_rewritten() -> None:
    layer = paddle.jit.to_static(_WrittenByHand())
    strategy()
    with pytest.raises(ValueError, match=r"pir_value\.py[^$]*is not in the scope"):
        layer(paddle.ones([2, 3]))
