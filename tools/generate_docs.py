"""Write the documentation pages that are made from tables of the code, or check they are current.

python -m tools.generate_docs options --check
python -m tools.generate_docs options --write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from paddle_ipu.activation.plugin import describe_patches
from paddle_ipu.options.patterns import (
    DEFAULT_PATTERNS,
    EFFECTIVE_USER_PATTERNS,
    MANDATORY_PATTERNS,
    OPTIONAL_PATTERNS,
    USER_PATTERNS,
)
from paddle_ipu.options.strategy import OPTIONS, Option
from paddle_ipu.options.table import (
    PREFETCH_DEPTH_UNSET,
    RANDOM_SEED_UNSET,
    WITHOUT_NUMBERS,
)
from tools.api_pages import API_PAGES
from tools.command_line_page import command_line_page
from tools.machines_page import machines_page
from tools.models_page import models_page
from tools.old_api_page import old_api_page
from tools.operators_page import operators_page
from tools.passes_page import passes_page
from tools.popart_page import popart_page
from tools.poprun_page import poprun_page

ROOT = Path(__file__).resolve().parents[1]

_OPTIONS_INTRO = """\
# Options

<!-- Made from paddle_ipu/options/table.py: python -m tools.generate_docs --write -->

Every option of `paddle.static.IpuStrategy().set_options({...})`.

| status | what it means |
| --- | --- |
| numbers | changes what is computed |
| cost | changes memory, time or what is told; no number depends on it |
| recorded | written to the PopART program, for hardware and predictions; no number depends on it |

Three things differ from an IPU build of Paddle:

- An int is taken where a double is meant (`loss_scaling: 128`). An IPU build refused it. A bool is
  never taken as a number, nor a number as a bool.
- `get_option` gives back what was set, doubles to the last bit, for every option.
- In a dict option, setting a key again replaces its value; a list option adds what it lacks.

`set_options` sets all of a dict or, on an error, none of it. The column *PopART* says where a value
goes; `SessionOptions` fields are written only for options that were set.
"""

_PATTERNS_INTRO = """\
## Patterns

For `enable_pattern` and `disable_pattern`. PopART's patterns change graphs, not results beyond
rounding; they are recorded. A user's pattern reaches PopART only where its compiled library is
loaded. Another name raises `OptionError`.
"""

_PATCHES_INTRO = """\
# What the plugin replaces in Paddle

<!-- Made from paddle_ipu/activation/patch_table.py: python -m tools.generate_docs --write -->

`paddle_ipu.activate()` checks that Paddle has these names in the form the plugin knows, then
replaces them; `paddle_ipu.deactivate()` puts everything back. A name that Paddle imports by value
in several modules has a row for each. Beside the names it adds a finder to `sys.meta_path`, which
makes `paddle.fluid` importable, and takes that away again.

"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(option: Option) -> str:
    if option.name == "random_seed" and option.default == RANDOM_SEED_UNSET:
        return "`2**64 - 1`"
    if option.default == PREFETCH_DEPTH_UNSET:
        return f"`{PREFETCH_DEPTH_UNSET}`"
    return f"`{option.default!r}`"


def _status(option: Option) -> str:
    if option.status != "effective":
        return option.status
    return "cost" if option.name in WITHOUT_NUMBERS else "numbers"


def options_page() -> str:
    """docs/options.md: every option by group, then the patterns."""
    lines = [_OPTIONS_INTRO]
    for group, members in groupby(OPTIONS.values(), key=lambda option: option.group):
        lines += [
            f"## {group}\n",
            "| option | type | default | valid | meaning | status | PopART |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for option in members:
            cells = [
                f"`{option.name}`",
                option.kind,
                _default(option),
                option.valid.describe(),
                option.meaning,
                _status(option),
                f"`{option.seam}`" if option.seam else "",
            ]
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines.append("")
    lines += [_PATTERNS_INTRO, "| patterns | names |", "| --- | --- |"]
    for title, names in (
        ("always on; disabling one is an error", MANDATORY_PATTERNS),
        ("on unless disabled", DEFAULT_PATTERNS),
        ("off unless enabled", OPTIONAL_PATTERNS),
    ):
        lines.append(f"| {title} | {', '.join(f'`{name}`' for name in sorted(names))} |")
    lines += [
        "",
        "Patterns that users compile for the hardware:\n",
        "| pattern | meaning | status |",
        "| --- | --- | --- |",
    ]
    for name, meaning in USER_PATTERNS.items():
        status = "numbers" if name in EFFECTIVE_USER_PATTERNS else "recorded"
        lines.append(f"| `{name}` | {meaning} | {status} |")
    return "\n".join(lines) + "\n"


def patches_page() -> str:
    """docs/patches.md: every name the plugin replaces in Paddle."""
    return _PATCHES_INTRO + describe_patches()


#: name -> (path under the root, function that gives the page)
PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "options": ("docs/options.md", options_page),
    "command_line": ("docs/command_line.md", command_line_page),
    "machines": ("docs/machines.md", machines_page),
    "models": ("docs/models.md", models_page),
    "operators": ("docs/operators.md", operators_page),
    "passes": ("docs/passes.md", passes_page),
    "patches": ("docs/patches.md", patches_page),
    "old_api": ("docs/old_api.md", old_api_page),
    "popart": ("docs/popart.md", popart_page),
    "poprun_options": ("docs/poprun_options.md", poprun_page),
    **API_PAGES,
}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Check or write the pages named; 1 if a checked page is missing or differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate_docs")
    parser.add_argument("pages", nargs="*", metavar="page", help=f"of {', '.join(PAGES)}; or all")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="fail where a page is out of date")
    action.add_argument("--write", action="store_true", help="write the pages")
    chosen = parser.parse_args(arguments)
    for name in chosen.pages:
        if name not in PAGES:
            parser.error(f"there is no page {name!r}; there are {', '.join(PAGES)}")
    stale = []
    for name in chosen.pages or PAGES:
        path, page = PAGES[name]
        target = root / path
        if chosen.write:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page(), encoding="utf-8")
        elif not target.is_file() or target.read_text(encoding="utf-8") != page():
            stale.append(name)
    for name in stale:
        print(
            f"{PAGES[name][0]} is out of date: run python -m tools.generate_docs {name} --write",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
