"""Weights that differ between groups of replicas, and which values of theirs the host reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu.errors import popart_exception, popart_internal_exception
from paddle_ipu.popart.enums import CommGroupType, VariableRetrievalMode
from paddle_ipu.popart.options import CommGroup
from paddle_ipu.popart.replica_grouping import ReplicaGrouping

_TYPE, _SIZE, _MODE = "__comm_group_type/", "__comm_group_size/", "__variable_settings/"
"""Before a weight's id: the keys of its settings in a model's metadata."""
_SIZED = (CommGroupType.Consecutive, CommGroupType.Orthogonal)
_KINDS: Mapping[str, type] = {
    "sharedVariableDomain_": CommGroup,
    "retrievalMode_": VariableRetrievalMode,
    "stride": int,
    "groupSize": int,
    "mode": VariableRetrievalMode,
}
_FORMS = (
    (),
    ("sharedVariableDomain_",),
    ("retrievalMode_",),
    ("sharedVariableDomain_", "retrievalMode_"),
    ("stride", "groupSize", "mode"),
)
"""The arguments that the settings may be made with."""


class VariableSettings:
    """Which replicas share a weight's values, and which values the host reads.

    ``VariableSettings()``, ``VariableSettings(commGroup)``, ``VariableSettings(mode)``,
    ``VariableSettings(commGroup, mode)`` or ``VariableSettings(stride, groupSize, mode)``.
    Without a group all replicas share them. `OnePerGroup` reads the values of each group's first
    replica, and so does `AllReduceReplicas`, as in PopART; `AllReplicas` reads every replica's.

    Raises:
        popart_exception: groups of no replicas.
        TypeError: other arguments.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        given = _arguments(args, keywords)
        self._group: CommGroup | None = None
        if "stride" in given:
            self._stride, self._size = int(given["stride"]), int(given["groupSize"])
            if self._size == 1:
                self._stride = 1
            self._mode: VariableRetrievalMode = given["mode"]
        else:
            group = given.get("sharedVariableDomain_", CommGroup())
            # The caller may change its own.
            self._group = CommGroup(group.type, group.replicaGroupSize)
            self._stride, self._size = 0, int(group.replicaGroupSize)
            self._mode = given.get("retrievalMode_", VariableRetrievalMode.OnePerGroup)
        self.verify()

    def verify(self) -> None:
        """Checks that groups have replicas.

        Raises:
            popart_exception: they have none.
        """
        if self._group is None:
            for what, number in (("stride", self._stride), ("group size", self._size)):
                if number < 1:
                    raise popart_exception(
                        f"The {what} in a `popart::VariableSettings` must be a positive integer. "
                        f"Got {number}"
                    )
        elif self._group.type in _SIZED and self._size < 1:
            raise popart_internal_exception(
                "VariableSettings had 1 errors! Groups of type "
                f"{self._group.type.name} have {self._size} replicas; give CommGroup a size"
            )

    def getSharedVariableDomain(self) -> CommGroup:
        """The group of replicas that share the values.

        Raises:
            popart_exception: the settings were made with a stride.
        """
        if self._group is None:
            raise popart_exception(
                "The variable settings were not initialised using a `popart::CommGroup` instance. "
                f"They have stride {self._stride} and groups of {self._size}: getReplicaGrouping() "
                "gives these"
            )
        return CommGroup(self._group.type, self._group.replicaGroupSize)

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """The groups of so many replicas.

        Raises:
            popart_exception: they cannot be put into such groups.
        """
        if self._group is None:
            return ReplicaGrouping(numReplicas, self._stride, self._size)
        return self._group.toReplicaGrouping(numReplicas)

    def isUsingCommGroup(self) -> bool:
        """Whether the settings were made with a CommGroup, not with a stride."""
        return self._group is not None

    def getCommGroupType(self) -> CommGroupType:
        """The type of the group; means nothing where a stride was given."""
        return CommGroupType.All if self._group is None else self._group.type

    def getStride(self) -> int:
        """From one replica of a group to the next; means nothing where a CommGroup was given."""
        return self._stride

    def getGroupSize(self) -> int:
        """Replicas of a group as given, which means nothing for types without a size."""
        return self._size

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Which values the host reads."""
        return self._mode

    def numReplicasReturningVariable(self, replicaCount: int) -> int:
        """Of how many of `replicaCount` replicas the host reads the values."""
        if self._mode is VariableRetrievalMode.AllReplicas:
            return replicaCount
        return self.getGroupCount(replicaCount)

    def getGroupCount(self, replicaCount: int) -> int:
        """The number of groups of so many replicas."""
        return self.getReplicaGrouping(replicaCount).getNumGroups()

    def getRealGroupSize(self, replicaCount: int) -> int:
        """Replicas of a group, for the types without a size too."""
        return self.getReplicaGrouping(replicaCount).getGroupSize()

    def getGroupRepresentative(self, group: int) -> int:
        """The first replica of a group, however many replicas there are."""
        if self._group is None:
            return self.getReplicaGrouping(self._stride * self._size * (group + 1)).getReplicaAt(
                group
            )
        if self._group.type is CommGroupType.All:
            return 0
        return group * self._size if self._group.type is CommGroupType.Consecutive else group

    def shapeOnReplica(
        self, full_shape: Sequence[int], replicaCount: int, name: str = ""
    ) -> list[int]:
        """A weight's shape on a replica, without the leading dimension for several groups.

        Args:
            full_shape: of the array with all groups' values.
            replicaCount: replicas of the session.
            name: of the weight, for the message.

        Raises:
            popart_internal_exception: the array has not one entry for each group.
        """
        groups = self.getGroupCount(replicaCount)
        if groups == 1:
            return list(full_shape)
        if not full_shape or full_shape[0] != groups:
            first = full_shape[0] if full_shape else "none"
            raise popart_internal_exception(
                f"Return mismatch with possibly appended outer dimension ({first}) of Tensor: "
                f'"{name}". should match numGroups: {groups}. The array has the shape '
                f"{list(full_shape)}; {replicaCount} replicas are {groups} groups by {self!r}, so "
                f"give it {groups} entries, one for each group"
            )
        return list(full_shape[1:])

    def shapeOnHost(self, replica_shape: Sequence[int], replicaCount: int) -> list[int]:
        """The shape of the array with all groups' values: `shapeOnReplica` the other way."""
        groups = self.getGroupCount(replicaCount)
        return [groups, *replica_shape] if groups > 1 else list(replica_shape)

    def groups(self, replicaCount: int) -> list[list[int]]:
        """The replicas of each group."""
        grouping = self.getReplicaGrouping(replicaCount)
        return [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VariableSettings):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        group = self._group
        first = f"stride={self._stride}" if group is None else f"commGroupType={group.type.name}"
        return f"VariableSettings({first}, groupSize={self._size}, retrievalMode={self._mode.name})"

    def _identity(self) -> tuple[Any, ...]:
        kind = None if self._group is None else self._group.type
        return kind, self._stride, self._size, self._mode

    def metadata(self, tensor_id: str) -> dict[str, str]:
        """The model's metadata entries for a weight.

        Raises:
            popart_exception: the settings were made with a stride, which a model cannot keep.
        """
        group = self.getSharedVariableDomain()
        return {
            _TYPE + tensor_id: str(int(group.type)),
            _SIZE + tensor_id: str(group.replicaGroupSize),
            _MODE + tensor_id: str(int(self._mode)),
        }


def grouped_weights(model: ir.Model) -> dict[str, VariableSettings]:
    """Weights that may differ between groups of replicas, by the settings in a model's metadata.

    Their array has an entry for each group where there are several, which depends on how many
    replicas there are; so does their shape.
    """
    names = (key.removeprefix(_TYPE) for key in model.metadata_props if key.startswith(_TYPE))
    settings = {
        name: settings_of(model.metadata_props, name)
        for name in names
        if name in model.graph.initializers
    }
    return {
        name: each
        for name, each in settings.items()
        if each.getCommGroupType() is not CommGroupType.All
    }


def settings_of(metadata: Mapping[str, str], tensor_id: str) -> VariableSettings:
    """The settings of a weight in a model's metadata; those without entries have the default's.

    Raises:
        popart_exception: an entry says nothing that there is.
    """
    kind, size, mode = (metadata.get(key + tensor_id) for key in (_TYPE, _SIZE, _MODE))
    try:
        group = CommGroup(CommGroupType(int(kind or 0)), int(size or 0))
        return VariableSettings(group, VariableRetrievalMode(int(mode or 0)))
    except ValueError as error:
        raise popart_exception(
            f"Invalid ONNX Model : the metadata of '{tensor_id}' has {_TYPE}={kind}, "
            f"{_SIZE}={size}, {_MODE}={mode} ({error})"
        ) from error


def _arguments(args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a VariableSettings by name."""
    for form in _FORMS:
        given = {**dict(zip(form, args, strict=False)), **keywords}
        complete = len(args) + len(keywords) == len(form) and given.keys() == set(form)
        if complete and all(isinstance(item, _KINDS[name]) for name, item in given.items()):
            return given
    forms = "".join(
        f"\n    VariableSettings({', '.join(f'{n}: {_KINDS[n].__name__}' for n in form)})"
        for form in _FORMS
    )
    raise TypeError(
        "__init__(): incompatible constructor arguments. The following argument types are "
        f"supported:{forms}\nInvoked with: {args}, {dict(keywords)}"
    )
