"""Python's `zlib` works whichever of Paddle, JAX and paddle_ipu is imported first."""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import paddle
import pytest

from paddle_ipu.activation import zlib_order
from paddle_ipu.errors import ActivationError

USE = (
    "import gzip, zlib\n"
    "print(gzip.decompress(gzip.compress(b'hello')), zlib.crc32(b'abc'))\n"
    "try: zlib.decompress(b'damaged')\nexcept zlib.error as error: print('zlib.error')\n"
    "import jax; print(jax.jit(lambda x: x + 1)(1))\n"
)


ORDERS = [
    "paddle, paddle_ipu",
    "_paddle_ipu_autoload as autoload; autoload.start(); import paddle",
    "paddle_ipu, paddle",
    "gzip, paddle, paddle_ipu",
    "jax, paddle, paddle_ipu",
    "paddle, paddle_ipu; paddle_ipu.deactivate(); paddle_ipu.activate()",
]
HAS_ITS_OWN_ZLIB = paddle.__version__.startswith("2.6.")


# Only Paddle 2.6 shows a zlib of its own; with the others no order can differ from the first two.
@pytest.mark.parametrize("modules", ORDERS if HAS_ITS_OWN_ZLIB else ORDERS[:2])
def test_every_order_of_imports(run_python: Any, modules: str) -> None:
    stdout = run_python(f"import {modules}\n" + USE, PADDLE_IPU_AUTOLOAD="1").stdout
    assert stdout.split() == ["b'hello'", "891568578", "zlib.error", "2"]


def test_where_the_order_was_right_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib_order, "_came_after_paddle", lambda: False)
    monkeypatch.setattr(zlib_order, "_repaired", False)
    before = vars(zlib).copy()
    assert zlib_order.repair() is False
    assert vars(zlib) == before


def test_a_copy_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: int) -> None:
        raise OSError(f"{path}: failed to map segment")

    monkeypatch.setattr(zlib_order, "_came_after_paddle", lambda: True)
    monkeypatch.setattr(zlib_order, "_loaded_library", lambda: __file__)
    monkeypatch.setattr(zlib_order, "_repaired", False)
    monkeypatch.setattr(zlib, "__file__", __file__, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(
        ActivationError,
        match=r"imported before Python's zlib.*failed to map segment\. Write `import paddle_ipu`",
    ):
        zlib_order.repair()
