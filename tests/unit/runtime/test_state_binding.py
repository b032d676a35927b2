"""What a session is given for Paddle's powers of betas, and gives back."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.runtime.weights.state_binding import StepBinding


@pytest.mark.parametrize("steps", [0, 1, 7, 500, 900, 5000, 80_000])
def test_a_count_of_steps_outlives_the_power_of_the_smaller_beta(steps: int) -> None:
    """0.9 ** 900 is below float32's normal numbers and 0.9 ** 5000 is 0."""
    betas = {"one": 0.9, "two": 0.999}
    source = StepBinding("Step___w", beta=0.9, powers=(("two", 0.999), ("one", 0.9)))
    scope = {
        name: StepBinding("Step___w", beta=beta).to_scope(
            np.float32(steps), lambda name: scope[name]
        )
        for name, beta in betas.items()
    }
    sent = source.to_device(scope["one"], lambda name: scope[name])
    assert sent == steps
    assert (
        StepBinding("Step___w", beta=0.999).to_device(scope["two"], lambda name: scope[name])
        is None
    )


def test_powers_that_are_gone_stand_for_a_long_time() -> None:
    zero = np.zeros(1, np.float32)
    binding = StepBinding("Step___w", powers=(("two", 0.999), ("one", 0.9)))
    count = binding.to_device(zero, lambda name: zero)
    assert count is not None
    # The next step's corrections, 1 less the powers, are those that the zeros say.
    assert np.float32(0.999) ** (count + np.float32(1)) == 0
