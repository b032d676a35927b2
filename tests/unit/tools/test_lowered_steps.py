"""``tools.lowered_steps``: what its normal form leaves out, and that it finds an altered step."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.checkout import ROOT
from tools.lowered_steps import __main__ as command
from tools.lowered_steps.__main__ import main
from tools.lowered_steps.child import text_of
from tools.lowered_steps.measuring import Side, measure
from tools.lowered_steps.normal_form import has_own_call, normal_form
from tools.lowered_steps.recording import recording

ROW = jax.ShapeDtypeStruct((3,), jnp.float32)


def _named(name: str, function: Callable[..., Any]) -> Any:
    function.__name__ = name
    return jax.jit(function)


def _text(
    inner: str = "inner",
    outer: str = "outer",
    argument: str = "x",
    target: str = "paddle_ipu_call",
    constant: float = 2.0,
    spec: int = 1,
    size: int = 3,
    operator: Callable[[Any], Any] = jnp.sin,
    located: bool = False,
) -> str:
    """A step with a function, a call of a kernel, a large constant and an operator."""
    once = _named(inner, lambda x: jnp.cos(x) + 1)
    table = np.full(size, constant, np.float32)

    def step(arguments: dict[str, Any]) -> dict[str, Any]:
        x = once(arguments[argument])
        called = jax.ffi.ffi_call(target, ROW)(x, spec=np.asarray([spec], np.int64))
        return {f"{argument}/out": operator(called), "table": jnp.asarray(table)}

    lowered = _named(outer, step).lower({argument: ROW})
    return normal_form(str(lowered.as_text(debug_info=located)))


def test_names_locations_and_targets_are_left_out() -> None:
    text = _text()
    assert "jax.result_info" not in text
    assert has_own_call(text)
    for other in (
        _text(inner="elsewhere"),
        _text(outer="whole_step"),
        _text(argument="weight"),
        _text(target="paddle_ipu.kernel"),
        _text(located=True),
    ):
        assert other == text


def test_nothing_else_is() -> None:
    # A constant of 2,000 numbers is printed as bytes.
    table = [_text(size=2000), _text(size=2000, constant=2.5)]
    assert all(len(text) < 4000 for text in table)
    texts = [
        _text(),
        *table,
        _text(constant=2.5),
        _text(spec=2),
        _text(operator=jnp.tanh),
        _text(target="lapack_call"),
    ]
    assert len({*texts}) == len(texts)
    assert not has_own_call(texts[-1])


def test_one_number_of_a_large_constant_is_seen() -> None:
    numbers = np.linspace(0, 1, 5000, dtype=np.float32)
    other = numbers.copy()
    other[4999] = 2.0
    texts = [normal_form(jax.jit(lambda n=n: jnp.asarray(n)).lower().as_text())
             for n in (numbers, numbers.copy(), other)]  # fmt: skip
    assert texts[0] == texts[1] != texts[2]


def test_which_function_is_called_stays() -> None:
    def step(x: Any, first: Any, second: Any) -> Any:
        return first(x) - second(first(x))

    sine, cosine = _named("one", jnp.sin), _named("two", jnp.cos)
    texts = {
        normal_form(jax.jit(lambda x, p=pair: step(x, *p)).lower(ROW).as_text())
        for pair in ((sine, cosine), (cosine, sine), (sine, sine))
    }
    assert len(texts) == 3


def test_calls_of_several_kernels_are_told_apart_and_callbacks_numbered() -> None:
    def calls(*targets: str, number: int) -> str:
        lines = [f"stablehlo.custom_call @{target}(%0) {{a = 1}}" for target in targets]
        lines.append(f"stablehlo.custom_call @xla_ffi_python_cpu_callback() {{index = {number} :")
        return normal_form("\n".join(lines))

    text = calls("paddle_ipu_a", "paddle_ipu_b", "paddle_ipu_a", number=7)
    assert text == calls("paddle_ipu_z", "paddle_ipu_a", "paddle_ipu_z", number=12)
    assert text != calls("paddle_ipu_a", "paddle_ipu_a", "paddle_ipu_a", number=7)


def test_a_recorded_step_is_not_compiled_and_gives_zeros() -> None:
    arguments = ({"x": np.ones(3, np.float32)},)
    with recording() as texts:
        options = {"xla_allow_excess_precision": False}
        compiled = jax.jit(lambda a: (a["x"] / 0, a["x"] > 0)).lower(*arguments).compile(options)
        numbers, truths = compiled(*arguments)
    assert (np.asarray(numbers) == 0).all() and np.asarray(truths).all()
    (text,) = texts
    assert "xla_allow_excess_precision', False" in text
    assert "stablehlo.divide" in text
    # Afterwards all is as it was.
    assert np.asarray(jax.jit(jnp.negative).lower(np.ones(1)).compile()(np.ones(1))) == -1


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Any]:
    """A few programs by this checkout, and by a copy without compiled kernels and another tanh."""
    altered = tmp_path_factory.mktemp("checkouts") / "altered"
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "paddle_ipu", altered / "paddle_ipu", ignore=left_out)
    for name in ("popdist", "_paddle_ipu_autoload.py"):
        (altered / name).symlink_to(ROOT / name)
    package = altered / "paddle_ipu" / "__init__.py"
    line = "lax.tanh = lambda x: 1 - 2 / (lax.exp(2 * x) + 1)"
    package.write_text(f"{package.read_text()}\nfrom jax import lax\n\n{line}\n")
    sides = [Side("here", ROOT), Side("altered", altered)]
    only = "^(operators/(abs|tanh|softmax)|predictors/Encoder)$"
    found = measure(sides, [Path(sys.executable)], 2, only)
    return {side.folder: one for side, one in zip(sides, found, strict=True)}


def test_kernels_are_forced_whether_they_are_there_or_not(measured: dict[Path, Any]) -> None:
    for found in measured.values():
        records = {key[1:]: record for key, record in found.items()}
        assert len(records) == 8
        assert all(record["steps"] == 1 and not record["refusal"] for record in records.values())
        on, off = (text_of(records[kernels, "predictors/Encoder"]) for kernels in ("on", "off"))
        assert has_own_call(on) and not has_own_call(off)


def test_an_altered_operator_is_found_and_nothing_else(
    measured: dict[Path, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        command, "measure", lambda sides, *_: [measured[side.folder] for side in sides]
    )
    (altered,) = (folder for folder in measured if folder != ROOT)
    for number, checkout in enumerate(measured):
        kept = str(tmp_path / f"{number}.jsonl.gz")
        assert main(["collect", "--checkout", str(checkout), "--out", kept]) == 0
    here, other = str(tmp_path / "0.jsonl.gz"), str(tmp_path / "1.jsonl.gz")
    for arguments in ([str(altered)], [other], [str(altered), here], [other, here]):
        assert main(["compare", *arguments]) == 1
        told = capsys.readouterr().out
        assert told.count("operators/tanh\n") == 2
        assert "operators/abs" not in told and "predictors" not in told
        assert "+    %0 = stablehlo.tanh" in told
    for arguments in ([str(ROOT)], [here], [here, here], [other, "--only", "abs"]):
        assert main(["compare", *arguments]) == 0
    assert main(["compare", here, "--only", "no such program"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "nowhere"], "nowhere has no paddle_ipu"),
        (["compare", ".", "--paddle26-python", "nowhere"], "nowhere does not exist"),
        (["compare", __file__, __file__], "is no file that collect wrote"),
    ],
)
def test_what_cannot_be_compared(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_bad_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["compare", ".", "--only", "("], ["compare", ".", "--jobs", "0"], []):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    assert "'(' is no regular expression" in capsys.readouterr().err
