"""``paddle.fluid`` answers at first use, costs nothing unused, and goes with the plugin."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

import paddle
import pytest

import paddle_ipu
from paddle_ipu.legacy.fluid_names import DELEGATES, FLUID_NAMES, INSTEAD, MODULES

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def active() -> Iterator[None]:
    paddle_ipu.activate()
    yield
    paddle_ipu.activate()


def test_the_published_check_answers_true(run_python: Run) -> None:
    done = run_python(
        "import paddle_ipu, paddle; print(paddle.fluid.is_compiled_with_ipu())",
        PYTHONWARNINGS="ignore",
    )
    assert done.stdout.split()[-1] == "True"


@pytest.mark.parametrize(
    "statement",
    [
        "import paddle.fluid as fluid",
        "from paddle import fluid",
        "import paddle.fluid.layers; fluid = paddle.fluid",
        "from paddle.fluid import core; fluid = paddle.fluid",
        "from paddle.fluid.layers import *; fluid = paddle.fluid; fc, elementwise_add",
        "import paddle; fluid = paddle.fluid",
    ],
)
def test_every_way_in_finds_the_same_module(statement: str, active: None) -> None:
    names: dict[str, Any] = {"paddle": paddle}
    exec(statement, names)
    assert names["fluid"] is paddle.fluid is sys.modules["paddle.fluid"]
    assert names["fluid"].layers is importlib.import_module("paddle.fluid.layers")


def test_unused_it_is_not_imported(run_python: Run) -> None:
    done = run_python(
        "import paddle_ipu, paddle, sys\n"
        "used = [n for n in sys.modules if n.startswith('paddle.fluid')]"
        "\nprint(used, 'paddle_ipu.legacy.fluid_names' in sys.modules, 'onnx_ir' in sys.modules)",
        PYTHONWARNINGS="ignore",
    )
    assert done.stdout.strip().endswith("[] False False")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_module_lists_and_has_what_it_offers(module: str, active: None) -> None:
    found = importlib.import_module(module)
    assert found.__name__ == module
    assert found.__doc__
    assert found.__all__
    assert set(found.__all__) <= set(dir(found))
    for name in found.__all__:
        assert getattr(found, name) is not None or module in DELEGATES


@pytest.mark.parametrize("module", sorted(DELEGATES))
def test_renamed_modules_answer_as_todays(module: str, active: None) -> None:
    found, today = importlib.import_module(module), importlib.import_module(DELEGATES[module])
    assert {name for name in dir(today) if not name.startswith("_")} <= set(found.__all__)
    some = next(name for name in vars(today) if not name.startswith("_"))
    assert getattr(found, some) is getattr(today, some)


def test_core_has_the_names_scripts_for_ipus_use(active: None) -> None:
    core = paddle.fluid.core
    tensor = core.LoDTensor()
    tensor.set([[1.0, 2.0]], core.CPUPlace())
    assert tensor.shape() == [1, 2]
    assert core.is_compiled_with_ipu()
    assert core.IpuBackend is paddle.base.core.IpuBackend
    # A value of today's module is asked for each time.
    assert paddle.fluid.framework.in_pir_mode() == paddle.base.framework.in_pir_mode()


def test_files_of_layers_answer_as_the_package(active: None) -> None:
    from paddle.fluid.layers import loss, nn

    assert nn.fc is paddle.fluid.layers.fc
    assert loss.cross_entropy is nn.cross_entropy


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_refused_names_say_what_to_write(name: str, active: None) -> None:
    module, _, attribute = name.rpartition(".")
    advice = INSTEAD[name].split("(")[0].split(",")[0]
    with pytest.raises(
        AttributeError, match=rf"'{module}' has no attribute '{attribute}'.*instead: {advice}"
    ):
        getattr(importlib.import_module(module), attribute)
    assert name not in {f"{row.module}.{row.name}" for row in FLUID_NAMES}


def test_a_name_that_moved_is_found_by_itself(active: None) -> None:
    with pytest.raises(AttributeError, match=r"instead: paddle\.vision\.ops\.roi_align\."):
        _ = paddle.fluid.layers.roi_align
    with pytest.raises(AttributeError, match=r"docs/old_api\.md lists what there is"):
        _ = paddle.fluid.layers.nothing_ever_had_this_name
    with pytest.raises(ImportError, match="cannot import name 'huber_loss'"):
        from paddle.fluid.layers import huber_loss  # noqa: F401


def test_other_names_of_paddle_stay_unknown(active: None) -> None:
    with pytest.raises(AttributeError, match="module 'paddle' has no attribute 'nothing'"):
        _ = paddle.nothing
    assert not hasattr(paddle, "fluids")


def test_a_getattr_that_paddle_has_is_asked_for_other_names() -> None:
    from paddle_ipu.legacy.fluid_import import importing_fluid

    chained = importing_fluid(lambda name: name.upper())
    assert chained("other") == "OTHER"


def test_it_goes_with_the_plugin_and_comes_back(active: None) -> None:
    first = paddle.fluid
    finders = list(sys.meta_path)
    paddle_ipu.deactivate()
    assert not [name for name in sys.modules if f"{name}.".startswith("paddle.fluid.")]
    assert "fluid" not in vars(paddle)
    assert "__getattr__" not in vars(paddle)
    assert len(sys.meta_path) == len(finders) - 1
    with pytest.raises(AttributeError, match="has no attribute 'fluid'"):
        _ = paddle.fluid
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'paddle\.fluid'"):
        importlib.import_module("paddle.fluid")
    paddle_ipu.activate()
    assert paddle.fluid is not first
    assert paddle.fluid.is_compiled_with_ipu()
