"""Training programs that both kinds of programs can be: built alike on every version of Paddle.

The ProgramDesc ones are kept in ``legacy_programs/``, as Paddle 2.6.2 writes them; there
``python -m tests.unit.passes.training_programs`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "legacy_programs"

FEEDS = ("ids", "y")


def _decay(coefficient: float) -> Any:
    import paddle

    return paddle.regularizer.L2Decay(coefficient)


def _optimizer(name: str, *arguments: Any, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import paddle

        made = {key: value() if callable(value) and key == "grad_clip" else value
                for key, value in settings.items()}  # fmt: skip
        rate = arguments[0]() if callable(arguments[0]) else arguments[0]
        return getattr(paddle.optimizer, name)(rate, *arguments[1:], **made)

    return make


def _clip(name: str, limit: float) -> Callable[[], Any]:
    def make() -> Any:
        import paddle

        return getattr(paddle.nn, name)(limit)

    return make


def _schedule() -> Any:
    import paddle

    return paddle.optimizer.lr.PolynomialDecay(0.1, 10)


OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "sgd": _optimizer("SGD", 0.1),
    "sgd_clipped_by_norm": _optimizer("SGD", 0.1, grad_clip=_clip("ClipGradByNorm", 0.5)),
    "sgd_clipped_by_value": _optimizer("SGD", 0.1, grad_clip=_clip("ClipGradByValue", 0.25)),
    "momentum": _optimizer("Momentum", 0.1, 0.8, use_nesterov=True, weight_decay=0.125),
    "adam": _optimizer(
        "Adam",
        0.1,
        beta1=0.7,
        epsilon=1e-6,
        weight_decay=0.0625,
        grad_clip=_clip("ClipGradByGlobalNorm", 2.0),
    ),
    "adamw": _optimizer(
        "AdamW", 0.1, weight_decay=0.02, apply_decay_param_fun=lambda name: "w_0" in name
    ),
    "lamb": _optimizer(
        "Lamb",
        _schedule,
        lamb_weight_decay=0.03,
        exclude_from_weight_decay_fn=lambda parameter: "b_0" in parameter.name,
        grad_clip=_clip("ClipGradByGlobalNorm", 1.0),
    ),
}
"""Name of the program -> what makes its optimizer."""


def build(name: str) -> Any:
    """A program: a table of words used twice, and a layer with settings of its own."""
    import paddle

    program, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(program, startup),
        paddle.utils.unique_name.guard(),
    ):
        ids = paddle.static.data("ids", [4, 2], "int64")
        y = paddle.static.data("y", [4, 1], "int64")
        table = paddle.create_parameter([5, 3], "float32", name="table")
        words = paddle.nn.functional.embedding(ids, table)
        hidden = paddle.nn.Linear(
            6,
            3,
            weight_attr=paddle.ParamAttr(learning_rate=0.5),
            bias_attr=paddle.ParamAttr(regularizer=_decay(0.25)),
        )(paddle.reshape(words, [4, 6]))
        scores = paddle.matmul(paddle.nn.functional.relu(hidden), table, transpose_y=True)
        loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, y))
        OPTIMIZERS[name]().minimize(loss)
    return program


def serialized(program: Any) -> bytes:
    """A ProgramDesc program without the stacks of its calls."""
    from paddle.base.proto import framework_pb2

    desc = framework_pb2.ProgramDesc.FromString(program.desc.serialize_to_string())
    for op in desc.blocks[0].ops:
        kept = [attribute for attribute in op.attrs if attribute.name != "op_callstack"]
        del op.attrs[:]
        op.attrs.extend(kept)
    return bytes(desc.SerializeToString(deterministic=True))


if __name__ == "__main__":
    import paddle

    paddle.enable_static()
    FOLDER.mkdir(exist_ok=True)
    for name in OPTIMIZERS:
        (FOLDER / f"{name}.pdmodel").write_bytes(serialized(build(name)))
