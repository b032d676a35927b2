"""``paddle.inference.Config``: settings of the IPU, their file, copies, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from paddle import inference

from paddle_ipu.errors import NotSupported, OptionError
from paddle_ipu.inference.settings import SCALARS, settings_of
from paddle_ipu.options.strategy import CoreIpuStrategy

FILE = """\
ipu_device_num, 2
ipu_micro_batch_size,8
ipu_enable_pipelining,TRUE
ipu_batches_per_step,4
ipu_enable_fp16,1
ipu_replica_num,2
ipu_available_memory_proportion,0.5
ipu_enable_half_partial,true
ipu_enable_model_runtime_executor,False
ipu_custom_ops_info, [[my_relu, Relu, custom.ops, 1], [my_tanh,Tanh,custom.ops,2]]
ipu_custom_patterns,[[AccumulatePriorityPattern,False],[PreUniRepl,True]]
"""


def options_of(config: Any) -> CoreIpuStrategy:
    return settings_of(config).strategy()


def value(config: Any, option: str) -> Any:
    return options_of(config).get_option(option)["value"]


def test_settings_become_strategy_options() -> None:
    config = inference.Config()
    config.enable_ipu(2, 8, True, 4)
    config.set_ipu_config(True, 2, 0.5, True)
    assert value(config, "num_ipus") == 4
    assert value(config, "micro_batch_size") == 8
    assert value(config, "enable_pipelining") is True
    assert value(config, "batches_per_step") == 4
    assert value(config, "enable_manual_shard") is True
    assert value(config, "need_avg_shard") is True
    assert value(config, "enable_fp16") is True
    assert value(config, "replicated_graph_count") == 2
    assert value(config, "available_memory_proportion") == 0.5
    assert value(config, "enable_half_partial") is True
    assert value(config, "is_training") is False


def test_what_upstream_ignores_is_ignored() -> None:
    config = inference.Config()
    config.enable_ipu(ipu_batches_per_step=4)
    config.set_ipu_config(ipu_enable_half_partial=True)
    assert value(config, "batches_per_step") == 1
    assert value(config, "enable_half_partial") is False


def test_getters_and_copies() -> None:
    config = inference.Config()
    assert not config.use_ipu()
    config.set_ipu_config(ipu_replica_num=2)
    assert not config.use_ipu()
    config.enable_ipu(1, 4)
    copy = inference.Config(config)
    config.enable_ipu(3)
    assert (copy.use_ipu(), copy.ipu_device_num(), copy.ipu_micro_batch_size()) == (True, 1, 4)
    assert (copy.ipu_replica_num(), copy.ipu_enable_fp16()) == (2, False)
    assert (copy.ipu_enable_pipelining(), copy.ipu_batches_per_step()) == (False, 1)
    assert config.ipu_device_num() == 3
    assert isinstance(copy, inference.Config)


def test_the_summary_has_the_settings_of_the_ipu() -> None:
    config = inference.Config()
    stock = config.summary()
    assert "ipu" not in stock
    config.enable_ipu(1, 4)
    config.set_ipu_options({"enable_engine_caching": True})
    summary = config.summary()
    assert summary.startswith(stock.rstrip("\n"))
    rows = [line.replace(" ", "") for line in summary.splitlines()]
    assert {"|use_ipu|true|", "|ipu_micro_batch_size|4|", "|enable_engine_caching|true|"} <= {*rows}
    assert len({len(line) for line in summary.splitlines() if "ipu_" in line}) == 1


def test_a_file_has_all_settings(tmp_path: Path) -> None:
    (tmp_path / "ipu.conf").write_text(FILE)
    config = inference.Config()
    config.load_ipu_config(str(tmp_path / "ipu.conf"))
    assert not config.use_ipu()
    settings = settings_of(config)
    assert settings.scalars.keys() == SCALARS.keys()
    assert (config.ipu_device_num(), config.ipu_enable_fp16()) == (2, True)
    assert value(config, "available_memory_proportion") == 0.5
    strategy = options_of(config)
    assert not strategy.is_pattern_enabled("AccumulatePriorityPattern")
    assert strategy.is_pattern_enabled("PreUniRepl")
    operators = strategy.snapshot().custom_ops
    assert [str(operators[name]) for name in ("my_relu", "my_tanh")] == [
        "paddle_op: my_relu, domain: custom.ops, type: Relu, version: 1",
        "paddle_op: my_tanh, domain: custom.ops, type: Tanh, version: 2",
    ]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "ipu.conf").write_bytes(b"\xef\xbb\xbfipu_device_num,2\r\n")
    config = inference.Config()
    config.load_ipu_config(str(tmp_path / "ipu.conf"))
    assert config.ipu_device_num() == 2


def test_custom_operators_and_patterns_add_up() -> None:
    config = inference.Config()
    config.set_ipu_custom_info([["my_relu", "Relu", "custom.ops", "1"]], {"PreUniRepl": True})
    config.set_ipu_custom_info(ipu_custom_patterns={"AccumulatePriorityPattern": False})
    strategy = options_of(config)
    assert list(strategy.snapshot().custom_ops) == ["my_relu"]
    assert strategy.is_pattern_enabled("PreUniRepl")
    assert not strategy.is_pattern_enabled("AccumulatePriorityPattern")


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ipu_device_nun,1\n", r"line 1: unknown key 'ipu_device_nun'.* mean 'ipu_device_num'\?"),
        ("num_ipus,1\n", r"unknown key 'num_ipus'.*set_ipu_options"),
        ("ipu_device_num,1\n\nipu_replica_num,1\n", r"line 2: '' has no comma.*Blank lines"),
        ("ipu_device_num 1\n", r"line 1: 'ipu_device_num 1' has no comma; expected key,value"),
        ("ipu_device_num,two\n", r"ipu_device_num is 'two', expected an int in \[1,.*instance 1"),
        ("ipu_device_num,0\n", r"ipu_device_num got 0 of type int, expected an int in \[1,"),
        ("ipu_enable_fp16,yes\n", r"ipu_enable_fp16 is 'yes', expected True or False"),
        ("ipu_device_num,1\nipu_device_num,2\n", r"line 2: ipu_device_num was given before"),
        ("ipu_custom_ops_info,[a,b]\n", r"expected a list of lists, for instance \[\[custom_relu"),
        ("ipu_custom_ops_info,[[a,b]]\n", r"\['a', 'b'\], expected a list of four"),
        ("ipu_custom_patterns,[[PreUniRepl,true]]\n", r"\[PreUniRepl,true\], expected the name"),
        ("ipu_custom_patterns,[[NoPattern,True]]\n", r"NoPattern"),
        ("ipu_available_memory_proportion,2\n", r"ipu_available_memory_proportion got 2.0"),
        ("\x00\xff", r"has no comma"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ipu.conf").write_text(text)
    config = inference.Config()
    config.enable_ipu(1, 4)
    before = settings_of(config).rows()
    with pytest.raises(OptionError, match=message):
        config.load_ipu_config(str(tmp_path / "ipu.conf"))
    assert settings_of(config).rows() == before


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    config = inference.Config()
    with pytest.raises(OptionError, match=r"nowhere: cannot be read: No such file"):
        config.load_ipu_config(str(tmp_path / "nowhere"))
    with pytest.raises(OptionError, match=r"cannot be read: Is a directory"):
        config.load_ipu_config(str(tmp_path))
    (tmp_path / "bytes").write_bytes(b"ipu_device_num,\xff\n")
    with pytest.raises(OptionError, match=r"byte 15 is no text"):
        config.load_ipu_config(str(tmp_path / "bytes"))
    (tmp_path / "large").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(OptionError, match=r"larger than 1 MiB"):
        config.load_ipu_config(str(tmp_path / "large"))


def test_arguments_of_a_wrong_kind() -> None:
    config = inference.Config()
    with pytest.raises(OptionError, match=r"enable_ipu: ipu_device_num got True of type bool"):
        config.enable_ipu(True)
    assert not config.use_ipu()
    with pytest.raises(OptionError, match=r"set_ipu_config: ipu_enable_fp16 got 1 of type int"):
        config.set_ipu_config(1)
    with pytest.raises(OptionError, match=r"ipu_custom_patterns got \['a'\], expected a dict"):
        config.set_ipu_custom_info(ipu_custom_patterns=["a"])
    with pytest.raises(OptionError, match=r"no strategy option 'no_such'"):
        config.set_ipu_options({"no_such": 1})
    with pytest.raises(OptionError, match=r"num_ipus is what ipu_device_num of enable_ipu"):
        config.set_ipu_options({"num_ipus": 2})


def test_a_pipeline_needs_a_batch_for_each_ipu() -> None:
    config = inference.Config("nowhere")
    config.enable_ipu(4, 1, True, 2)
    with pytest.raises(OptionError, match=r"Batches per step should be equal or greater than the"):
        inference.create_predictor(config)


def test_a_config_without_a_model() -> None:
    config = inference.Config()
    config.enable_ipu()
    with pytest.raises(OptionError, match=r"names no model: give Config\(prog_file, params_file\)"):
        inference.create_predictor(config)


def test_ways_to_a_predictor_on_the_cpu_are_refused() -> None:
    from paddle.base import core

    config = inference.Config()
    config.enable_ipu()
    for way in (inference.Predictor, core.create_paddle_predictor):
        with pytest.raises(NotSupported, match=r"the config has enable_ipu. Use paddle.inference"):
            way(config)
