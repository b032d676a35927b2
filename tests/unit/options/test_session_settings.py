"""What a strategy's options write on PopART's SessionOptions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paddle_ipu.options.strategy import CoreIpuStrategy, Option, record_on
from paddle_ipu.options.values import Location, Members
from paddle_ipu.popart import enums
from tests.unit.options.option_samples import BY_NAME, RELU, SETTABLE, other_value, strategy


class Settings(SimpleNamespace):
    """Stands for a PopART settings object: takes any field, makes nested ones when asked."""

    def __getattr__(self, name: str) -> Settings:
        nested = Settings()
        setattr(self, name, nested)
        return nested


def member(type_name: str, member_name: str) -> str:
    return f"{type_name}.{member_name}"


def recorded(core: CoreIpuStrategy) -> dict[str, Any]:
    def plain(settings: Settings) -> dict[str, Any]:
        return {
            name: plain(field) if isinstance(field, Settings) else field
            for name, field in vars(settings).items()
        }

    settings = Settings()
    record_on(core.snapshot(), settings, member)
    return plain(settings)


def test_options_land_on_popart_fields() -> None:
    core = strategy(
        accumulation_factor=4,
        auto_recomputation=3,
        merge_var_update=0,
        enable_manual_shard=True,
        num_io_tiles=32,
        outline_threshold=10,
        default_prefetch_buffering_depth=3,
        subgraph_copying_strategy=1,
        engine_options={"opt.useAutoloader": "true", "depth": 3},
        custom_codelets=["a.cpp"],
        dot_checks=["PreAlias"],
        hardware_instrumentations=[1],
        accumulate_outer_fragment={3: [0]},
        replicated_collectives_settings={"prepare_schedule_for_merging_collectives": True},
        partials_type_matmuls="float",
        location_optimizer={"on_chip": False, "use_io_tiles_to_load": 1},
        location_weight={
            "use_replicated_tensor_sharding": 1,
            "min_elements_for_off_chip": 4,
            "sharding_domain_with_consecutive": 2,
        },
        available_memory_proportion=0.5,
        custom_op=RELU,
    )
    core.set_options({"batch_serialization_settings.batch_schedule": 2})
    assert recorded(core) == {
        "accumulationFactor": 4,
        "autoRecomputation": "RecomputationType.Pipeline",
        "mergeVarUpdate": "MergeVarUpdateType.Off",
        "virtualGraphMode": "VirtualGraphMode.Manual",
        "numIOTiles": 32,
        "outlineThreshold": 10.0,
        "defaultBufferingDepth": 3,
        "subgraphCopyingStrategy": "SubgraphCopyingStrategy.JustInTime",
        "engineOptions": {"opt.useAutoloader": "true", "depth": "3"},
        "customCodelets": ["a.cpp"],
        "dotChecks": {"PREALIAS"},
        "hardwareInstrumentations": {"Instrumentation.Outer", "Instrumentation.Inner"},
        "accumulateOuterFragmentSettings": {
            "schedule": "AccumulateOuterFragmentSchedule.OverlapMemoryOptimized",
            "excludedVirtualGraphs": [0],
        },
        "replicatedCollectivesSettings": {"prepareScheduleForMergingCollectives": True},
        "partialsTypeMatMuls": "float",
        "optimizerStateTensorLocationSettings": {
            "location": {"storage": "TensorStorage.OffChip", "loadTileSet": "TileSet.IO"},
        },
        "weightTensorLocationSettings": {
            "location": {
                "replicatedTensorSharding": "ReplicatedTensorSharding.On",
                "shardingDomain": {"type": "CommGroupType.Consecutive", "replicaGroupSize": 2},
            },
            "minElementsForOffChip": 4,
        },
        "batchSerializationSettings": {
            "batchSchedule": "BatchSerializationBatchSchedule.OverlapOnIo",
        },
    }


@pytest.mark.parametrize("on", [False, True])
def test_every_enum_member_written_is_one_of_popart(on: bool) -> None:
    asked: set[tuple[str, str]] = set()

    def note(type_name: str, member_name: str) -> Any:
        asked.add((type_name, member_name))
        return getattr(getattr(enums, type_name), member_name)

    for option in SETTABLE:
        samples = [other_value(option)]
        if isinstance(option.valid, Members):
            samples = list(range(len(option.valid.names)))
        elif option.kind == "location":
            samples = [
                dict.fromkeys(Location.switches, on),
                *({key: 2} for key in Location.domains),
            ]
        elif option.name == "accumulate_outer_fragment":
            samples = [{number: []} for number in range(4)]
        for sample in samples:
            record_on(strategy(**{option.name: sample}).snapshot(), Settings(), note)
    assert ("TileSet", "IO" if on else "Compute") in asked
    assert ("AccumulateOuterFragmentSchedule", "OverlapMemoryOptimized") in asked
    assert len({type_name for type_name, _ in asked}) == 16


def test_what_nobody_set_is_not_written() -> None:
    assert recorded(CoreIpuStrategy()) == {}
    assert recorded(strategy(default_prefetch_buffering_depth=111122)) == {}


@BY_NAME
def test_a_recorded_option_reaches_the_field_its_row_names(option: Option) -> None:
    written = recorded(strategy(**{option.name: other_value(option)}))
    if not option.seam.startswith("SessionOptions."):
        assert written == {}
        return
    for field in option.seam.split(", "):
        found: Any = written
        for part in field.removeprefix("SessionOptions.").split("."):
            found = found[part]
