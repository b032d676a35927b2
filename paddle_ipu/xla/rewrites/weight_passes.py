"""Passes that change how weights are on the device."""

from __future__ import annotations

from dataclasses import replace

from paddle_ipu.xla.lowerings.residuals import on_cpu
from paddle_ipu.xla.rewrites import folded_norms, fused_products, kernel_layout, wide_weights
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph
from paddle_ipu.xla.rewrites.replacement import Replacement, become


class TransposeKernels:
    """Keeps kernels of convolutions in the layout in which convolution reads them."""

    name = "transpose_kernels"
    requires = ()
    ensures = ("kernels transposed",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Changes the layout of weights alone, and no operator."""
        kernels = kernel_layout.constant_kernels(program.graph, program.free_weights)
        program.layouts = replace(program.layouts, kernels=kernels)
        return False


class FoldNorms:
    """Puts batch norms by constant statistics into the weights of the product before them."""

    name = "fold_norms"
    requires = ("unread rows left out",)
    ensures = ("norms folded",)

    def run(self, program: InferenceGraph, /) -> bool:
        """What is left of a norm adds its bias, where nothing is added before it."""
        if program.checks_floats:
            return False
        norms = folded_norms.fold(program.graph, program.free_weights, program.anchors)
        replacement = Replacement(program.graph)
        for norm in norms:
            left = "FoldedNormBias" if norm.added is None else "FoldedNorm"
            become(replacement.maker(norm.result), left)
        program.layouts = replace(program.layouts, folded=tuple(norms))
        return bool(norms)


class FuseProducts:
    """Has oneDNN do products by constant weights with what follows each of them at once."""

    name = "fuse_products"
    requires = ("norms folded", "kernels transposed", "attention fused")
    ensures = ("products fused",)

    def run(self, program: InferenceGraph, /) -> bool:
        """The weights are packed on the device then, and no longer transposed."""
        if not program.allows_kernels:
            return False
        layouts = program.layouts
        products = fused_products.fuse(
            program.graph,
            program.free_weights,
            program.anchors,
            layouts.folded,
            program.precision,
        )
        replacement = Replacement(program.graph)
        for product in products:
            replacement.put(
                replacement.maker(product.product).op_type,
                (product.x, product.kernel, product.bias, product.addend),
                product.result,
                named_by=product.product,
                dropped=product.dropped,
                attributes={"spec": tuple(int(number) for number in product.spec.numbers)},
            )
        kernels = layouts.kernels - {product.kernel for product in products}
        program.layouts = replace(layouts, kernels=kernels, fused=tuple(products))
        return bool(products)


class WidenWeights:
    """Keeps weights of half types in float32, in which operators compute with them."""

    name = "widen_weights"
    requires = ("products fused",)
    ensures = ("weights widened",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Changes the types of weights on the device alone, and no operator.

        Nothing on accelerators, whose products read half numbers as they are.
        """
        if not on_cpu():
            return False
        layouts = program.layouts
        wide = wide_weights.wide_weights(program.graph, program.free_weights)
        program.layouts = replace(layouts, widened=wide - layouts.packed.keys())
        return False
