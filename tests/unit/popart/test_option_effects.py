"""The table of session options against the code that reads them, and what it refuses."""

from __future__ import annotations

import ast
from dataclasses import fields

import pytest

from paddle_ipu import popart
from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.option_effects import EFFECTS, Status
from tests.checkout import ROOT

OPTIONS = [item.name for item in fields(popart.SessionOptions)]
READERS = ("sessions", "xla", "popart", "cost_model", "compiler")


def _attributes_read() -> set[str]:
    """Names of attributes that the packages read, but for the options' own module."""
    found = set()
    for package in READERS:
        for path in (ROOT / "paddle_ipu" / package).rglob("*.py"):
            if path.name in ("options.py", "option_effects.py"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
    return found


READ = _attributes_read()


def test_every_option_has_a_row() -> None:
    assert sorted(EFFECTS) == sorted(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_read_unless_it_is_recorded(name: str) -> None:
    status = EFFECTS[name].status
    if status is not Status.REFUSED:
        assert (name in READ) is (status is not Status.RECORDED)


def test_what_is_not_done_is_refused() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    y = builder.aiOnnx.relu([x])
    options = popart.SessionOptions()
    options.experimentalSettings.createHostTransferableTensorWithOffset = True
    with pytest.raises(NotSupported, match=r"SessionOptions.experimentalSettings is .*Transforms"):
        popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
            popart.DeviceManager().createIpuModelDevice({}),
            userOptions=options,
        )
