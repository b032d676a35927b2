"""poprun's command line: every row of its table, what options exclude, configuration files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddle_ipu.distributed import poprun_arguments
from paddle_ipu.distributed.hosts import host_list, hosts_in_file
from paddle_ipu.distributed.poprun_arguments import Arguments, check, export, read
from paddle_ipu.distributed.poprun_options import (
    EXCLUSIVE,
    OPTIONS,
    PLACEMENTS,
    PoprunOption,
    help_text,
    spellings,
)
from paddle_ipu.errors import LaunchError

ROWS = list(OPTIONS.values())
SAMPLE = {
    "yes_no": "on",
    "count": "3",
    "number": "0",
    "text": "some text",
    "words": "-x A=b --mca c d",
    "repeated": "0:-x A=b",
}
WRONG = {
    "yes_no": ("maybe", "takes yes or no, got 'maybe'"),
    "count": ("0", "takes a number from 1, got '0'"),
    "number": ("-1", "takes a number from 0, got '-1'"),
    "choice": ("other", "takes one of .*, got 'other'"),
    "words": ('"open', "cannot be split into words: No closing quotation"),
    "repeated": ("-x A=b", "takes an instance and its arguments, as 0:"),
}


def sample(option: PoprunOption) -> str:
    return option.choices[-1] if option.kind == "choice" else SAMPLE[option.kind]


def program(*words: str) -> Arguments:
    return read([*words, "python3", "train.py", "--lr", "1"])


def refused(*words: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(LaunchError) as error:
        check(program(*words), environment or {})
    return str(error.value)


@pytest.mark.parametrize("option", ROWS, ids=lambda option: option.name)
def test_every_spelling_is_read(option: PoprunOption) -> None:
    for spelling in spellings(option):
        if option.kind == "switch":
            found = program(spelling)
            assert found.flag(option.name) is True
            with pytest.raises(LaunchError, match=f"{spelling} takes no value, got 'x'"):
                read([f"{spelling}=x", "true"])
            continue
        if option.name == "import-config":
            continue
        found = program(f"{spelling}={sample(option)}")
        assert found.options == program(spelling, sample(option)).options
        assert found.program == ["python3", "train.py", "--lr", "1"]
        with pytest.raises(LaunchError, match=f"argument for option {spelling} is missing"):
            read([spelling])


@pytest.mark.parametrize("option", [row for row in ROWS if row.kind in WRONG], ids=lambda o: o.name)
def test_wrong_values_are_refused(option: PoprunOption) -> None:
    value, message = WRONG[option.kind]
    with pytest.raises(LaunchError, match=message):
        read([f"--{option.name}={value}", "true"])


@pytest.mark.parametrize("option", [row for row in ROWS if row.kind != "switch"],
                         ids=lambda option: option.name)  # fmt: skip
def test_defaults(option: PoprunOption) -> None:
    found = program()
    if option.kind in ("words", "repeated"):
        assert found.words(option.name) == []
        return
    assert found.text(option.name) == option.default
    if option.kind == "yes_no":
        assert found.flag(option.name) == {"yes": True, "no": False, None: None}[option.default]


def test_documented_defaults() -> None:
    documented = {
        "num-replicas": "1", "ipus-per-replica": "1", "num-instances": "1",
        "vipu-server-port": "8090", "vipu-server-timeout": "120", "vipu-partition-attempts": "1",
        "update-partition": "no", "remove-partition": "yes", "reset-partition": None,
        "overwrite-config": "no", "process-placement": "spreadnuma", "version-format": "text",
        "num-ilds": None, "executable-cache-path": None,
    }  # fmt: skip
    assert {name: OPTIONS[name].default for name in documented} == documented
    assert PLACEMENTS == ("spreadnuma", "scattersocket", "scatternuma", "close", "disabled")


def test_help_names_every_option_and_its_default() -> None:
    text = help_text()
    assert max(map(len, text.splitlines())) <= 90
    flat = " ".join(text.split())
    for option in ROWS:
        assert ", ".join(spellings(option)) in text
        assert option.meaning in flat
        assert option.default in (None, "") or f"Default: {option.default}." in flat


@pytest.mark.parametrize(("first", "second"), EXCLUSIVE)
def test_exclusive_options(first: str, second: str) -> None:
    words = [f"--{name}={sample(OPTIONS[name])}" for name in (first, second)]
    with pytest.raises(LaunchError, match=f"--{first} and --{second} cannot be used at the same"):
        program(*words)


def test_options_end_at_the_program() -> None:
    found = read(["--num-instances", "2", "--", "--odd", "--num-instances=3"])
    assert (found.count("num-instances"), found.program) == (2, ["--odd", "--num-instances=3"])
    two = ["--num-instances=2", "true"]
    assert read(["-Hh0,h1", *two]).hosts == read(["-H", "h0,h1", *two]).hosts == ["h0", "h1"]
    assert read(["--host=h0", "sh", "-v"]).program == ["sh", "-v"]


def test_an_option_that_is_not_there() -> None:
    with pytest.raises(LaunchError, match=r"unrecognised option '--num-replica'; did you mean "
                                          r"--num-replicas\?"):  # fmt: skip
        read(["--num-replica=2", "true"])
    with pytest.raises(LaunchError, match="unrecognised option '--qqq' `poprun --help`"):
        read(["--qqq", "true"])


def test_hosts_beyond_the_number_of_instances_have_none() -> None:
    """As in the guide's example: two instances and --host pod[1-4]."""
    found = program("--num-instances=2", "--num-replicas=32", "--host=pod[1-4]")
    check(found, {})
    assert (found.hosts, found.idle_hosts) == (["pod1", "pod2"], ["pod3", "pod4"])
    assert program("--num-instances=4", "--host=a,b").idle_hosts == []


def test_old_spellings_of_the_placement() -> None:
    assert program("--numa-aware=yes").placement == "spreadnuma"
    assert program("--numa-aware=no").placement == "disabled"
    assert program("--process-placement=close").placement == "close"


def test_arguments_of_mpirun_add_up() -> None:
    found = program(
        "--mpi-local-args=-x A=1", "--mpi-local-args", "-x 'B=2 3'",
        "--instance-mpi-local-args=0:-x R=0", "--instance-mpi-local-args=1:-x R=1 -x S=1",
    )  # fmt: skip
    assert found.words("mpi-local-args") == ["-x", "A=1", "-x", "B=2 3"]
    assert found.words_of_instance(0) == ["-x", "R=0"]
    assert found.words_of_instance(1) == ["-x", "R=1", "-x", "S=1"]


AUTOREPORT = (
    "autoreport-dir command line argument cannot be specified when POPLAR_ENGINE_OPTIONS contains "
    "autoReport.directory setting."
)


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (["--num-replicas=3", "--num-instances=2"], {},
         "--num-replicas=3 cannot be divided evenly among --num-instances=2"),
        (["--host=a,b", "--num-instances=3", "--num-replicas=3"], {},
         "--num-instances=3 cannot be divided evenly among 2 hosts (a, b)"),
        (["--only-output-from-instance=1"], {}, "instances are numbered from 0 to 0"),
        (["--instance-mpi-local-args=1:-x A=b"], {}, "instances are numbered from 0 to 0"),
        (["--executable-cache-path=/c"], {"POPTORCH_CACHE_DIR": "/d"},
         "cannot be specified when POPTORCH_CACHE_DIR is set (now /d)"),
        (["--executable-cache-path=/c", "--mpi-local-args=-x POPART_CACHE_DIR=/d"], {},
         "cannot be specified when POPART_CACHE_DIR is set (now /d)"),
        (["--autoreport-dir=/p"], {"POPLAR_ENGINE_OPTIONS": '{"autoReport.directory":"/q"}'},
         AUTOREPORT),
        (["--autoreport-dir=/p",
          "--mpi-local-args=-x POPLAR_ENGINE_OPTIONS={autoReport.directory:/q}"], {}, AUTOREPORT),
        (["--autoreport-dir=/p",
          "--instance-mpi-local-args=0:-x POPLAR_ENGINE_OPTIONS={autoReport.directory:/q}"], {},
         AUTOREPORT),
    ],
)  # fmt: skip
def test_contradictions(words: list[str], environment: dict[str, str], message: str) -> None:
    assert message in refused(*words, environment=environment)


def test_what_does_not_contradict() -> None:
    check(program("--executable-cache-path="), {"POPTORCH_CACHE_DIR": "/d"})
    check(program("--autoreport-dir=/p"), {"POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"false"}'})
    check(program("--num-instances=2", "--num-replicas=4", "--host=a,b"), {})


def test_no_program() -> None:
    with pytest.raises(LaunchError, match="no program was given"):
        check(read(["--num-replicas=2"]), {})
    with pytest.raises(LaunchError, match="a colon alone, where mpirun would begin another"):
        check(read(["--num-replicas=2", "echo", "a", ":", "b"]), {})


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h0,h1", ["h0", "h1"]),
        ("host[0-2,4]", ["host0", "host1", "host2", "host4"]),
        ("pod[08-10].example.com", ["pod08.example.com", "pod09.example.com", "pod10.example.com"]),
        ("10.3.7.153,10.3.7.154", ["10.3.7.153", "10.3.7.154"]),
        ("a[1-2],b", ["a1", "a2", "b"]),
    ],
)
def test_host_lists(text: str, hosts: list[str]) -> None:
    assert host_list(text) == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,,b", "'' is no host"),
        ("h[2-1]", "2-1 is no range"),
        ("h[1-]", r"\[1-\] is no range"),
        ("a,a", "a is named twice"),
        ("h[0-9999999]", "is no range of up to 4096 hosts"),
        ("a b", "'a b' is no host"),
        ("-oProxyCommand=x", "is no host"),
        ("h[0-1", r"'h\[0-1' is no host"),
        ("h]", r"'h\]' is no host"),
        (f"h[0-{'9' * 5000}]", "is no range; write for instance"),
        (",".join(f"h{n}x[0-4095]" for n in range(17)), "there are more than 65536 hosts"),
        ("h" * 500 + "[", r"^--host h{200}\.\.\.: 'h{200}' is no host"),
    ],
)
def test_wrong_host_lists(text: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        host_list(text)


def test_host_files(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# the pod\nh0 slots=2\n\nh1 # second\n", encoding="utf-8")
    assert read([f"--hostfile={file}", "--num-instances=2", "true"]).hosts == ["h0", "h1"]
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(LaunchError, match="names no host"):
        hosts_in_file(file)
    with pytest.raises(LaunchError, match="cannot be read: No such file"):
        hosts_in_file(tmp_path / "none")
    file.write_text("h[0-1]\n# two\nh1 slots=2\n", encoding="utf-8")
    with pytest.raises(LaunchError, match=f"--hostfile {file}, line 3: h1 is named twice"):
        hosts_in_file(file)
    file.write_bytes(b"h0\n\xff\n")
    with pytest.raises(LaunchError, match="cannot be read: 'utf-8' codec can't decode"):
        hosts_in_file(file)
    with pytest.raises(LaunchError, match="cannot be read: embedded null byte"):
        hosts_in_file(Path("a\0b"))
    hosts = [f"worker-{number}.pod" for number in range(20_000)]
    file.write_text("\n".join(hosts), encoding="utf-8")
    assert hosts_in_file(file) == hosts


def test_config_files(tmp_path: Path) -> None:
    """The guide's example: stored, loaded, overridden, and not overwritten."""
    file = tmp_path / "training.conf"
    stored = program(
        f"--export-config={file}", "--num-replicas=32", "--num-instances=2", "--num-ilds=2",
        "--host=pod[1-4]", "--mpi-local-args=-x A=b",
    )  # fmt: skip
    assert export(stored) == file
    before = file.read_text(encoding="utf-8")
    loaded = read([f"--import-config={file}"])
    without = {name: v for name, v in stored.options.items() if name != "export-config"}
    assert {n: v for n, v in loaded.options.items() if n != "import-config"} == without
    assert loaded.program == ["python3", "train.py", "--lr", "1"]
    other = read(
        [f"--import-config={file}", "--num-instances=4", "--hostfile=f", "python3", "other.py"]
    )
    assert other.count("num-instances") == 4
    assert "host" not in other.options
    assert other.program == ["python3", "other.py"]
    assert file.read_text(encoding="utf-8") == before
    again = export(stored, now=0.0)
    assert again is not None
    assert again.name.startswith("training.conf.19")
    assert again.read_text(encoding="utf-8") == before
    changed = program(f"--export-config={file}", "--overwrite-config=yes", "--num-replicas=8")
    assert export(changed) == file
    assert json.loads(file.read_text(encoding="utf-8"))["options"] == {"num-replicas": "8"}
    assert export(program()) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON: maximum recursion"),
        ("[]", "is not what --export-config writes"),
        ('{"options": {}, "program": "python3 x.py"}', "is not what --export-config writes"),
        ('{"options": {"nonsense": 1}}', "unrecognised option 'nonsense'"),
        ('{"options": {"num-replicas": "x"}}', "takes a number from 1, got 'x'"),
    ],
)
def test_wrong_config_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LaunchError, match=message):
        read([f"--import-config={file}", "true"])


def test_config_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="cannot be read: No such file"):
        read([f"--import-config={tmp_path / 'none'}", "true"])
    with pytest.raises(LaunchError, match="cannot be written: No such file"):
        export(program(f"--export-config={tmp_path / 'none' / 'file'}"))


def test_split_words_says_which_option() -> None:
    with pytest.raises(LaunchError, match="--mpi-local-args '\"' cannot be split"):
        poprun_arguments.split_words("mpi-local-args", '"')
