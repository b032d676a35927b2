"""The classifiers of ``paddle.vision.models`` at reduced size, and two models of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle import nn
from paddle.vision import models

from tests.models.side_by_side import Feed, Model, Models, images, logits_of, without_dropout

CLASSES = 10


def _classifier(
    make: Callable[[], Any], size: int = 64, batch: int = 4, scale: float = 1.0
) -> Callable[[], Model]:
    feed: Feed = images(batch, size, CLASSES, scale)
    return lambda: Model(lambda: without_dropout(make()), feed, logits_of)


def _vgg16() -> Any:
    """Widths of one eighth, and one linear layer where VGG has three of 4096."""
    widths = [8, 8, "M", 16, 16, "M", 32, 32, 32, "M", 64, 64, 64, "M", 64, 64, 64, "M"]
    features = models.vgg.make_layers(
        [width if width == "M" else int(width) for width in widths], False
    )
    return nn.Sequential(features, nn.AdaptiveAvgPool2D(7), nn.Flatten(), nn.Linear(3136, CLASSES))


class _UNet(nn.Layer):
    """Two levels down and up again, with skip connections and transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.LayerList([_twice(3, 8), _twice(8, 16)])
        self.bottom = _twice(16, 32)
        self.up = nn.LayerList(
            [nn.Conv2DTranspose(32, 16, 2, stride=2), nn.Conv2DTranspose(16, 8, 2, stride=2)]
        )
        self.merge = nn.LayerList([_twice(32, 16), _twice(16, 8)])
        self.head = nn.Conv2D(8, CLASSES, 1)

    def forward(self, x: Any) -> Any:
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(paddle.concat([skipped.pop(), up(x)], axis=1))
        return paddle.transpose(self.head(x), [0, 2, 3, 1]).mean(axis=[1, 2])


def _twice(channels: int, width: int) -> Any:
    return nn.Sequential(
        nn.Conv2D(channels, width, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(width),
        nn.ReLU(),
        nn.Conv2D(width, width, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(width),
        nn.ReLU(),
    )


class _ViT(nn.Layer):
    """Patches of 8, a class token, learned positions, two encoder layers that normalise first."""

    def __init__(self) -> None:
        super().__init__()
        width, patches = 32, 16
        self.patches = nn.Conv2D(3, width, 8, stride=8)
        self.token = self.create_parameter([1, 1, width])
        self.positions = self.create_parameter([1, patches + 1, width])
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, activation="gelu", normalize_before=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose([0, 2, 1])
        token = paddle.expand(self.token, [x.shape[0], 1, x.shape[2]])
        x = self.encoder(paddle.concat([token, x], axis=1) + self.positions)
        return self.head(x[:, 0])


MODELS: Models = {
    "resnet18": _classifier(lambda: models.resnet18(num_classes=CLASSES)),
    "resnet50": _classifier(lambda: models.resnet50(num_classes=CLASSES), 96),
    "mobilenet_v1": _classifier(lambda: models.mobilenet_v1(scale=0.25, num_classes=CLASSES)),
    "mobilenet_v2": _classifier(lambda: models.mobilenet_v2(scale=0.25, num_classes=CLASSES)),
    "mobilenet_v3_small": _classifier(
        lambda: models.mobilenet_v3_small(scale=0.35, num_classes=CLASSES)
    ),
    "mobilenet_v3_large": _classifier(
        lambda: models.mobilenet_v3_large(scale=0.35, num_classes=CLASSES)
    ),
    "vgg16": _classifier(_vgg16),
    "densenet121": _classifier(lambda: models.densenet121(num_classes=CLASSES)),
    "googlenet": _classifier(lambda: models.googlenet(num_classes=CLASSES), 224, 1, 0.1),
    "inception_v3": _classifier(lambda: models.inception_v3(num_classes=CLASSES), 139),
    "shufflenet": _classifier(lambda: models.shufflenet_v2_x0_25(num_classes=CLASSES)),
    "squeezenet": _classifier(lambda: models.squeezenet1_1(num_classes=CLASSES)),
    "alexnet": _classifier(lambda: models.alexnet(num_classes=CLASSES), 224, 2),
    "unet": _classifier(_UNet, 32),
    "vit": _classifier(_ViT, 32),
}
