"""The page of models to plan with, made from the zoo's table."""

from __future__ import annotations

from paddle_ipu.zoo.models import MODELS

_INTRO = """\
# Models to plan with

<!-- Made from paddle_ipu/zoo/models.py: python -m tools.generate_docs --write -->

If you want to know which machine a well-known network needs, and have no program of it:

```sh
paddle-ipu plan --machine bow-pod16 --model bert-large --fp16
paddle-ipu plan --machine pod64 --model gpt2-large --fp16 --sequence 512 --inference
paddle-ipu plan --rate 15000 --model bert-base --fp16    # the smallest Pod for 15,000 rows a second
paddle-ipu plan --models                                 # the table below
```

```python
plan = paddle_ipu.plan(model="bert-large", machine="bow-pod16")
pods = paddle_ipu.smallest_pod(model="bert-base", rate=15000)
```

The network is built as a Paddle program, with its loss, gradients and optimizer where it is
trained, and planned as a program of yours would be ([ipu_model.md](ipu_model.md)). No weight is
given a value, so that billions of parameters take no memory.

| model | parameters | network | a row | trained with | rows of an update | source |
| --- | ---: | --- | --- | --- | ---: | --- |
"""

_RULES = """
`--rate` tries the Pods of one kind of IPU, the smallest first, and ends behind the first that makes
so many rows a second: the next size shows what more IPUs bring. GC200's Pods are tried, or those
that `--machine` has the IPUs of, as `--machine bow-pod4`. It takes a script or a saved model, too.

Rates of networks other than BERT and ResNet-50 are predicted too high, those of EfficientNet, ViT,
Conformer and U-Net by 20 to 62 % ([how far it may be off](ipu_model.md#how-far-it-may-be-off)).

- Capitals, spaces and dashes of a name do not matter.
- `--sequence` gives rows other tokens, `--batch` an update other rows. Without it an update has
  as many rows as the authors of the model took, which is for many machines too few or too many: a
  batch belongs to the question.
- Weights and activations are float32; `--fp16`, in Python an `ipu_strategy` with `enable_fp16`,
  has them in half.
- In inference a row goes through the network once. Of a decoder that is the reading of a prompt:
  what is given is the next token's logits. Generation, which keeps keys and values and reads one
  token at a time, is another program (`examples/text_generation/`). BERT gives its pooled output.
- Conformer is as graphcore/examples trains it, by a decoder's loss and CTC's; spectra of audio come
  from the host. In inference its encoder gives CTC's log probabilities; nothing is decoded.
- T5's encoder and decoder read rows of as many tokens. The two older ones are those of the paper;
  Flan-T5 has the later version's GELU with a gate, and weights of its own for the output. What
  Graphcore's public examples do with Flan-T5 (`nlp/t5/popxl`) cannot be planned: each product is
  divided among 8 or 16 IPUs (tensor parallelism).
- BERT is pretrained on 15 % of a row's words, which lie in front, and on the next sentence. Its
  dropout, and GPT-2's and ViT's, is that of the papers.
- Images are bytes, which the IPU makes numbers. Each network of images reads one size of them,
  U-Net grey ones, of whose middle it says the class of each pixel.
- `efficientnet-b0-g16` and `-b4-g16` are the variants that Graphcore trains: their convolutions
  over positions have groups of 16 channels in place of one (depthwise), blocks expand by 4 in place
  of 6, and rows are normalised by themselves, in 4 groups of channels.
- What a transformer's layer or an EfficientNet's block gives is kept for backward where a plan
  computes activations again (`recompute_checkpoint`, [training.md](training.md#memory)).
- Programs are cut between operators, and no operator is divided between IPUs: what needs that, as
  the training of LLaMA-7B with its optimizer, fits no Pod.
"""


def models_page() -> str:
    """The page as Markdown."""
    lines = []
    for name, model in MODELS.items():
        network = model.network
        size = network.size
        row = f"{size:,} {network.items}" if network.items else f"{size} x {size} pixels"
        lines.append(
            f"| `{name}` | {model.parameters:,} | {network} | {row} | {network.optimizer} | "
            f"{model.batch:,} | {model.source} |"
        )
    return _INTRO + "\n".join(lines) + "\n" + _RULES
