"""The models that can be named, one row each, with the source of every figure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from paddle_ipu.errors import OptionError, meant
from paddle_ipu.zoo.bert import Bert
from paddle_ipu.zoo.conformer import Conformer
from paddle_ipu.zoo.efficientnet import EfficientNet
from paddle_ipu.zoo.gpt2 import Gpt2
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.llama import Llama
from paddle_ipu.zoo.lstm import LstmLanguage
from paddle_ipu.zoo.mobilenet import MobileNetV3
from paddle_ipu.zoo.resnet import ResNet, ResNext
from paddle_ipu.zoo.t5 import T5
from paddle_ipu.zoo.unet import UNet
from paddle_ipu.zoo.vit import Vit

if TYPE_CHECKING:
    from paddle import Tensor


class Network(Protocol):
    """Sizes of a network of one family.

    Attributes:
        items: what a row has a chosen number of; "" for images, which have one size.
        size: how many where nobody chooses; of images height and width.
        most: how many at most.
        rows: of the micro-batch that a search of strategies begins with.
        optimizer: that it is trained with, a class of ``paddle.optimizer``.
    """

    items: ClassVar[str]
    rows: ClassVar[int]
    optimizer: ClassVar[str]

    # A family may have one for all of its networks.
    @property
    def size(self) -> int: ...

    @property
    def most(self) -> int: ...

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """Builds it; a scalar loss where it is trained, else what it gives for each row."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the table.

    Attributes:
        parameters: that are trained.
        batch: rows of a weight update that its authors trained it with.
        source: of its sizes and batch.
        fewest: of the items of a row: of tokens one that is masked, or followed, and one to be
            read.
    """

    name: str
    network: Network
    parameters: int
    batch: int
    source: str
    fewest: int = 2

    def row_size(self, sequence: int, option: str = "sequence") -> int:
        """Tokens of a row, or the height of its image.

        Args:
            sequence: as the user chose; 0 for the model's own.
            option: what the user chose it by, for the messages.

        Raises:
            OptionError: rows of the model cannot have so many.
        """
        network = self.network
        if not sequence:
            return network.size
        if not network.items:
            raise OptionError(
                f"{option} is {sequence}, but a row of {self.name} is an image of {network.size} x "
                f"{network.size}: leave {option} out"
            )
        if not self.fewest <= sequence <= network.most:
            raise OptionError(
                f"{option} is {sequence}, but a row of {self.name} has {self.fewest} to "
                f"{network.most} {network.items}"
            )
        return sequence

    def subject(self, training: bool, sequence: int) -> str:
        """What is planned, in a line.

        Args:
            sequence: tokens of a row; the model's own where 0.
        """
        network = self.network
        size = self.row_size(sequence)
        row = f"{size:,} {network.items}" if network.items else f"an image of {size} x {size}"
        work = f"training of {self.name} with {network.optimizer}"
        return (
            f"{work if training else f'inference of {self.name}'}: {network}, {self.parameters:,} "
            f"parameters; a row is {row}"
        )


_BERT = "arXiv:1810.04805; batch of LAMB, arXiv:1904.00962"
_GPT2 = "Radford et al. 2019, table 2, and its published weights"
_LLAMA = "arXiv:2302.13971, table 2: 4 million tokens a batch"
_T5 = "arXiv:1910.10683, sections 2 and 3.1, and its published weights"
_FLAN = "arXiv:2210.11416, its published weights; batch of graphcore/examples, nlp/t5/popxl"
_CONFORMER = "graphcore/examples, speech/conformer/pytorch; arXiv:2005.08100"
_AISHELL = Conformer(256, 12, 6, 4, 2048, 15, vocabulary=4233, words=48)
_VIT = "arXiv:2010.11929, table 1, table 3"
_RESNET = "arXiv:1512.03385, table 1; paddle.vision.models"
_RESNEXT = "arXiv:1611.05431, section 4; paddle.vision.models"
_MOBILENET = "arXiv:1905.02244, tables 1 and 2, section 6.1; paddle.vision.models"
_EFFICIENTNET = "arXiv:1905.11946, table 1; batch of MnasNet, arXiv:1807.11626"
_G16 = "arXiv:2106.03640; batch of graphcore/examples"
_UNET = "arXiv:1505.04597, figure 1; batch of graphcore/examples"
_LSTM = "arXiv:1409.2329, section 4.1"
_B0 = EfficientNet(1.0, 1.0, 224, 0.2)
_B4 = EfficientNet(1.4, 1.8, 380, 0.4)


def _g16(network: EfficientNet) -> EfficientNet:
    """As it is trained on IPUs: with larger groups, which expand less, and group norm."""
    return replace(network, group=16, expand=4, norm_groups=4)


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("bert-base", Bert(768, 12, 12), 110_106_428, 65536, _BERT),
        Model("bert-large", Bert(1024, 24, 16), 336_226_108, 65536, _BERT),
        Model("gpt2", Gpt2(768, 12, 12), 124_439_808, 512, _GPT2),
        Model("gpt2-medium", Gpt2(1024, 24, 16), 354_823_168, 512, _GPT2),
        Model("gpt2-large", Gpt2(1280, 36, 20), 774_030_080, 512, _GPT2),
        Model("gpt2-xl", Gpt2(1600, 48, 25), 1_557_611_200, 512, _GPT2),
        Model("llama-7b", Llama(4096, 32, 32, 11008), 6_738_415_616, 2048, _LLAMA),
        Model("llama-13b", Llama(5120, 40, 40, 13824), 13_015_864_320, 2048, _LLAMA),
        Model("t5-base", T5(768, 12, 12, 3072, tied=True), 222_903_552, 128, _T5),
        Model("t5-large", T5(1024, 24, 16, 4096, tied=True), 737_668_096, 128, _T5),
        Model("flan-t5-xl", T5(2048, 24, 32, 5120), 2_849_757_184, 128, _FLAN),
        Model("flan-t5-xxl", T5(4096, 24, 64, 10240), 11_135_332_352, 128, _FLAN),
        Model("vit-b", Vit(768, 12, 12, 16), 86_567_656, 4096, _VIT),
        Model("vit-l", Vit(1024, 24, 16, 16), 304_326_632, 4096, _VIT),
        Model("vit-h", Vit(1280, 32, 16, 14), 632_045_800, 4096, _VIT),
        Model("conformer", _AISHELL, 44_605_970, 288, _CONFORMER, fewest=7),
        Model("resnet18", ResNet(18), 11_689_512, 256, _RESNET),
        Model("resnet34", ResNet(34), 21_797_672, 256, _RESNET),
        Model("resnet50", ResNet(50), 25_557_032, 256, _RESNET),
        Model("resnet101", ResNet(101), 44_549_160, 256, _RESNET),
        Model("resnet152", ResNet(152), 60_192_808, 256, _RESNET),
        Model("resnext50", ResNext(50, 32, 4), 25_028_904, 256, _RESNEXT),
        Model("resnext101", ResNext(101, 64, 4), 83_455_272, 256, _RESNEXT),
        Model("mobilenet-v3-small", MobileNetV3("small", 11), 2_542_856, 4096, _MOBILENET),
        Model("mobilenet-v3-large", MobileNetV3("large", 15), 5_483_032, 4096, _MOBILENET),
        Model("efficientnet-b0", _B0, 5_288_548, 4096, _EFFICIENTNET),
        Model("efficientnet-b4", _B4, 19_341_616, 4096, _EFFICIENTNET),
        Model("efficientnet-b0-g16", _g16(_B0), 5_913_796, 800, _G16),
        Model("efficientnet-b4-g16", _g16(_B4), 19_328_168, 2048, _G16),
        Model("unet", UNet(), 31_030_658, 24, _UNET),
        Model("lstm-medium", LstmLanguage(650, 2, 0.5), 19_780_400, 20, _LSTM),
        Model("lstm-large", LstmLanguage(1500, 2, 0.65), 66_034_000, 20, _LSTM),
    )
}
"""The models by name; :func:`model_named` finds them however they are spelt."""


def model_named(name: str) -> Model:
    """A model of the table. Capitals, spaces and dashes do not matter.

    Raises:
        OptionError: there is no such model.
    """
    for known, model in MODELS.items():
        if _key(known) == _key(name):
            return model
    raise OptionError(
        f"unknown model '{name}': expected one of {', '.join(MODELS)}.{meant(name, MODELS)}"
    )


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
