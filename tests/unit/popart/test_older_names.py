"""Names that PopART 3.4 does not have any more say since when, and what there is now."""

from __future__ import annotations

import pytest

from paddle_ipu import popart
from paddle_ipu.popart.older_names import OLDER


@pytest.mark.parametrize("name", OLDER)
def test_a_name_that_is_gone_is_not_there(name: str) -> None:
    owner, _, member = name.rpartition(".")
    assert not hasattr(getattr(popart, owner) if owner else popart, member)


@pytest.mark.parametrize("name", [name for name in OLDER if name.startswith("SessionOptions.")])
def test_an_option_that_is_gone_says_what_to_set(name: str) -> None:
    older = OLDER[name]
    with pytest.raises(AttributeError, match=f"had it up to {older.last}; now: {older.instead}"):
        setattr(popart.SessionOptions(), name.partition(".")[2], True)


@pytest.mark.parametrize("name", [name for name in OLDER if "." not in name])
def test_a_name_of_the_module_that_is_gone(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. PopART had it up to"):
        getattr(popart, name)


def test_what_to_set_is_an_option() -> None:
    options = popart.SessionOptions()
    for name in ("accumulationAndReplicationReductionType", "enablePipelining", "dotChecks"):
        assert hasattr(options, name)
