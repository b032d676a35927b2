"""Compiled programs and layers that live until Python ends leave no message behind.

Python takes the names out of modules that something still holds, and only then ends objects that
outlived them; which ones do depends on all that is installed, for instance VisualDL.
"""

from __future__ import annotations

import paddle  # noqa: F401 - activates the plugin, before its parts are imported
import pytest

from paddle_ipu.dygraph import layer_program
from paddle_ipu.dygraph.layer_program import LayerProgram
from paddle_ipu.runtime import ipu_backend
from paddle_ipu.runtime.ipu_backend import IpuBackend


def test_a_backend_ends_after_the_names_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = IpuBackend.__new__(IpuBackend)
    backend._session = None
    monkeypatch.setattr(ipu_backend, "sys", None)
    backend.__del__()


def test_a_layers_program_ends_after_the_names_of_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced: list[str] = []

    class Program(LayerProgram):
        def __init__(self) -> None:
            pass

        def sync_to_host(self) -> None:
            synced.append("to the host")

    monkeypatch.setattr(layer_program, "sys", None)
    program = Program()
    program.__del__(_is_finalizing=lambda: True)
    assert not synced
    del program
    assert synced == ["to the host"], "Python is not ending here"
