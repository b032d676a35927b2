"""Saves the models of this folder's tests; run once by Paddle 2.6.2 and once by Paddle 3.3.1.

    python tests/journeys/saved_models/make_fixtures.py

Beside each model lies what stock Paddle's CPU executor gave for it, ``<model>.npz``, with arrays
``feed_<name>`` and ``fetch_<number>``. Nothing here uses paddle_ipu.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["PADDLE_IPU_AUTOLOAD"] = "0"

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - the name Paddle's own documentation gives it

FIXTURES = Path(__file__).parent / "fixtures"
OLD = paddle.__version__.startswith("2.6")

Model = tuple[list[Any], list[Any], dict[str, Any]]


def mlp() -> Model:
    x = paddle.static.data("x", [-1, 4], "float32")
    hidden = F.gelu(paddle.nn.Linear(4, 6)(x))
    y = F.softmax(paddle.nn.Linear(6, 3)(hidden) * 0.5)
    return [x], [y, hidden], {"x": _random(2, 4)}


def conv() -> Model:
    image = paddle.static.data("image", [-1, 3, 8, 8], "float32")
    norm = paddle.nn.BatchNorm2D(4)
    norm.eval()
    if OLD:
        # The form whose bias Paddle's passes fuse.
        x = paddle.static.nn.conv2d(image, 4, 3, padding=1, act="relu")
    else:
        x = F.relu(paddle.nn.Conv2D(3, 4, 3, padding=1)(image))
    x = F.max_pool2d(F.relu(norm(paddle.nn.Conv2D(4, 4, 3)(x))), 2)
    y = paddle.nn.Linear(36, 5)(paddle.flatten(x, 1))
    return [image], [y], {"image": _random(2, 3, 8, 8)}


def attention() -> Model:
    ids = paddle.static.data("ids", [2, 5], "int64")
    mask = paddle.static.data("mask", [2, 1, 1, 5], "float32")
    x = paddle.nn.Embedding(11, 8)(ids) + paddle.nn.Embedding(5, 8)(paddle.arange(5))

    def heads(value: Any) -> Any:
        return paddle.transpose(paddle.reshape(value, [0, 0, 2, 4]), [0, 2, 1, 3])

    query, key, value = (heads(paddle.nn.Linear(8, 8)(x)) for _ in range(3))
    scores = paddle.matmul(query, key, transpose_y=True) * 0.5 + mask
    context = paddle.transpose(paddle.matmul(F.softmax(scores), value), [0, 2, 1, 3])
    x = paddle.nn.LayerNorm(8)(paddle.nn.Linear(8, 8)(paddle.reshape(context, [0, 0, 8])) + x)
    first, second = paddle.split(paddle.mean(x, axis=1), 2, axis=-1)
    y = paddle.concat([F.relu(second + first), first], axis=-1)
    rng = np.random.default_rng(7)
    feeds = {
        "ids": rng.integers(0, 11, (2, 5)),
        "mask": np.where(np.arange(10).reshape(2, 1, 1, 5) == 9, -1e4, 0).astype("float32"),
    }
    return [ids, mask], [y, paddle.argmax(y, -1)], feeds


def placed() -> Model:
    x = paddle.static.data("x", [2, 4], "float32")
    y = F.relu(paddle.nn.Linear(4, 4)(x))
    for op in paddle.static.default_main_program().global_block().ops:
        op._set_attr("ipu_index", int(op.type == "relu"))
        op._set_attr("ipu_stage", int(op.type == "relu"))
    return [x], [y], {"x": _random(2, 4)}


def save(build: Callable[[], Model], folder: Path) -> None:
    paddle.seed(1)
    program, startup = paddle.static.Program(), paddle.static.Program()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with (
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.static.program_guard(program, startup),
        paddle.base.unique_name.guard(),
    ):
        feeds, fetches, data = build()
        executor.run(startup)
        _vary(program)
        if OLD:
            program = program.clone(for_test=True)
            feeds, fetches = _of(program, feeds), _of(program, fetches)
        wanted = executor.run(program, feed=data, fetch_list=fetches)
        prefix = str(folder / build.__name__)
        options = {"clip_extra": False} if build is placed else {}
        paddle.static.save_inference_model(
            prefix, feeds, fetches, executor, program=program, **options
        )
        if OLD and build is mlp:
            _save_as_folder(program, feeds, fetches, executor, folder / "mlp_folder")
    np.savez(
        f"{prefix}.npz",
        **{f"feed_{name}": array for name, array in data.items()},
        **{f"fetch_{number}": array for number, array in enumerate(wanted)},
    )


def _random(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def _vary(program: Any) -> None:
    """Biases and statistics that are not 0 and 1."""
    rng = np.random.default_rng(11)
    names = [var.name for var in program.list_vars() if var.persistable]
    for name in sorted(names):
        variable = paddle.static.global_scope().find_var(name)
        tensor = None if variable is None or name in ("feed", "fetch") else variable.get_tensor()
        if tensor is not None and tensor._is_initialized():
            shape = np.array(tensor).shape
            if len(shape) == 1:
                tensor.set(rng.uniform(0.5, 1.5, shape).astype("float32"), paddle.CPUPlace())


def _of(program: Any, variables: Sequence[Any]) -> list[Any]:
    return [program.global_block().var(variable.name) for variable in variables]


def _save_as_folder(
    program: Any, feeds: list[Any], fetches: list[Any], executor: Any, folder: Path
) -> None:
    """``__model__`` and one file a parameter, as Paddle 1 saved models."""
    folder.mkdir()
    (folder / "__model__").write_bytes(
        paddle.static.serialize_program(feeds, fetches, program=program)
    )
    paddle.static.save_vars(
        executor, str(folder), program, predicate=lambda var: var.persistable and var.is_parameter
    )


def optimize(name: str, folder: Path, onednn: bool) -> None:
    """Saves a model again after the passes of Paddle's own inference."""
    config = paddle.inference.Config(
        str(folder / f"{name}.pdmodel"), str(folder / f"{name}.pdiparams")
    )
    config.disable_gpu()
    config.disable_glog_info()
    if onednn:
        config.enable_mkldnn()
    else:
        config.disable_mkldnn()
    with tempfile.TemporaryDirectory() as cache:
        config.set_optim_cache_dir(cache)
        config.enable_save_optim_model(True)
        paddle.inference.create_predictor(config)
        target = f"{name}_{'onednn' if onednn else 'optimized'}"
        for suffix in (".pdmodel", ".pdiparams"):
            shutil.copy(Path(cache, f"_optimized{suffix}"), folder / f"{target}{suffix}")
    shutil.copy(folder / f"{name}.npz", folder / f"{target}.npz")


def drop_callstacks(path: Path) -> None:
    """Where on the maker's machine an operator was called is nobody's business."""
    from paddle.base.proto import framework_pb2

    desc = framework_pb2.ProgramDesc.FromString(path.read_bytes())
    for block in desc.blocks:
        for op in block.ops:
            kept = [attribute for attribute in op.attrs if attribute.name != "op_callstack"]
            del op.attrs[:]
            op.attrs.extend(kept)
    path.write_bytes(desc.SerializeToString())


def main() -> None:
    paddle.enable_static()
    folder = FIXTURES / ("paddle_2_6" if OLD else "paddle_3_3")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for build in (mlp, conv, attention, placed) if OLD else (mlp, conv, attention):
        save(build, folder)
    if OLD:
        for name in ("conv", "attention"):
            optimize(name, folder, onednn=False)
            optimize(name, folder, onednn=True)
        for path in [*folder.glob("*.pdmodel"), *folder.glob("*/__model__")]:
            drop_callstacks(path)


if __name__ == "__main__":
    sys.exit(main())
