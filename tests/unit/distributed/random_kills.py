"""Kills instances of a training at random moments, and judges what happens and what is left.

    python -m tests.unit.distributed.random_kills --kills 50

BERT is pretrained, tiny, by two to four instances under poprun, with checkpoints and an executable
cache. A launch is killed; the next goes on with ``--resume``, is killed again, and so on to the
end of the training, whose losses are those of a run that nobody disturbed. Then it starts anew.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from examples.bert.stages.checkpoints import check_files
from examples.bert.stages.log import LOG_FILE, read_log
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.checkout import ROOT
from tests.journeys.examples.stage_data import SIZES, write_samples_folder
from tests.unit.distributed.doomed_pretraining import EXIT_CODE, FAILURE

REPLICAS = 12
STEPS, SAVED = 60, 3
PATIENCE = 60.0
"""Seconds in which a launch ends once an instance is killed, on a machine that is busy."""

SIGNALS = {"SIGKILL": 137, "SIGSEGV": 139}
INSIDE = {"exception": 1, "exit": EXIT_CODE}
OF_POPRUN = ("SIGINT", "SIGTERM")
KINDS = ("SIGKILL", "SIGKILL", "SIGSEGV", "exception", "exit", "SIGSTOP", "SIGKILL", *OF_POPRUN)
HUNG = 124


@dataclass(frozen=True, slots=True)
class Killed:
    """How a launch was killed: the kind, the instance, and seconds until all had ended."""

    kind: str
    instance: int
    seconds: float


class Training:
    """One folder's training, and its launches.

    Args:
        folder: for everything that is written.
        generator: of all random choices.
        patience: seconds after which ``--hang-timeout`` ends a launch.
    """

    def __init__(self, folder: Path, generator: random.Random, patience: float) -> None:
        self.folder, self.random, self.patience = folder, generator, patience
        self.cache, self.temporary = folder / "cache", folder / "tmp"
        self.errors = folder / "errors"
        self.samples = write_samples_folder(folder / "samples")
        self.startup = self.steps = 0.0
        self.launches = 0

    def start(self, output: Path, instances: int, told: str = "") -> subprocess.Popen[str]:
        """A launch that goes on in `output`, with the instance's failure that `told` names."""
        self.launches += 1
        pids = self.folder / "pids"
        for path in (pids, self.temporary):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        environment = {
            **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "PIDS": str(pids),
            "LAUNCH": self.mark(),
        }  # fmt: skip
        environment.pop("DOOM", None)
        if told:
            environment["DOOM"] = told
        words = (
            f"--preset smoke-phase1 --num_ipus 1 --num_replica {REPLICAS} --micro_batch_size 1 "
            f"--enable_grad_acc False --grad_acc_factor 1 --max_steps {STEPS} --save_steps {SAVED} "
            "--hidden_dropout_prob 0.1 --attention_probs_dropout_prob 0.1 --resume"
        ).split()
        with self.errors.open("w", encoding="utf-8") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "paddle_ipu.distributed.poprun", "--offline-mode=yes",
                 f"--num-instances={instances}", f"--num-replicas={REPLICAS}",
                 f"--executable-cache-path={self.cache}", f"--hang-timeout={self.patience:.0f}",
                 sys.executable, "-m", "tests.unit.distributed.doomed_pretraining", *words, *SIZES,
                 "--input_files", str(self.samples), "--output_dir", str(output)],
                env=environment, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip

    def mark(self) -> str:
        """What every process of this launch has in its environment."""
        return f"{self.folder.name}-{self.launches}"

    def said(self) -> str:
        """What the launch wrote to its standard error."""
        return self.errors.read_text(encoding="utf-8")

    def undisturbed(self) -> list[float]:
        """The losses of a run to its end; measures its parts."""
        output = self.folder / "undisturbed"
        for instances in (2, 3, 4):
            # The executables of all.
            shutil.rmtree(output, ignore_errors=True)
            began = time.monotonic()
            process = self.start(output, instances)
            assert self.wait_for_step(process, output, began) is not None, self.said()
            self.startup = time.monotonic() - began
            assert process.wait(timeout=600) == 0, self.said()
            self.steps = time.monotonic() - began - self.startup
        self.check_left()
        return losses(output)

    def wait_for_step(
        self, process: subprocess.Popen[str], output: Path, began: float
    ) -> float | None:
        """Waits until this launch has made a step; None where it ends before."""
        log, at = output / LOG_FILE, len(losses(output))
        while process.poll() is None:
            if log.exists() and log.stat().st_mtime >= time.time() - (time.monotonic() - began):
                found = len(losses(output))
                if found > at:
                    return time.monotonic()
                at = min(at, found)
            time.sleep(0.05)
        return None

    def kill(self, output: Path, kind: str) -> Killed | None:
        """Starts a launch, kills it, and judges; None where it had ended before."""
        instances = self.random.choice((2, 2, 3, 4))
        instance = self.random.randrange(instances)
        told = ""
        if kind in INSIDE:
            where = self.random.choice(("compile", "step", "step", "step"))
            call = 1 if where == "compile" else self.random.randint(1, STEPS // 2)
            told = f"{instance} {where} {call} {kind}"
        if self.random.random() < 0.15:
            # Killed while it compiles, or writes into the cache.
            shutil.rmtree(self.cache, ignore_errors=True)
        began = time.monotonic()
        process = self.start(output, instances, told)
        try:
            if told:
                process.wait(timeout=600)
                killed = time.monotonic()
            else:
                self._await_moment(process, output, began)
                killed = time.monotonic()
                if process.poll() is None:
                    victim = process.pid if kind in OF_POPRUN else self._pid(instance)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.Signals[kind])
                process.wait(timeout=PATIENCE + self.patience * (kind == "SIGSTOP"))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{kind} of instance {instance}: hangs\n{self.said()}") from None
        finally:
            if process.poll() is None:
                process.kill()
        seconds = time.monotonic() - killed
        self.check_left()
        if process.returncode == 0:
            assert len(losses(output)) == STEPS
            return None
        self._check_message(process.returncode, kind, instance)
        return Killed(kind, instance, seconds)

    def _await_moment(self, process: subprocess.Popen[str], output: Path, began: float) -> None:
        if self.random.random() < 0.4:
            time.sleep(self.random.uniform(0.0, self.startup))
        elif self.wait_for_step(process, output, began) is not None:
            time.sleep(self.random.uniform(0.0, self.steps * 0.7))

    def _pid(self, instance: int) -> int:
        file = self.folder / "pids" / str(instance)
        last = time.monotonic() + PATIENCE
        while not file.exists():
            assert time.monotonic() < last, self.said()
            time.sleep(0.02)
        return int(file.read_text())

    def _check_message(self, code: int, kind: str, instance: int) -> None:
        said = self.said()
        if kind in OF_POPRUN:
            expected = 128 + signal.Signals[kind]
            texts = [f"[W] ended by {kind}; every instance was told to end"]
        elif kind == "SIGSTOP":
            expected, texts = HUNG, ["no instance has begun a run for", "hang"]
        elif kind in INSIDE:
            expected = INSIDE[kind]
            texts = [
                f"[E] instance {instance} exited with code {expected}; its last lines",
                FAILURE,
            ]
        else:
            expected = SIGNALS[kind]
            texts = [f"[E] instance {instance} was killed by {kind}"]
        assert code == expected, f"{kind} of instance {instance}: code {code}\n{said}"
        for text in texts:
            assert text in said, f"{kind} of instance {instance}: no {text!r} in\n{said}"

    def check_left(self) -> None:
        """No process of the launch, no temporary file, nothing damaged."""
        last = time.monotonic() + 5.0
        while (alive := processes(self.mark())) and time.monotonic() < last:
            time.sleep(0.1)
        assert not alive, f"still running: {alive}"
        assert list(self.temporary.iterdir()) == []
        for path in self.folder.glob("*/step_*"):
            check_files(path)
        if self.cache.exists():
            cache = ExecutableCache(self.cache)
            for entry in cache.entries():
                assert not isinstance(found := cache.examine(entry.key), str), found


def processes(mark: str) -> dict[int, str]:
    """Processes that have LAUNCH=mark in their environment, and what they are."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if f"LAUNCH={mark}\0".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue
    return found


def losses(output: Path) -> list[float]:
    """The losses of a run's log."""
    return [record["loss/MLM"] for record in read_log(output / LOG_FILE)]


def kill_and_resume(folder: Path, kills: int, seed: int, patience: float = 60.0) -> list[Killed]:
    """Kills so many launches; raises AssertionError where something is not as it should be."""
    generator = random.Random(seed)
    training = Training(folder, generator, patience)
    expected = training.undisturbed()
    assert len(expected) == STEPS
    say(f"undisturbed: {training.startup:.1f} s to the first step, {training.steps:.1f} s more")
    found: list[Killed] = []
    kinds: list[str] = []
    output, chain = folder / "chain", 0
    while len(found) < kills:
        kinds = kinds or generator.sample(KINDS, len(KINDS))
        before = len(losses(output))
        killed = training.kill(output, kinds[-1])
        if killed is not None:
            kinds.pop()
            found.append(killed)
            steps = len(losses(output))
            say(
                f"{len(found):3} {killed.kind:9} instance {killed.instance}, after step {steps} "
                f"(from {before}), ended in {killed.seconds:.1f} s"
            )
        if len(losses(output)) == STEPS and killed is None:
            compare(losses(output), expected)
            say(f"training {chain} came to its end with the losses of the undisturbed one")
            shutil.rmtree(output)
            chain += 1
    if output.exists():
        process = training.start(output, 2)
        assert process.wait(timeout=600) == 0, training.said()
        training.check_left()
        compare(losses(output), expected)
    return found


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def compare(got: list[float], expected: list[float]) -> None:
    """The same losses, but for sums of other numbers of instances."""
    assert len(got) == len(expected)
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, expected, strict=True))
    assert worst < 1e-5, f"losses differ by {worst:.1e}"


def main() -> int:
    """Runs as the module's docstring says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="launches to kill (default: 50)")
    parser.add_argument("--seed", type=int, default=None, help="of all choices (default: random)")
    parser.add_argument(
        "--patience", type=float, default=60.0, help="poprun's --hang-timeout (default: 60)"
    )
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    say(f"seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="random-kills-"))
    found = kill_and_resume(folder, options.kills, seed, options.patience)
    counts = Counter(killed.kind for killed in found)
    longest = max(k.seconds for k in found if k.kind != "SIGSTOP")
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    say(
        f"{len(found)} kills ({kinds}): no hang; no process, temporary file or damage left; all "
        f"ended within {longest:.1f} s, but for SIGSTOP, with --hang-timeout={options.patience:.0f}"
    )
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
