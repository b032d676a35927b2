"""What becomes of each command in README, the guides and the examples' pages: the one table.

A command is run by :mod:`.test_commands`, or left out for a reason that is written here. A command
without a row fails the tests, and so does a row without a command.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.journeys.documents.shown_output import Shown


class Why(enum.StrEnum):
    """Why a command is left out."""

    NETWORK = "fetches from the network"
    MACHINE = "needs what the machine of a build lacks"
    LONG = "takes over a minute, or needs what a longer one wrote"
    FORM = "is a form to fill in"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A command that is not run. Where it takes long, the page says when and where it was run.

    Attributes:
        why: the kind of reason.
        reason: what it needs, or which test runs it in another way.
    """

    why: Why
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """A command that is run, in a folder and a shell of its page, after those before it.

    Attributes:
        shown: how its output is compared with the one shown; None: not.
        exit_code: the expected one.
        ready: what it prints when it is ready to be used by the commands that follow, if it then
            stays in the background until the page ends.
        before: shell commands to run first, for what the page's reader has done or has at hand.
        alone: whether what an earlier command left in the background ends first.
        leaves: files that it writes.
    """

    shown: Shown | None = Shown.AS_PRINTED
    exit_code: int = 0
    ready: str = ""
    before: str = ""
    alone: bool = False
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        pages: a document, or several as a pattern for file names.
        command: as shown, without comment and on one line; ``…`` stands for anything.
        fate: what becomes of it.
    """

    pages: str
    command: str
    fate: Run | LeftOut

    def has(self, page: str, command: str) -> bool:
        """Whether it is the row of a command."""
        pattern = ".*".join(map(re.escape, self.command.split("…")))
        return fnmatchcase(page, self.pages) and re.fullmatch(pattern, command) is not None


_INSTALLS = LeftOut(Why.NETWORK, "tests/journeys/test_packaging.py installs the package")
_MAKES = LeftOut(Why.NETWORK, "makes an environment first; the module that it runs is run below")
_PADDLENLP = LeftOut(Why.NETWORK, "PaddleNLP's packages and its scripts of 2.3 and 2.4")
_SQUAD = LeftOut(Why.LONG, "minutes, on SQuAD's files")
_STAGE = LeftOut(Why.LONG, "minutes; tests/journeys/examples/test_bert_stages.py runs it small")
_EXAMPLE = LeftOut(Why.LONG, "minutes; --smoke is run")
_SAVES_RESNET = "FLAGS_enable_pir_api=0 python save_resnet.py"
_CONTAINERS = LeftOut(Why.MACHINE, "a container engine; tests/journeys/containers runs the scripts")
_HOSTS = LeftOut(Why.MACHINE, "other hosts; tests/unit/distributed/test_several_hosts.py has such")

TABLE = (
    # The first commands, on several pages.
    Row("*", "git clone <this repository> …", LeftOut(Why.FORM, "the address is the reader's")),
    Row("*", "pip install …", _INSTALLS),
    Row("*", "paddle-ipu info", Run(Shown.ANY_NUMBERS)),
    Row("*README*", "make bert", LeftOut(Why.LONG, "four minutes; `make test` runs it small")),
    Row("examples/*", "make mnist…", _MAKES),
    Row("examples/*", "make word2vec", _MAKES),
    Row("examples/*", "make inference", _MAKES),
    Row("examples/*", "make resnet50…", _MAKES),
    Row("examples/*", "make ernie", _MAKES),
    Row("examples/*", "make text-generation", _MAKES),
    Row("docs/tutorial*", "python3.11 -m venv venv …", _INSTALLS),
    # BERT: the tutorial in both languages, its data, its journey, its example.
    Row(
        "docs/*",
        "python -m examples.bert.prepare --output data/bert/phase1",
        Run(Shown.SOME_LINES),
    ),
    Row("docs/*", "python -m examples.bert.prepare --output data/bert/phase… --…", Run()),
    Row("docs/bert_data.md", "python -m examples.bert.prepare my_texts …", Run()),
    Row("docs/bert_data.md", "python -m examples.bert.squad_score …", Run()),
    Row("docs/tutorial*", "export BERT_PRESET=small", Run()),
    Row("docs/tutorial*", "python split.py", Run()),
    Row(
        "docs/tutorial*",
        "examples/bert/run_stage.sh ipu phase1 _ out/other --input_files data/bert/phase2",
        Run(exit_code=2),
    ),
    Row("docs/tutorial*", "examples/bert/run_stage.sh ipu SQuAD out/model_999 …", Run(exit_code=2)),
    Row(
        "docs/tutorial*",
        "examples/bert/run_stage.sh ipu SQuAD out/model_384 out/other --hidden_size 256",
        Run(
            exit_code=2,
            before="examples/bert/run_stage.sh ipu phase1 _ out/model_384 --max_steps 1",
        ),
    ),
    Row("docs/tutorial*", "examples/bert/run_stage.sh … --learning_rate 1e30", Run(exit_code=1)),
    Row("docs/tutorial*", "examples/bert/run_stage.sh ipu phase1 _ out/model_128", _STAGE),
    Row("docs/tutorial*", "examples/bert/run_stage.sh ipu phase2 …", _STAGE),
    Row("docs/tutorial*", "examples/bert/run_stage.sh ipu SQuAD … --epochs 40 …", _SQUAD),
    Row("docs/tutorial*", "examples/bert/run_stage.sh ipu validation …", _SQUAD),
    Row("docs/tutorial*", "python answers.py …", _SQUAD),
    Row("docs/tutorial*", "ls out/tuned.run out/seen.run", _SQUAD),
    Row("docs/bert_journey.md", "export BERT_PRESET=small …", Run()),
    Row(
        "docs/bert_journey.md",
        "examples/bert/run_stage.sh DEVICE STAGE LOAD SAVE",
        LeftOut(Why.FORM, "the page says what to fill in"),
    ),
    Row("docs/bert_journey.md", "examples/bert/run_stage.sh ipu …", _STAGE),
    Row("docs/bert_journey.md", "python -m examples.bert.run_squad --preset overfit …", _SQUAD),
    Row("examples/bert/README.md", "examples/bert/run_stage.sh …", _STAGE),
    # The other examples.
    Row("examples/*", "python -m examples.… --smoke", Run()),
    Row("examples/ernie/*", "python -m examples.ernie.infer", _EXAMPLE),
    Row("examples/ernie/*", "python -m examples.ernie.infer --fp16", _EXAMPLE),
    Row("examples/ernie/*", "python -m examples.ernie.infer --text …", _EXAMPLE),
    Row("examples/inference/*", "python -m examples.inference.…", Run()),
    Row("examples/mnist/*", "python -m examples.mnist.train", Run()),
    Row("examples/mnist/*", "python -m examples.mnist.train --replicas 4", Run()),
    Row("examples/mnist/*", "python -m examples.mnist.train --device cpu", Run()),
    Row("examples/mnist/*", "python -m examples.mnist.train --epochs 0 --load …", Run()),
    Row("examples/resnet50/*", "python -m examples.resnet50.train", _EXAMPLE),
    Row("examples/resnet50/*", "python -m examples.resnet50.train --num-ipus …", _EXAMPLE),
    Row("examples/resnet50/*", "python -m examples.resnet50.train --images …", _EXAMPLE),
    Row("examples/resnet50/*", "python -m examples.resnet50.train --image-size …", _EXAMPLE),
    Row("examples/text_generation/*", "python -m examples.text_generation.generate", _EXAMPLE),
    Row("examples/text_generation/*", "python -m examples.text_generation.… --load …", _EXAMPLE),
    Row("examples/text_generation/*", "python -m examples.text_generation.… --device …", _EXAMPLE),
    # Predictions.
    Row("docs/ipu_model.md", "paddle-ipu report --machine bow-pod16 train.py", Run()),
    Row("docs/ipu_model.md", "paddle-ipu plan --machine bow-pod16 train.py", Run()),
    Row("docs/ipu_model.md", "paddle-ipu plan --machine bow-pod16 --model gpt2 --fp16", Run()),
    Row("docs/ipu_model.md", "paddle-ipu plan --rate …", Run()),
    Row("docs/ipu_model.md", "paddle-ipu plan --machine pod16 --model bert-base", Run()),
    Row("docs/models.md", "paddle-ipu plan --machine bow-pod16 --model bert-large --fp16", Run()),
    Row("docs/models.md", "paddle-ipu plan … --model gpt2-large …", Run()),
    Row("docs/models.md", "paddle-ipu plan --rate …", Run()),
    Row("docs/models.md", "paddle-ipu plan --models", Run()),
    Row("docs/ipu_model.md", "PYTHONPATH=. paddle-ipu report …", Run(exit_code=1)),
    Row(
        "docs/ipu_model.md",
        "paddle-ipu report … --requests-per-second 300 resnet50.pdmodel",
        Run(before=f"{_SAVES_RESNET} resnet50"),
    ),
    Row("docs/ipu_model.md", "paddle-ipu report --html …", Run(leaves=("report.html",))),
    Row("docs/ipu_model.md", "paddle-ipu report --trace …", Run(leaves=("trace.json",))),
    Row(
        "docs/ipu_model.md", "paddle-ipu report --json report.json …", Run(leaves=("report.json",))
    ),
    Row(
        "docs/ipu_model.md",
        "paddle-ipu report --directory …",
        Run(
            leaves=tuple(
                f"folder/{name}"
                for name in ("report.html", "report.json", "trace.json", "summary.txt")
            )
        ),
    ),
    Row("docs/ipu_model.md", "paddle-ipu report --json before.json …", Run()),
    Row("docs/ipu_model.md", "paddle-ipu report --json after.json …", Run()),
    Row("docs/ipu_model.md", "paddle-ipu report --compare …", Run()),
    Row("docs/ipu_model.md", "POPLAR_ENGINE_OPTIONS=… python train.py", Run()),
    Row(
        "docs/ipu_model.md",
        "ls reports/training",
        Run(
            leaves=tuple(
                f"reports/training/{name}"
                for name in ("report.html", "report.json", "summary.txt", "trace.json")
            )
        ),
    ),
    Row("docs/ipu_model.md", "paddle-ipu report --measure 3 train.py", Run()),
    Row("docs/scaling.md", "python -m benchmarks.pod_scaling", Run()),
    Row(
        "docs/visualdl_tensorboard.md",
        "visualdl …",
        LeftOut(Why.MACHINE, "VisualDL, which the environment of the tests leaves out"),
    ),
    Row(
        "docs/visualdl_tensorboard.md",
        "python show_graph.py …",
        LeftOut(Why.MACHINE, "TensorBoard, which the environment of the tests leaves out"),
    ),
    Row("docs/visualdl_tensorboard.md", "python train.py", Run()),
    Row("docs/visualdl_tensorboard.md", "IPU_ONNX_DUMP_PATH=…", Run(leaves=("program.onnx",))),
    Row(
        "docs/visualdl_tensorboard.md",
        "PADDLE_IPU_DUMP=dump python train.py",
        Run(leaves=("dump/program0/15_pass_attention_gradients.onnx",)),
    ),
    Row("docs/visualdl_tensorboard.md", "paddle-ipu report …", Run(leaves=("trace.json",))),
    # Programs, numbers, files.
    Row("docs/porting.md", "paddle-ipu check train.py --epochs 3", Run()),
    Row(
        "docs/porting.md",
        "paddle-ipu check models/resnet.pdmodel",
        Run(before=f"{_SAVES_RESNET} models/resnet"),
    ),
    Row("docs/porting.md", "python run_….py …", _PADDLENLP),
    Row("docs/porting.md", "common=…", _PADDLENLP),
    Row("docs/porting.md", "pretrain=…", _PADDLENLP),
    Row("docs/porting.md", "squad=…", _PADDLENLP),
    Row(
        "docs/diverging.md",
        "paddle-ipu verify --until-nan train.py --lr 1.0",
        Run(Shown.ANY_NUMBERS, exit_code=1),
    ),
    Row("docs/compatibility.md", "python -m tools.program_forms …", Run(leaves=("here.json",))),
    Row(
        "docs/differential.md",
        "make fuzz …",
        LeftOut(Why.NETWORK, "makes an environment first; tests/differential tries cases"),
    ),
    Row(
        "docs/executable_cache.md",
        "paddle-ipu cache list",
        Run(Shown.ANY_NUMBERS, before="python train.py"),
    ),
    Row("docs/executable_cache.md", "paddle-ipu cache size", Run(Shown.ANY_NUMBERS)),
    Row("docs/executable_cache.md", "paddle-ipu cache verify", Run()),
    Row("docs/onnx.md", "paddle-ipu run classifier.onnx", Run(before="python block_1.py")),
    Row(
        "docs/onnx.md",
        "paddle-ipu run classifier.onnx --inputs x.npz --outputs y.npz",
        Run(Shown.ANY_NUMBERS, before="python feeds.py", leaves=("y.npz",)),
    ),
    # A server and its client.
    Row(
        "docs/serving.md",
        "paddle-ipu serve word2vec …",
        Run(before="python block_1.py", ready="output fetch_name_0"),
    ),
    Row("docs/serving.md", "curl http://127.0.0.1:8000/…", Run(Shown.ANY_NUMBERS)),
    # Several processes.
    Row("docs/*", "paddle-ipu doctor", Run()),
    Row("docs/poprun.md", "poprun --num-instances=2 … python3 train.py", Run()),
    Row(
        "docs/poprun.md",
        "paddle-ipu vipu-server --partition pod16=16 &",
        Run(ready="V-IPU service"),
    ),
    Row("docs/poprun.md", "python -m paddle.distributed.launch …", Run()),
    Row("docs/poprun.md", "vipu …", Run(Shown.ANY_NUMBERS)),
    Row("docs/poprun.md", "poprun --vipu-partition=pod4 …", Run(exit_code=1, alone=True)),
    Row(
        "docs/poprun.md",
        "paddle-ipu gc-monitor --no-card-info",
        LeftOut(Why.MACHINE, "processes at work; tests/unit/distributed/test_gc_tools.py has such"),
    ),
    Row("docs/poprun.md", "poprun … python3 fails.py", Run(Shown.SOME_LINES, exit_code=1)),
    Row("docs/poprun.md", "poprun … python3 hangs.py", Run(Shown.SOME_LINES, exit_code=124)),
    Row("docs/poprun.md", "poprun … examples/bert/run_stage.sh …", _STAGE),
    Row("docs/poprun.md", "poprun --host=ipu-parent,ipu-child …", _HOSTS),
    # Containers and clusters.
    Row("docs/containers.md", "docker/…", _CONTAINERS),
    Row("docs/containers.md", "DOCKER=podman docker/…", _CONTAINERS),
    Row("docs/containers.md", "IMG=… docker/…", _CONTAINERS),
    Row("docs/containers.md", "docker …", _CONTAINERS),
    Row("docs/containers.md", "mounts=…", _CONTAINERS),
    Row("docs/containers.md", "source .venv/bin/activate", _INSTALLS),
    Row("docs/containers.md", "sbatch …", LeftOut(Why.MACHINE, "Slurm")),
)


def rows(page: str, command: str) -> list[Row]:
    """The rows of a command; exactly one, if the table is right."""
    return [row for row in TABLE if row.has(page, command)]
