"""``paddle_ipu.report`` and ``paddle_ipu.plan``; the commands of these names share them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.paddle_modes import static_mode
from paddle_ipu.compiler.pod_plans import PodPlan, PodPlans, pod_plan_of
from paddle_ipu.compiler.prediction_target import PredictionTarget, target_of, target_of_zoo
from paddle_ipu.compiler.proposals import Translation, proposals
from paddle_ipu.compiler.source import strategy_or_new
from paddle_ipu.compiler.strategy_plan import StrategyPlan
from paddle_ipu.cost_model import plan as planner
from paddle_ipu.cost_model.cuttings import Cuttings
from paddle_ipu.cost_model.machines import pods_like
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from paddle_ipu.errors import InvalidProgramError, OptionError
from paddle_ipu.options.values import is_whole
from paddle_ipu.zoo.models import model_named

if TYPE_CHECKING:
    import paddle

_PROPOSED = 8


def report(
    source: paddle.static.Program | str | os.PathLike[str],
    feed_list: Sequence[Any] | None = None,
    fetch_list: Sequence[Any] | None = None,
    *,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    machine: str = "",
    name: str = "",
    requests_per_second: float | None = None,
) -> PredictedReport:
    """Predicts memory and speed of a program on an IPU machine: will it fit, how fast, and why.

    Nothing is compiled or run, and no weight needs a value.

    Args:
        source: a static program, or the path of a saved model, which is read as data.
        feed_list: names or variables that runs feed, as for ``compile``; those of a saved model by
            default.
        fetch_list: names or variables that runs fetch, as for ``compile``; those of a saved model
            by default.
        ipu_strategy: as for ``IpuCompiledProgram``; one with default options where None, for
            inference where `source` is a path.
        machine: one of ``paddle-ipu report --machines``, or ``ipu:FILE`` for one that a JSON file
            describes. By default the strategy's, the environment's, or the smallest GC200 system.
        name: what the report calls the program.
        requests_per_second: of one row each, for which the report of an inference program says in
            what times they are answered.

    Returns:
        The report: ``print`` it, browse ``report.save_html(path)``, or ask its attributes.

    Raises:
        ModelFileError: the saved model is missing or damaged.
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does; or an unknown machine, or one with too few IPUs or tiles.
    """
    with static_mode():
        target = target_of(source, feed_list, fetch_list, ipu_strategy, machine, "report")
    return report_of(target, name, requests_per_second)


def plan(
    source: paddle.static.Program | str | os.PathLike[str] | None = None,
    feed_list: Sequence[Any] | None = None,
    fetch_list: Sequence[Any] | None = None,
    *,
    model: str = "",
    sequence: int = 0,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    machine: str = "",
    batch: int = 0,
    candidates: int = planner.MOST,
) -> StrategyPlan:
    """Looks for the fastest strategy for a program that fits an IPU machine.

    Nothing is compiled or run, and no weight needs a value. Options that a plan does not decide
    stay as the strategy has them.

    Args:
        source: as for ``report``.
        feed_list: as for ``report``.
        fetch_list: as for ``report``.
        model: one of ``paddle-ipu plan --models``, whose program is built; then the three above
            are left out.
        sequence: tokens of such a model's row; its own where 0.
        ipu_strategy: as for ``report``; its rows of a weight update are those of the plan. By
            default a model of `model` is trained.
        machine: as for ``report``.
        batch: rows of a weight update; the strategy's own where 0, or those that the authors of
            `model` chose. In inference rows at once of all replicas; as many as are fastest where
            0.
        candidates: strategies that are tried at most.

    Returns:
        The plan: ``print`` it, or take ``plan.best.strategy()``.

    Raises:
        ModelFileError: the saved model is missing or damaged.
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``compile`` does; or an unknown model or machine, or one with too few IPUs or tiles.
    """
    _check_numbers("plan", sequence=sequence, batch=batch, candidates=candidates)
    program = (source, feed_list, fetch_list)
    with static_mode():
        target = _planned(program, model, int(sequence), ipu_strategy, machine, "plan")
        return plan_of(target, batch=int(batch), candidates=int(candidates))


def smallest_pod(
    source: paddle.static.Program | str | os.PathLike[str] | None = None,
    feed_list: Sequence[Any] | None = None,
    fetch_list: Sequence[Any] | None = None,
    *,
    rate: float,
    model: str = "",
    sequence: int = 0,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    machine: str = "",
    batch: int = 0,
    candidates: int = planner.MOST,
) -> PodPlans:
    """Looks for the smallest Pod on which a program makes a wanted rate by its fastest strategy.

    Nothing is compiled or run, and no weight needs a value.

    Args:
        source: as for ``plan``, likewise the arguments below that are not explained.
        feed_list: as for ``plan``.
        fetch_list: as for ``plan``.
        rate: rows a second, all replicas together.
        model: as for ``plan``.
        sequence: as for ``plan``.
        ipu_strategy: as for ``plan``.
        machine: of whose IPUs Pods are tried, for instance "bow-pod4"; GC200's by default.
        batch: as for ``plan``.
        candidates: strategies that are tried at most for each Pod.

    Returns:
        The plans of all sizes up to the one behind the smallest that makes it: ``print`` them, or
        take ``smallest`` and ``following``.

    Raises:
        ModelFileError: the saved model is missing or damaged.
        NotSupported, InvalidProgramError, OptionError, FeedError, FetchError, popart_exception: as
            ``plan`` does; or there are no Pods of the machine's IPUs.
    """
    _check_numbers("smallest_pod", sequence=sequence, batch=batch, candidates=candidates)
    if not _is_rate(rate):
        raise OptionError(f"smallest_pod: rate is {rate!r}, expected rows a second, above 0.")
    program = (source, feed_list, fetch_list)
    with static_mode():
        target = _planned(program, model, int(sequence), ipu_strategy, machine, "smallest_pod")
        return pod_plans_of(target, float(rate), batch=int(batch), candidates=int(candidates))


def _is_rate(given: object) -> bool:
    """Whether it is a number above 0; infinity is none."""
    return isinstance(given, Real) and not isinstance(given, bool) and 0 < float(given) < math.inf


def _check_numbers(caller: str, **given: object) -> None:
    """Refuses what is no integer, or is too small.

    Raises:
        OptionError: it is so.
    """
    for option, got in given.items():
        least = 1 if option == "candidates" else 0
        if not is_whole(got) or got < least:
            raise OptionError(
                f"{caller}: {option} is {got!r}, expected an integer from {least} on."
            )


def _planned(
    program: tuple[Any, Sequence[Any] | None, Sequence[Any] | None],
    model: str,
    sequence: int,
    ipu_strategy: paddle.static.IpuStrategy | None,
    machine: str,
    caller: str,
) -> PredictionTarget:
    """The user's program, or that of a model of the zoo.

    Args:
        program: source, feeds and fetches, as the user gave them.

    Raises:
        InvalidProgramError, OptionError: both were given, and as ``plan`` does.
    """
    if not model:
        if sequence:
            raise OptionError(
                f"{caller}: sequence is {sequence}, but a program has its own: it goes with model="
            )
        return target_of(*program, ipu_strategy, machine, caller)
    if any(each is not None for each in program):
        raise InvalidProgramError(
            f"{caller}: model= builds its own program: leave the program, feed_list and "
            "fetch_list out, or model="
        )
    strategy = None if ipu_strategy is None else strategy_or_new(ipu_strategy, caller)
    return target_of_zoo(model_named(model), strategy, sequence=sequence, machine=machine)


def report_of(
    target: PredictionTarget, name: str = "", requests_per_second: float | None = None
) -> PredictedReport:
    """The report about a target, which is called `name`.

    Raises:
        OptionError: a rate of requests that is none, or one to a training program.
    """
    if requests_per_second is not None and not _is_rate(requests_per_second):
        raise OptionError(
            f"requests_per_second is {requests_per_second!r}, expected requests a second, above 0."
        )
    if requests_per_second is not None and target.program.settings.training:
        raise OptionError(
            "requests_per_second is of a program that answers requests, but this one trains: "
            "report a saved model, or a program whose strategy has is_training=False."
        )
    measured = target.measured
    return PredictedReport(
        make_report(
            target.program,
            target.machine,
            name=name,
            measured=None if measured is None else measured.as_json(),
            measured_trace=None if measured is None else measured.trace,
            requests=None if requests_per_second is None else float(requests_per_second),
        )
    )


def plan_of(
    target: PredictionTarget,
    *,
    batch: int = 0,
    candidates: int = planner.MOST,
    cuttings: Cuttings | None = None,
    translation: Translation | None = None,
) -> StrategyPlan:
    """The plan for a target, in static mode; arguments as of ``plan``.

    Args:
        cuttings: of the target's program, kept from a plan for another machine of its IPUs.
        translation: likewise.
    """
    begin = time.perf_counter()
    batch = batch or target.batch
    for fewer in (False, True):
        tried = planner.plan(
            target.program, target.machine, batch=batch, most=candidates, fewer=fewer,
            cuttings=cuttings,
        )  # fmt: skip
        proposed = proposals(
            target.source, tried, target.machine, most=_PROPOSED,
            machine_name=target.machine_name, translation=translation,
        )  # fmt: skip
        if proposed.proposals or not proposed.refused:
            break
    return StrategyPlan(target, tried, proposed, time.perf_counter() - begin)


def pod_plans_of(
    target: PredictionTarget, rate: float, *, batch: int = 0, candidates: int = planner.MOST
) -> PodPlans:
    """Plans for Pods of the target's IPUs, in static mode; arguments as of ``smallest_pod``.

    Raises:
        OptionError: there are no such Pods.
    """
    pods: list[PodPlan] = []
    cuttings = Cuttings(target.program, target.machine.processor)
    translation = Translation(target.source)
    for machine in pods_like(target.machine):
        reached = bool(pods) and pods[-1].throughput >= rate
        of_pod = replace(target, machine=machine, machine_name=machine.name)
        plan = plan_of(
            of_pod, batch=batch, candidates=candidates, cuttings=cuttings, translation=translation
        )
        pods.append(pod_plan_of(plan))
        if reached:
            break
    return PodPlans(rate, pods, target.program.settings.training, target.subject)
