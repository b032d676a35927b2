"""The kinds of files: sound ones, how each is damaged, and how this package reads it.

A reader returns where a file is read, and raises where it is refused. It may do anything else that
a user would do next with such a file, for instance translate the program that it holds.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.client
import json
import random
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import paddle
from paddle.base.proto import framework_pb2

from paddle_ipu import popart
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import array_weights, translate_program
from paddle_ipu.cost_model.choice import TARGET_OPTIONS, choose_machine
from paddle_ipu.cost_model.machines import FILE_PREFIX, MACHINES
from paddle_ipu.cost_model.memory_check import check_memory
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.report.auto_report import ENVIRONMENT as ENGINE_OPTIONS
from paddle_ipu.cost_model.report.auto_report import allows_out_of_memory, auto_report
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.directory import text_of
from paddle_ipu.distributed import poprun_arguments, poprun_options
from paddle_ipu.distributed.hosts import hosts_in_file
from paddle_ipu.distributed.vipu_server import VipuServer, new_state
from paddle_ipu.errors import OutOfMemoryException, VipuError
from paddle_ipu.frontend import saved_model
from paddle_ipu.frontend.saved_model import ModelFiles
from paddle_ipu.frontend.vocabulary import table
from paddle_ipu.instances import ipuof
from paddle_ipu.instances.vipu_client import VipuClient
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import translated_operators
from paddle_ipu.options.strategy import CoreIpuStrategy, StrategyValues
from paddle_ipu.passes.bind_feeds import BindFeeds
from paddle_ipu.popart.supported import getSupportedOperations
from paddle_ipu.serving import FunctionModel, TensorSpec
from paddle_ipu.serving.http import protocol
from paddle_ipu.serving.model import Inputs
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.checkout import ROOT
from tests.differential.files import json_edits, onnx_seeds, protobuf_edits

FIXTURES = ROOT / "tests/journeys/saved_models/fixtures"
Damage = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
Read = Callable[["Damaged"], object]


@dataclass(frozen=True)
class Damaged:
    """A file that was damaged.

    Attributes:
        content: what is read.
        beside: the other part of a model, sound.
        number: of the case; some readers do more for some numbers.
    """

    content: bytes
    beside: bytes
    number: int


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: of the kind.
        share: how often it is chosen.
        sound: name -> (a sound file, the other part of a model).
        damages: edits that know the format; those of bytes are used, too.
        read: the reader.
    """

    name: str
    share: int
    sound: Callable[[], Mapping[str, tuple[bytes, bytes]]]
    damages: Sequence[Damage]
    read: Read


# -- models of Paddle ------------------------------------------------------------------------------


def _models(suffix: str) -> Mapping[str, tuple[bytes, bytes]]:
    """Programs and parameters: of the journeys, and what `paddle_seeds` saved."""
    found = {}
    for folder in (FIXTURES, Path(__file__).parent / "sound"):
        for path in sorted(folder.rglob(f"*{suffix}")):
            beside = path.with_suffix(".pdiparams")
            # Paddle writes no file for a program without parameters.
            parameters = beside.read_bytes() if beside.exists() else b""
            found[f"{path.parent.name}/{path.stem}"] = path.read_bytes(), parameters
    return found


@functools.cache
def _program_descs() -> Mapping[str, tuple[bytes, bytes]]:
    return _models(".pdmodel")


@functools.cache
def _pir_programs() -> Mapping[str, tuple[bytes, bytes]]:
    return _models(".json")


@functools.cache
def _parameters() -> Mapping[str, tuple[bytes, bytes]]:
    both = {**_program_descs(), **_pir_programs()}
    return {name: (second, first) for name, (first, second) in both.items() if second}


def _damage_program_desc(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    return protobuf_edits.damage(content, choose, framework_pb2.ProgramDesc, _desc_words())


@functools.cache
def _desc_words() -> Sequence[str]:
    return sorted(table.TABLE)


def _damage_pir(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    return json_edits.damage(content, choose, _pir_words())


@functools.cache
def _pir_words() -> Sequence[str]:
    return [f"1.{name}" for name in sorted({row.name for row in translated_operators()})]


def _read_model(damaged: Damaged) -> None:
    _use_model(ModelFiles(damaged.content, damaged.beside), damaged.number)


def _read_parameters(damaged: Damaged) -> None:
    _use_model(ModelFiles(damaged.beside, damaged.content), damaged.number)


def _use_model(files: ModelFiles, number: int) -> None:
    model = saved_model.read(files)
    program = model.program()
    feeds = {feed.name: [n if n >= 0 else 2 for n in feed.shape] for feed in program.feeds}
    fetches = [target.name for target in program.fetch_targets]
    source = Source(program, _defaults(), list(feeds), fetches, (BindFeeds(feeds),))
    translated = translate_program(
        popart, source, array_weights(model.parameters, True), in_64_bits=True
    )
    if number % COMPILED == 0:
        anchors = {t: popart.AnchorReturnType("All") for t in translated.anchors.values()}
        _session(translated.translation.builder.model, anchors)


COMPILED = 40
"""One of so many files that are read is compiled, too."""


def _load_model(damaged: Damaged) -> None:
    """Paddle's own reader, whose C++ trusts what this package lets through."""
    suffix = ".json" if damaged.content.lstrip()[:1] == b"{" else ".pdmodel"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"m{suffix}").write_bytes(damaged.content)
        Path(folder, "m.pdiparams").write_bytes(damaged.beside)
        executor = paddle.static.Executor(paddle.CPUPlace())
        with paddle.static.scope_guard(paddle.static.Scope()):
            paddle.static.load_inference_model(str(Path(folder, "m")), executor)


def _defaults() -> StrategyValues:
    strategy = CoreIpuStrategy()
    strategy.set_options({"is_training": False})
    return strategy.snapshot()


def _session(model: Any, anchors: Mapping[str, popart.AnchorReturnType]) -> None:
    session = popart.InferenceSession(
        model, popart.DataFlow(1, anchors), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()


# -- ONNX ------------------------------------------------------------------------------------------


@functools.cache
def _onnx_models() -> Mapping[str, tuple[bytes, bytes]]:
    return {name: (content, b"") for name, content in onnx_seeds.models().items()}


def _damage_onnx(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    return protobuf_edits.damage(content, choose, onnx.ModelProto, _onnx_words())


@functools.cache
def _onnx_words() -> Sequence[str]:
    return sorted({operator.type for operator in getSupportedOperations(False)})


def _nest(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """Another model, of operators in operators."""
    both = choose.random() < 0.5
    return onnx_seeds.nested(choose.choice((3, 8, 11) if both else (3, 12, 31)), both)


def _read_onnx(damaged: Damaged) -> None:
    session = popart.InferenceSession(
        damaged.content,
        popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )
    if damaged.number % COMPILED == 0:
        session.prepareDevice()


# -- entries of the cache --------------------------------------------------------------------------

_X = np.arange(6, dtype=np.float32).reshape(2, 3)
_ENTRIES = {"program": 0, "traced": 1}


def _run_cached(folder: Path) -> Any:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    indices = builder.addInputTensor("INT32", [2], "i")
    y = builder.aiOnnx.gather([builder.aiOnnx.neg([x]), indices], axis=0)
    options = popart.SessionOptions()
    options.enableEngineCaching, options.cachePath = True, str(folder)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: _X, indices: np.array([1, 0], np.int32)}, anchors))
    return anchors[y]


@functools.cache
def _entries() -> Mapping[str, tuple[bytes, bytes]]:
    """The two entries of a program: content, and the file's name beside it."""
    with tempfile.TemporaryDirectory() as folder:
        _run_cached(Path(folder))
        paths = sorted(Path(folder).glob("*.ipuexe"), key=lambda path: path.stat().st_size)
        return {
            name: (path.read_bytes(), path.name.encode())
            for name, path in zip(_ENTRIES, paths, strict=True)
        }


_DIGEST_AT, _HEAD_AT = 13, 13 + 32


def _damage_entry(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """The description is another, as an entry of another version has it; its digest is right."""
    body = content[_HEAD_AT:]
    length = int.from_bytes(body[:8], "little")
    head = json_edits.damage(body[8 : 8 + length], choose)
    body = len(head).to_bytes(8, "little") + head + body[8 + length :]
    return content[:_DIGEST_AT] + hashlib.sha256(body).digest() + body


def _read_entry(damaged: Damaged) -> None:
    """A damaged entry is compiled again; the numbers are right whatever it holds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o700)
        kept = {path.decode(): content for content, path in _entries().values()}
        kept[damaged.beside.decode()] = damaged.content
        for path, content in kept.items():
            (folder / path).write_bytes(content)
            (folder / path).chmod(0o600)
        if damaged.number % 10:
            ExecutableCache(folder).load(damaged.beside.decode().removesuffix(".ipuexe"))
        else:
            np.testing.assert_array_equal(_run_cached(folder), -_X[::-1])


def _damage_json(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    return json_edits.damage(content, choose)


# -- settings --------------------------------------------------------------------------------------

_CONFIGS = {
    "all": (
        "ipu_device_num,2\nipu_micro_batch_size,4\nipu_enable_pipelining,True\n"
        "ipu_batches_per_step,8\nipu_enable_fp16,False\nipu_replica_num,1\n"
        "ipu_available_memory_proportion,0.6\nipu_enable_half_partial,1\n"
        "ipu_custom_ops_info,[[custom_relu,Relu,custom.ops,1],[other,Tanh,custom.ops,2]]\n"
        "ipu_custom_patterns,[[AccumulatePriorityPattern,False],[PreUniRepl,True]]\n"
    ),
    "few": "\ufeffipu_device_num, 1\r\nipu_enable_model_runtime_executor,true\r\n",
}


def _as_file(content: bytes, read: Callable[[Path], object]) -> None:
    with tempfile.NamedTemporaryFile(suffix=".conf") as file:
        file.write(content)
        file.flush()
        read(Path(file.name))


def _read_config(damaged: Damaged) -> None:
    def load(path: Path) -> None:
        config = paddle.inference.Config()
        config.load_ipu_config(str(path))

    _as_file(damaged.content, load)


@functools.cache
def _config_files() -> Mapping[str, tuple[bytes, bytes]]:
    return {name: (text.encode(), b"") for name, text in _CONFIGS.items()}


def _damage_line(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """The value, or the key, of a line is another."""
    lines = content.split(b"\n")
    at = choose.randrange(len(lines))
    key, _, value = lines[at].partition(b",")
    other = choose.choice(lines).partition(b",")
    values = (b"", b"-1", b"0", b"1e999", b"nan", b"9" * 5000, b"2147483648", b"[[]]", b"[[a,b]]",
              b"[[,,,]]", b"True,", "\u00b2".encode(), b"1_000", b"0x10", b"\0",
              other[2])  # fmt: skip
    if choose.random() < 0.25:
        key = choose.choice((other[0], b"", b"ipu_x", key + b"\xff"))
    lines[at] = key + b"," + choose.choice(values)
    return b"\n".join(lines)


@functools.cache
def _ipuof_files() -> Mapping[str, tuple[bytes, bytes]]:
    partition = {"name": "p0", "size": 4, "gcds": 2, "first": 4, "reconfigurable": False}
    return {
        f"gcd{gcd}": (ipuof.text_of(partition, gcd, VipuClient("127.0.0.1", 8090)).encode(), b"")
        for gcd in range(2)
    }


def _read_ipuof(damaged: Damaged) -> None:
    _as_file(damaged.content, lambda path: ipuof.target({"IPUOF_CONFIG_PATH": str(path)}))


@functools.cache
def _poprun_files() -> Mapping[str, tuple[bytes, bytes]]:
    samples = {"yes_no": "yes", "count": "4", "number": "1", "text": "t", "words": ["-x A=b"],
               "repeated": ["0:-x A=b"], "switch": "yes"}  # fmt: skip
    options = {
        option.name: option.choices[0] if option.kind == "choice" else samples[option.kind]
        for option in poprun_options.OPTIONS.values()
        if "config" not in option.name and option.name not in ("help", "version")
    }
    for _, second in poprun_options.EXCLUSIVE:
        options.pop(second, None)
    few = {"num-instances": "2", "num-replicas": "4", "vipu-partition": "p"}
    return {
        name: (json.dumps({"options": kept, "program": ["python3", "a.py"]}).encode(), b"")
        for name, kept in (("all", options), ("few", few))
    }


def _read_poprun(damaged: Damaged) -> None:
    def read(path: Path) -> None:
        arguments = poprun_arguments.read(["--import-config", str(path)])
        poprun_arguments.check(arguments, {})

    _as_file(damaged.content, read)


_HOST_FILES = {
    "plain": "# the pod\nh0\nh1.example.com  # second\n\n10.3.7.153\n",
    "slots": "pod-0 slots=2\npod-1 slots=2 max_slots=4\n",
    "ranges": "pod[01-04]\nhost[0-2,7].example.com,gateway\n",
}


@functools.cache
def _host_files() -> Mapping[str, tuple[bytes, bytes]]:
    return {name: (text.encode(), b"") for name, text in _HOST_FILES.items()}


def _damage_host(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """A line, or a word of one, is another, or there are many more."""
    lines = content.split(b"\n")
    at = choose.randrange(len(lines))
    words = (b"", b"-oProxyCommand=x", b"h[0-4095]", b"h[0-9999999999]", b"h[2-1]", b"h[1-2,,]",
             b"h[", b"h]", b"h[[0-1]]", b"h,h", b",", b"a" * 70_000, b"a," * 70_000, b"[0-9]" * 9,
             "h\u00b2".encode(), b"h[\xd9\xa1]", b"\0", choose.choice(lines))  # fmt: skip
    action = choose.choice(("word", "word", "line", "many", "numbered"))
    if action == "word":
        cut = choose.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:cut] + choose.choice(words) + lines[at][cut:]
    elif action == "line":
        lines[at] = choose.choice(words)
    elif action == "many":
        lines[at:at] = [lines[at]] * min(20_000, 10_000_000 // (len(lines[at]) + 1))
    else:
        lines[at:at] = [b"n%d[0-4095]" % number for number in range(choose.choice((2, 17, 20_000)))]
    return b"\n".join(lines)


def _read_hosts(damaged: Damaged) -> None:
    _as_file(damaged.content, hosts_in_file)


@functools.cache
def _machines() -> Mapping[str, tuple[bytes, bytes]]:
    figures = asdict(MACHINES["Bow-Pod16"])
    processor = {"base": "C600", **figures.pop("processor")}
    described = {
        "few": {"base": "POD4", "ipus": 2, "processor": {"tiles": 736}},
        "named": {"host_bandwidth": 25e9, "processor": "GC200"},
        "all": {"base": "POD64", **figures, "processor": processor},
    }
    return {name: (json.dumps(each).encode(), b"") for name, each in described.items()}


@functools.cache
def _predicted() -> tuple[Program, Program]:
    """Programs for a machine: of inference on one IPU, of training on two in a pipeline."""
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    options.enablePipelining = True
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [8, 64], "x")
    weights = [builder.addInitializedInputTensor(np.zeros((64, 64), np.float32)) for _ in "ab"]
    for ipu, weight in enumerate(weights):
        with builder.virtualGraph(ipu), builder.pipelineStage(ipu):
            x = builder.aiOnnx.softmax([builder.aiOnnx.matmul([x, weight])])
    with builder.virtualGraph(1), builder.pipelineStage(1):
        loss = builder.aiGraphcore.identityloss([x])
    flow = popart.DataFlow(8, {loss: popart.AnchorReturnType("All")})
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False)})
    return (
        read_program(builder.model, flow, popart.SessionOptions(), None),
        read_program(builder.model, flow, options, optimizer, loss=loss, ipus=2),
    )


def _read_machine(damaged: Damaged) -> None:
    """Programs are predicted on the machine that the file describes."""

    def read(path: Path) -> None:
        for program in _predicted():
            choice = choose_machine(f"{FILE_PREFIX}{path}", program.settings.ipus, None, {})
            text_of(make_report(program, choice.machine))
            with contextlib.suppress(OutOfMemoryException):
                check_memory(program, choice)

    _as_file(damaged.content, read)


_POPLAR_OPTIONS = {
    "target": {"machine": "bow-pod4", "ipuLinkDomainSize": 4},
    "engine": {"autoReport.all": "true", "autoReport.directory": "reports", "debug.x": 3,
               "debug.allowOutOfMemory": True, "autoReport.outputArchive": "false"},
}  # fmt: skip


@functools.cache
def _poplar_options() -> Mapping[str, tuple[bytes, bytes]]:
    return {name: (json.dumps(each).encode(), b"") for name, each in _POPLAR_OPTIONS.items()}


def _read_poplar_options(damaged: Damaged) -> None:
    """The text is that of both environment variables."""
    # The environment has no other bytes.
    text = damaged.content.replace(b"\0", b"").decode(errors="surrogateescape")
    environment = {TARGET_OPTIONS: text, ENGINE_OPTIONS: text}
    auto_report({}, environment)
    allows_out_of_memory({}, environment)
    choose_machine("", 2, None, environment)


# -- requests --------------------------------------------------------------------------------------


@functools.cache
def _served() -> FunctionModel:
    model = FunctionModel(
        lambda inputs: {"y": inputs["x"]}, {"x": ([3], "float32"), "i": ([1], "int64")}, 4
    )
    model.outputs = [TensorSpec("y", (3,), "float32"), TensorSpec("z", (3,), "float32")]
    return model


@functools.cache
def _requests() -> Mapping[str, tuple[bytes, bytes]]:
    """Bodies, and the length of the JSON in them beside it."""
    x = {"name": "x", "shape": [2, 3], "datatype": "FP32"}
    i = {"name": "i", "shape": [2, 1], "datatype": "INT64"}
    plain = {
        "id": "a", "inputs": [{**x, "data": [[1, 2.5, 3], [4, 5, 6]]}, {**i, "data": [1, 2]}],
        "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
        "parameters": {"timeout_ms": 50, "binary_data_output": True},
    }  # fmt: skip
    sizes = {"parameters": {"binary_data_size": 24}}, {"parameters": {"binary_data_size": 16}}
    binary = json.dumps({"inputs": [{**x, **sizes[0]}, {**i, **sizes[1]}]}).encode()
    return {
        "json": (json.dumps(plain).encode(), b""),
        "binary": (binary + bytes(40), str(len(binary)).encode()),
    }


def _damage_request(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """The JSON is another; behind it stand the bytes that were there."""
    end = content.rfind(b"}") + 1
    return (
        json_edits.damage(content[:end], choose, tuple(protocol.DATATYPES.values())) + content[end:]
    )


def _read_request(damaged: Damaged) -> None:
    asked = protocol.parse(damaged.content, damaged.beside.decode() or None, _served())
    Inputs(_served()).checked(asked.feed)


@functools.cache
def _vipu_server() -> VipuServer:
    server = VipuServer(new_state(64, {}, "c", 64), port=0)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


_CALLS = (
    ("create", {"name": "q", "size": 4, "gcds": 2, "reconfigurable": False, "sync": ""}),
    ("attach", {"name": "p", "gcd": 0, "ipus": 1, "pid": 1, "host": "h", "place": "q",
                "started": 1, "command": "c", "user": "u"}),
    ("partition", {"name": "p"}), ("partitions", {}), ("reset", {"name": "p"}),
    ("end_launch", {"launch": "l"}), ("remove", {"name": "p"}),
)  # fmt: skip


@functools.cache
def _calls() -> Mapping[str, tuple[bytes, bytes]]:
    return {
        name: (json.dumps({"call": name, "arguments": arguments}).encode(), b"")
        for name, arguments in _CALLS
    }


def _call_vipu(damaged: Damaged) -> None:
    """A call of a service, which answers all others as before."""
    server = _vipu_server()
    server.state = new_state(64, {}, "c", 64)
    server.state.create("p", 4, gcds=2)
    port = server.server_port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/", damaged.content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = json.loads(answer.read())
    if answer.status not in (200, 400, 409):
        raise AssertionError(f"status {answer.status}: {said}")
    if answer.status != 200:
        raise VipuError(said["error"])


KINDS: Sequence[Kind] = (
    Kind("pdmodel", 8, _program_descs, (_damage_program_desc,), _read_model),
    Kind("pir", 8, _pir_programs, (_damage_pir,), _read_model),
    Kind("pdmodel loaded", 2, _program_descs, (_damage_program_desc,), _load_model),
    Kind("pir loaded", 2, _pir_programs, (_damage_pir,), _load_model),
    Kind("pdiparams", 3, _parameters, (), _read_parameters),
    Kind("onnx", 8, _onnx_models, (_damage_onnx, _damage_onnx, _damage_onnx, _nest), _read_onnx),
    Kind("cache entry", 3, _entries, (_damage_entry,), _read_entry),
    Kind("load_ipu_config", 3, _config_files, (_damage_line,), _read_config),
    Kind("ipuof.conf", 3, _ipuof_files, (_damage_json,), _read_ipuof),
    Kind("poprun", 3, _poprun_files, (_damage_json,), _read_poprun),
    Kind("hostfile", 2, _host_files, (_damage_host,), _read_hosts),
    Kind("machine", 2, _machines, (_damage_json,), _read_machine),
    Kind("Poplar options", 1, _poplar_options, (_damage_json,), _read_poplar_options),
    Kind("request", 3, _requests, (_damage_request,), _read_request),
    Kind("V-IPU call", 1, _calls, (_damage_json,), _call_vipu),
)
