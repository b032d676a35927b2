"""The strategy's options: setting, reading back, refusing."""

from __future__ import annotations

import html
import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddle_ipu.dygraph import registration
from paddle_ipu.errors import NotSupported, OptionError
from paddle_ipu.options import table
from paddle_ipu.options.strategy import (
    OPTIONS,
    CoreIpuStrategy,
    CustomOp,
    Option,
    check_consistent,
    check_python_interface,
)
from paddle_ipu.options.table import ALIASES
from paddle_ipu.options.values import UINT64_MAX, Members, Number, Text, Whole
from tests.unit.options.option_samples import BY_NAME, RELU, other_value, strategy

WRONG_TYPE: dict[str, list[Any]] = {
    "bool": [1, 0, "True", None, 1.0],
    "uint64": [True, 1.5, "1", None, -1, UINT64_MAX + 1],
    "enum": [True, 1.0, "Nonsense", "", None, -1, 99],
    "double": [True, "1.0", None, math.nan, math.inf, 2**53 + 1, 10**400],
    "string": [1, None, b"x", ["x"]],
    "list": ["x", 1, {"x": 1}, [None], [1.5]],
    "dict": [1, "x", [], {1.5: "x"}, {"x": None}],
    "location": [1, "x", [], {"on_chip": 2}, {"on_chip": 1.0}, {"nowhere": 1}],
    "callable": [1, "print"],
}


def value(core: CoreIpuStrategy, name: str) -> Any:
    return core.get_option(name)["value"]


OURS = {"cpu_fallback", "ipu_machine", "optimizer_rule"}
"""Options that no IPU build has."""


def test_the_table_holds_the_options_of_an_ipu_build_and_ours() -> None:
    assert OPTIONS.keys() >= OURS
    assert len(OPTIONS.keys() - OURS) == 124, (
        "an IPU build has 124 options; the name of another belongs into OURS"
    )
    assert CoreIpuStrategy().get_all_option_names() == list(OPTIONS)
    assert {option.status for option in OPTIONS.values()} == {"effective", "recorded"}
    for name, option in OPTIONS.items():
        assert option.name == name
        assert option.meaning.endswith(".")


def test_a_second_row_of_an_option_is_refused() -> None:
    with pytest.raises(ValueError, match="option 'is_training' has a row already"):
        table._add("Program", "effective", table.FLAG, {"is_training": (True, "Again.")})


@BY_NAME
def test_an_option_reads_back_its_default_and_what_was_set(option: Option) -> None:
    core = CoreIpuStrategy()
    assert value(core, option.name) == option.default
    chosen = other_value(option)
    assert chosen != option.default
    core.set_options({option.name: chosen})
    answer = core.get_option(option.name)
    assert answer["value"] == chosen
    assert answer["name"] == option.name
    assert answer["type"] in (
        *("bool", "uint64", "double", "string"),
        *("vector", "map", "callable"),
    )
    assert ("value_s" in answer) == (answer["type"] in ("bool", "uint64", "double", "string"))


@BY_NAME
def test_a_wrong_type_is_refused_and_nothing_is_set(option: Option) -> None:
    core = CoreIpuStrategy()
    for wrong in WRONG_TYPE[option.kind]:
        with pytest.raises(OptionError, match=f"Option '{re.escape(option.name)}': got .*expected"):
            core.set_options({option.name: wrong})
    assert value(core, option.name) == option.default
    assert not core.snapshot().explicit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"accumulation_factor": 0},
            r"got 0 of type int, expected an int in \[1, 2\*\*64 - 1\]. Write for example "
            r"set_options\(\{'accumulation_factor': 1\}\)",
        ),
        ({"enable_outlining": 1}, r"expected a bool, True or False\..*'enable_outlining': True"),
        ({"batches_per_step": 4.0}, r"got 4.0 of type float.*\{'batches_per_step': 4\}"),
        (
            {"auto_recomputation": "pipeline"},
            r"3 \('Pipeline'\).*set_options\(\{'auto_recomputation': 'Pipeline'\}\)",
        ),
        ({"partials_type_matmuls": "HALV"}, r"set_options\(\{'partials_type_matmuls': 'half'\}\)"),
        (
            {"kahn_tie_breaker": "lifo"},
            r"expected a string, one of 'fifo', 'greedy', 'random' in any letter case\. Write for "
            r"example set_options\(\{'kahn_tie_breaker': 'fifo'\}\)",
        ),
        (
            {"gcl_options": {"maxBytes": 1}},
            r"key 'maxBytes' is not one of useSynclessCollectives, maxBytesPerTile.*expected a "
            r"dict with strings or ints under 'useSynclessCollectives', 'maxBytesPerTile'",
        ),
        ({"enable_fp16": "true"}, r"set_options\(\{'enable_fp16': True\}\)"),
        ({"num_ipus": "4"}, r"set_options\(\{'num_ipus': 4\}\)"),
        ({"random_seed": -1}, r"set_options\(\{'random_seed': 0\}\)"),
        ({"dot_checks": "fwd0"}, r"set_options\(\{'dot_checks': \['Fwd0'\]\}\)"),
        ({"available_memory_proportion": 1.5}, r"expected a number in \[0, 1\]"),
        ({"loss_scaling": 0.0}, r"expected a finite number > 0"),
        ({"timeout_ms": -1}, r"expected a finite number >= 0"),
        ({"outline_threshold": math.nan}, r"got nan of type float, expected a finite number"),
        ({"lr": 2**53 + 1}, r"a double cannot hold it exactly"),
        ({"lr": 10**400}, r"it overflows a double"),
        ({"accl1_type": "HALF"}, r"one of 'FLOAT', 'FLOAT16'"),
        ({"dot_checks": ["Fwd7"]}, r"item 'Fwd7' does not fit"),
        ({"engine_options": {"a": True}}, r"key 'a' holds True: Poplar reads 'true' or 'false'"),
        ({"engine_options": {"a": 0.5}}, r"key 'a' holds 0.5: write it as a string"),
        ({"engine_options": {1: "a"}}, r"key 1 is not a string"),
        ({"location_weight": {"onchip": 1}}, r"key 'onchip' is not one of on_chip"),
        ({"location_weight": {"on_chip": 2}}, r"key 'on_chip' holds 2"),
        ({"location_weight": {"min_elements_for_off_chip": True}}, r"holds True"),
        (
            {"replicated_collectives_settings": {"merge_all_reduce_collectives": 1}},
            r"holds 1, which is no bool",
        ),
        ({"accumulate_outer_fragment": {}}, r"it holds 0 schedules"),
        ({"accumulate_outer_fragment": {4: [0]}}, r"4 is no schedule"),
        ({"accumulate_outer_fragment": {3: 0}}, r"0 is no list of virtual graph numbers"),
        ({"custom_op": {"paddle_op": "a"}}, r"key 'popart_op' is missing"),
        ({"custom_op": {**RELU, "version": 0}}, r"key 'version' holds 0"),
        ({"custom_op": {**RELU, "domain": ""}}, r"key 'domain' holds ''"),
        ({"custom_op": {**RELU, "paddle_op": "pd_op.relu"}}, r"'pd_op.relu', write 'relu'"),
        ({"custom_ops": []}, r"it is read only, add_custom_op adds to it\.$"),
        ({"compilation_progress_logger": 3}, r"expected a callable.*'compilation_progress_logger'"),
    ],
)
def test_a_value_out_of_range_says_what_is_expected(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CoreIpuStrategy().set_options(options)


def _bounds(option: Option) -> tuple[list[Any], list[Any]]:
    """(values at the ends of what an option takes, values just beyond)."""
    valid = option.valid
    if isinstance(valid, Whole):
        return [valid.low, valid.high], [valid.low - 1, valid.high + 1]
    if isinstance(valid, Members):
        return [0, len(valid.names) - 1], [-1, len(valid.names)]
    if isinstance(valid, Text):
        return list(valid.choices), ["nonsense"] if valid.choices else []
    if not isinstance(valid, Number):
        return [], []
    inside, beyond = [], [math.inf, -math.inf, math.nan]
    for end, further in ((valid.low, -math.inf), (valid.high, math.inf)):
        if math.isfinite(end):
            at_end = inside if end == valid.high or not valid.above else beyond
            at_end.append(end)
            beyond.append(math.nextafter(end, further))
    return inside, beyond


@BY_NAME
def test_the_ends_of_a_range_are_taken_and_what_is_beyond_is_refused(option: Option) -> None:
    core = CoreIpuStrategy()
    inside, beyond = _bounds(option)
    for nonsense in beyond:
        with pytest.raises(OptionError, match=re.escape(f"expected {option.valid.describe()}")):
            core.set_options({option.name: nonsense})
    assert value(core, option.name) == option.default
    for bound in inside:
        core.set_options({option.name: bound})
        assert value(core, option.name) == bound


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("num_ipu", r"'num_ipus'\?$"),
        ("batches_per_setp", r"'batches_per_step'\?$"),
        ("enablePipelining", r"'enable_pipelining'\?$"),
        ("fp16", r"'enable_fp16'\?$"),
        ("Enable_Pipelinig", "enable_pipelining"),
        ("microbatch_size", "mic"),
    ],
)
def test_an_unknown_name_lists_close_matches(wrong: str, close: str) -> None:
    core = CoreIpuStrategy()
    with pytest.raises(OptionError, match=f"no strategy option '{wrong}'.*Did you mean .*{close}"):
        core.set_options({wrong: 1})
    with pytest.raises(OptionError, match="no strategy option"):
        core.get_option(wrong)


def test_an_unknown_name_like_no_other_gets_no_proposal() -> None:
    with pytest.raises(OptionError, match=r"get_all_option_names\(\) lists them\.$") as caught:
        CoreIpuStrategy().set_options({"zzz": 1})
    # What is named can be called.
    paddle.enable_static()
    call = re.search(r"paddle\.static\S+\(\)", str(caught.value))
    assert call and eval(call[0], {"paddle": paddle}) == list(OPTIONS)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS.values() if isinstance(option.valid, Members)],
    ids=lambda option: option.name,
)  # fmt: skip
def test_members_of_enums_are_set_by_their_names(option: Option) -> None:
    assert isinstance(option.valid, Members)
    core = CoreIpuStrategy()
    for number, name in enumerate(option.valid.names):
        core.set_options({option.name: name})
        assert value(core, option.name) == number
        assert core.snapshot().member(option.name) == name


def test_members_within_lists_and_dicts_have_names_too() -> None:
    core = CoreIpuStrategy()
    core.set_options({"hardware_instrumentations": ["Inner"]})
    assert value(core, "hardware_instrumentations") == [0, 1]
    core.set_options({"accumulate_outer_fragment": {"OverlapMemoryOptimized": [0]}})
    assert value(core, "accumulate_outer_fragment") == {3: [0]}


def test_set_options_takes_a_dict_only() -> None:
    with pytest.raises(OptionError, match=r"got \[\('lr', 1\)\] of type list, expected a dict"):
        CoreIpuStrategy().set_options([("lr", 1)])  # type: ignore[arg-type]


def test_set_options_sets_all_or_nothing() -> None:
    core = strategy(num_ipus=2, engine_options={"a": "1"})
    before = dict(core.snapshot())
    for bad in ({"no_such": 1}, {"micro_batch_size": 0}):
        with pytest.raises(OptionError):
            core.set_options(
                {"num_ipus": 4, "engine_options": {"a": "2"}, "custom_op": RELU, **bad}
            )
        assert dict(core.snapshot()) == before


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_to_the_last_bit(number: float) -> None:
    core = strategy(outline_threshold=number)
    got = core.get_option("outline_threshold")
    assert math.copysign(1.0, got["value"]) == math.copysign(1.0, number)
    assert got["value"] == number
    assert float(got["value_s"]) == number


@given(st.integers(0, UINT64_MAX))
def test_a_uint64_reads_back(number: int) -> None:
    got = strategy(random_seed=number).get_option("random_seed")
    assert (got["value"], got["value_s"], got["type"]) == (number, str(number), "uint64")


@given(st.integers(-(2**53), 2**53))
def test_an_int_is_widened_to_a_double(number: int) -> None:
    got = value(strategy(outline_threshold=number), "outline_threshold")
    assert got == number
    assert isinstance(got, float)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers()), max_size=4)
)
def test_dict_options_merge_by_key(updates: list[dict[str, str | int]]) -> None:
    core = CoreIpuStrategy()
    merged: dict[str, str | int] = {}
    for update in updates:
        core.set_options({"engine_options": update})
        merged.update(update)
    assert value(core, "engine_options") == merged


def test_numpy_scalars_are_numbers() -> None:
    core = strategy(num_ipus=np.int64(4), lr=np.float32(0.1))
    assert type(value(core, "num_ipus")) is int
    assert value(core, "lr") == float(np.float32(0.1))


def test_small_doubles_are_kept() -> None:
    assert value(strategy(lr=1e-7), "lr") == 1e-7


def test_lists_extend_without_duplicates() -> None:
    core = strategy(dot_checks=["Final"])
    core.set_options({"dot_checks": {"Fwd1", "Fwd0"}})
    core.set_options({"dot_checks": ("Final", "Bwd0")})
    assert value(core, "dot_checks") == ["Final", "Fwd0", "Fwd1", "Bwd0"]


def test_a_second_schedule_replaces_the_first() -> None:
    core = strategy(accumulate_outer_fragment={3: [0]})
    core.set_options({"accumulate_outer_fragment": {2: [1]}})
    assert value(core, "accumulate_outer_fragment") == {2: [1]}


def test_what_is_read_is_a_copy() -> None:
    given_options = {"a": "1"}
    core = strategy(engine_options=given_options, accumulate_outer_fragment={3: [0]})
    given_options["a"] = "2"
    value(core, "engine_options")["b"] = "3"
    value(core, "accumulate_outer_fragment")[3].append(9)
    value(core, "hardware_instrumentations").append(1)
    assert value(core, "engine_options") == {"a": "1"}
    assert value(core, "accumulate_outer_fragment") == {3: [0]}
    assert value(CoreIpuStrategy(), "hardware_instrumentations") == [0]


def test_manual_shard_is_the_virtual_graph_mode() -> None:
    core = strategy(enable_manual_shard=True)
    assert value(core, "virtual_graph_mode") == 1
    core.set_options({"virtual_graph_mode": 0})
    assert value(core, "enable_manual_shard") is False


def test_half_partial_sets_matmuls_and_convolutions() -> None:
    core = strategy(convolution_options={"a": "b"}, enable_half_partial=True)
    assert value(core, "partials_type_matmuls") == "half"
    assert value(core, "convolution_options") == {"a": "b", "partialsType": "half"}
    core.set_options({"enable_half_partial": False})
    assert value(core, "partials_type_matmuls") == "float"


def test_custom_operators_are_mapped_and_listed() -> None:
    core = strategy(custom_op=RELU)
    core.set_options({"custom_op": {**RELU, "paddle_op": "b"}})
    core.set_options({"custom_op": {**RELU, "version": 2}})
    assert value(core, "custom_ops") == [
        "paddle_op: relu_x, domain: custom.ops, type: ReluX, version: 2",
        "paddle_op: b, domain: custom.ops, type: ReluX, version: 1",
    ]
    mapped = core.snapshot().custom_ops
    assert mapped["relu_x"] == CustomOp("relu_x", "ReluX", "custom.ops", 2)


def test_a_snapshot_does_not_change() -> None:
    core = strategy(num_ipus=2, engine_options={"a": "1"}, custom_codelets=["x.cpp"])
    core.enable_pattern("TiedGather")
    values = core.snapshot()
    core.set_options({"num_ipus": 4, "engine_options": {"a": "2"}, "custom_op": RELU})
    core.disable_pattern("TiedGather")
    assert values["num_ipus"] == 2
    assert values["engine_options"] == {"a": "1"}
    assert values["custom_codelets"] == ("x.cpp",)
    assert values.patterns == {"TiedGather": True}
    assert not values.custom_ops
    assert values.explicit == {"num_ipus", "engine_options", "custom_codelets"}
    assert list(values) == list(OPTIONS)
    assert len(values) == len(OPTIONS)
    with pytest.raises(TypeError):
        values["engine_options"]["a"] = "3"
    with pytest.raises(TypeError):
        values["num_ipus"] = 3  # type: ignore[index]
    with pytest.raises(OptionError, match="Did you mean 'num_ipus'"):
        values["num_ipu"]
    assert values.get("num_ipus") == 2
    assert "num_ipu" not in values


def test_a_member_is_named_as_popart_names_it() -> None:
    values = strategy(auto_recomputation=3).snapshot()
    assert values.member("auto_recomputation") == "Pipeline"
    with pytest.raises(OptionError, match="'lr' holds a double, not a member of an enum"):
        values.member("lr")


def test_the_defaults_of_paddle_are_served_and_consistent() -> None:
    values = strategy(
        location_optimizer={"on_chip": 0, "use_replicated_tensor_sharding": 1},
        accumulation_and_replication_reduction_type=1,
        mean_accumulation_and_replication_reduction_strategy=1,
    ).snapshot()
    check_consistent(values)


PIPELINE = {
    "num_ipus": 2,
    "enable_manual_shard": True,
    "enable_pipelining": True,
    "enable_gradient_accumulation": True,
    "accumulation_factor": 8,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"enable_gradient_accumulation": False},
            r"enableGradientAccumulation is false, but accumulationFactor > 1\. Set "
            r"enable_gradient_accumulation to True, or accumulation_factor \(now 8\) to 1",
        ),
        ({"is_training": False}, r"Gradient Accumulation only available when training\."),
        (
            {"num_ipus": 1},
            r"Pipelining requires more than 1 IPU \(currently 1\) and the 'virtualGraphMode' "
            r"session option to not be VirtualGraphMode::Off "
            r"\(currently VirtualGraphMode::Manual\)",
        ),
        ({"enable_manual_shard": False}, r"\(currently VirtualGraphMode::Off\)"),
        ({"num_ipus": 1}, r"Only if num_ipus > 1, enable_manual_shard is able to be set True"),
        (
            {"enable_manual_shard": False, "enable_pipelining": False},
            r"If virtual graphs are disabled, the replicated graph count \(1\) needs to be equal "
            r"to the number of IPUs \(2\)",
        ),
        (
            {"virtual_graph_mode": 2},
            r"those of ipu_shard_guard, and virtual_graph_mode Auto leaves the placement to PopART",
        ),
        (
            {"virtual_graph_mode": 2, "enable_pipelining": False, "need_avg_shard": True},
            r"need_avg_shard places operators, and virtual_graph_mode Auto leaves that to PopART",
        ),
        (
            {"execution_phase_settings.phases": 2},
            r"> 1 execution phases requires VirtualGraphMode::ExecutionPhases\. Set "
            r"virtual_graph_mode to 3, or execution_phase_settings.phases \(now 2\) to 0",
        ),
        ({"num_io_tiles": 33}, r"33 is an invalid number of IO tiles\. Set num_io_tiles to 0, or"),
        ({"num_io_tiles": 16}, r"16 is an invalid number of IO tiles"),
        ({"enable_explicit_main_loops": True}, r"enableExplicitMainLoops requires useHostCopyOps"),
        (
            {"enable_explicit_main_loops": True, "use_host_copy_ops": True},
            r"Explicit pipelining requires explicit recomputation to be enabled\. Set explicit",
        ),
        (
            {"auto_recomputation": "Pipeline", "explicit_recomputation": True},
            r"auto_recomputation Pipeline computes the stages of a pipeline again, and "
            r"enable_pipelining is True, explicit_recomputation True\. Set auto_recomputation to 1",
        ),
        (
            {"auto_recomputation": "Pipeline", "enable_pipelining": False},
            r"enable_pipelining is False, explicit_recomputation False\. Set",
        ),
        (
            {"alias_zero_copy": True},
            r"Alias zero copy is not supported with implicit pipelining\. Set alias_zero_copy to F",
        ),
        (
            {"alias_zero_copy": True, "enable_pipelining": False},
            r"Alias zero copy is currently not supported with implicit recomputation\. Set expl",
        ),
        (
            {"replicated_collectives_settings": {"prepare_schedule_for_merging_collectives": True}},
            r"prepare_schedule_for_merging_collectives of replicated_collectives_settings is "
            r"incompatible with the schedule Serial of accumulate_outer_fragment\. Set",
        ),
        (
            {
                "opx_modify_checking": True,
                "num_ipus": 4,
                "enable_replicated_graphs": True,
                "replicated_graph_count": 2,
            },
            r"opxModifyChecking looks at one replica only\. Set opx_modify_checking to False, or "
            r"replicated_graph_count \(now 2\) to 1",
        ),
    ],
)
def test_options_that_contradict_each_other(change: dict[str, Any], message: str) -> None:
    check_consistent(strategy(**PIPELINE).snapshot())
    with pytest.raises(OptionError, match=message):
        check_consistent(strategy(**{**PIPELINE, **change}).snapshot())


@pytest.mark.parametrize(
    "options",
    [
        # Without virtual graphs PopART sets no tiles aside.
        {"num_io_tiles": 33},
        {"alias_zero_copy": True, "explicit_recomputation": True},
        {**PIPELINE, "auto_recomputation": "Pipeline"},
        {
            **PIPELINE,
            "auto_recomputation": "Pipeline",
            "alias_zero_copy": True,
            "explicit_recomputation": True,
            "enable_explicit_main_loops": True,
            "use_host_copy_ops": True,
        },
        {
            "replicated_collectives_settings": {"prepare_schedule_for_merging_collectives": True},
            "accumulate_outer_fragment": {0: []},
        },
    ],
)
def test_options_that_go_together(options: dict[str, Any]) -> None:
    check_consistent(strategy(**options).snapshot())


@pytest.mark.parametrize(
    ("name", "text"), [("partials_type_matmuls", "HALF"), ("kahn_tie_breaker", "FIFO")]
)
def test_what_is_taken_in_any_letter_case(name: str, text: str) -> None:
    assert strategy(**{name: text}).get_option(name)["value"] == text.lower()


def test_what_only_the_cpp_interface_has_is_refused_for_the_sdk() -> None:
    core = strategy(loose_threshold_at_peak=1)
    core.set_options({"autodiff_settings.stitch_strategy": 0})
    with pytest.raises(
        NotSupported,
        match=r"C\+\+ interface only.*\n  loose_threshold_at_peak = 1 \(default 8000\)\n  autodiff_"
        r"settings.stitch_strategy = 0 \(default 1\)\nLeave them at their defaults, or use the IPU",
    ):
        check_python_interface(core.snapshot())
    check_python_interface(CoreIpuStrategy().snapshot())


def test_aliases_name_options() -> None:
    assert {name for names in ALIASES.values() for name in names} | ALIASES.keys() <= OPTIONS.keys()


def test_the_strategy_imports_neither_paddle_nor_jax_nor_onnx() -> None:
    code = (
        "import sys, paddle_ipu.options.strategy;"
        "print([m for m in ('paddle', 'jax', 'onnx', 'onnx_ir', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_strategy_shows_the_options_that_a_new_one_does_not_have() -> None:
    own = paddle.static.IpuStrategy()
    assert repr(own) == "IpuStrategy()"
    own.set_graph_config(num_ipus=2, micro_batch_size=4, enable_manual_shard=True)
    own.set_options({"location_optimizer": {"on_chip": 1}, "partials_type_matmuls": "half"})
    assert repr(own) == (
        "IpuStrategy(micro_batch_size=4, num_ipus=2, enable_manual_shard=True, "
        "enable_half_partial=True, location_optimizer={'on_chip': 1, "
        "'use_replicated_tensor_sharding': 1})"
    )
    assert repr(CoreIpuStrategy()) == "CoreIpuStrategy()"
    shown = repr(paddle.static.IpuCompiledProgram(paddle.static.Program(), ipu_strategy=own))
    assert shown == f"<IpuCompiledProgram of {own!r}>"


class _TwoIpus(paddle.static.IpuStrategy):
    """A user's strategy."""

    def __init__(self, micro_batch: int) -> None:
        super().__init__()
        self.set_graph_config(num_ipus=2, micro_batch_size=micro_batch)


def test_a_strategy_of_a_users_class_shows_what_paddles_does_not_have() -> None:
    own = _TwoIpus(4)
    assert repr(own) == "IpuStrategy(micro_batch_size=4, num_ipus=2)"
    assert "num_ipus" in own._repr_html_()


def test_a_notebook_shows_the_same_options_as_a_table() -> None:
    own = paddle.static.IpuStrategy()
    own.set_graph_config(num_ipus=2)
    own.set_options({"ipu_machine": "pod4 & <b>"})
    shown = own._repr_html_()
    rows = re.findall(r"<tr><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", shown)
    assert rows == [("num_ipus", "2"), ("ipu_machine", "&#x27;pod4 &amp; &lt;b&gt;&#x27;")]
    assert html.escape(OPTIONS["num_ipus"].meaning) in shown
    compiler = paddle.static.IpuCompiledProgram(paddle.static.Program(), ipu_strategy=own)
    assert compiler._repr_html_() == shown.replace("IpuStrategy", "IpuCompiledProgram")
    assert "with the options of a new" in paddle.static.IpuStrategy()._repr_html_()


def test_showing_a_strategy_registers_none_for_layers() -> None:
    assert paddle.in_dynamic_mode()
    first, last = paddle.static.IpuStrategy(), paddle.static.IpuStrategy()
    try:
        assert registration.current() is last
        assert "IpuStrategy" in repr(first) + first._repr_html_()
        assert registration.current() is last
    finally:
        last.release_patch()
