"""A folder for the commands of a page, with what its reader has at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.checkout import ROOT
from tests.journeys.documents import shell_blocks

# A page's commands are written for a checkout, and write into the folder that they are called in.
_CHECKOUT = (
    "_paddle_ipu_autoload.py",
    "benchmarks",
    "docker",
    "examples",
    "ops",
    "paddle_ipu",
    "passes",
    "popdist",
    "tests",
    "tools",
)

# A training of two encoder layers, of the arguments that the guides give it.
_TRAIN = """\
import argparse

import numpy as np
import paddle
from paddle import nn

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--head", action="store_true")
parser.add_argument("--epochs", type=int, default=1)
options = parser.parse_args()


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, options.hidden, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 16) if options.head else None

    def forward(self, x):
        y = self.encoder(x)
        return y if self.head is None else self.head(y)


paddle.enable_static()
paddle.seed(0)
x = paddle.static.data("x", [-1, 8, 16], "float32")
loss = Network()(x).mean()
paddle.optimizer.SGD(1e-3).minimize(loss)
exe = paddle.static.Executor(paddle.IPUPlace())
exe.run(paddle.static.default_startup_program())
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=2)
program = paddle.static.IpuCompiledProgram(ipu_strategy=strategy).compile([x], [loss])
rng = np.random.default_rng(0)
for _ in range(8 * options.epochs):
    exe.run(program, feed={"x": rng.standard_normal((2, 8, 16), np.float32)}, fetch_list=[loss])
"""

# Two layers with too large a rate.
_DIVERGES = """\
import argparse

import numpy as np
import paddle

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
options = parser.parse_args()

paddle.enable_static()
paddle.seed(1)
x = paddle.static.data("x", [-1, 16], "float32")
y = paddle.static.data("y", [-1, 1], "float32")
hidden = paddle.nn.functional.relu(paddle.nn.Linear(16, 32)(x))
loss = paddle.nn.functional.mse_loss(paddle.nn.Linear(32, 1)(hidden), y)
paddle.optimizer.SGD(options.lr).minimize(loss)
exe = paddle.static.Executor(paddle.IPUPlace())
exe.run(paddle.static.default_startup_program())
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=8)
program = paddle.static.IpuCompiledProgram(ipu_strategy=strategy).compile([x, y], [loss])
rng = np.random.default_rng(0)
for _ in range(20):
    rows = rng.standard_normal((8, 16), np.float32)
    exe.run(program, feed={"x": rows, "y": rows.sum(1, keepdims=True)}, fetch_list=[loss])
"""

# The model of 50 layers, under a name.
_SAVES_RESNET = """\
import sys

import paddle

paddle.enable_static()
images = paddle.static.data("images", [-1, 3, 224, 224], "float32")
classes = paddle.vision.models.resnet50()(images)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
paddle.static.save_inference_model(sys.argv[1], [images], [classes], exe)
"""

_TABLE_OF_PROGRAMS = """\
import paddle

from tools.program_forms.named_program import NamedProgram


def mean():
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2, 3], "float32")
        y = paddle.mean(x)
    return NamedProgram(main, ["x"], [y])


PROGRAMS = {"mean": mean}
"""

_WRITES_WORDS = """\
import numpy as np

np.savez("x.npz", words=np.arange(128, dtype="int32").reshape(8, 16))
"""

# VisualDL's writer, where it is not installed.
_WRITER = """\
class LogWriter:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def add_scalar(self, tag, value, step):
        pass
"""

_FAILS = """\
import popdist
from popdist import barrier

rank = popdist.getInstanceIndex()
print(f"instance {rank}", flush=True)
barrier()
if rank == 1:
    raise SystemExit("no such file: data-1.tfrecord")
barrier()
"""

_HANGS = """\
import time

import popdist

rank = popdist.getInstanceIndex()
for step in range(100):
    if rank == 1 and step == 4:
        time.sleep(3600)  # for a file that does not come
    popdist.allReduce(1.0)
    print(f"instance {rank}: step {step}", flush=True)
"""

# The articles of which the tutorial takes the questions that have an answer.
_TITLES = {"Normans": 39, "Sky_(United_Kingdom)": 137, "Victoria_(Australia)": 152}


def _squad(questions: Mapping[str, int]) -> str:
    """A file like SQuAD's of version 2.0: that many questions with an answer in each article."""
    articles = []
    for title, count in questions.items():
        context = f"The town of {title} has a river and an old bridge."
        answers = [{"text": "a river", "answer_start": context.index("a river")}]
        asked = [
            {"id": f"{title}-{n}", "question": "What is there?", "answers": answers}
            | {"is_impossible": False}
            for n in range(count)
        ]
        articles.append({"title": title, "paragraphs": [{"context": context, "qas": asked}]})
    return json.dumps({"version": "v2.0", "data": articles})


_FILES: dict[str, dict[str, str]] = {
    "docs/bert_data.md": {
        "my_texts/one.txt": "\n\n".join(
            "\n".join(f"The {n + m} old towns had a river and a bridge ." for m in range(12))
            for n in range(40)
        ),
        "dev-v2.0.json": _squad({"Here": 3}),
        "squad_prediction.json": json.dumps({f"Here-{n}": "a river" for n in range(3)}),
        "squad_null_odds.json": json.dumps({f"Here-{n}": -1.0 for n in range(3)}),
    },
    "docs/compatibility.md": {"my/module.py": _TABLE_OF_PROGRAMS},
    "docs/diverging.md": {"train.py": _DIVERGES},
    "docs/executable_cache.md": {"train.py": _TRAIN},
    "docs/ipu_model.md": {"train.py": _TRAIN, "save_resnet.py": _SAVES_RESNET},
    "docs/onnx.md": {"feeds.py": _WRITES_WORDS},
    "docs/poprun.md": {"fails.py": _FAILS, "hangs.py": _HANGS},
    "docs/porting.md": {"train.py": _TRAIN, "save_resnet.py": _SAVES_RESNET},
    "docs/tutorial.md": {"dev-v2.0.json": _squad(_TITLES)},
    "docs/visualdl_tensorboard.md": {"visualdl.py": _WRITER},
}


def prepare(page: str, folder: Path) -> None:
    """Fills an empty folder: a checkout, files that the page says to save, and its reader's own.

    The page's Python blocks are there as ``block_1.py`` and so on.
    """
    for name in _CHECKOUT:
        (folder / name).symlink_to(ROOT / name)
    programs = (block for block in shell_blocks.blocks(page) if block.kind == "python")
    numbered = {f"block_{n}.py": block.text for n, block in enumerate(programs, 1)}
    for name, text in (numbered | shell_blocks.files(page) | _FILES.get(page, {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
