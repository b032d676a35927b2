"""What a compiled program is made of, and what its operators on the host cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostOperator:
    """An operator that Paddle's CPU kernel runs inside the step.

    Attributes:
        operator: its phi name.
        place: the operator with the user's line.
        calls: how often it ran forward so far; more than once a step with micro-batches.
        seconds_per_step: time on the host so far, backward and copies included, for each run; None
            before the first.
    """

    operator: str
    place: str
    calls: int
    seconds_per_step: float | None


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What became of a program; ``str`` gives it as text.

    Attributes:
        portable: Graphcore's SDK can run it too.
        not_portable_because: what keeps it off the hardware.
        on_host: operators without a translator, on Paddle's CPU kernels.
        steps: how often the program has run.
        temporary_bytes: memory of a step beside weights, optimizer state, feeds and fetches, most
            of it activations that backward needs; 0 on hardware.
        cache: what the executable cache did: ``compiled``, ``loaded``, or ``not kept: `` and why;
            "" without ``enable_engine_caching``, and on hardware.
        in_64_bits: how many tensors of int64 are computed in 64 bits, as their numbers may not fit
            32; hardware computes them in 32.
    """

    portable: bool
    not_portable_because: Sequence[str]
    on_host: Sequence[HostOperator]
    steps: int
    temporary_bytes: int = 0
    cache: str = ""
    in_64_bits: int = 0

    def __str__(self) -> str:
        lines = [f"steps run: {self.steps}"]
        if self.portable:
            lines.append("portable: yes")
        else:
            lines.append("portable: no, the IPU Model alone runs it")
            lines += [f"  {reason}" for reason in self.not_portable_because]
        if self.in_64_bits:
            tensors = f"{self.in_64_bits} tensor{'s' if self.in_64_bits > 1 else ''}"
            lines.append(f"integers of 64 bits: {tensors}, which hardware computes in 32")
        if self.cache:
            lines.append(f"executable cache: {self.cache}")
        lines.append(f"operators on Paddle's CPU kernels: {len(self.on_host) or 'none'}")
        for operator in self.on_host:
            cost = operator.seconds_per_step
            each = "not run yet" if cost is None else f"{cost * 1e3:.3f} ms a step"
            lines.append(f"  {operator.place}: {each}")
        return "\n".join(lines)
