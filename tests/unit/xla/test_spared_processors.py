"""How many processors are spared, when several threads ask for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from paddle_ipu.instances.spared_processors import COUNT, ONE_SPARED


def test_contexts_add_up() -> None:
    with ONE_SPARED:
        with ONE_SPARED:
            assert COUNT.value == 2
        assert COUNT.value == 1
    assert COUNT.value == 0


def test_an_error_gives_the_processor_back() -> None:
    with pytest.raises(ZeroDivisionError), ONE_SPARED:
        raise ZeroDivisionError
    assert COUNT.value == 0


def test_none_is_lost_between_threads() -> None:
    def often(_: int) -> None:
        for _ in range(2000):
            with ONE_SPARED:
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(often, range(8)))
    assert COUNT.value == 0
