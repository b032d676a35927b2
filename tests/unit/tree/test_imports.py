"""The order of the package: no circles among its modules, late imports at named places only."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.checkout import ROOT

FACES = ("paddle_ipu", "paddle_ipu.popart")
"""They resolve their names on first use and may point downwards."""

LATE = {
    "a session, or compiling": (
        "paddle_ipu.compiler.compiled_program",
        "paddle_ipu.compiler.custom_ops",
        "paddle_ipu.distributed.popdist",
        "paddle_ipu.distributed.popdist_popart",
        "paddle_ipu.dygraph.gradient_program",
        "paddle_ipu.frontend.programs",
        "paddle_ipu.inference.config",
        "paddle_ipu.inference.model",
        "paddle_ipu.runtime.ipu_program",
    ),
    "a prediction": (
        "paddle_ipu.compiler.compilation",
        "paddle_ipu.compiler.translated_program",
        "paddle_ipu.sessions.report",
    ),
    "the vocabulary of ProgramDesc": ("paddle_ipu.compiler.translated_program",),
    "a patched name": (
        "paddle_ipu.activation.plugin",
        "paddle_ipu.activation.saved_models",
        "paddle_ipu.legacy.fluid_import",
        "paddle_ipu.legacy.inference_clone",
        "paddle_ipu.legacy.legacy_names",
    ),
    "a command": (
        "paddle_ipu.cli.cache",
        "paddle_ipu.cli.check",
        "paddle_ipu.cli.export",
        "paddle_ipu.cli.info",
        "paddle_ipu.cli.run",
        "paddle_ipu.cli.scripts",
        "paddle_ipu.cli.serve",
        "paddle_ipu.distributed.poprun",
    ),
    "importing the package": ("paddle_ipu",),
}
"""Where something heavy begins -> modules that may import ours in a function for it."""

MOST_LATE_IMPORTS = 49

ANY = re.compile(r": Any\b|-> Any\b")
MOST_ANY = 288
"""Lines with ``: Any`` or ``-> Any``, which `make types` counts; the bound only falls."""


@dataclass(frozen=True, slots=True)
class Import:
    """An import of one of the package's modules.

    Attributes:
        by: the module that imports.
        what: the module that is imported.
        line: of the statement.
        late: it stands in a function.
    """

    by: str
    what: str
    line: int
    late: bool


def _modules() -> dict[str, ast.Module]:
    found = {}
    for folder, prefix in (
        ("paddle_ipu", ()),
        ("ops", ("paddle_ipu",)),
        ("passes", ("paddle_ipu",)),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT).with_suffix("").parts
            if (ROOT / "paddle_ipu" / inner[1]).is_symlink() and folder == "paddle_ipu":
                continue
            parts = (*prefix, *inner[: -1 if inner[-1] == "__init__" else None])
            found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = _modules()


def _imports() -> Iterator[Import]:
    for module, tree in MODULES.items():
        yield from _imports_in(module, tree, late=False)


def _imports_in(module: str, node: ast.AST, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("paddle_ipu"):
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                what = inner if inner in MODULES else str(child.module)
                yield Import(module, what, child.lineno, late)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                if alias.name.startswith("paddle_ipu"):
                    yield Import(module, alias.name, child.lineno, late)
        in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _imports_in(module, child, late or in_function)


IMPORTS = tuple(_imports())


def _package(module: str) -> str:
    parts = module.split(".")
    depth = 3 if parts[1:2] == ["xla"] else 2
    return ".".join(parts[:depth])


def _circle(edges: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_is_seen() -> None:
    assert {"paddle_ipu.ops.registry", "paddle_ipu.passes.pass_base", "paddle_ipu.cli.main"} <= {
        *MODULES
    }
    assert len(MODULES) > 500


@pytest.mark.parametrize("level", ["packages", "modules"])
def test_imports_have_no_circles(level: str) -> None:
    """Those in functions and under TYPE_CHECKING count."""
    edges: dict[str, set[str]] = defaultdict(set)
    for found in IMPORTS:
        by, what = found.by, found.what
        if by in FACES or what == "paddle_ipu":
            continue
        if level == "packages":
            by, what = _package(by), _package(what)
        if by != what:
            edges[by].add(what)
    assert not _circle(edges)


def test_late_imports_stand_where_something_heavy_begins() -> None:
    allowed = {module for modules in LATE.values() for module in modules}
    late = {(found.by, found.line) for found in IMPORTS if found.late}
    assert {by for by, _ in late} == allowed
    assert len(late) <= MOST_LATE_IMPORTS


def test_no_module_of_ours_is_imported_by_its_name_in_a_string() -> None:
    """Paddle's modules and Graphcore's `popart` may be; the faces resolve their own."""
    strange = []
    for module, tree in MODULES.items():
        named = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.split(":")[0] in MODULES.keys() - {"paddle_ipu"}
        }
        imports = any(
            isinstance(node, ast.Name | ast.Attribute)
            and (node.id if isinstance(node, ast.Name) else node.attr)
            in ("import_module", "__import__")
            for node in ast.walk(tree)
        )
        if imports and named and module not in FACES:
            strange.append((module, sorted(named)))
    assert not strange


def test_nothing_stands_loose_in_the_package() -> None:
    loose = {path.name for path in (ROOT / "paddle_ipu").iterdir() if path.is_file()}
    assert loose - {name for name in loose if name.endswith(".so")} == {
        "__init__.py",
        "errors.py",
        "py.typed",
    }


def test_every_file_says_what_it_is_for() -> None:
    silent = [
        module for module, tree in MODULES.items() if tree.body and not ast.get_docstring(tree)
    ]
    empty = [module for module, tree in MODULES.items() if not tree.body]
    assert not silent
    assert not empty
    assert Path(ROOT / "paddle_ipu" / "py.typed").is_file()


def test_any_stands_for_ever_fewer_types() -> None:
    found = [
        line
        for folder in ("paddle_ipu", "ops", "passes")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if ANY.search(line)
    ]
    assert len(found) <= MOST_ANY
