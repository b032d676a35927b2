"""What sdist, wheel and editable wheel hold, and that what is installed activates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paddle_ipu
from tests.checkout import ROOT

LINKS = ("ops", "passes")
PACKAGES = ("paddle_ipu", "popdist")
PTH = "paddle_ipu_autoload.pth"
KERNELS = "paddle_ipu/xla/kernels/_kernels.so"
SOURCES = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "paddle_ipu" / "xla" / "kernels").rglob("*")
    if path.suffix in (".cc", ".h", ".inc")
}
COMPILER = shutil.which(str(sysconfig.get_config_var("CXX")).split()[0])


def copy_source(to: Path) -> Path:
    """The checkout's sources, links kept, so that building leaves nothing in the checkout."""
    to.mkdir()
    files = ("LICENSE", "MANIFEST.in", "pyproject.toml", "setup.py", "_paddle_ipu_autoload.py")
    for file in files:
        shutil.copy(ROOT / file, to / file)
    (to / "tools/pep517").mkdir(parents=True)
    shutil.copy(ROOT / "tools/pep517/build_backend.py", to / "tools/pep517")
    for folder in (*PACKAGES, *LINKS):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, to / folder, symlinks=True, ignore=ignored)
    return to


def call_backend(
    source: Path, hook: str, to: Path, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Calls a hook of the build backend in the sources; prints the name of what it made last.

    `before` is run in its process first.
    """
    path = "import sys; sys.path.insert(0, 'tools/pep517')"
    snippet = f"{before}\n{path}\nimport build_backend as b; print(b.{hook}({str(to)!r}))"
    return subprocess.run(
        [sys.executable, "-c", snippet], cwd=source, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds with a hook, once for each, and returns the file."""
    made: dict[str, Path] = {}

    def build_once(hook: str) -> Path:
        if hook not in made:
            folder = tmp_path_factory.mktemp(hook)
            done = call_backend(copy_source(folder / "source"), hook, folder)
            assert done.returncode == 0, done.stderr
            made[hook] = folder / done.stdout.split()[-1]
        return made[hook]

    return build_once


def source_modules() -> set[str]:
    """Every file of the package as a path below site-packages, those behind links included."""
    found = {"_paddle_ipu_autoload.py", "paddle_ipu/py.typed", "popdist/py.typed"}
    found |= {f"paddle_ipu/inference/c_api/paddle_ipu_inference.{end}" for end in "ch"}
    for package in PACKAGES:
        for folder, _, files in os.walk(ROOT / package, followlinks=True):
            found |= {
                str((Path(folder) / file).relative_to(ROOT))
                for file in files
                if file.endswith((".py", ".js", ".css"))
            }
    return found


def run_installed(site: Path, snippet: str, autoload: str = "1") -> str:
    """Runs a snippet after `site` was added in the way Python adds site-packages.

    The environment's own site-packages are there too, but not their .pth files: an installed
    paddle_ipu must not come first.
    """
    packages = sysconfig.get_path("purelib")
    start = f"import site, sys; site.addsitedir({str(site)!r}); sys.path.append({packages!r})\n"
    # What -S leaves undone and Paddle 2.6 reads.
    start += "site.getusersitepackages()\n"
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", start + snippet],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PADDLE_IPU_AUTOLOAD": autoload,
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ASK = (
    "import _paddle_ipu_autoload, paddle; print(paddle.is_compiled_with_ipu());"
    "import paddle_ipu.ops, paddle_ipu.passes; print(_paddle_ipu_autoload.__file__)"
)


def unpack(wheel: Path, to: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(to)
    return to


def test_wheel_holds_every_module_and_the_pth_file(build: Callable[[str], Path]) -> None:
    with zipfile.ZipFile(build("build_wheel")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        listed = archive.read(record).decode()
        pth = archive.read(PTH).decode()
    compiled = set() if COMPILER is None else {KERNELS}
    assert names == source_modules() | {PTH} | compiled
    # Without its line in RECORD the file would stay behind when the package is uninstalled.
    assert f"\n{PTH},sha256=" in "\n" + listed
    # Python executes a line of a .pth file only if it begins so.
    assert pth.startswith("import ") and pth.count("\n") == 1


@pytest.mark.thorough
def test_without_a_compiler_the_wheel_is_built_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.setenv(name, str(tmp_path / "no-compiler"))
    done = call_backend(copy_source(tmp_path / "source"), "build_wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == source_modules() | {PTH}


@pytest.mark.thorough
def test_without_jaxlib_the_wheel_is_built_all_the_same(tmp_path: Path) -> None:
    absent = "import sys; sys.modules['jaxlib'] = None"
    done = call_backend(copy_source(tmp_path / "source"), "build_wheel", tmp_path, absent)
    assert done.returncode == 0, done.stderr
    assert "failed: it needs the headers of jaxlib, which is not installed" in done.stderr
    assert "paddle_ipu is installed without its compiled kernels" in done.stderr
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == source_modules() | {PTH}


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [("linux", "aarch64", "Linux on aarch64"), ("darwin", "arm64", "macOS on arm64")],
)
def test_on_an_untested_platform_the_wheel_has_no_kernels_and_says_so(
    tmp_path: Path, system: str, machine: str, name: str
) -> None:
    there = (
        "import setuptools.command.bdist_wheel, setuptools.command.build_ext, sys, platform\n"
        f"sys.platform = {system!r}; platform.machine = lambda: {machine!r}"
    )
    done = call_backend(copy_source(tmp_path / "source"), "build_wheel", tmp_path, there)
    assert done.returncode == 0, done.stderr
    wheel = done.stdout.split()[-1]
    assert wheel == f"paddle_ipu-{paddle_ipu.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == source_modules() | {PTH}
    told = f"paddle_ipu is tested on Linux on x86-64 alone; {name} lacks the compiled kernels"
    assert sum(told in line for line in done.stderr.splitlines()) == 1


def test_sdist_holds_what_the_links_point_to(build: Callable[[str], Path], tmp_path: Path) -> None:
    with tarfile.open(build("build_sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    held = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert source_modules() | SOURCES <= held
    assert not any((source / "paddle_ipu" / name).is_symlink() for name in LINKS)


def test_installed_wheel_activates(build: Callable[[str], Path], tmp_path: Path) -> None:
    site = unpack(build("build_wheel"), tmp_path)
    activated, where = run_installed(site, ASK).splitlines()
    assert activated == "True"
    assert Path(where).parent == site


def test_installed_wheel_obeys_autoload_0(build: Callable[[str], Path], tmp_path: Path) -> None:
    site = unpack(build("build_wheel"), tmp_path)
    snippet = "import paddle; print(paddle.is_compiled_with_ipu())"
    assert run_installed(site, snippet, autoload="0") == "False"


def test_editable_wheel_activates(build: Callable[[str], Path], tmp_path: Path) -> None:
    wheel = build("build_editable")
    site = unpack(wheel, tmp_path)
    activated, where = run_installed(site, ASK).splitlines()
    assert activated == "True"
    assert Path(where).parent == wheel.parent / "source"


@pytest.mark.long
def test_editable_wheel_has_no_finder(build: Callable[[str], Path], tmp_path: Path) -> None:
    """setuptools' finder would be imported by every Python start."""
    site = unpack(build("build_editable"), tmp_path)
    lines = [file.read_text() for file in site.glob("*.pth") if file.name != PTH]
    assert len(lines) == 1
    assert "import" not in lines[0].replace(str(site), "")


@pytest.fixture(params=LINKS)
def linkless(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Sources where one link arrived as a text file, as from a zip without links."""
    source = copy_source(tmp_path / "source")
    link = source / "paddle_ipu" / request.param
    link.unlink()
    link.write_text(f"../{request.param}")
    return source, request.param


def test_import_without_links_says_so(linkless: tuple[Path, str], run_python: Any) -> None:
    source, name = linkless
    snippet = (
        f"try: import paddle_ipu.{name}\nexcept Exception as e: print(type(e).__name__, e)\n"
        "import sys; print('paddle' in sys.modules)"
    )
    stdout = run_python(snippet, PYTHONPATH=str(source)).stdout
    assert stdout.startswith(f"ActivationError {source / 'paddle_ipu' / name} is a text file")
    assert "without support for symbolic links. Clone it with git" in stdout
    assert stdout.endswith("False\n")


def test_start_without_links_leaves_paddle_usable(
    linkless: tuple[Path, str], run_python: Any
) -> None:
    source, name = linkless
    snippet = (
        "import _paddle_ipu_autoload as a; a.start()\nimport paddle\n"
        "print(paddle.is_compiled_with_ipu())"
    )
    done = run_python(snippet, PYTHONPATH=str(source), PADDLE_IPU_AUTOLOAD="1")
    assert done.stdout == "False\n"
    assert f"RuntimeWarning: paddle_ipu stays inactive. {source}" in done.stderr


def test_build_without_links_says_so(linkless: tuple[Path, str], tmp_path: Path) -> None:
    source, name = linkless
    done = call_backend(source, "build_wheel", tmp_path)
    assert done.returncode != 0
    assert f"paddle_ipu/{name} must be a folder or a symbolic link to ../{name}" in done.stderr


def test_links_are_committed_as_links() -> None:
    for name in LINKS:
        assert os.readlink(ROOT / "paddle_ipu" / name) == f"../{name}"


def test_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert paddle_ipu.__version__ == "0.1.0"
    assert project["scripts"] == {
        "paddle-ipu": "paddle_ipu.cli.main:main",
        "poprun": "paddle_ipu.distributed.poprun:main",
        "vipu": "paddle_ipu.distributed.vipu:main",
    }
    names = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert names == {"jax", "numpy", "onnx", "onnx-ir", "paddlepaddle", "protobuf"}
