"""ProgramDesc programs say what their operators are for; structure alone finds the same."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import program_desc, programs
from paddle_ipu.options.strategy import CoreIpuStrategy
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support import roles
from paddle_ipu.passes.support.update_operators import is_update
from paddle_ipu.popart.paddle_optimizer import Clip, PaddleOptimizer, ParameterUpdate
from tests.unit.frontend.dialect_form import form
from tests.unit.passes.training_programs import FEEDS, FOLDER, OPTIMIZERS, build

_OPTIONS = {**CoreIpuStrategy().snapshot(), "is_training": True}

_RULES = {
    "sgd": ("sgd", {}),
    "sgd_clipped_by_norm": ("sgd", {}),
    "sgd_clipped_by_value": ("sgd", {}),
    "momentum": ("momentum", {"mu": 0.8, "use_nesterov": 1.0, "rescale_grad": 1.0}),
    "adam": ("adam", {"beta1": 0.7, "beta2": 0.999, "epsilon": 1e-6}),
    "adamw": ("adamw", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lr_ratio": 1.0}),
    "lamb": ("lamb", {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "always_adapt": 0.0}),
}
_CLIPS = {
    "sgd_clipped_by_norm": (Clip("norm", 0.5),),
    "sgd_clipped_by_value": (Clip("value", 0.25, -0.25),),
    "adam": (Clip("global_norm", 2.0),),
    "lamb": (Clip("global_norm", 1.0),),
}
_DECAYS = {"adam": 0.0625}


def _graph(name: str, with_roles: bool = True) -> ir.Graph:
    graph = program_desc.read((FOLDER / f"{name}.pdmodel").read_bytes(), "learning_rate_0")
    if not with_roles:
        for node in graph:
            node.attributes.pop(roles.OP_ROLE, None)
    return graph


def _extracted(graph: ir.Graph) -> tuple[PaddleOptimizer, str, list[str]]:
    """The optimizer, the loss, and the operators of forward."""
    compilation = Compilation(graph, FEEDS, [], _OPTIONS)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    assert compilation.optimizer is not None
    assert compilation.loss is not None
    return compilation.optimizer, compilation.loss, [str(node.op_type) for node in graph]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_structure_finds_what_roles_say(name: str) -> None:
    assert _extracted(_graph(name)) == _extracted(_graph(name, with_roles=False))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rules_settings_and_clips_are_read(name: str) -> None:
    optimizer, loss, forward = _extracted(_graph(name))
    rule, settings = _RULES[name]
    updates = {update.parameter: update for update in optimizer.updates}
    assert set(updates) == {"table", "linear_0.w_0", "linear_0.b_0"}
    for update in updates.values():
        assert update.rule == rule
        assert {key: update.settings[key] for key in settings} == pytest.approx(settings)
    assert optimizer.clips == _CLIPS.get(name, ())
    assert {update.clip for update in updates.values()} == ({0} if name in _CLIPS else {None})
    assert optimizer.learning_rate_name == "learning_rate_0"
    scales = {parameter: update.learning_rate_scale for parameter, update in updates.items()}
    assert scales == pytest.approx({"table": 1.0, "linear_0.w_0": 0.5, "linear_0.b_0": 1.0})
    assert not any(operator.endswith("_grad") for operator in forward)
    assert loss in {"mean_1.tmp_0"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_decay_is_read_where_each_rule_has_it(name: str) -> None:
    updates = {update.parameter: update for update in _extracted(_graph(name))[0].updates}
    bias, weight = updates["linear_0.b_0"], updates["linear_0.w_0"]
    if name == "momentum":
        assert (bias.settings["l2"], weight.settings["l2"]) == pytest.approx((0.25, 0.125))
        assert (bias.l2, weight.l2) == (0.0, 0.0)
        return
    assert (bias.l2, weight.l2) == pytest.approx((0.25, _DECAYS.get(name, 0.0)))
    key = {"adamw": "coeff", "lamb": "weight_decay"}.get(name)
    if key is not None:
        expected = {"adamw": 0.02, "lamb": 0.03}[name]
        assert (bias.settings[key], weight.settings[key]) == pytest.approx((0.0, expected))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_program_of_this_paddle_says_the_same(name: str, static_mode: None) -> None:
    try:
        program = build(name)
    except NotImplementedError:
        pytest.skip("this version of Paddle has no clip by value in programs")
    live, _, forward = _extracted(programs.read(program))
    kept, _, kept_forward = _extracted(_graph(name))
    for update, expected in zip(_by_parameter(live), _by_parameter(kept), strict=True):
        assert update.settings == pytest.approx(expected.settings)
        assert update.l2 == pytest.approx(expected.l2)
        # States have names of each version's own.
        same = {"states": {}, "settings": {}, "l2": 0.0}
        assert replace(update, **same) == replace(expected, **same)
    assert live.clips == kept.clips
    assert [name.rstrip("_") for name in forward] == [name.rstrip("_") for name in kept_forward]


def _by_parameter(optimizer: PaddleOptimizer) -> list[ParameterUpdate]:
    return sorted(optimizer.updates, key=lambda update: update.parameter)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_kept_programs_are_those_of_paddle_2_6(name: str, static_mode: None) -> None:
    import paddle

    if not paddle.__version__.startswith("2.6"):
        pytest.skip("Paddle 2.6 writes them")
    assert form(programs.read(build(name))) == form(_graph(name))


def test_no_operator_of_forward_has_a_role_of_training() -> None:
    told: dict[str, list[str]] = {"forward": [], "training": []}
    for node in _graph("adam"):
        told["training" if roles.is_training_only(node) else "forward"].append(str(node.op_type))
    assert "matmul" in told["forward"]
    assert {"matmul_grad", "adam_", "squared_l2_norm", "add_n"} <= set(told["training"])
    assert not any(operator.endswith("_grad") for operator in told["forward"])


def test_the_marked_operator_is_the_loss() -> None:
    graph = _graph("sgd")
    assert roles.losses(graph) == ["mean_1.tmp_0"]
    assert roles.losses(_graph("sgd", with_roles=False)) == []


def test_two_marked_losses_are_refused() -> None:
    graph = _graph("sgd")
    node = next(node for node in graph if node.op_type == "relu")
    node.attributes.add(ir.AttrInt64(roles.OP_ROLE, roles.LOSS))
    with pytest.raises(InvalidProgramError, match=r"exactly one loss, found 2: mean_1.tmp_0, relu"):
        ExtractOptimizer().run(Compilation(graph, FEEDS, [], _OPTIONS))


def test_an_update_is_known_by_its_role_and_what_it_writes() -> None:
    parameter = dialect.make_value("w", [2], "float32")
    parameter.meta.update({dialect.VARIABLE: "w", dialect.TRAINABLE: True})
    result = dialect.make_value("w@1", [2], "float32")
    result.meta[dialect.VARIABLE] = "w"
    node = ir.Node(dialect.DOMAIN, "novel_rule", [parameter], outputs=[result])
    assert not is_update(node)
    node.attributes.add(ir.AttrInt64(roles.OP_ROLE, roles.OPTIMIZE))
    assert is_update(node)
    parameter.meta[dialect.TRAINABLE] = False
    assert not is_update(node)


def test_an_unknown_rule_is_refused_by_name() -> None:
    graph = _graph("sgd")
    for node in graph:
        if node.op_type == "sgd_":
            node.op_type = "novel_rule"
    with pytest.raises(
        NotSupported, match="optimizer novel_rule .* is not supported; supported: adadelta"
    ):
        ExtractOptimizer().run(Compilation(graph, FEEDS, [], _OPTIONS))
