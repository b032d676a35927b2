"""The BERT journey at its smallest size, as a user makes it: prepare, then four stages."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.checkout import ROOT
from tests.journeys.examples.stage_data import WORDS, write_squad

RUN_STAGE = ROOT / "examples" / "bert" / "run_stage.sh"
STAGES = ("phase1", "phase2", "SQuAD", "validation")


def write_text(path: Path) -> Path:
    """Sixteen articles of random sentences."""
    rng = np.random.default_rng(1)
    articles = [
        "\n".join(" ".join(rng.choice(WORDS[:-2], 9)) + " ." for _ in range(20)) for _ in range(16)
    ]
    path.write_text("\n\n".join(articles))
    return path


def prepare(text: Path, output: Path, *arguments: str) -> None:
    """Samples of five masked words, in three files."""
    command = [sys.executable, "-m", "examples.bert.prepare", str(text), "--output", str(output)]
    common = "--max-predictions-per-seq 5 --duplicates 1 --files 3 --processes 1".split()
    subprocess.run([*command, *common, *arguments], check=True, cwd=ROOT)


def main() -> int:
    """Run all of it in ``--output``, which is emptied first; 0 if every stage ended well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--device", choices=("ipu", "cpu"), default="ipu")
    arguments = parser.parse_args()
    folder = arguments.output.resolve() / "a journey"  # paths may have spaces
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = write_text(folder / "text.txt")
    prepare(text, folder / "phase1", "--vocab-size", "400", "--sequence-length", "32")
    vocabulary = str(folder / "phase1" / "vocab.txt")
    prepare(text, folder / "phase2", "--vocab", vocabulary, "--sequence-length", "64")
    (folder / "squad").mkdir()
    squad = write_squad(folder / "squad" / "train-v1.1.json", 40)
    shutil.copy(squad, folder / "squad" / "dev-v1.1.json")
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "BERT_PRESET": "smoke",
        "BERT_DATA": str(folder),
    }
    load = "_"
    for stage in STAGES:
        save = str(folder / stage)
        command = [str(RUN_STAGE), arguments.device, stage, load, save]
        done = subprocess.run(command, env=environment, cwd=folder, check=False)
        if done.returncode:
            sys.stderr.write(f"{stage}: exit code {done.returncode}\n")
            return 1
        load = save
    scores = json.loads((folder / "validation.run" / "squad_scores.json").read_text())
    return 0 if scores["total"] == 40 else 1


if __name__ == "__main__":
    sys.exit(main())
