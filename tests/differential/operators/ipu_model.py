"""Hundreds of cases in one program, translated, compiled once and run on the IPU Model."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import paddle

from paddle_ipu.errors import FeedError, NotSupported, OperandValueError
from tests.differential.operators.program import Written, read, values, write
from tests.differential.operators.use import Array, Case
from tests.operators.built_case import static_mode
from tools.program_forms.default_translation import translate_by_default

RUN_SECONDS = 60
"""How long a compiled program may run, most less than one second, before its process is ended."""


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


Form = Sequence[Case]
"""Cases that differ in the values of what is fed or trained alone."""


def outcomes(forms: Sequence[Form]) -> list[list[Outcome]]:
    """What the IPU Model gives for each case of each form; all forward, or all training."""
    # What cannot be translated is known soon, and would have all others compiled again.
    together = [at for at, form in enumerate(forms) if _is_translated(form[0])]
    made = {at: _run([form])[0] for at, form in enumerate(forms) if at not in set(together)}
    made.update(zip(together, _run([forms[at] for at in together]), strict=True))
    return [made[at] for at in range(len(forms))]


def _failed(error: Exception) -> Outcome:
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


def _run(forms: Sequence[Form]) -> list[list[Outcome]]:
    """Together; where that fails, without the form that the error names, or by halves."""
    if not forms:
        return []
    written = write([form[0] for form in forms])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _run_together(written, forms)
    except Exception as error:
        if len(forms) == 1:
            return [[_failed(error) for _ in forms[0]]]
        bad = _named(error, written)
    if bad is not None:
        others = _run([*forms[:bad], *forms[bad + 1 :]])
        return [*others[:bad], *_run([forms[bad]]), *others[bad:]]
    half = len(forms) // 2
    return _run(forms[:half]) + _run(forms[half:])


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


def _run_together(written: Written, forms: Sequence[Form]) -> list[list[Outcome]]:
    fetches = list(written.fetches.values())
    training = forms[0][0].training
    with static_mode():
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=training, micro_batch_size=1)
        scope = paddle.static.Scope()
        written.set_parameters(scope, {})
        compiled = paddle.static.IpuCompiledProgram(
            written.program, scope=scope, ipu_strategy=strategy
        ).compile(list(written.feed), fetches)

        def run(arrays: Mapping[str, Array]) -> list[Array]:
            if training:
                written.set_parameters(scope, arrays)
                compiled.weights_from_host()
            # No handler: one would wait for the run itself.
            signal.alarm(RUN_SECONDS)
            try:
                return compiled.run({name: arrays[name] for name in written.feed}, fetches)
            finally:
                signal.alarm(0)

        # With ones an index is sound; what a round went well with is, too.
        sound = {
            name: np.ones_like(array) if array.dtype.kind in "iu" else array
            for name, array in (written.feed | written.parameters).items()
        }
        rounds = []
        for at in range(max(map(len, forms))):
            cases = [form[min(at, len(form) - 1)] for form in forms]
            made, fed = _round(run, written, cases, sound)
            rounds.append(made)
            sound = sound if at else fed
    return [[results[at] for results in rounds[: len(form)]] for at, form in enumerate(forms)]


def _round(
    run: Callable[[Mapping[str, Array]], list[Array]],
    written: Written,
    cases: Sequence[Case],
    sound: Mapping[str, Array],
) -> tuple[list[Outcome], dict[str, Array]]:
    """A run of the program with the values of these cases: its outcomes, and what it was given.

    A case whose values are refused is run with those of `sound`: the others need not be compiled
    anew.
    """
    made = [Outcome() for _ in cases]
    arrays = written.feed | written.parameters
    for at, case in enumerate(cases):
        arrays.update(values(at, case))
    while True:
        try:
            results = run(arrays)
            break
        except OperandValueError as error:
            at = _named(error, written)
            if len(cases) == 1 and not made[0].not_supported:
                return [_failed(error)], arrays
            if at is None or made[at].not_supported:
                raise
            made[at] = _failed(error)
            arrays.update(
                (name, array) for name, array in sound.items() if name.startswith(f"case{at}_")
            )
    for ((at, what), variable), array in zip(written.fetches.items(), results, strict=True):
        made[at].results[what] = read(array, variable)
    return made, arrays
