"""What options do to a compiled program: those that are only recorded change no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import BackendUnavailableError
from paddle_ipu.options.strategy import OPTIONS
from paddle_ipu.options.table import WITHOUT_NUMBERS
from paddle_ipu.options.values import Option
from tests.journeys.training.side_by_side import Built, Pair, mlp, pair, read, rows, variables
from tests.unit.options.option_samples import other_value

pytestmark = pytest.mark.usefixtures("static_mode")

# What another option asks for, or what a valid value is.
CHOSEN: dict[str, Any] = {
    "num_io_tiles": 32,
    "num_ipus": 2,
    "virtual_graph_mode": 3,
    "use_host_copy_ops": True,
    "auto_recomputation": 1,
}
NOT_HERE = {
    "compile_engine", "custom_ops", "enable_manual_shard", "enable_model_runtime_executor",
    "need_avg_shard",
}  # fmt: skip
"""Without an engine nothing runs; the others are for programs of their own."""


def _built() -> Built:
    return mlp(lambda rate: paddle.optimizer.Momentum(rate))


def _trained(options: dict[str, Any]) -> tuple[Pair, list[np.ndarray]]:
    both = pair(_built(), options)
    results = [array for step in range(2) for array in both.on_ipu(rows(4, step))]
    both.weights_to_host()
    return both, results + [read(both.ipu, name) for name in variables(both.built.main)]


def test_what_is_recorded_or_costs_only_changes_no_number(tmp_path: Path) -> None:
    def chosen(option: Option) -> Any:
        return CHOSEN.get(option.name) or other_value(option)

    names = {name for name, option in OPTIONS.items() if option.status == "recorded"}
    names |= {n for n in WITHOUT_NUMBERS if OPTIONS[n].status == "effective"} - NOT_HERE
    changed = {name: chosen(OPTIONS[name]) for name in OPTIONS if name in names}
    told: list[int] = []
    changed |= {
        "cache_path": str(tmp_path / "cache"),
        "onnx_dump_path": str(tmp_path / "model.onnx"),
        "compilation_progress_logger": lambda done, total: told.append(done),
    }
    assert len(changed) > 60
    _, plain = _trained({})
    _, got = _trained(changed)
    assert told
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "model.onnx"}
    for array, expected in zip(got, plain, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("mode", [2, 3])
def test_placement_by_popart_is_no_matter_to_the_model(mode: int) -> None:
    _, plain = _trained({})
    _, got = _trained({"virtual_graph_mode": mode, "num_ipus": 2})
    for array, expected in zip(got, plain, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_program_that_is_not_compiled_cannot_run() -> None:
    both = pair(_built(), {"compile_engine": False})
    before = [read(both.ipu, name) for name in variables(both.built.main)]
    with pytest.raises(
        BackendUnavailableError,
        match="built and checked, and not compiled: the strategy's compile_engine is off. Set it",
    ):
        both.on_ipu(rows(4))
    both.weights_to_host()
    for name, array in zip(variables(both.built.main), before, strict=True):
        np.testing.assert_array_equal(read(both.ipu, name), array)
    assert both.program.random_seed is None
    assert both.program.portable is False


@pytest.mark.parametrize("serialized", [True, False])
def test_matmuls_stay_whole_where_that_is_asked_for(serialized: bool) -> None:
    built = _built()
    (matmul, *_) = (
        op for op in built.main.global_block().ops if op.type in ("matmul", "matmul_v2")
    )
    matmul._set_attr("serialize_factor", 2)
    both = pair(built, {"enable_serialized_matmuls": serialized})
    nodes = both.program.backend._builder.model.graph
    asked = [node for node in nodes if "__serialize_matmul_factor" in node.attributes]
    assert len(asked) == int(serialized)
    assert both.on_ipu(rows(4))[0].shape == ()
