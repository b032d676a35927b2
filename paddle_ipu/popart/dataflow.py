"""DataFlow: how many batches a step takes and which tensors come back."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from paddle_ipu.popart.tensorinfo import TensorInfo

_IDS = {member.name.upper(): member for member in AnchorReturnTypeId}


class AnchorReturnType:
    """Which of a step's values of a tensor come back.

    ``AnchorReturnType(name[, returnPeriod][, tileSet][, exchangeStrategy])``; `name` is ``All``,
    ``Final``, ``Sum`` or ``EveryN``, in any case, and only ``EveryN`` takes a period N: that of
    micro-batches, of which the N-th, 2N-th and so on come back.
    """

    def __init__(self, anchorReturnTypeString: str, *args: Any, **keywords: Any) -> None:
        rest = list(args)
        period = keywords.pop("returnPeriod", None)
        if rest and isinstance(rest[0], int):
            period = rest.pop(0)
        tile_set = rest.pop(0) if rest else keywords.pop("tileSet", TileSet.Compute)
        exchange = (
            rest.pop(0) if rest else keywords.pop("exchangeStrategy", ExchangeStrategy.JustInTime)
        )
        if (
            rest
            or keywords
            or not isinstance(anchorReturnTypeString, str)
            or not isinstance(tile_set, TileSet)
            or not isinstance(exchange, ExchangeStrategy)
        ):
            raise TypeError(
                "AnchorReturnType takes (str, [int], [TileSet], [ExchangeStrategy]), got "
                f"{(anchorReturnTypeString, *args)} {keywords}"
            )
        kind = _IDS.get(anchorReturnTypeString.upper())
        if kind is None:
            raise popart_exception(
                f"Invalid anchor return type ID supplied: {anchorReturnTypeString}"
            )
        if kind is AnchorReturnTypeId.EveryN:
            if period is None:
                raise popart_exception("Must specify return period with option 'EVERYN'")
            if period <= 0:
                raise popart_exception("Anchor return period must be greater than zero")
        elif period is not None:
            raise popart_exception(
                "A return period should not be supplied for this anchor return type"
            )
        self._id = kind
        self._period = period
        self._tile_set = tile_set
        self._exchange = exchange

    def id(self) -> AnchorReturnTypeId:
        """Which values come back."""
        return self._id

    def rp(self) -> int:
        """The period of EveryN; popart_exception for the others."""
        if self._period is None:
            raise popart_exception(
                "A return period should not be supplied for this anchor return type"
            )
        return int(self._period)

    def tileSet(self) -> TileSet:
        """The tiles the tensor is sent from."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When the tensor is sent."""
        return self._exchange

    def micro_batches(self, batches: int, micro: int) -> list[int]:
        """Which micro-batches of a step's `batches` * `micro` the values that come back are of."""
        if self._id in (AnchorReturnTypeId.Final, AnchorReturnTypeId.Sum):
            return [batches * micro - 1]
        period = self._period or 1
        return list(range(period - 1, batches * micro, period))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnchorReturnType) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._id, self._period, self._tile_set, self._exchange))

    def __repr__(self) -> str:
        period = "" if self._period is None else f", {self._period}"
        return f"AnchorReturnType('{self._id.name}'{period})"


class DataFlow:
    """``DataFlow(batchesPerStep, {id: AnchorReturnType})`` or ``DataFlow(n, [ids], [type])``.

    The anchors of the first form are ordered by id, those of the second as given.
    """

    def __init__(self, batchesPerStep: int, *args: Any, **keywords: Any) -> None:
        rest = list(args)
        anchors = rest.pop(0) if rest else keywords.pop("anchorTensors", None)
        if anchors is None:
            anchors = keywords.pop("anchorIds", None)
        kinds: dict[str, AnchorReturnType]
        if isinstance(anchors, Mapping):
            kinds = {name: anchors[name] for name in sorted(anchors)}
        elif isinstance(anchors, Sequence) and not isinstance(anchors, str):
            kind = rest.pop(0) if rest else keywords.pop("anchorReturnType", None)
            kinds = dict.fromkeys(anchors, AnchorReturnType("All") if kind is None else kind)
        else:
            raise TypeError(
                "DataFlow takes (int, dict[str, AnchorReturnType]) or (int, list[str], "
                f"[AnchorReturnType]), got {(batchesPerStep, *args)} {keywords}"
            )
        wrong = [k for k, v in kinds.items() if not isinstance(v, AnchorReturnType)]
        if rest or keywords or wrong or not isinstance(batchesPerStep, SupportsIndex):
            raise TypeError(
                "DataFlow takes (int, dict[str, AnchorReturnType]) or (int, list[str], "
                f"[AnchorReturnType]), got {(batchesPerStep, *args)} {keywords}"
            )
        self._anchors = kinds
        self._batches = operator.index(batchesPerStep)
        self._check()

    def _check(self) -> None:
        if self._batches <= 0:
            raise popart_exception("'Batches per step' must be greater than zero")
        for kind in self._anchors.values():
            if kind.id() is not AnchorReturnTypeId.EveryN:
                continue
            if kind.rp() > self._batches:
                raise popart_exception("Return period must be <= to the number of batches per step")
            if self._batches % kind.rp():
                raise popart_exception(
                    "Return period must be a factor of the number of batches per step"
                )

    def isAnchored(self, id: str) -> bool:
        """Whether a tensor comes back."""
        return id in self._anchors

    def nAnchors(self) -> int:
        """How many tensors come back."""
        return len(self._anchors)

    def batchesPerStep(self) -> int:
        """Weight updates, or inferences, of one run."""
        return self._batches

    def setBatchesPerStep(self, batchesPerStep: int) -> None:
        """Changes the number of batches of a step."""
        old, self._batches = self._batches, batchesPerStep
        try:
            self._check()
        except popart_exception:
            self._batches = old
            raise

    def anchors(self) -> list[str]:
        """Ids of the tensors that come back."""
        return list(self._anchors)

    def art(self, id: str) -> AnchorReturnType:
        """How a tensor comes back."""
        kind = self._anchors.get(id)
        if kind is None:
            raise popart_exception(f"Tensor {id} is not an anchor")
        return kind


class InputShapeInfo:
    """Types of graph inputs whose shape the model does not give."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, id: str, info: TensorInfo) -> None:
        """Sets the type of an input."""
        if not isinstance(info, TensorInfo):
            raise TypeError(f"InputShapeInfo.add takes a TensorInfo, got {info!r}")
        self._infos[id] = info

    def get(self, id: str) -> TensorInfo:
        """The type of an input."""
        if id not in self._infos:
            raise popart_exception(f"No input shape info for tensor '{id}'")
        return self._infos[id]

    def has(self, id: str) -> bool:
        """Whether the type of an input is set."""
        return id in self._infos
