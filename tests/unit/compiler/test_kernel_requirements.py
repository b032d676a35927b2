"""Kernels of Paddle that this processor may not be able to run."""

from __future__ import annotations

import paddle
import pytest

import paddle_ipu
from paddle_ipu.compiler import cpu_kernels, kernel_requirements
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import programs
from paddle_ipu.operating_system import processors
from tests.operators.built_case import BuiltCase, build_case
from tests.operators.cases import attention

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.fixture(autouse=True)
def _without_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    features = processors.features()
    if not features:
        monkeypatch.setattr(processors, "description", lambda: {"flags": "avx2"})


def _attention() -> BuiltCase:
    return build_case(next(row for row in attention.TABLE.rows if row.op == "self_dp_attention"))


def test_verify_does_not_let_the_process_die() -> None:
    built = _attention()
    what = r"self_dp_attention.*\n?.*verify runs Paddle's CPU kernel.*avx512f"
    with paddle.static.scope_guard(built.scope()), pytest.raises(NotSupported, match=what):
        paddle_ipu.verify(built.program, dict(built.feed), list(built.fetches.values()))


def test_nor_does_cpu_fallback() -> None:
    graph = programs.read(_attention().program)
    node = next(node for node in dialect.walk(graph) if node.op_type == "self_dp_attention")
    with pytest.raises(NotSupported, match="cpu_fallback runs Paddle's CPU kernel.*avx512f"):
        cpu_kernels.kernel_of(node, [((2, 4, 3, 2, 16), "float32")])


def test_other_operators_are_checked_by_name_alone() -> None:
    nodes = dialect.walk(programs.read(_attention().program))
    kernel_requirements.check_kernels(
        (n for n in nodes if n.op_type not in kernel_requirements.NEEDS), "it"
    )
