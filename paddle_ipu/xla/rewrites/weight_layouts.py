"""How the weights of an inference program are on the device, where that is not as in its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paddle_ipu.xla.lowerings.registry import Array, HostArray
from paddle_ipu.xla.rewrites import fused_products, kernel_layout
from paddle_ipu.xla.rewrites.folded_norms import FoldedNorm
from paddle_ipu.xla.rewrites.fused_products import FusedProduct


@dataclass(frozen=True, slots=True)
class WeightLayouts:
    """Layouts of weights that no run changes.

    Attributes:
        kernels: kernels of convolutions, which are [space, C, M].
        folded: norms that are in the weights.
        fused: products whose weights are packed, in float32.
        widened: weights of half types that are float32.
    """

    kernels: frozenset[str] = frozenset()
    folded: tuple[FoldedNorm, ...] = ()
    fused: tuple[FusedProduct, ...] = ()
    widened: frozenset[str] = frozenset()

    @property
    def packed(self) -> Mapping[str, FusedProduct]:
        """Weights that are packed -> the product that reads them."""
        return {product.kernel: product for product in self.fused}

    @property
    def norms(self) -> Mapping[str, FoldedNorm]:
        """Weights that have a norm in them -> the norm."""
        return {name: norm for norm in self.folded for name in norm.changed}

    @property
    def are_plain(self) -> bool:
        """Whether all weights are as in the model."""
        return not (self.kernels or self.folded or self.fused or self.widened)

    def shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A weight's shape on the device, given that in the model."""
        if name in self.kernels:
            return (*shape[2:], shape[1], shape[0])
        packed = self.packed.get(name)
        return shape if packed is None else (packed.packed,)

    def dtype(self, name: str, dtype: str) -> str:
        """A weight's dtype on the device, given that in the model."""
        return "float32" if name in self.widened or name in self.packed else dtype

    def on_device(
        self, weights: Mapping[str, HostArray], model: dict[str, HostArray]
    ) -> dict[str, HostArray]:
        """Weights as the device has them, but for packing and widening, given the model's.

        Args:
            weights: those that are copied to the device.
            model: the weights of folded norms as in the model, which is updated: a norm's others
                are those copied before.
        """
        converted = dict(weights)
        for norm in self.folded:
            own = {name: weights[name] for name in norm.members if name in weights}
            if own:
                # The caller's arrays may change, and the host's weights be read, later.
                model.update((name, np.array(array)) for name, array in own.items())
                converted.update(norm.folded(model))
        for name in self.kernels & converted.keys():
            converted[name] = kernel_layout.to_device(converted[name])
        return converted

    def on_host(
        self,
        arrays: Mapping[str, Array],
        shapes: Mapping[str, tuple[tuple[int, ...], str]],
        model: Mapping[str, HostArray],
    ) -> dict[str, Array]:
        """The model's weights, given those on the device.

        Args:
            arrays: weights on the device.
            shapes: weight -> (shape in the model, dtype).
            model: the weights of folded norms as in the model.
        """
        converted = dict(arrays)
        converted.update((n, kernel_layout.on_host(arrays[n])) for n in self.kernels)
        for name, product in self.packed.items():
            if name not in self.norms:
                converted[name] = product.on_host(arrays[name], shapes[name][0])
        for name in (*self.widened, *self.packed):
            converted[name] = np.asarray(converted[name]).astype(shapes[name][1], copy=False)
        converted.update((name, model[name]) for name in self.norms)
        return converted

    def are_alike(self, name: str, other: WeightLayouts, others_name: str) -> bool:
        """Whether equal weights of two programs are equal on the device."""
        return self.norms.get(name) == other.norms.get(others_name) and fused_products.are_alike(
            self.packed.get(name), other.packed.get(others_name)
        )
