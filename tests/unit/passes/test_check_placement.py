"""check_placement: PopART's rules on virtual graphs and pipeline stages."""

from __future__ import annotations

from collections.abc import Callable

import paddle
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.check_placement import CheckPlacement
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.pass_base import Compilation

Read = Callable[..., Compilation]
Place = tuple[int, int | None]


def _placed(
    compilation_of: Read, first: Place | None, second: Place | None, **options: object
) -> Compilation:
    x = paddle.static.data("x", [2], "float32")
    if first is None:
        middle = paddle.tanh(x)
    else:
        with paddle.static.ipu_shard_guard(
            index=first[0], stage=-1 if first[1] is None else first[1]
        ):
            middle = paddle.tanh(x)
    if second is None:
        out = paddle.exp(middle)
    else:
        with paddle.static.ipu_shard_guard(
            index=second[0], stage=-1 if second[1] is None else second[1]
        ):
            out = paddle.exp(middle)
    compilation = compilation_of(
        ["x"], [out], **{"enable_manual_shard": True, "num_ipus": 2, **options}
    )
    ExtractForward().run(compilation)
    return compilation


def test_nothing_is_checked_without_manual_sharding(compilation_of: Read) -> None:
    compilation = _placed(compilation_of, (7, None), None, enable_manual_shard=False)
    assert not CheckPlacement().run(compilation)


def test_a_good_pipeline_passes_unchanged(compilation_of: Read) -> None:
    compilation = _placed(
        compilation_of, (0, 0), (1, 1), enable_pipelining=True, batches_per_step=2
    )
    assert not CheckPlacement().run(compilation)


def test_each_ipu_is_a_stage_where_no_stage_is_given(compilation_of: Read) -> None:
    compilation = _placed(
        compilation_of, (0, None), (1, None), enable_pipelining=True, batches_per_step=2
    )
    assert CheckPlacement().run(compilation)
    stages = {node.op_type: dialect.attribute(node, "ipu_stage") for node in compilation.graph}
    assert stages == {"tanh": 0, "exp": 1}


def test_a_constant_is_placed_with_its_reader(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2], "float32")
    with paddle.static.ipu_shard_guard(index=1):
        out = paddle.reshape(x, [2, 1])
    compilation = compilation_of(["x"], [out], enable_manual_shard=True, num_ipus=2)
    ExtractForward().run(compilation)
    for node in compilation.graph:
        if node.op_type in dialect.CONSTANT_OPS:
            node.attributes.pop("ipu_index", None)
    assert CheckPlacement().run(compilation)
    assert {dialect.attribute(node, "ipu_index") for node in compilation.graph} == {1}
    assert not CheckPlacement().run(compilation)


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (None, None, {}, "no Ops have been annotated with virtual graph information"),
        ((0, None), None, {}, r"1 operator\(s\) stand outside of every ipu_shard_guard: exp at"),
        (
            (0, None),
            (2, None),
            {},
            r"exp at .* assigned to an invalid virtual graph 2. numIPUs = 2",
        ),
        ((0, 0), (1, None), {"enable_pipelining": True}, "missing the pipeline stage: exp"),
        ((0, 0), (1, 0), {"enable_pipelining": True}, "the same pipeline stage 0, but different"),
        ((0, 0), (1, 2), {"enable_pipelining": True}, "but stage 1 is missing"),
        ((0, 1), (1, 0), {"enable_pipelining": True}, "consumed in an earlier pipeline stage"),
        (
            (0, 0),
            (1, 1),
            {"enable_pipelining": True, "batches_per_step": 1},
            r"depth \(batchesPerStep\) must equal at least the number of pipeline stages \(2\)",
        ),
    ],
)
def test_a_placement_that_popart_refuses_is_an_error(
    compilation_of: Read,
    first: Place | None,
    second: Place | None,
    options: dict[str, object],
    message: str,
) -> None:
    compilation = _placed(compilation_of, first, second, **options)
    with pytest.raises(InvalidProgramError, match=message):
        CheckPlacement().run(compilation)


def test_a_cast_outside_of_the_guards_stands_where_its_operand_is_made(
    compilation_of: Read,
) -> None:
    x = paddle.static.data("x", [2], "float32")
    with paddle.static.ipu_shard_guard(index=1):
        middle = paddle.tanh(x)
    out = paddle.cast(middle, "int32")
    compilation = compilation_of(["x"], [out], enable_manual_shard=True, num_ipus=2)
    ExtractForward().run(compilation)
    assert CheckPlacement().run(compilation)
    (cast,) = (node for node in compilation.graph if node.op_type == "cast")
    assert dialect.attribute(cast, "ipu_index") == 1


def test_a_cast_of_a_feed_stands_where_it_is_read(compilation_of: Read) -> None:
    x = paddle.cast(paddle.static.data("x", [2], "int32"), "float32")
    with paddle.static.ipu_shard_guard(index=1):
        out = paddle.tanh(x)
    compilation = compilation_of(["x"], [out], enable_manual_shard=True, num_ipus=2)
    ExtractForward().run(compilation)
    assert CheckPlacement().run(compilation)
    assert all(dialect.attribute(node, "ipu_index") == 1 for node in compilation.graph)
