"""Hundreds of cases in one program, translated, compiled once and run on the IPU Model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import paddle

from paddle_ipu.errors import FeedError, NotSupported, OperandValueError
from tests.differential.operators.program import Written, write
from tests.differential.operators.use import Array, Case
from tests.operators.built_case import static_mode
from tools.program_forms.default_translation import translate_by_default


@dataclass(slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        results: name of a fetch -> its value.
        not_supported: the message of an honest refusal.
        error: another error, with its type.
    """

    results: dict[str, Array] = field(default_factory=dict)
    not_supported: str = ""
    error: str = ""


def outcomes(cases: Sequence[Case]) -> list[Outcome]:
    """What the IPU Model gives for each case; all of them forward, or all training."""
    # What cannot be translated is known soon, and would have all others compiled again.
    together = [at for at, case in enumerate(cases) if _is_translated(case)]
    made = {at: _run([case])[0] for at, case in enumerate(cases) if at not in set(together)}
    made.update(zip(together, _run([cases[at] for at in together]), strict=True))
    return [made[at] for at in range(len(cases))]


def _failed(error: Exception, case: Case) -> Outcome:
    """An outcome without results: honest, or an error that should not be."""
    text = f"{type(error).__name__}: {error}"
    honest = isinstance(error, (FeedError, NotSupported, OperandValueError))
    if honest and str(error).strip():
        return Outcome(not_supported=text)
    return Outcome(error=text)


def _is_translated(case: Case) -> bool:
    written = write([case])
    try:
        with static_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            translate_by_default(
                written.program,
                list(written.feed),
                list(written.fetches.values()),
                lambda name: written.parameters[name],
                training=case.training,
                in_64_bits=True,
            )
    except Exception:
        # `_run` compiles such a case alone, which raises the error again and gives its outcome.
        return False
    return True


def _run(cases: Sequence[Case]) -> list[Outcome]:
    """Together; where that fails, without the case that the error names, or by halves."""
    if not cases:
        return []
    written = write(cases)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _run_together(written, cases)
    except Exception as error:
        if len(cases) == 1:
            return [_failed(error, cases[0])]
        bad = _named(error, written)
    if bad is not None:
        others = _run([*cases[:bad], *cases[bad + 1 :]])
        return [*others[:bad], *_run([cases[bad]]), *others[bad:]]
    half = len(cases) // 2
    return _run(cases[:half]) + _run(cases[half:])


def _named(error: Exception, written: Written) -> int | None:
    """The index of the case whose operand or result the error names."""
    text = f"{error} {getattr(error, 'node', '')}"
    if match := re.search(r"case(\d+)_", text):
        return int(match[1])
    words = set(re.findall(r"[\w.]+", text))
    for (at, _), result in written.fetches.items():
        if str(result.name) in words:
            return at
    return None


def _run_together(written: Written, cases: Sequence[Case]) -> list[Outcome]:
    fetches = list(written.fetches.values())
    made = [Outcome() for _ in cases]
    feed = dict(written.feed)
    with static_mode():
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=cases[0].training, micro_batch_size=1)
        compiled = paddle.static.IpuCompiledProgram(
            written.program, scope=written.scope(), ipu_strategy=strategy
        ).compile(list(written.feed), fetches)
        while True:
            try:
                results = compiled.run(feed, fetches)
                break
            except OperandValueError as error:
                at = _named(error, written)
                if len(cases) == 1 or at is None or made[at].not_supported:
                    raise
                # The others need not be compiled anew: this one is run with ones.
                made[at] = _failed(error, cases[at])
                for name in feed:
                    if name.startswith(f"case{at}_") and feed[name].dtype.kind in "iu":
                        feed[name] = np.ones_like(feed[name])
    for (at, what), array in zip(written.fetches, results, strict=True):
        made[at].results[what] = np.asarray(array)
    return made
