"""A few kills of a training at random moments.

``python -m tests.unit.distributed.random_kills`` makes 50.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("h5py")
pytest.importorskip("rich")

from tests.unit.distributed.test_poprun import with_mpirun


@with_mpirun
@pytest.mark.thorough
def test_killed_trainings_go_on_to_the_same_losses(tmp_path: Path) -> None:
    from tests.unit.distributed.random_kills import kill_and_resume

    assert len(kill_and_resume(tmp_path, 4, random.randrange(10**6))) == 4
