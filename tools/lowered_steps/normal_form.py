"""StableHLO text with all that a refactoring may change left out, or numbered by its first use."""

from __future__ import annotations

import hashlib
import re

OWN = "paddle_ipu"
"""What the names of the package's own custom calls begin with."""

_LOCATION = re.compile(r"\s*\bloc\((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\([^()]*\))*\)")
_LOCATION_LINE = re.compile(r"^#loc\d*\s.*\n", re.MULTILINE)
_RESULT_NAME = re.compile(r"\{jax\.result_info = \"(?:[^\"\\]|\\.)*\"\}")
_RESULT_NAME_BESIDE = re.compile(
    r",\s*jax\.result_info = \"(?:[^\"\\]|\\.)*\"|jax\.result_info = \"(?:[^\"\\]|\\.)*\",\s*"
)
_MODULE = re.compile(r"^module @(?:\"[^\"]*\"|[\w.$-]+)", re.MULTILINE)
_SYMBOL = r"@(?P<name>\"[^\"]*\"|[\w.$-]+)"
_DEFINED = re.compile(rf"\bfunc\.func\s+(?:public\s+|private\s+)?{_SYMBOL}")
_USED = re.compile(_SYMBOL)
_CALLED = re.compile(rf"(?P<before>\bcustom_call\s+){_SYMBOL}(?P<line>.*)")
_TARGET = re.compile(r"(?P<before>call_target_name = )\"(?P<name>[^\"]*)\"")
_CALLBACK_NUMBER = re.compile(r"(?P<before>\bindex = |backend_config = \"?)(?P<name>\d+)")
_LARGE = re.compile(r"dense<\"(?P<bytes>0x[0-9A-Fa-f]{128,})\">")


class _Numbers:
    """A name's number: how many others were asked for before it."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._found: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._found.setdefault(name, f"{self._stem}{len(self._found)}")


def normal_form(text: str) -> str:
    """The text of a lowered step with the names, locations and call targets of any other.

    Functions, the package's own custom-call targets and the numbers of callbacks to the host are
    numbered in the order of their first use. Large constants are replaced by their digest, with all
    their bytes. Whatever else is written stays as it is.
    """
    text = _LOCATION_LINE.sub("", _LOCATION.sub("", text))
    text = _RESULT_NAME_BESIDE.sub("", _RESULT_NAME.sub("", text))
    text = _MODULE.sub("module", text)
    text = _LARGE.sub(_digested, text)
    text = _with_targets(text)
    return _with_functions(text)


def _digested(found: re.Match[str]) -> str:
    return f'dense<"sha256:{hashlib.sha256(found["bytes"].encode()).hexdigest()}">'


def _with_targets(text: str) -> str:
    targets, numbers = _Numbers("target_"), _Numbers("callback_")

    def named(found: re.Match[str]) -> str:
        name, line = found["name"].strip('"'), found["line"]
        if name.startswith(OWN):
            name = targets.of(name)
        elif "callback" in name:
            line = _CALLBACK_NUMBER.sub(lambda f: f["before"] + numbers.of(f["name"]), line)
        return f'{found["before"]}@"{name}"{line}'

    def attributed(found: re.Match[str]) -> str:
        name = targets.of(found["name"]) if found["name"].startswith(OWN) else found["name"]
        return f'{found["before"]}"{name}"'

    return _TARGET.sub(attributed, _CALLED.sub(named, text))


def _with_functions(text: str) -> str:
    functions, numbers = {found["name"] for found in _DEFINED.finditer(text)}, _Numbers("@f")

    def named(found: re.Match[str]) -> str:
        name = found["name"]
        return numbers.of(name) if name in functions else found[0]

    return _USED.sub(named, text)


def digest_of(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def has_own_call(form: str) -> bool:
    """Whether a normal form calls a kernel of the package's own."""
    return '@"target_' in form
