"""``poprun``'s command line, read by its table of options; its configuration files."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddle_ipu.distributed.hosts import host_list, hosts_in_file
from paddle_ipu.distributed.poprun_options import (
    EXCLUSIVE,
    FALSE,
    OPTIONS,
    TRUE,
    PoprunOption,
    spellings,
)
from paddle_ipu.errors import LaunchError

_BY_SPELLING = {spelling: option for option in OPTIONS.values() for spelling in spellings(option)}
_NOT_STORED = frozenset({"import-config", "export-config", "overwrite-config", "help", "version"})
_FRAMEWORK_CACHES = ("POPTORCH_CACHE_DIR", "POPART_CACHE_DIR", "POPXL_CACHE_DIR")


@dataclass(slots=True)
class Arguments:
    """A command line, parsed.

    Attributes:
        options: name -> value as text, of the options on the command line; a list of texts for
            options that add up.
        program: the program and its arguments.
    """

    options: dict[str, Any] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)

    def text(self, name: str) -> str | None:
        """The value of an option that takes a text, or its default."""
        value = self.options.get(name, OPTIONS[name].default)
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        """The value of an option that takes a number."""
        text = self.text(name)
        return None if text is None else int(text)

    def count(self, name: str) -> int:
        """The value of an option that takes a number and has a default."""
        found = self.number(name)
        assert found is not None, name
        return found

    def flag(self, name: str) -> bool | None:
        """The value of a yes-or-no option or a switch; None without a value and a default."""
        if OPTIONS[name].kind == "switch":
            return name in self.options
        text = self.text(name)
        return None if text is None else text in TRUE

    def words(self, name: str) -> list[str]:
        """Arguments for mpirun, as words."""
        return [word for text in self.options.get(name, ()) for word in split_words(name, text)]

    def words_of_instance(self, number: int) -> list[str]:
        """Arguments for mpirun about one instance, as words."""
        name = "instance-mpi-local-args"
        found: list[str] = []
        for text in self.options.get(name, ()):
            index, _, rest = text.partition(":")
            if int(index) == number:
                found += split_words(name, rest)
        return found

    @property
    def placement(self) -> str:
        """The process placement, by whichever option sets it."""
        if "numa-aware" in self.options:
            return "spreadnuma" if self.flag("numa-aware") else "disabled"
        return str(self.text("process-placement"))

    @property
    def hosts(self) -> list[str]:
        """The hosts that have instances, in order; empty for this one alone."""
        return self._all_hosts()[: self.count("num-instances")]

    @property
    def idle_hosts(self) -> list[str]:
        """The hosts beyond the number of instances, which have none."""
        return self._all_hosts()[self.count("num-instances") :]

    def _all_hosts(self) -> list[str]:
        if "hostfile" in self.options:
            return hosts_in_file(Path(self.options["hostfile"]))
        return host_list(self.options["host"]) if "host" in self.options else []


def split_words(name: str, text: str) -> list[str]:
    """A text as a shell splits it.

    Raises:
        LaunchError: a quotation that does not end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise LaunchError(f"--{name} {text!r} cannot be split into words: {error}") from None


def read(words: Sequence[str]) -> Arguments:
    """Reads a command line, and the file that ``--import-config`` names.

    Args:
        words: without the program's own name.

    Raises:
        LaunchError: an option that does not exist, a value that it does not take, or options that
            cannot be used together.
    """
    found = Arguments()
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            position -= 1
            break
        spelling, has_value, value = word.partition("=")
        option = _BY_SPELLING.get(spelling)
        if option is None and spelling.startswith("-H") and len(word) > 2:
            option, has_value, value = OPTIONS["host"], "=", word[2:].removeprefix("=")
        if option is None:
            raise LaunchError(_unknown(spelling))
        if option.kind == "switch":
            if has_value:
                raise LaunchError(f"option {spelling} takes no value, got {value!r}")
            found.options[option.name] = "yes"
            continue
        if not has_value:
            if position == len(words):
                raise LaunchError(f"the required argument for option {spelling} is missing")
            value = words[position]
            position += 1
        _keep(found, option, value)
    found.program = list(words[position:])
    _check_exclusive(found)
    if "import-config" in found.options:
        found = _merged(_imported(Path(found.options["import-config"])), found)
        _check_exclusive(found)
    return found


def _unknown(spelling: str) -> str:
    import difflib

    near = difflib.get_close_matches(spelling, list(_BY_SPELLING), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unrecognised option '{spelling}'{hint} `poprun --help` lists the options."


def _keep(found: Arguments, option: PoprunOption, value: str) -> None:
    checked = _checked(option, value)
    if option.kind in ("words", "repeated"):
        found.options.setdefault(option.name, []).append(checked)
    else:
        found.options[option.name] = checked


def _checked(option: PoprunOption, value: str) -> str:
    name = f"--{option.name}"
    if option.kind == "yes_no":
        if value.lower() not in TRUE + FALSE:
            raise LaunchError(f"option {name} takes yes or no, got {value!r}")
        return "yes" if value.lower() in TRUE else "no"
    if option.kind in ("count", "number"):
        lowest = 1 if option.kind == "count" else 0
        if not value.isdecimal() or int(value) < lowest:
            raise LaunchError(f"option {name} takes a number from {lowest}, got {value!r}")
        return str(int(value))
    if option.kind == "choice" and value not in option.choices:
        raise LaunchError(f"option {name} takes one of {', '.join(option.choices)}, got {value!r}")
    if option.kind == "repeated":
        index, colon, rest = value.partition(":")
        if not colon or not index.isdecimal():
            raise LaunchError(
                f'option {name} takes an instance and its arguments, as 0:"-x NAME=value", '
                f"got {value!r}"
            )
        split_words(option.name, rest)
    if option.kind == "words":
        split_words(option.name, value)
    return value


def _check_exclusive(arguments: Arguments) -> None:
    for first, second in EXCLUSIVE:
        if first in arguments.options and second in arguments.options:
            raise LaunchError(f"--{first} and --{second} cannot be used at the same time")


def check(arguments: Arguments, environment: Mapping[str, str]) -> None:
    """Checks that options agree with each other and with the environment.

    Raises:
        LaunchError: they contradict one another.
    """
    if not arguments.program:
        raise LaunchError(
            "no program was given: poprun [options] program [arguments]. `poprun --help` lists the "
            "options."
        )
    if ":" in arguments.program:
        raise LaunchError(
            "the program has an argument that is a colon alone, where mpirun would begin another "
            "program; pass it in another way"
        )
    instances, replicas = arguments.count("num-instances"), arguments.count("num-replicas")
    if replicas % instances:
        raise LaunchError(
            f"--num-replicas={replicas} cannot be divided evenly among "
            f"--num-instances={instances}; make it a multiple"
        )
    hosts = arguments.hosts
    if hosts and instances % len(hosts):
        raise LaunchError(
            f"--num-instances={instances} cannot be divided evenly among {len(hosts)} hosts "
            f"({', '.join(hosts)}); make it a multiple, or leave out hosts"
        )
    last = max(instances - 1, 0)
    shown = arguments.number("only-output-from-instance")
    if shown is not None and shown > last:
        raise LaunchError(
            f"--only-output-from-instance={shown}: instances are numbered from 0 to {last}"
        )
    for text in arguments.options.get("instance-mpi-local-args", ()):
        if int(text.partition(":")[0]) > last:
            raise LaunchError(
                f"--instance-mpi-local-args {text}: instances are numbered from 0 to {last}"
            )
    _check_cache(arguments, environment)
    _check_autoreport(arguments, environment)


def _assigned(arguments: Arguments, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """(variable, value) as instances would have them, those of mpirun's arguments included."""
    found = list(environment.items())
    numbers = range(arguments.count("num-instances"))
    groups = [arguments.words("mpi-global-args"), arguments.words("mpi-local-args")]
    for words in [*groups, *map(arguments.words_of_instance, numbers)]:
        for flag, word in zip(words, words[1:], strict=False):
            if flag == "-x" and "=" in word:
                name, _, value = word.partition("=")
                found.append((name, value))
    return found


def _check_cache(arguments: Arguments, environment: Mapping[str, str]) -> None:
    if not arguments.options.get("executable-cache-path"):
        return
    for name, value in _assigned(arguments, environment):
        if name in _FRAMEWORK_CACHES and value:
            raise LaunchError(
                f"executable-cache-path command line argument cannot be specified when {name} is "
                f"set (now {value}). Unset the variable, or leave out the option."
            )


def _check_autoreport(arguments: Arguments, environment: Mapping[str, str]) -> None:
    if "autoreport-dir" not in arguments.options:
        return
    for name, value in _assigned(arguments, environment):
        if name == "POPLAR_ENGINE_OPTIONS" and "autoReport.directory" in value:
            raise LaunchError(
                "autoreport-dir command line argument cannot be specified when "
                "POPLAR_ENGINE_OPTIONS contains autoReport.directory setting."
            )


# -- configuration files ----------------------------------------------------------------------


def _imported(path: Path) -> Arguments:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LaunchError(f"--import-config {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"--import-config {path} is no JSON: {error}") from None
    if (
        not isinstance(stored, dict)
        or not isinstance(stored.get("options"), dict)
        or not isinstance(stored.get("program", []), list)
    ):
        raise LaunchError(
            f"--import-config {path} is not what --export-config writes: an object with `options` "
            "and `program`"
        )
    found = Arguments(program=[str(word) for word in stored.get("program", [])])
    for name, value in stored["options"].items():
        option = OPTIONS.get(name)
        if option is None or name in _NOT_STORED:
            raise LaunchError(f"--import-config {path}: unrecognised option '{name}'")
        for text in value if isinstance(value, list) else [value]:
            _keep(found, option, str(text))
    return found


def _merged(stored: Arguments, typed: Arguments) -> Arguments:
    """The stored arguments, with those of the command line instead where it has them."""
    options = {**stored.options, **typed.options}
    for first, second in EXCLUSIVE:
        # One of a pair on the command line replaces the other one in the file.
        for kept, dropped in ((first, second), (second, first)):
            if kept in typed.options and dropped not in typed.options:
                options.pop(dropped, None)
    return Arguments(options, typed.program or stored.program)


def export(arguments: Arguments, now: float | None = None) -> Path | None:
    """Writes the file of ``--export-config``.

    Args:
        arguments: options and program.
        now: seconds since 1970, for the name of a new file.

    Returns:
        The file; None where none was asked for.

    Raises:
        LaunchError: it cannot be written.
    """
    if "export-config" not in arguments.options:
        return None
    path = Path(arguments.options["export-config"])
    if path.exists() and not arguments.flag("overwrite-config"):
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        path = path.with_name(f"{path.name}.{stamp}")
    options = {name: value for name, value in arguments.options.items() if name not in _NOT_STORED}
    text = json.dumps({"options": options, "program": arguments.program}, indent=2)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"--export-config {path} cannot be written: {error.strerror}") from None
    return path
