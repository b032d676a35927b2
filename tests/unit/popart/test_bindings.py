"""Every public name of PopART 3.4's Python module is here, and takes what it takes there."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import paddle_ipu.popart as popart
from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.opsets import ONNX_NAMESPACES, REQUIRED, parameters_of
from paddle_ipu.popart.replica_grouping import ReplicaGrouping
from paddle_ipu.popart.schema import schemas_of_opset
from tests.popart_stand_in.table import (
    Entry,
    Form,
    module_table,
    operator_forms,
    python_table,
)

CORES = {
    "_BuilderCore": "Builder",
    "_InferenceSessionCore": "InferenceSession",
    "_TrainingSessionCore": "TrainingSession",
    "_TensorInfoCore": "TensorInfo",
}
"""What pybind11 binds under another name than that of the class in Python over it."""

BUILT_ELSEWHERE = {*CORES.values(), "NumericsReport"}
"""Classes that are made of more than values."""

WRITTEN_BY_HAND = {"init", "multiconv", "reshape", "scatterreduce"}


def _is_public(name: str) -> bool:
    # OpDefinition::Input and the like are no names of Python, ir:: are another module's.
    return "::" not in name and not name.startswith("Ai")


def _classes() -> list[tuple[str, Entry]]:
    tables = (module_table(), python_table())
    found = [item for table in tables for item in table.classes.items()]
    return [(name, entry) for name, entry in found if _is_public(name)]


def _members(name: str, entry: Entry) -> Iterator[tuple[str, list[Form]]]:
    """Methods of a class of Python's, without those that the class over it defines again."""
    over = python_table().classes.get(CORES.get(name, ""), Entry())
    for method, forms in entry.methods.items():
        hidden = method.startswith("_") and method not in ("__init__", "__enter__", "__exit__")
        if not hidden and method not in over.methods:
            yield method, forms


METHODS = [
    pytest.param(name, method, forms, id=f"{name}.{method}")
    for name, entry in _classes()
    for method, forms in _members(name, entry)
]


def _value(text: str) -> Any:
    """The value of a default as the table has it."""
    names = {name: getattr(popart, name) for name in popart.__all__}
    return eval(text, names)


def _absent(owner: object, name: str) -> bool:
    """Whether a name raises and says why."""
    try:
        getattr(owner, name)
    except NotSupported as error:
        assert f"does not have '{name}': " in str(error)
        return True
    return False


def test_constants_and_functions() -> None:
    table = module_table()
    for name, text in table.constants.items():
        found = getattr(popart, name)
        assert (found() if callable(found) else found) == eval(text), name
    for name, forms in table.functions.items():
        if not _absent(popart, name):
            _binds(getattr(popart, name), forms, [])


def test_enumerations_have_the_same_numbers() -> None:
    for name, members in module_table().enumerations.items():
        found = getattr(popart, name).__members__
        assert {member: int(value) for member, value in found.items()} == members, name


def test_exceptions_come_from_the_same() -> None:
    for name, base in module_table().exceptions.items():
        assert base in [kind.__name__ for kind in getattr(popart, name).__mro__[1:]], name


@pytest.mark.parametrize(("owner", "method", "forms"), METHODS)
def test_methods_take_the_same_arguments(owner: str, method: str, forms: list[Form]) -> None:
    name = CORES.get(owner, owner)
    kind = getattr(popart, name)
    if _absent(kind, method):
        return
    if method == "__init__" and name not in BUILT_ELSEWHERE:
        for form in forms:
            for values, keywords in _calls(form, partial(_sample, name, form)):
                assert isinstance(kind(*values, **keywords), kind)
        return
    found = inspect.getattr_static(kind, method, None)
    function = getattr(kind, method)
    _binds(function, forms, [] if isinstance(found, (staticmethod, classmethod)) else [None])


def _calls(form: Form, sample: Callable[[Any], Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The ways to call one form: by position and by name, with all and with what must be given."""
    arguments = [argument for argument in form.arguments if argument.name != "*args"]
    needed = [at for at, argument in enumerate(arguments) if argument.default is None]
    yield [sample(argument) for argument in arguments], {}
    yield [sample(argument) for argument in arguments[: max(needed, default=-1) + 1]], {}
    if all(argument.name for argument in arguments):
        yield [], {argument.name: sample(argument) for argument in arguments}
        yield (
            [],
            {argument.name: sample(argument) for argument in arguments if not argument.default},
        )


def _binds(function: Callable[..., Any], forms: list[Form], bound: list[Any]) -> None:
    """Each form can be given, by what the function declares, overloads included."""
    plain = getattr(function, "__func__", function)
    declared = [inspect.signature(item) for item in typing.get_overloads(inspect.unwrap(plain))]
    own = inspect.signature(function, follow_wrapped=False)
    for form in forms:
        for values, keywords in _calls(form, lambda argument: None):
            own.bind(*bound, *values, **keywords)
            fitting = [item for item in declared if _can_bind(item, bound, values, keywords)]
            assert fitting or not declared, (form.text, keywords)
        kinds = declared or [own]
        for argument in form.arguments:
            if argument.default is not None:
                known = [
                    item.parameters[argument.name]
                    for item in kinds
                    if argument.name in item.parameters
                ]
                assert not known or any(
                    _same(_value(argument.default), item.default) for item in known
                ), (form.text, argument.name)


def _can_bind(signature: inspect.Signature, bound: Any, values: Any, keywords: Any) -> bool:
    try:
        signature.bind(*bound, *values, **keywords)
    except TypeError:
        return False
    return True


def _same(theirs: object, mine: object) -> bool:
    """Whether two defaults mean the same; an overload may leave its own to the function."""
    if mine is None or mine is ...:
        return True  # None stands for a new object of what PopART makes once
    return list(mine) == theirs if isinstance(mine, tuple) else mine == theirs


SAMPLES: dict[str, Any] = {
    "str": "All", "int": 2, "uint": 2, "float": 0.5, "bool": True, "list[int]": [1],
    "list[str]": ["PostNRepl"], "dict[str, array]": {}, "function": print, "object": "a text",
    "tuple[float, bool]": (0.5, True), "list[ClipNormSettings]": [],
    "list[str] | None": ["x"],
}  # fmt: skip


def _sample(owner: str, form: Form, argument: Any) -> Any:
    """A value that an argument takes."""
    kind, name = argument.kind, argument.name
    if name == "anchorReturnTypeString" and "returnPeriod" in form.text:
        return "EveryN"
    if name in ("pyd", "values"):
        return {"defaultLearningRate": (0.5, False)}
    if name == "modelProtoOrFilename":
        builder = popart.Builder()
        builder.addOutputTensor(builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])]))
        return builder.getModelProto()
    if name == "rmsprop_tf_variant":
        return False  # not of every mode
    if kind == "dict[str, AnchorReturnType]":
        return {"x": popart.AnchorReturnType("All")}
    if kind == "ReplicaGrouping":
        return ReplicaGrouping(8, 1, 4)
    if kind in module_table().enumerations:
        return next(iter(getattr(popart, kind)))
    if kind not in SAMPLES:
        (made, *_) = [entry for known, entry in _classes() if known == kind]
        first = min(made.methods["__init__"], key=lambda item: len(item.arguments))
        return getattr(popart, kind)(*(_sample(kind, first, item) for item in first.arguments))
    return SAMPLES[kind]


def test_fields_have_the_same_defaults() -> None:
    for name, entry in _classes():
        kind = getattr(popart, CORES.get(name, name))
        if not entry.fields or name in (*CORES, *CORES.values(), "DeviceInfo"):
            continue
        first = min(
            entry.methods.get("__init__", []), key=lambda item: len(item.arguments), default=None
        )
        if first is None:
            continue
        made = kind(*(_sample(name, first, argument) for argument in first.arguments))
        for field, (_, default) in entry.fields.items():
            found = getattr(made, field)
            if default is not None and not first.arguments:
                assert found == _value(default), (name, field)
            if field not in entry.fixed:
                setattr(made, field, found)


@pytest.mark.parametrize(
    ("domain", "opset"), [*(("ai.onnx", at) for at in ONNX_NAMESPACES), ("ai.graphcore", 1)]
)
def test_operators_take_the_same_arguments(domain: str, opset: int) -> None:
    rows = {row.builder_name: row for row in schemas_of_opset(domain, opset)}
    namespace = popart.AiGraphcoreOpset1 if domain == "ai.graphcore" else ONNX_NAMESPACES[opset]
    forms = operator_forms(domain, opset)
    assert set(forms) == set(rows) | ({"scatterreduce"} if domain == "ai.graphcore" else set())
    for method, overloads in forms.items():
        if domain == "ai.graphcore" and method in WRITTEN_BY_HAND:
            _binds(getattr(namespace, method), overloads, [None])
            continue
        (form,) = overloads
        mine = parameters_of(rows[method])
        assert [item.name for item in mine] == [item.name for item in form.arguments], method
        for left, right in zip(mine, form.arguments, strict=True):
            if right.default is None or left.default is REQUIRED:
                assert (right.default is None) == (left.default is REQUIRED), (method, left.name)
            else:
                theirs = _value(right.default)
                same = _same(theirs, left.default) if theirs else not left.default
                assert same, (method, left.name)


def test_a_sessions_own_properties_are_there() -> None:
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    builder.addOutputTensor(y)
    device = popart.DeviceManager().createIpuModelDevice({})
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    for owner, made in (("InferenceSession", session), ("DeviceInfo", device)):
        for field in {**module_table().classes, **python_table().classes}[owner].fields:
            assert getattr(made, field) is not None, field


def test_methods_with_several_names_take_each_by_name() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    info, settings = popart.TensorInfo("FLOAT", [2, 2]), popart.InputSettings()
    x = builder.addInputTensor(tensorInfo=info, settings=settings, debugContext="x")
    assert x == "x" == builder.getInputTensorIds()[0]
    assert builder.addInputTensor(dataType="FLOAT", shape=[2], debugContext="y") == "y"
    assert builder.addInputTensor("FLOAT", (2,), settings, "z") == "z"
    assert builder.addInputTensor(info, settings, "u") == "u"
    w = np.ones((2, 2), np.float32)
    assert builder.addInitializedInputTensor(initVal=w, debugContext="w") == "w"
    shared = popart.VariableSettings()
    assert builder.addInitializedInputTensor(w, variableSettings=shared, debugContext="v") == "v"
    with builder.executionPhase():
        assert builder.getExecutionPhase() == 0


def test_what_popart_takes_in_more_than_one_form() -> None:
    kinds = popart.CommGroupType
    for arguments, kind, size in (
        ((8, 1, 8), kinds.All, 0),
        ((8, 1, 1), kinds.Ungrouped, 0),
        ((8, 1, 2), kinds.Consecutive, 2),
        ((8, 4, 2), kinds.Orthogonal, 2),
    ):
        group = popart.CommGroup(grouping=ReplicaGrouping(*arguments))
        assert (group.type, group.replicaGroupSize) == (kind, size)
        assert group.toReplicaGrouping(8) == ReplicaGrouping(*arguments)
    between = ReplicaGrouping(8, 2, 2)
    assert between.str() == "ReplicaGrouping(numReplicas=8, stride=2, groupSize=2)"
    with pytest.raises(popart.popart_exception, match="cannot be converted to a `popart::CommGro"):
        popart.CommGroup(between)
    assert popart.OptimizerValue() == popart.OptimizerValue(0.0, True)
    assert popart.OptimizerValue((0.5, False)) == popart.OptimizerValue(0.5, False)
    assert repr(popart.NumIOTiles(64)) == "NumIOTiles(64)"


def test_a_builder_has_no_other_behind_it_and_six_operator_sets() -> None:
    with pytest.raises(NotSupported, match="there is no builder in C"):
        popart.Builder(builderCore=1)  # type: ignore[arg-type]
    builder = popart.Builder()
    builder.aiOnnxOpsetVersion(9)
    assert not builder.hasExecutionPhase()
    x = builder.addInputTensor("FLOAT", [1, 1, 3, 5])
    larger = builder.aiOnnxOpset6.upsample([x], 2.0, 1.5)
    assert builder.getTensorShape(larger) == [1, 1, 6, 7]
    with pytest.raises(ValueError, match=r"Unsupported or unrecognized ai\.Onnx version: 12"):
        builder.aiOnnxOpsetVersion(12)


def test_operators_ask_for_what_popart_asks_for() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [1, 4, 2, 2])
    graphcore = builder.aiGraphcore
    with pytest.raises(TypeError, match=r"depthtospace\(\): .* 'mode' is missing"):
        graphcore.depthtospace([x], 2)
    with pytest.raises(TypeError, match=r"scatterreduce\(\): .* 'axis_size' is missing"):
        graphcore.scatterreduce([x, x])
    with pytest.raises(popart.popart_exception, match="has invalid number of inputs 0"):
        graphcore.swish()
    printed = graphcore.printtensor([x], 0, "where", "what")
    node = builder.node_of(printed)
    assert (node.name, node.attributes["title"].as_string()) == ("where", "what")
    moved = graphcore.tensorremap([x], debugPrefix="moved")
    assert builder.node_of(moved).name == "moved"
    with pytest.raises(TypeError, match="There is no argument 'debugContext'"):
        graphcore.tensorremap([x], debugContext="moved")
