"""Products, embeddings, distances, paddings, and what moves pixels about."""

from __future__ import annotations

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, classes, numbers

_ROWS, _OTHER = numbers(4, 6), numbers(4, 6, of="other")
_LINE, _IMAGE, _SPACE = numbers(2, 3, 5), numbers(2, 4, 4, 6), numbers(2, 2, 3, 4, 3)

PRODUCTS = (
    LayerCase("Bilinear", lambda: nn.Bilinear(6, 5, 3), (_ROWS, numbers(4, 5))),
    LayerCase("CosineSimilarity", lambda: nn.CosineSimilarity(1), (_ROWS, _OTHER)),
    LayerCase("Embedding", lambda: nn.Embedding(7, 3), (classes(7, 4, 5),)),
    LayerCase(
        "Embedding", lambda: nn.Embedding(7, 3, padding_idx=2), (classes(7, 4, 5),), "padding"
    ),
    LayerCase("Embedding", lambda: nn.Embedding(7, 3, sparse=True), (classes(7, 4, 5),), "sparse"),
    LayerCase("Identity", lambda: nn.Identity(), (_ROWS,)),
    LayerCase("Linear", lambda: nn.Linear(6, 3), (_ROWS,)),
    LayerCase("Linear", lambda: nn.Linear(5, 3, bias_attr=False), (_LINE,), "without_bias"),
    LayerCase("PairwiseDistance", lambda: nn.PairwiseDistance(), (_ROWS, _OTHER)),
    LayerCase(
        "PairwiseDistance", lambda: nn.PairwiseDistance(1.0, keepdim=True), (_ROWS, _OTHER), "one"
    ),
    LayerCase("Dropout", lambda: nn.Dropout(), (_ROWS,), frozen=True),
    LayerCase(
        "Dropout", lambda: nn.Dropout(mode="downscale_in_infer"), (_ROWS,), "scaled", frozen=True
    ),
    LayerCase("Dropout2D", lambda: nn.Dropout2D(), (_IMAGE,), frozen=True),
    LayerCase("Dropout3D", lambda: nn.Dropout3D(), (_SPACE,), frozen=True),
    LayerCase("AlphaDropout", lambda: nn.AlphaDropout(), (_ROWS,), frozen=True),
    LayerCase("FeatureAlphaDropout", lambda: nn.FeatureAlphaDropout(), (_ROWS,), frozen=True),
)

ARRANGEMENTS = (
    LayerCase("ChannelShuffle", lambda: nn.ChannelShuffle(2), (_IMAGE,)),
    LayerCase("Flatten", lambda: nn.Flatten(1, 2), (_IMAGE,)),
    LayerCase("Fold", lambda: nn.Fold([4, 5], [2, 2]), (numbers(2, 12, 12),)),
    LayerCase("PixelShuffle", lambda: nn.PixelShuffle(2), (_IMAGE,)),
    LayerCase("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), (_IMAGE,)),
    LayerCase("Unflatten", lambda: nn.Unflatten(1, [2, -1]), (_ROWS,)),
    LayerCase("Unfold", lambda: nn.Unfold([2, 3], strides=2, paddings=1), (_IMAGE,)),
    LayerCase("Upsample", lambda: nn.Upsample(scale_factor=2), (_IMAGE,)),
    LayerCase("Upsample", lambda: nn.Upsample([7, 9], mode="bicubic"), (_IMAGE,), "bicubic"),
    LayerCase(
        "Upsample",
        lambda: nn.Upsample([7], mode="linear", data_format="NCW"),
        (_LINE,),
        "linear",
    ),
    LayerCase(
        "Upsample",
        lambda: nn.Upsample([4, 5, 6], mode="trilinear", data_format="NCDHW"),
        (_SPACE,),
        "trilinear",
    ),
    LayerCase("UpsamplingBilinear2D", lambda: nn.UpsamplingBilinear2D([7, 9]), (_IMAGE,)),
    LayerCase("UpsamplingNearest2D", lambda: nn.UpsamplingNearest2D([7, 9]), (_IMAGE,)),
    LayerCase("Pad1D", lambda: nn.Pad1D([1, 2], mode="reflect"), (_LINE,)),
    LayerCase("Pad2D", lambda: nn.Pad2D([1, 2, 0, 1], value=0.5), (_IMAGE,)),
    LayerCase("Pad2D", lambda: nn.Pad2D(1, mode="circular"), (_IMAGE,), "circular"),
    LayerCase("Pad3D", lambda: nn.Pad3D(1, mode="replicate"), (_SPACE,)),
    LayerCase("ZeroPad1D", lambda: nn.ZeroPad1D([1, 2]), (_LINE,)),
    LayerCase("ZeroPad2D", lambda: nn.ZeroPad2D([1, 2, 0, 1]), (_IMAGE,)),
    LayerCase("ZeroPad3D", lambda: nn.ZeroPad3D(1), (_SPACE,)),
    LayerCase("ConstantPad1D", lambda: nn.ConstantPad1D([1, 2], 0.5), (_LINE,)),
    LayerCase("ConstantPad2D", lambda: nn.ConstantPad2D([1, 2, 0, 1], 0.5), (_IMAGE,)),
    LayerCase("ConstantPad3D", lambda: nn.ConstantPad3D(1, 0.5), (_SPACE,)),
    LayerCase("CircularPad1D", lambda: nn.CircularPad1D([1, 2]), (_LINE,)),
    LayerCase("CircularPad2D", lambda: nn.CircularPad2D([1, 2, 0, 1]), (_IMAGE,)),
    LayerCase("CircularPad3D", lambda: nn.CircularPad3D(1), (_SPACE,)),
    LayerCase("ReplicationPad1D", lambda: nn.ReplicationPad1D([1, 2]), (_LINE,)),
    LayerCase("ReplicationPad2D", lambda: nn.ReplicationPad2D([1, 2, 0, 1]), (_IMAGE,)),
    LayerCase("ReplicationPad3D", lambda: nn.ReplicationPad3D(1), (_SPACE,)),
    LayerCase("ReflectionPad1D", lambda: nn.ReflectionPad1D([1, 2]), (_LINE,)),
    LayerCase("ReflectionPad2D", lambda: nn.ReflectionPad2D([1, 2, 0, 1]), (_IMAGE,)),
    LayerCase("ReflectionPad3D", lambda: nn.ReflectionPad3D(1), (_SPACE,)),
)
