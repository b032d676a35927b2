"""Bad input: one clear error of our own that leaves program and scope as they were."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import (
    CacheError,
    FeedError,
    FetchError,
    InvalidProgramError,
    NotSupported,
    NumericalError,
    OptionError,
    UninitializedParameterError,
    UnsupportedOpError,
)
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import (
    Built,
    adam,
    build,
    copied,
    initialised,
    mlp,
    pair,
    read,
    rows,
    sgd,
    snapshot,
    strategy,
    variables,
    write,
)
from tests.tables import remove_translators

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = re.escape(__file__)
LEGACY = paddle.__version__.startswith("2.")
"""Whether programs are made of ProgramDesc operators."""


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"micro_batch_sise": 2}, "micro_batch_sise.*micro_batch_size"),
        ({"batches_per_step": "2"}, "batches_per_step.*'2'"),
        ({"is_training": 1}, "is_training.*1"),
        ({"batches_per_step": 0}, "batches_per_step.*0"),
        ({"loss_scaling": -1.0}, "loss_scaling.*-1.0"),
        ({"available_memory_proportion": 1.5}, "available_memory_proportion.*1.5"),
    ],
)
def test_options_are_checked_when_they_are_set(options: Mapping[str, Any], message: str) -> None:
    made = paddle.static.IpuStrategy()
    (name,) = options
    known = made.get_option(name) if name in made._ipu_strategy.get_all_option_names() else None
    with pytest.raises(OptionError, match=message):
        made.set_options(dict(options))
    if known is not None:
        assert made.get_option(name) == known


def test_options_that_contradict_each_other() -> None:
    refused(
        OptionError,
        "contradict each other:(.|\n)*enable_gradient_accumulation to True",
        mlp(sgd),
        {"accumulation_factor": 4},
    )


# -- feeds and fetches of compile -----------------------------------------------------------------


def test_a_feed_that_the_program_does_not_declare() -> None:
    refused(
        FeedError,
        "feed_list names 'z', which the program does not declare: it declares 'x', 'y'. Declare",
        mlp(None),
        feeds=["x", "y", "z"],
        is_training=False,
    )


def test_a_dynamic_shape_that_no_feed_settles() -> None:
    refused(
        FeedError,
        r"feed_list names 'z', .* Without a feed, 'x' has \[-1, 8\], 'y' has \[-1, 1\]: IPU "
        r"doesn't support non-positive dimensions\. Please check tensor shape setting\.",
        mlp(None),
        feeds=["z"],
        is_training=False,
    )


def test_a_feed_that_feed_list_forgets() -> None:
    refused(
        FeedError,
        r"the program reads 'y', which feed_list does not name; add it to compile\(feed_list=",
        mlp(None),
        feeds=["x"],
        is_training=False,
    )


def test_a_fetch_that_is_not_in_the_program() -> None:
    refused(
        FetchError,
        "fetch 'nothing' names nothing in the program. Fetch a variable of the program",
        mlp(None),
        fetches=["nothing"],
        is_training=False,
    )


def test_an_inference_program_that_gives_nothing() -> None:
    built = mlp(None)
    compiler = paddle.static.IpuCompiledProgram(
        built.main, initialised(built), strategy(is_training=False)
    )
    with pytest.raises(FetchError, match="fetch_list is empty, and a program that does not train"):
        compiler.compile(built.feeds, [])


def test_lists_that_are_no_lists() -> None:
    refused(
        InvalidProgramError,
        "feed_list must be a list of names or variables, got str",
        mlp(None),
        feeds="x",
        is_training=False,
    )


def test_a_fetch_of_what_backward_makes() -> None:
    built = mlp(sgd)
    operators = built.main.global_block().ops
    if LEGACY:
        (name,) = [op.output("X@GRAD")[0] for op in operators if op.type == "tanh_grad"]
    else:
        (name,) = [op.result(0).name for op in operators if op.name() == "pd_op.tanh_grad"]
    refused(
        NotSupported,
        rf"fetch '{name}' depends on tanh_grad.*Fetch forward values, or the gradient of a param",
        built,
        fetches=[name],
    )


@pytest.mark.parametrize(
    ("fetch", "message"),
    [
        (
            "Gradient___x",
            "asks for the gradient of 'x', which is not trained. Gradients of trained",
        ),
        ("Gradient___nothing", "fetch 'Gradient___nothing' names nothing in the program"),
    ],
)
def test_a_gradient_there_is_not(fetch: str, message: str) -> None:
    refused(FetchError, message, mlp(sgd), fetches=[fetch])


def test_a_gradient_of_integers() -> None:
    built = mlp(sgd, extra=lambda logits, y: {"best": paddle.argmax(logits, axis=-1)})
    name = built.values["best"].name
    refused(
        FetchError,
        rf"fetch 'Gradient___{name}' asks for the gradient of a int64. Only floating-point values",
        built,
        fetches=[f"Gradient___{name}"],
    )


# -- programs -------------------------------------------------------------------------------------


def test_unsupported_operators_come_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_translators(monkeypatch, "matrix_power", "cholesky")

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 4], "float32")
        first = paddle.linalg.matrix_power(x, 3)
        second = paddle.linalg.cholesky(x)
        third = paddle.linalg.matrix_power(x, 2)
        return ["x"], {"sum": first + second + third}, None

    built = build(make)
    line = make.__code__.co_firstlineno
    message = refused(
        UnsupportedOpError, "2 operator.s. of the program have no translator", built,
        is_training=False,
    )  # fmt: skip
    assert re.search(rf"cholesky \(1x\), first at {HERE}:{line + 3}", message)
    assert re.search(rf"matrix_power \(2x\), first at {HERE}:{line + 2}", message)
    assert "Replace them" in message


def test_parameters_that_hold_no_value() -> None:
    built = mlp(sgd)
    refused(
        UninitializedParameterError,
        r"4 variable\(s\) of the program hold no value in the scope: "
        f"{', '.join(sorted(built.parameters))}. Run the startup program with the same scope, or",
        built,
        scope=paddle.static.Scope(),
    )
    *held, missing = sorted(built.parameters)
    refused(
        UninitializedParameterError,
        rf"1 variable\(s\) .*: {missing}. Run",
        built,
        scope=copied(initialised(built), held),
    )


def test_a_learning_rate_that_holds_no_value() -> None:
    built = mlp(sgd)
    scope = copied(initialised(built), built.parameters)
    refused(
        UninitializedParameterError, r"1 variable\(s\) .*: learning_rate_0. Run", built, scope=scope
    )


def test_operators_in_blocks_are_listed_with_the_other_operators_without_translator() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2, 2], "float32")
        chosen = paddle.static.nn.cond(
            x.sum() > 0, lambda: paddle.real(paddle.linalg.eigvals(x)), lambda: x[0]
        )
        return ["x"], {"chosen": chosen}, None

    message = refused(UnsupportedOpError, "have no translator", build(make), is_training=False)
    assert re.search(rf"  eigvals \(1x\), first at {HERE}:\d+", message), message


def test_what_popart_refuses_is_told_of_the_users_operator() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        z = paddle.static.data("z", [4, 8], "float32")
        return ["x", "z"], {"sum": x + z}, None

    refused(
        NotSupported,
        rf"add at {HERE}:\d+ is used in a way that PopART does not take: np broadcasting failed",
        build(make),
        is_training=False,
        micro_batch_size=2,
    )


def test_a_gradient_that_the_loss_does_not_have() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2, 3], "float32")
        trained, drawn = (
            paddle.create_parameter([3], "float32", name=name) for name in ("trained", "drawn")
        )
        loss = (x * trained).sum() + (drawn * 1.0).exponential_().sum()
        gradients = {p.name: g for p, g in sgd(0.1).minimize(loss)[1]}
        return ["x"], {"loss": loss, "gradient": gradients["drawn"]}, None

    refused(
        NotSupported,
        "fetch '[^']+' is the gradient of 'drawn', on which the loss does not depend, and PopART "
        "has no such gradient. Do not fetch it; it is zero",
        build(make),
    )


def test_training_without_an_optimizer() -> None:
    refused(
        InvalidProgramError,
        r"the program has no optimizer: call optimizer.minimize\(loss\) before compiling, or "
        r"set_graph_config\(is_training=False\) for inference",
        mlp(None),
    )


def test_two_losses() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        first, second = paddle.nn.Linear(8, 1)(x), paddle.nn.Linear(8, 1)(x)
        optimizer = paddle.optimizer.SGD(0.1)
        one, two = first.mean(), second.mean()
        optimizer.minimize(one)
        optimizer.minimize(two)
        return ["x"], {"one": one, "two": two}, None

    refused(
        InvalidProgramError,
        r"training needs exactly one loss, found 2: .*Call optimizer.minimize\(loss\) once.*"
        "takes a program for each: compiled for one Scope they share their weights",
        build(make),
    )


def test_two_learning_rates() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        first, second = paddle.nn.Linear(8, 4), paddle.nn.Linear(4, 1)
        loss = second(first(x)).mean()
        pairs = paddle.static.append_backward(loss)
        paddle.optimizer.SGD(0.1).apply_gradients(pairs[:2])
        paddle.optimizer.SGD(0.2).apply_gradients(pairs[2:])
        return ["x"], {"loss": loss}, None

    refused(
        NotSupported,
        "more than one learning-rate variable: learning_rate_0, learning_rate_1. Give each "
        "optimizer a program of its own: compiled for one Scope they share their weights",
        build(make),
    )


def _fixed_batch() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [8, 16], "float32")
        return ["x"], {"y": paddle.tanh(x)}, None

    return build(make)


def test_a_micro_batch_size_that_the_feeds_contradict() -> None:
    refused(
        OptionError,
        r"micro_batch_size is 4, but feed 'x' has the shape \[8, 16\]: the option sets the rows of "
        r"feeds whose dimension 0 is -1, and there are none. Make dimension 0 -1, for instance "
        r"paddle.static.data\('x', \[-1, 16\]\), or leave micro_batch_size out\.",
        _fixed_batch(),
        is_training=False,
        micro_batch_size=4,
    )


@pytest.mark.parametrize("rows_", [1, 8])
def test_rows_of_feeds_with_a_batch_of_their_own(rows_: int) -> None:
    program = pair(_fixed_batch(), is_training=False, micro_batch_size=rows_)
    assert program.on_ipu({"x": np.zeros((8, 16), np.float32)})[0].shape == (8, 16)
    with pytest.raises(
        FeedError,
        match=r"'x': got an array of shape \[4, 16\], expected 8 rows = micro-batch 8\. .* change "
        r"the strategy's batches_per_step.* The program declares the micro-batch's rows; make "
        r"dimension 0 -1, paddle.static.data\('x', \[-1, 16\]\), and the strategy's micro_batch_s",
    ):
        program.on_ipu({"x": np.zeros((4, 16), np.float32)})


def test_a_dynamic_dimension_that_is_not_the_first() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, -1], "float32")
        return ["x"], {"y": paddle.tanh(x)}, None

    refused(
        InvalidProgramError,
        r"feed 'x' has shape \[-1, -1\]: only the first dimension may be dynamic.*Give "
        "paddle.static.data the other sizes",
        build(make),
        is_training=False,
    )


@pytest.mark.parametrize("program", [3, "model.pdmodel", object()])
def test_what_is_no_program(program: Any) -> None:
    with pytest.raises(
        NotSupported,
        match=rf"IpuCompiledProgram takes a paddle.static.Program, got builtins"
        rf"\.{type(program).__name__}\. Pass the program that the layers were built in",
    ):
        paddle.static.IpuCompiledProgram(program)


# -- NaN ------------------------------------------------------------------------------------------


def _logarithm() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        loss = paddle.log(paddle.exp(paddle.nn.Linear(8, 4)(x)).mean() + 1e4 * x.mean())
        paddle.optimizer.Adam(0.1).minimize(loss)
        return ["x"], {"loss": loss}, None

    return build(make)


def test_a_nan_names_its_operator_and_changes_nothing() -> None:
    built = _logarithm()
    both = pair(built, {"enable_floating_point_checks": True})
    names = [n for n in variables(built.main) if "learning_rate" not in n]
    good = {"x": np.abs(rows(4)["x"])}
    both.step(good)
    both.weights_to_host()
    before = snapshot(both.ipu, names)
    text = str(built.main)
    with pytest.raises(
        NumericalError,
        match=r"floating-point checks are on and operator Log \(log.*\) gave NaN or infinity in "
        rf"micro-batch 0. Weights and optimizer state were left.*It comes from Paddle's log at "
        rf"{HERE}:\d+",
    ):
        both.on_ipu({"x": np.full((4, 8), -0.1, np.float32)})
    np.testing.assert_equal(str(built.main), text)
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(both.ipu.find_var(name).get_tensor()), array)
    both.weights_to_host()
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(both.ipu.find_var(name).get_tensor()), array)
    # Training goes on as if the bad step had not been.
    cpu, ipu = both.step(good)
    np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)


def test_without_checks_a_nan_is_a_number_like_any_other() -> None:
    both = pair(mlp(None), is_training=False)
    feed = rows(4)
    feed["x"][0, 0] = np.nan
    assert np.isnan(both.on_ipu(feed)[0])


def test_a_nan_in_a_later_micro_batch_is_found() -> None:
    both = pair(
        mlp(adam),
        {
            "enable_floating_point_checks": True,
            "batches_per_step": 2,
            "enable_gradient_accumulation": True,
            "accumulation_factor": 2,
        },
    )
    names = [n for n in variables(both.built.main) if "learning_rate" not in n]
    before = snapshot(both.ipu, names)
    feed = rows(16)
    feed["x"][13, 2] = np.inf
    with pytest.raises(NumericalError, match="gave NaN or infinity in micro-batch 3"):
        both.on_ipu(feed)
    both.weights_to_host()
    for name, array in before.items():
        np.testing.assert_array_equal(np.array(both.ipu.find_var(name).get_tensor()), array)


# -- the compiler ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "kind"), [("scope", "Scope"), ("ipu_strategy", "IpuStrategy")]
)
def test_arguments_of_another_kind(argument: str, kind: str) -> None:
    with pytest.raises(
        InvalidProgramError,
        match=rf"{argument} must be a paddle\.static\.{kind}, got str \('fast'\)\. Leave it out",
    ):
        paddle.static.IpuCompiledProgram(paddle.static.Program(), **{argument: "fast"})


def test_a_failed_upload_gives_the_device_back(monkeypatch: pytest.MonkeyPatch) -> None:
    built = mlp(adam)
    scope = initialised(built)
    before = snapshot(scope, variables(built.main))
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy())

    def fail(owner: Any) -> None:
        raise MemoryError("the device is full")

    with monkeypatch.context() as patched:
        patched.setattr("paddle_ipu.runtime.weights.owner.WeightOwner._upload_states", fail)
        with pytest.raises(MemoryError, match="the device is full"):
            compiler.compile(built.feeds, built.fetches)
    assert not compiler._backend.is_attached
    for name, array in before.items():
        np.testing.assert_array_equal(read(scope, name), array)
    assert compiler.compile(built.feeds, built.fetches)


def test_a_failed_compilation_gives_the_optimizers_state_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It goes to the device while XLA compiles."""
    monkeypatch.setattr("paddle_ipu.runtime.weights.state_upload._WORTH_RELEASING", 0)
    built = mlp(adam)
    scope = initialised(built)
    random = np.random.default_rng(0)
    names = variables(built.main)
    for name in names:
        if "moment" in name:
            write(scope, name, random.uniform(0.1, 1, read(scope, name).shape).astype(np.float32))
    before = snapshot(scope, names)
    (tmp_path / "file").write_text("not a folder")
    options = {"enable_engine_caching": True, "cache_path": str(tmp_path / "file")}
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy(options))
    with pytest.raises(CacheError, match="file"):
        compiler.compile(built.feeds, built.fetches)
    for name, array in before.items():
        np.testing.assert_array_equal(read(scope, name), array, err_msg=name)
    assert paddle.static.IpuCompiledProgram(built.main, scope, strategy()).compile(
        built.feeds, built.fetches
    )
