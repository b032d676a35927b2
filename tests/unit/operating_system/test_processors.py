"""What the processor is said to have."""

from __future__ import annotations

import re

import pytest

from paddle_ipu.operating_system import processors


def test_features_have_linuxs_names() -> None:
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in processors.features())


def test_a_cap_hides_longer_vectors_and_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = {"flags": "fma avx2 avx512f avx512_bf16 amx_bf16"}
    monkeypatch.setattr(processors, "description", lambda: flags)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert processors.features() == set(flags["flags"].split())
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert processors.features() == {"fma", "avx2"}
