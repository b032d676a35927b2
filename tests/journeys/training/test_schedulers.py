"""Every scheduler of ``paddle.optimizer.lr``: the device steps by the rate Paddle steps by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from tests.journeys.training.fed_gradients import fed_gradients, gradients
from tests.journeys.training.side_by_side import distance, pair, read, variables, write

lr = paddle.optimizer.lr

SCHEDULERS: dict[str, Callable[[], Any]] = {
    "NoamDecay": lambda: lr.NoamDecay(64, 4, 2.0),
    "PiecewiseDecay": lambda: lr.PiecewiseDecay([2, 5], [0.2, 0.1, 0.05]),
    "NaturalExpDecay": lambda: lr.NaturalExpDecay(0.2, 0.1),
    "InverseTimeDecay": lambda: lr.InverseTimeDecay(0.2, 0.1),
    "PolynomialDecay": lambda: lr.PolynomialDecay(0.2, 5, 0.01, 2.0, cycle=True),
    "LinearWarmup": lambda: lr.LinearWarmup(lr.PolynomialDecay(0.2, 8, 0.0), 3, 0.0, 0.2),
    "ExponentialDecay": lambda: lr.ExponentialDecay(0.2, 0.9),
    "MultiStepDecay": lambda: lr.MultiStepDecay(0.2, [2, 4, 6], 0.8),
    "StepDecay": lambda: lr.StepDecay(0.2, 3, 0.5),
    "LambdaDecay": lambda: lr.LambdaDecay(0.2, lambda step: 1.0 / (1 + step)),
    "ReduceOnPlateau": lambda: lr.ReduceOnPlateau(0.2, factor=0.5, patience=1),
    "CosineAnnealingDecay": lambda: lr.CosineAnnealingDecay(0.2, 6),
    "MultiplicativeDecay": lambda: lr.MultiplicativeDecay(0.2, lambda step: 0.9),
    "OneCycleLR": lambda: lr.OneCycleLR(0.2, 8),
    "CyclicLR": lambda: lr.CyclicLR(0.1, 0.3, 3),
    "LinearLR": lambda: lr.LinearLR(0.2, 5),
    "CosineAnnealingWarmRestarts": lambda: lr.CosineAnnealingWarmRestarts(0.2, 3, 2),
}
STEPS = 8


def test_every_scheduler_of_paddle_is_here() -> None:
    known = {
        name
        for name, each in vars(lr).items()
        if isinstance(each, type) and issubclass(each, lr.LRScheduler) and each.__name__ == name
    }
    assert known - {"LRScheduler"} == set(SCHEDULERS)


def test_schedulers_move_the_learning_rate() -> None:
    # One compiled program for all: a program's scheduler is read before each run.
    both = pair(fed_gradients(lambda: paddle.optimizer.SGD(lr.StepDecay(0.1, 1))))
    variable = getattr(both.built.scheduler, "_var_name", None)
    fed = gradients(STEPS)
    for name, make in SCHEDULERS.items():
        scheduler = make()
        # Paddle 2.6's optimizers tell their scheduler the variable it writes.
        scheduler._var_name = variable
        both.built.main.lr_scheduler = scheduler
        both._cpu_executor = paddle.static.Executor(paddle.CPUPlace())
        start = {parameter: read(both.cpu, parameter) for parameter in both.built.parameters}
        rates = []
        for step in range(STEPS):
            rates.append(scheduler())
            feed = {key: array[step] for key, array in fed.items()}
            both.on_cpu(feed)
            both.on_ipu(feed)
            if isinstance(scheduler, lr.ReduceOnPlateau):
                scheduler.step(np.float32(1.0))
            else:
                scheduler.step()
        assert len(set(rates)) > 2, name
        both.weights_to_host()
        for parameter, before in start.items():
            got, expected = read(both.ipu, parameter), read(both.cpu, parameter)
            assert distance(got, expected) <= 1e-6, name
            steps = np.tensordot(np.float32(rates), fed[f"d_{parameter}"], 1)
            np.testing.assert_allclose(before - got, steps, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_rate_that_is_set_by_hand() -> None:
    both = pair(fed_gradients(lambda: paddle.optimizer.SGD(0.1)))
    name = next(n for n in variables(both.built.main) if "learning_rate" in n)
    feed = {key: array[0] for key, array in gradients(1).items()}
    for rate in (0.1, 0.3):
        write(both.ipu, name, np.full(read(both.ipu, name).shape, rate, np.float32))
        before = read(both.ipu, "bias")
        both.on_ipu(feed)
        both.weights_to_host()
        np.testing.assert_allclose(
            before - read(both.ipu, "bias"), np.float32(rate) * feed["d_bias"], rtol=1e-4, atol=1e-6
        )
