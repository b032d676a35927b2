"""Where a compiled program's random numbers come from.

From the strategy's ``random_seed``, else from the program's, and then on from micro-batch to
micro-batch; else from Paddle's generator, as those of the CPU executor: then a run draws its seed
there, so ``paddle.seed`` and ``paddle.set_rng_state`` take effect with the next run, and
``paddle.get_rng_state`` is all that a checkpoint needs.
"""

from __future__ import annotations

from typing import Any

from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.options.table import RANDOM_SEED_UNSET


def fixed_seed(program: Any, values: StrategyValues) -> int | None:
    """The seed that the strategy or the program sets, None where Paddle's generator gives it."""
    seed = int(values["random_seed"])
    if seed != RANDOM_SEED_UNSET:
        return seed
    return int(getattr(program, "random_seed", 0) or 0) or None


class Seed:
    """The seed of one session.

    Args:
        fixed: the session has its seed, and goes on from there.
        drawn: its runs draw random numbers.
    """

    def __init__(self, fixed: bool, drawn: bool) -> None:
        self._fixed = fixed
        # A program without random numbers leaves Paddle's generator as it is.
        self._from_paddle = drawn and not fixed

    def before_run(self, session: Any) -> None:
        """Takes the next run's seed from Paddle's generator, unless it is fixed."""
        if self._from_paddle:
            from paddle.base import core

            session.setRandomSeed(int(core.default_cpu_generator().random()))

    def of_next_run(self, session: Any) -> int | None:
        """The seed of the next run, None where Paddle's generator gives it."""
        return int(session.getRandomSeed()) if self._fixed else None
