"""The commands of README, the guides and the examples' pages are run, or a table says why not.

:mod:`.command_table` is that table. The commands of a page run in its order, in one shell and one
folder, and have to print what the page shows. Of what takes longer the page says when, on which
machine and with which Paddle it was recorded.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.journeys.documents.command_table import TABLE, LeftOut, Run, Why, rows
from tests.journeys.documents.page_folders import prepare
from tests.journeys.documents.shell_blocks import PAGES, Step, blocks, steps
from tests.journeys.documents.shown_output import Shown, difference

# The same commands in another language.
TRANSLATIONS = ("docs/README_zh.md", "docs/tutorial_zh.md")
RUN_PAGES = tuple(
    page
    for page in PAGES
    if page not in TRANSLATIONS
    and any(
        isinstance(row.fate, Run)
        for step in steps(page)
        for command in step.commands
        for row in rows(page, command)
    )
)

_RECORDED = re.compile(
    r"[Rr]ecorded on \d{4}-\d\d-\d\d on (?=[^.]*\b(AMD|Intel|Arm)\b)[^.]+ with Paddle \d+\.\d+\.\d+"
    r"|记录于 \d{4}-\d\d-\d\d，(?=[^。]*\b(AMD|Intel|Arm)\b)[^。]+，Paddle \d+\.\d+\.\d+"
)

# A page's commands together; each takes less than a minute on two free cores.
_SECONDS = 900


def fate(page: str, command: str) -> Run | LeftOut:
    """What becomes of a command, of which the table has one row."""
    (row,) = rows(page, command)
    return row.fate


def every_command() -> Iterator[tuple[Step, str]]:
    for page in PAGES:
        for step in steps(page):
            for command in step.commands:
                yield step, command


def test_every_block_says_what_it_is() -> None:
    """Commands that do not stand as ``sh`` or ``console`` would not be found."""
    unnamed = [f"{page}:{block.line}" for page in PAGES for block in blocks(page) if not block.kind]
    assert not unnamed, f"say sh, console, text, … behind the fence: {unnamed}"


def test_every_command_is_run_or_left_out_for_a_reason() -> None:
    odd = {
        f"{step}: {command}": len(found)
        for step, command in every_command()
        if len(found := rows(step.page, command)) != 1
    }
    assert not odd, f"commands with no row, or with several, in command_table.py: {odd}"


def test_every_row_has_a_command() -> None:
    shown = {(step.page, command) for step, command in every_command()}
    idle = [row for row in TABLE if not any(row.has(*each) for each in shown)]
    assert not idle, f"remove them from command_table.py: {idle}"


def test_what_takes_longer_says_when_and_where_it_was_run() -> None:
    """In the section of an output, or before the first; without an output, anywhere in the page."""
    untold = []
    for step, command in every_command():
        found = fate(step.page, command)
        if isinstance(found, Run) or found.why is Why.FORM:
            continue
        lines = (ROOT / step.page).read_text(encoding="utf-8").splitlines()
        heads = [0, *(n for n, line in enumerate(lines) if line.startswith("## ")), len(lines)]
        own = max(n for n, head in enumerate(heads) if head < step.line)
        section = lines[heads[own] : heads[own + 1]] + lines[: heads[1]]
        if step.shown is not None:
            where = section
        elif found.why is Why.LONG:
            where = lines
        else:
            continue
        if not _RECORDED.search(" ".join(where)):
            untold.append(f"{step}: {command}")
    assert not untold, (
        "say 'Recorded on DATE on MACHINE with Paddle VERSION' beside the output: "
        + "\n".join(untold)
    )


@pytest.mark.parametrize(
    ("shown", "printed", "how", "told"),
    [
        ("loss 0.50\n", "loss 0.51\n", Shown.AS_PRINTED, None),
        ("loss 0.50\n", "loss 0.61\n", Shown.AS_PRINTED, "0.50 is shown, 0.61 printed"),
        ("rows 3\n", "rows 4\n", Shown.AS_PRINTED, "+++ printed"),
        ("rows 3\n", "rows 4\n", Shown.ANY_NUMBERS, None),
        ("rows 3\n", "columns 3\n", Shown.ANY_NUMBERS, "+++ printed"),
        ("a\n...\nz\n", "a\nb\nc\nz\n", Shown.AS_PRINTED, None),
        ("a\n...\nz\n", "a\nb\nc\n", Shown.AS_PRINTED, "+++ printed"),
        ("at 12:30:01 ...\n", "at 9:00:00 in the morning\n", Shown.ANY_NUMBERS, None),
        ("4904babe7ada9c9e\n", "0123456789abcdef\n", Shown.ANY_NUMBERS, None),
        ("one\n2 two\n", "3 two\n\none\n", Shown.SOME_LINES, None),
        ("one\ntwo\n", "one\n", Shown.SOME_LINES, "not printed"),
    ],
)
def test_an_output_is_compared_as_the_table_says(
    shown: str, printed: str, how: Shown, told: str | None
) -> None:
    found = difference(shown, printed, how)
    assert found is None if told is None else told in (found or "")


@pytest.mark.thorough
@pytest.mark.parametrize("page", RUN_PAGES)
def test_a_page_shows_what_its_commands_do(page: str, tmp_path: Path) -> None:
    folder, kept = tmp_path / "checkout", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    prepare(page, folder)
    (kept / "session.sh").write_text(_session(page, folder, kept))
    (tmp_path / ".curlrc").write_text("no-progress-meter\n")  # as on a terminal
    _run(kept / "session.sh", tmp_path)
    assert not (wrong := list(_faults(page, folder, kept))), "\n\n".join(wrong)


def _to_run(page: str) -> Iterator[tuple[str, Step, str, Run]]:
    """(name of its files, step, command, fate) of each command of a page that is run."""
    for number, step in enumerate(steps(page)):
        for place, command in enumerate(step.commands):
            if isinstance(found := fate(page, command), Run):
                yield f"{number}.{place}", step, command, found


def _session(page: str, folder: Path, kept: Path) -> str:
    """A script of bash that runs the commands, and keeps what they print and exit with."""
    # A network of its own, where it has one, lets a page take the ports that it shows.
    lines = ["ip link set lo up 2>/dev/null", f"cd {shlex.quote(str(folder))}"]
    ends = "kill $(jobs -p) 2>/dev/null; wait"
    for name, _, command, run in _to_run(page):
        file = kept / name
        starts = "exec " if run.ready else ""
        file.with_suffix(f"{file.suffix}.sh").write_text(f"{starts}{command.removesuffix(' &')}\n")
        script, out = (shlex.quote(f"{file}.{kind}") for kind in ("sh", "out"))
        if run.alone:
            lines.append(ends)
        if run.before:
            lines.append(f"{{ {run.before}; }} >{shlex.quote(f'{file}.before')} 2>&1 </dev/null")
        if run.ready:
            lines += [
                f". {script} >{out} 2>&1 </dev/null &",
                f"until grep -qF {shlex.quote(run.ready)} {out} || ! kill -0 $! 2>/dev/null",
                "do sleep 0.1; done; kill -0 $!",
            ]
        else:
            lines.append(f". {script} >{out} 2>&1 </dev/null")
        lines.append(f"echo $? >{shlex.quote(f'{file}.exit')}")
    return "\n".join([*lines, ends, ""])


def _run(session: Path, home: Path) -> None:
    """Runs a script of commands, with this Python's programs and a home folder of its own."""
    environment = os.environ | {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        # The pages leave out what Paddle says of itself.
        "PYTHONWARNINGS": "ignore",
        "GLOG_minloglevel": "2",
        # As in the images.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    # What the tests set for themselves, and where a user's programs are kept.
    for name in ("IPU_CACHE_PATH", "PADDLE_IPU_LAYER_NUMBERS", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    words = ["bash", str(session)]
    if shutil.which("ip") and not subprocess.run(["unshare", "--net", "true"], check=False,
                                                 capture_output=True).returncode:  # fmt: skip
        words = ["unshare", "--net", *words]
    with subprocess.Popen(
        words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL
    ) as process:
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # Commands that did not end have no exit code, which is told.
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _as_in_the_pages(printed: str, folder: Path, home: Path) -> str:
    """An output with paths from the folder, the home folder and the name of the host as shown."""
    host = rf"\b{re.escape(socket.gethostname())}\b"
    return re.sub(host, "vm", printed.replace(f"{folder}/", "").replace(str(home), "/root"))


def _faults(page: str, folder: Path, kept: Path) -> Iterator[str]:
    """What each command did otherwise than the page and the table say."""
    printed: dict[Step, list[str]] = {}
    for name, step, command, run in _to_run(page):
        out, code = kept / f"{name}.out", kept / f"{name}.exit"
        told = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
        exit_code = code.read_text().strip() if code.exists() else f"none in {_SECONDS} s"
        if exit_code != str(run.exit_code):
            before = kept / f"{name}.before"
            made = before.read_text(errors="replace")[-2000:] if before.exists() else ""
            yield (
                f"{step}: {command}\nexit code {exit_code}, expected {run.exit_code}:"
                f"\n{made}{told[-4000:]}"
            )
            continue
        for left in run.leaves:
            if not (folder / left).exists():
                yield f"{step}: {command}\nleaves no {left}:\n{told[-2000:]}"
        printed.setdefault(step, []).append(_as_in_the_pages(told, folder, kept.parent))
        whole = step.commands[-1] == command and len(printed[step]) == len(step.commands)
        if step.shown is not None and run.shown is not None and whole:
            found = difference(step.shown, "".join(printed[step]), run.shown)
            if found is not None:
                yield f"{step}: {command}\n{found}"
