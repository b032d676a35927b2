"""Groups of replicas, by a stride and a size.

With stride s and size n, the replicas of a group are s apart, and s groups lie side by side. With
8 replicas, stride 2 and size 2 they are [0, 2], [1, 3], [4, 6] and [5, 7].
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from paddle_ipu.errors import popart_exception


@dataclass(frozen=True)
class ReplicaGrouping:
    """Replicas in groups of one size.

    Args:
        numReplicas: of the session.
        stride: from one replica of a group to the next.
        groupSize: replicas of a group.

    Raises:
        popart_exception: a number is not positive, or stride times size does not divide the
            replicas.
    """

    numReplicas: int
    stride: int
    groupSize: int

    def __post_init__(self) -> None:
        for what, number in (
            ("number of replicas", self.numReplicas),
            ("stride", self.stride),
            ("group size", self.groupSize),
        ):
            if number < 1:
                raise popart_exception(
                    f"The {what} in a `popart::ReplicaGrouping` must be a positive integer. Got "
                    f"{number}"
                )
        if self.numReplicas % (self.stride * self.groupSize):
            raise popart_exception(
                "The number of replicas in a `popart::ReplicaGrouping` must be divisible by the "
                f"product of the stride and the group size. Got {self.numReplicas} replicas, "
                f"stride {self.stride} and group size {self.groupSize}"
            )
        if self.groupSize == 1:
            object.__setattr__(self, "stride", 1)

    def getNumReplicas(self) -> int:
        """The number of replicas."""
        return self.numReplicas

    def getStride(self) -> int:
        """From one replica of a group to the next."""
        return self.stride

    def getGroupSize(self) -> int:
        """Replicas of a group."""
        return self.groupSize

    def getNumGroups(self) -> int:
        """The number of groups."""
        return self.numReplicas // self.groupSize

    def getGroupAt(self, replica: int) -> int:
        """The group of a replica.

        Raises:
            popart_exception: there is no such replica.
        """
        self._check("replica", replica, self.numReplicas)
        block = self.stride * self.groupSize
        return replica % self.stride + self.stride * (replica // block)

    def getIndexInGroupAt(self, replica: int) -> int:
        """The place of a replica among those of its group.

        Raises:
            popart_exception: there is no such replica.
        """
        return (replica - self.getReplicaAt(self.getGroupAt(replica))) // self.stride

    def getReplicaAt(self, group: int, index: int = 0) -> int:
        """The replica at a place of a group.

        Raises:
            popart_exception: there is no such group or place.
        """
        self._check("group", group, self.getNumGroups())
        if not 0 <= index < self.groupSize:
            raise popart_exception(
                f"The requested index is outside the valid range for '{self}'. Got {index}"
            )
        block, beside = divmod(group, self.stride)
        return block * self.stride * self.groupSize + beside + index * self.stride

    def getReplicasAt(self, group: int) -> list[int]:
        """The replicas of a group.

        Raises:
            popart_exception: there is no such group.
        """
        return [self.getReplicaAt(group, index) for index in range(self.groupSize)]

    def getTranspose(self) -> ReplicaGrouping:
        """The groups of the replicas that have the same place in theirs.

        Raises:
            popart_exception: those are not apart by one stride.
        """
        if self.stride == 1:
            return ReplicaGrouping(self.numReplicas, self.groupSize, self.getNumGroups())
        if self.groupSize * self.stride == self.numReplicas:
            return ReplicaGrouping(self.numReplicas, 1, self.stride)
        raise popart_exception(
            f"The transpose of '{self}' cannot be represented as a `popart::ReplicaGrouping`."
        )

    def str(self) -> builtins.str:
        """``ReplicaGrouping(numReplicas=8, stride=2, groupSize=2)``."""
        return repr(self)

    def _check(self, what: builtins.str, number: int, end: int) -> None:
        if not 0 <= number < end:
            raise popart_exception(
                f"The requested {what} index is outside the valid range for '{self}'. Got {number}"
            )
