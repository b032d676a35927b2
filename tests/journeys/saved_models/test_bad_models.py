"""A model that cannot be loaded: what is said, and that the next one loads."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import ModelFileError, NotSupported
from paddle_ipu.frontend import pir_json
from paddle_ipu.frontend.saved_model import SavedProgram
from tests.journeys.saved_models.models import parts, prefix

OLD, NEW = "paddle_2_6/mlp", "paddle_3_3/mlp"


@pytest.fixture(autouse=True)
def own_scope(static_mode: None) -> Iterator[Any]:
    """A scope of the test's own, which a failed load leaves empty; then a good model loads."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        yield scope
        load(str(prefix(OLD)))


def load(*args: Any, **options: Any) -> Any:
    executor = paddle.static.Executor(paddle.CPUPlace())
    return paddle.static.load_inference_model(*args, executor, **options)


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a model to where it can be damaged, and gives its path without suffix."""

    def copy(name: str) -> Path:
        for file in prefix(name).parent.glob(f"{prefix(name).name}.*"):
            shutil.copy(file, tmp_path / f"m{file.suffix}")
        return tmp_path / "m"

    return copy


def refused(message: str, *args: Any, **options: Any) -> None:
    with pytest.raises(ModelFileError, match=message):
        load(*args, **options)
    assert paddle.static.global_scope().find_var("linear_0.w_0") is None


def edited(path: Path, change: Callable[[Any], Any]) -> None:
    """Writes a ProgramDesc or a JSON file with a change."""
    if path.suffix == ".json":
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document))
        return
    from paddle.base.proto import framework_pb2

    desc = framework_pb2.ProgramDesc.FromString(path.read_bytes())
    change(desc)
    path.write_bytes(desc.SerializePartialToString())


# -- where the files are --------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    refused(r"there is neither .*m\.(json|pdmodel) nor .*m\.(json|pdmodel)", str(tmp_path / "m"))


def test_the_folder_is_not_there(tmp_path: Path) -> None:
    refused(r"there is no folder .*absent; path_prefix is", str(tmp_path / "absent" / "m"))


def test_another_name_in_the_folder_is_shown(model: Any) -> None:
    refused(
        r"found there: m\. Check the path: it is that of the files without their suffix\.",
        str(model(OLD).with_name("n")),
    )


@pytest.mark.parametrize("suffix", [".pdmodel", ".pdiparams"])
def test_a_suffix_is_too_much(model: Any, suffix: str) -> None:
    refused(rf"Leave the suffix \{suffix} out", str(model(OLD)) + suffix)


def test_a_folder_without_a_model(tmp_path: Path, model: Any) -> None:
    refused(r"is a folder without __model__\. .*found there: m", str(model(OLD).parent))


def test_a_folder_lacks_the_named_file(tmp_path: Path) -> None:
    refused(r"holds no x.* and no x\. Name the program's file", str(tmp_path), model_filename="x")


def test_the_folder_of_named_files_is_not_there(tmp_path: Path) -> None:
    refused("there is no folder .*is the folder that holds them", str(tmp_path / "a"),
            model_filename="x")  # fmt: skip


def test_the_program_is_a_folder(model: Any) -> None:
    path = model(OLD)
    path.with_suffix(".pdmodel").unlink()
    path.with_suffix(".pdmodel").mkdir()
    refused(r"m\.pdmodel: the program cannot be read: Is a directory", str(path))


def test_the_parameters_are_a_folder(model: Any) -> None:
    path = model(OLD)
    path.with_suffix(".pdiparams").unlink()
    path.with_suffix(".pdiparams").mkdir()
    refused(r"m\.pdiparams: a folder, expected the file that holds all", str(path))


@pytest.mark.parametrize("name", [OLD, NEW])
def test_the_parameters_are_missing(model: Any, name: str) -> None:
    path = model(name)
    path.with_suffix(".pdiparams").unlink()
    refused(r"m\.pdiparams: the parameter file cannot be read: No such file", str(path))


def test_parts_from_memory_are_no_bytes() -> None:
    with pytest.raises(TypeError, match="params_filename must be the content as bytes"):
        load(None, model_filename=b"x")


def test_names_of_files_are_bytes(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="are names where path_prefix is a path"):
        load(str(tmp_path), model_filename=b"x")


# -- the program ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [OLD, NEW])
def test_an_empty_program(model: Any, name: str) -> None:
    path = model(name)
    suffix = ".json" if name == NEW else ".pdmodel"
    path.with_suffix(suffix).write_bytes(b"")
    refused(rf"m\{suffix}: empty", str(path))


def test_json_under_the_suffix_of_a_program_desc(model: Any) -> None:
    path = model(NEW)
    path.with_suffix(".json").rename(path.with_suffix(".pdmodel"))
    refused(r"m\.pdmodel: holds JSON, .*Rename it to \.json", str(path))


def test_a_program_desc_under_the_suffix_of_json(model: Any) -> None:
    path = model(OLD)
    path.with_suffix(".pdmodel").rename(path.with_suffix(".json"))
    refused(r"m\.json: no JSON object\. Rename it to \.pdmodel", str(path))


def test_a_truncated_program_desc(model: Any) -> None:
    path = model(OLD)
    file = path.with_suffix(".pdmodel")
    file.write_bytes(file.read_bytes()[:-100])
    refused(r"m\.pdmodel: no program: .*ProgramDesc.*Copy the file anew", str(path))


def test_truncated_json(model: Any) -> None:
    path = model(NEW)
    file = path.with_suffix(".json")
    file.write_bytes(file.read_bytes()[:-100])
    refused(r"m\.json: no valid JSON \(.*\)\. The file is truncated or damaged", str(path))


def test_nesting_without_an_end(model: Any) -> None:
    path = model(NEW)
    path.with_suffix(".json").write_text('{"base_code":' + '{"":' * 100_000)
    refused(r"m\.json: (no valid JSON|nested deeper)", str(path))


def test_other_json(model: Any) -> None:
    path = model(NEW)
    path.with_suffix(".json").write_text('{"a": 1}')
    refused(r"m\.json: JSON, but no program of Paddle 3\.x: base_code", str(path))


def test_a_newer_program_desc(model: Any) -> None:
    path = model(OLD)
    edited(path.with_suffix(".pdmodel"), lambda desc: setattr(desc.version, "version", 4_001_002))
    refused(r"m\.pdmodel: saved by Paddle 4\.1\.2; .*up to Paddle 3\.3", str(path))


def test_newer_json(model: Any) -> None:
    path = model(NEW)
    edited(path.with_suffix(".json"), lambda d: d["base_code"].update(version=5))
    refused(r"m\.json: version 5 of the PIR format; .*up to 4 \(Paddle 3\.3\)", str(path))


def test_an_operator_of_an_unknown_version(model: Any) -> None:
    path = model(OLD)

    def newer(desc: Any) -> None:
        field = desc.DESCRIPTOR.fields_by_number[5].name
        pair = getattr(desc, field).pair.add(op_name="matmul_v2")
        pair.op_version.version = 99

    edited(path.with_suffix(".pdmodel"), newer)
    refused(r"m\.pdmodel: .*matmul_v2.*99", str(path))


def _operators(document: Any) -> Any:
    return document["program"]["regions"][0]["blocks"][0]["ops"]


def put(*path: Any) -> Callable[[Any], None]:
    """Writes the last item where those before it lead, in the matmul, the sixth operator."""

    def change(document: Any) -> None:
        found = _operators(document)[5]
        for step in path[:-2]:
            found = found[step]
        found[path[-2]] = path[-1]

    return change


def _same_name(document: Any) -> None:
    first, second = _operators(document)[:2]
    second["A"][3] = first["A"][3]


TENSOR = ("O", 0, "TT", "D")
JSON_DAMAGE: dict[str, Callable[[Any], Any]] = {
    "has 2 main regions": lambda d: d["program"]["regions"].append({}),
    "has 0 main blocks": lambda d: d["program"]["regions"][0]["blocks"].clear(),
    "args is None, expected a list": lambda d: d["program"]["regions"][0]["blocks"][0].pop("args"),
    "has 3 and 3 attributes, expected 4 and 3": lambda d: _operators(d)[0]["A"].pop(),
    r"operator 1 \(p\): is named '.*', as another value is": _same_name,
    r"operator 5 \(1.matmul\): reads value 99, which no": put("I", 0, "%", 99),
    r"operator 5 \(1.matmul\): defines value 1, which is taken": put("O", 0, "%", 1),
    r"operator 5 \(9.matmul\): is of dialect '9'": put("#", "9.matmul"),
    r"has 1 operand\(s\), expected 2: x, y": lambda d: _operators(d)[5]["I"].pop(),
    "an operand's number is '3', expected an integer": put("I", 0, "%", "3"),
    "has the dtype '0.t_f31'": put(*TENSOR, 0, "#", "0.t_f31"),
    r"has the shape \[-5\]": put(*TENSOR, 1, [-5]),
    "has a tensor of 10 axes; Paddle's have at most 9": put(*TENSOR, 1, [1] * 10),
    "attribute 'transpose_x' is 3, expected true or false": put("A", 0, "AT", "D", 3),
    "has 5 where an object is expected": put("O", 0, 5),
    "has a tensor without a shape, a layout or levels": lambda d: _operators(d)[5]["O"][0]["TT"][
        "D"
    ].pop(),
    "has the layout 'NCHX', which no version": put(*TENSOR, 2, "NCHX"),
    "the levels is 3, expected a list": put(*TENSOR, 3, 3),
    "a block's name is None": lambda d: d["program"]["regions"][0]["blocks"][0].pop("#"),
    "attribute 'persistable' is 1, expected a list": lambda d: _operators(d)[5]["A"].append(
        {"N": "persistable", "AT": {"#": "0.a_i32", "D": 1}}
    ),
    "'transpose_x' is of kind '0.a_none', which no version": put("A", 0, "AT", "#", "0.a_none"),
    "'transpose_x' is the dtype 'float31'": put("A", 0, "AT", {"#": "1.a_dtype", "D": "float31"}),
    r"'transpose_x' is the scalar \[\]": put("A", 0, "AT", {"#": "1.a_scalar", "D": []}),
    "'transpose_x' is None, expected an int": put("A", 0, "AT", {"#": "1.a_place", "D": [0]}),
}


@pytest.mark.parametrize("message", JSON_DAMAGE)
def test_damaged_json(model: Any, message: str) -> None:
    path = model(NEW)
    edited(path.with_suffix(".json"), JSON_DAMAGE[message])
    refused(rf"m\.json: .*{message}", str(path))


def test_a_scalar_that_is_no_number(model: Any) -> None:
    file = model(NEW).with_suffix(".json")
    edited(file, put("A", 0, "AT", {"#": "1.a_scalar", "D": ["complex64", [1, 2]]}))
    message = r"m: operator 5 .*'transpose_x' is the scalar \['complex64', \[1, 2"
    with pytest.raises(NotSupported, match=message):
        pir_json.parse(file.read_bytes(), "m")


def _memory_as(text: str) -> Callable[[Any], None]:
    attribute = {"N": "__available_memory", "AT": {"#": "0.a_str", "D": text}}
    return lambda document: _operators(document)[5]["A"].append(attribute)


def test_an_attribute_that_cannot_be_read(model: Any) -> None:
    file = model(NEW).with_suffix(".json")
    edited(file, _memory_as("much"))
    message = (
        r"m\.json: an operator has an attribute of the wrong kind or out of range \(ValueError: "
        r".*much.*\)\. The file is damaged.*If Paddle runs it, the fault is paddle_ipu's"
    )
    with pytest.raises(ModelFileError, match=message):
        SavedProgram("m.json", pir_json.parse(file.read_bytes()))


def test_a_fault_of_ours_is_not_told_as_damage(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = pir_json.parse(model(NEW).with_suffix(".json").read_bytes())
    monkeypatch.delattr(pir_json.Operation, "results")
    with pytest.raises(AttributeError, match="results"):
        SavedProgram("m.json", parsed)


def _matmul(desc: Any) -> Any:
    return next(op for op in desc.blocks[0].ops if op.type == "matmul_v2")


def _variable(desc: Any) -> Any:
    return next(var for var in desc.blocks[0].vars if var.name == "linear_0.w_0")


def _drop_fetches(desc: Any) -> None:
    kept = [op for op in desc.blocks[0].ops if op.type != "fetch"]
    del desc.blocks[0].ops[:]
    desc.blocks[0].ops.extend(kept)


def _read_nothing(desc: Any) -> None:
    _matmul(desc).inputs[0].arguments[0] = "gone"


def _one_slot(desc: Any) -> None:
    for slot in _matmul(desc).inputs:
        slot.parameter = "X"


def _dense(desc: Any) -> tuple[Any, str]:
    kind = _variable(desc).type
    return kind, kind.DESCRIPTOR.fields_by_number[3].name


def _no_shape(desc: Any) -> None:
    kind, field = _dense(desc)
    kind.ClearField(field)


def _no_dtype(desc: Any) -> None:
    kind, field = _dense(desc)
    getattr(kind, field).tensor.data_type = 7


def _attribute(**fields: Any) -> Callable[[Any], None]:
    return lambda desc: _matmul(desc).attrs.add(**fields)


def _column(desc: Any) -> None:
    fetch = next(op for op in desc.blocks[0].ops if op.type == "fetch")
    fetch.attrs.remove(next(each for each in fetch.attrs if each.name == "col"))
    fetch.attrs.add(name="col", type=3, ints=[0])


def _inside(desc: Any, around: int, block: int) -> None:
    """An operator of block `around` has the block."""
    while len(desc.blocks) <= block:
        number = len(desc.blocks)
        desc.blocks.add(idx=number, parent_idx=number - 1)
    operator = desc.blocks[around].ops.add(type="while")
    operator.attrs.add(name="sub_block", type=8, block_idx=block)


def _shared_blocks(desc: Any) -> None:
    """Each level is read twice as often as the one around it."""
    for block in range(1, 41):
        _inside(desc, block - 1, block)
        _inside(desc, block - 1, block)


def _nested_blocks(desc: Any) -> None:
    for block in range(1, 3000):
        _inside(desc, block - 1, block)


DESC_DAMAGE: dict[str, Callable[[Any], Any]] = {
    "block 0 says it is block 7": lambda d: setattr(d.blocks[0], "idx", 7),
    "block 0 lies in block 3": lambda d: setattr(d.blocks[0], "parent_idx", 3),
    r"operator 1 \(matmul_v2\) of block 0 names variable 'gone' in X": _read_nothing,
    r"operator 1 \(a b\) of block 0 has the type": lambda d: setattr(_matmul(d), "type", "a b"),
    "has a slot twice: X, X": _one_slot,
    r"has the blocks \[5\] in 'sub'": _attribute(name="sub", type=8, block_idx=5),
    r"\(while\) of block 0 has the block 1, which another operator has": _shared_blocks,
    r"operator 0 \(while\) of block 128 is nested in more than 128 blocks": _nested_blocks,
    "has -99999 in 'axis'": _attribute(name="axis", type=0, i=-99999),
    "variable 'linear_0.w_0' twice": lambda d: d.blocks[0].vars.append(_variable(d)),
    "variable 'linear_0.w_0' has no shape and no dtype": _no_shape,
    "variable 'linear_0.w_0' has elements of type number 7": _no_dtype,
    "'linear_0.w_0' is persistable and no": lambda d: setattr(_variable(d).type, "type", 8),
    "has no fetches, so it is no inference model": _drop_fetches,
    "the attribute 'col' of operator fetch is no whole number": _column,
}


@pytest.mark.parametrize("message", DESC_DAMAGE)
def test_a_damaged_program_desc(model: Any, message: str) -> None:
    path = model(OLD)
    edited(path.with_suffix(".pdmodel"), DESC_DAMAGE[message])
    refused(rf"m\.pdmodel: .*{message}", str(path))


def test_a_program_desc_with_what_is_no_text(model: Any) -> None:
    path = model(OLD)
    file = path.with_suffix(".pdmodel")
    file.write_bytes(file.read_bytes().replace(b"matmul_v2", b"matmul_v\xff"))
    refused(r"m\.pdmodel: (block 0 has names or strings that are no text|no program)", str(path))


def test_a_program_desc_that_lacks_a_field(model: Any) -> None:
    path = model(OLD)
    edited(path.with_suffix(".pdmodel"), lambda desc: _matmul(desc).ClearField("type"))
    refused(r"m\.pdmodel: (the program lacks blocks\[0\]\.ops\[1\]\.type|no program)", str(path))


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [OLD, NEW])
def test_truncated_parameters_name_the_variable(model: Any, name: str) -> None:
    path = model(name)
    file = path.with_suffix(".pdiparams")
    file.write_bytes(file.read_bytes()[:-4])
    refused(
        r"m\.pdiparams: variable 'linear_1\.w_0' at byte \d+ ends within float32 elements of "
        r"shape \[6, 3\]: 72 byte\(s\) expected, 68 left"
        if name == NEW
        else r"m\.pdiparams: variable 'linear_2\.w_0' at byte \d+ ends within float32 elements",
        str(path),
    )


def test_parameters_of_another_program(model: Any) -> None:
    path = model(OLD)
    shutil.copy(prefix("paddle_2_6/conv").with_suffix(".pdiparams"), f"{path}.pdiparams")
    refused(r"m\.pdiparams: \d+ byte\(s\) are left after the 4 variable", str(path))
    shutil.copy(prefix("paddle_2_6/placed").with_suffix(".pdiparams"), f"{path}.pdiparams")
    refused(r"m\.pdiparams: holds 2 variable\(s\), the program has 4; 'linear_2\.b_0'", str(path))


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_shape_that_contradicts_the_program(model: Any, name: str) -> None:
    path = model(name)

    def grow(document: Any) -> None:
        if name == NEW:
            weight = next(op for op in _operators(document) if op["A"][3:] == ["linear_0.w_0"])
            weight["O"]["TT"]["D"][1] = [4, 7]
        else:
            kind = _variable(document).type
            getattr(kind, kind.DESCRIPTOR.fields_by_number[3].name).tensor.dims[1] = 7

    edited(path.with_suffix(".json" if name == NEW else ".pdmodel"), grow)
    refused(
        r"m\.pdiparams: 1 parameter\(s\) contradict the program: 'linear_0\.w_0' is "
        r"float32\[4, 6\] in the file and float32\[4, 7\] in the program",
        str(path),
    )


def test_a_pickle_is_not_opened(model: Any) -> None:
    path = model(OLD)
    path.with_suffix(".pdiparams").write_bytes(pickle.dumps({"a": _Trap()}))
    refused(r"m\.pdiparams: a pickle, such as paddle\.save .*it is not opened", str(path))
    parameters = path.with_suffix(".pdiparams").read_bytes()
    refused("the parameters in memory: a pickle", None, model_filename=parts(OLD)[0],
            params_filename=parameters)  # fmt: skip


class _Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("the pickle was opened",)


def test_a_folder_lacks_parameters(tmp_path: Path) -> None:
    shutil.copy(prefix("paddle_2_6/mlp_folder") / "__model__", tmp_path / "__model__")
    refused(r"4 parameter file\(s\) are missing: 'linear_0\.b_0', .*params_filename",
            str(tmp_path))  # fmt: skip


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret", "."])
def test_a_parameters_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(prefix("paddle_2_6/mlp_folder"), folder)
    shutil.copy(folder / "linear_0.w_0", tmp_path / "secret")

    def rename(desc: Any) -> None:
        _variable(desc).name = name
        for slot in _matmul(desc).inputs:
            if slot.arguments[0] == "linear_0.w_0":
                slot.arguments[0] = name

    edited(folder / "__model__", rename)
    refused("whose file is outside of the model's folder. Nothing was read", str(folder))


@pytest.mark.parametrize(
    ("suffix", "what"), [(".pdmodel", "the program"), (".pdiparams", "the parameter file")]
)
def test_a_file_that_does_not_end(model: Any, suffix: str, what: str) -> None:
    path = model(OLD)
    file = path.with_suffix(suffix)
    file.unlink()
    file.symlink_to("/dev/zero")
    refused(rf"m\{suffix}: {what} cannot be read: no ordinary file", str(path))
    file.unlink()
    os.mkfifo(file)
    refused(rf"m\{suffix}: {what} cannot be read: no ordinary file", str(path))


def test_a_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(prefix("paddle_2_6/mlp_folder"), folder)
    (folder / "linear_0.w_0").rename(tmp_path / "elsewhere")
    (folder / "linear_0.w_0").symlink_to(tmp_path / "elsewhere")
    refused("'linear_0.w_0', whose file is outside of the model's folder", str(folder))
