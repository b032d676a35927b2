"""Groups of replicas and the settings of weights that differ between them: closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception, popart_internal_exception
from paddle_ipu.popart.replica_grouping import ReplicaGrouping
from paddle_ipu.popart.variable_settings import settings_of

ALL, CONSECUTIVE = popart.CommGroupType.All, popart.CommGroupType.Consecutive
ORTHOGONAL, UNGROUPED = popart.CommGroupType.Orthogonal, popart.CommGroupType.Ungrouped
ONE, EVERY = popart.VariableRetrievalMode.OnePerGroup, popart.VariableRetrievalMode.AllReplicas
REDUCED = popart.VariableRetrievalMode.AllReduceReplicas

GROUPINGS = [
    ((8, 1, 4), [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ((8, 2, 4), [[0, 2, 4, 6], [1, 3, 5, 7]]),
    ((8, 2, 2), [[0, 2], [1, 3], [4, 6], [5, 7]]),
    ((12, 3, 2), [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]),
    ((4, 2, 1), [[0], [1], [2], [3]]),
    ((4, 1, 4), [[0, 1, 2, 3]]),
]


@pytest.mark.parametrize(("numbers", "expected"), GROUPINGS)
def test_replicas_of_groups(numbers: tuple[int, int, int], expected: list[list[int]]) -> None:
    grouping = ReplicaGrouping(*numbers)
    assert grouping.getNumReplicas() == numbers[0]
    assert grouping.getNumGroups() == len(expected)
    assert grouping.getGroupSize() == len(expected[0])
    assert [grouping.getReplicasAt(group) for group in range(len(expected))] == expected
    for number, group in enumerate(expected):
        for place, replica in enumerate(group):
            assert grouping.getGroupAt(replica) == number
            assert grouping.getIndexInGroupAt(replica) == place
            assert grouping.getReplicaAt(number, place) == replica


def test_the_transpose_has_the_replicas_of_one_place() -> None:
    for numbers in ((8, 1, 4), (8, 4, 2), (6, 1, 6), (6, 1, 1)):
        grouping = ReplicaGrouping(*numbers)
        groups = np.array([grouping.getReplicasAt(g) for g in range(grouping.getNumGroups())])
        other = grouping.getTranspose()
        columns = [other.getReplicasAt(g) for g in range(other.getNumGroups())]
        np.testing.assert_array_equal(columns, groups.T)
        assert other.getTranspose() == grouping
    with pytest.raises(popart_exception, match="The transpose of 'ReplicaGrouping.numReplicas=12"):
        ReplicaGrouping(12, 3, 2).getTranspose()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0, 1, 1), "The number of replicas in a `popart::ReplicaGrouping` must be a positive"),
        ((4, 0, 2), "The stride in a `popart::ReplicaGrouping` must be a positive integer. Got 0"),
        ((4, 1, 0), "The group size in a `popart::ReplicaGrouping` must be a positive integer"),
        ((4, 2, 4), "divisible by the product of the stride and the group size. Got 4 replicas"),
    ],
)
def test_groupings_that_there_are_not(numbers: tuple[int, int, int], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        ReplicaGrouping(*numbers)


def test_replicas_and_groups_that_there_are_not() -> None:
    grouping = ReplicaGrouping(8, 1, 4)
    for call, what in (
        (lambda: grouping.getGroupAt(8), "replica index"),
        (lambda: grouping.getIndexInGroupAt(-1), "replica index"),
        (lambda: grouping.getReplicasAt(2), "group index"),
        (lambda: grouping.getReplicaAt(0, 4), "index"),
    ):
        with pytest.raises(popart_exception, match=f"The requested {what} is outside the valid"):
            call()


# replicas, settings -> groups
SETTINGS: list[tuple[int, Any, list[list[int]]]] = [
    (4, popart.VariableSettings(), [[0, 1, 2, 3]]),
    (4, popart.VariableSettings(popart.CommGroup(ALL, 2)), [[0, 1, 2, 3]]),
    (4, popart.VariableSettings(popart.CommGroup(CONSECUTIVE, 2)), [[0, 1], [2, 3]]),
    (4, popart.VariableSettings(popart.CommGroup(ORTHOGONAL, 2)), [[0, 2], [1, 3]]),
    (6, popart.VariableSettings(popart.CommGroup(ORTHOGONAL, 2)), [[0, 3], [1, 4], [2, 5]]),
    (3, popart.VariableSettings(popart.CommGroup(UNGROUPED, 0)), [[0], [1], [2]]),
    (2, popart.VariableSettings(popart.CommGroup(CONSECUTIVE, 1)), [[0], [1]]),
    (2, popart.VariableSettings(popart.CommGroup(CONSECUTIVE, 2)), [[0, 1]]),
    (8, popart.VariableSettings(2, 2, ONE), [[0, 2], [1, 3], [4, 6], [5, 7]]),
    (3, popart.VariableSettings(5, 1, EVERY), [[0], [1], [2]]),
]


@pytest.mark.parametrize(("replicas", "settings", "groups"), SETTINGS)
def test_what_settings_say_of_groups(replicas: int, settings: Any, groups: list[list[int]]) -> None:
    count = len(groups)
    assert settings.groups(replicas) == groups
    assert settings.getGroupCount(replicas) == count
    assert settings.numReplicasReturningVariable(replicas) == count
    assert settings.getRealGroupSize(replicas) == len(groups[0])
    assert [settings.getGroupRepresentative(g) for g in range(count)] == [g[0] for g in groups]
    host = [count, 5, 3] if count > 1 else [5, 3]
    assert settings.shapeOnHost([5, 3], replicas) == host
    assert settings.shapeOnReplica(host, replicas, "w") == [5, 3]
    assert settings.shapeOnReplica(settings.shapeOnHost([], replicas), replicas, "w") == []


def test_every_replica_may_return_its_values() -> None:
    group = popart.CommGroup(CONSECUTIVE, 2)
    for mode, expected in ((ONE, 2), (REDUCED, 2), (EVERY, 4)):
        assert popart.VariableSettings(group, mode).numReplicasReturningVariable(4) == expected
        assert popart.VariableSettings(1, 2, mode).numReplicasReturningVariable(4) == expected
        alone = 4 if mode is EVERY else 1
        assert popart.VariableSettings(mode).numReplicasReturningVariable(4) == alone


def test_the_ways_to_make_settings() -> None:
    group = popart.CommGroup(ORTHOGONAL, 2)
    settings = popart.VariableSettings(sharedVariableDomain_=group, retrievalMode_=EVERY)
    assert settings == popart.VariableSettings(group, EVERY)
    assert settings != popart.VariableSettings(group)
    assert len({settings, popart.VariableSettings(group, retrievalMode_=EVERY)}) == 1
    assert settings.isUsingCommGroup()
    assert settings.getCommGroupType() is ORTHOGONAL
    assert settings.getGroupSize() == 2
    assert settings.getSharedVariableDomain() == group
    assert settings.getRetrievalMode() is EVERY
    assert settings.getReplicaGrouping(6) == ReplicaGrouping(6, 3, 2)
    group.replicaGroupSize = 3
    assert settings.getSharedVariableDomain().replicaGroupSize == 2
    by_stride = popart.VariableSettings(stride=2, groupSize=3, mode=EVERY)
    assert not by_stride.isUsingCommGroup()
    assert (by_stride.getStride(), by_stride.getGroupSize()) == (2, 3)
    assert by_stride.getReplicaGrouping(12) == ReplicaGrouping(12, 2, 3)
    with pytest.raises(popart_exception, match="not initialised using a `popart::CommGroup`"):
        by_stride.getSharedVariableDomain()
    for arguments in ((3,), (group, 2), (1, 2), (ONE, group), (1, 2, 0)):
        with pytest.raises(TypeError, match="incompatible constructor arguments"):
            popart.VariableSettings(*arguments)


def test_groups_of_no_replicas() -> None:
    for kind in (CONSECUTIVE, ORTHOGONAL):
        with pytest.raises(popart_internal_exception, match="VariableSettings had 1 errors!"):
            popart.VariableSettings(popart.CommGroup(kind, 0))
    with pytest.raises(popart_exception, match="The stride in a `popart::VariableSettings` must"):
        popart.VariableSettings(0, 2, ONE)
    with pytest.raises(popart_exception, match="The group size in a `popart::VariableSettings`"):
        popart.VariableSettings(1, 0, ONE)
    three = popart.VariableSettings(popart.CommGroup(CONSECUTIVE, 3))
    with pytest.raises(popart_exception, match="divisible by the product of the stride"):
        three.getGroupCount(4)


@pytest.mark.parametrize("shape", [[3, 5], []])
def test_an_array_has_an_entry_for_each_group(shape: list[int]) -> None:
    settings = popart.VariableSettings(popart.CommGroup(CONSECUTIVE, 2))
    message = 'of Tensor: "w". should match numGroups: 2'
    with pytest.raises(popart_internal_exception, match=message):
        settings.shapeOnReplica(shape, 4, "w")


def test_settings_of_a_model() -> None:
    for settings in (
        popart.VariableSettings(),
        popart.VariableSettings(EVERY),
        popart.VariableSettings(popart.CommGroup(ORTHOGONAL, 4), REDUCED),
        popart.VariableSettings(popart.CommGroup(UNGROUPED, 0)),
    ):
        assert settings_of(settings.metadata("w"), "w") == settings
        assert settings_of(settings.metadata("w"), "v") == popart.VariableSettings()
    written = popart.VariableSettings(popart.CommGroup(ORTHOGONAL, 4), EVERY).metadata("a/w")
    assert written == {
        "__comm_group_type/a/w": "2",
        "__comm_group_size/a/w": "4",
        "__variable_settings/a/w": "2",
    }
    with pytest.raises(popart_exception, match="Invalid ONNX Model : the metadata of 'w'"):
        settings_of({"__comm_group_type/w": "9"}, "w")
    with pytest.raises(popart_exception, match="not initialised using a `popart::CommGroup`"):
        popart.VariableSettings(1, 2, ONE).metadata("w")
