"""The runner of passes: order, listeners, and what it says of a pass that breaks a graph."""

from __future__ import annotations

from collections.abc import Callable

import paddle
import pytest

from paddle_ipu.errors import NotSupported, PassError
from paddle_ipu.passes.pass_base import Compilation, in_order, run_passes
from paddle_ipu.passes.pipeline import PIPELINE

Read = Callable[..., Compilation]


class _Failing:
    name = "failing"

    def run(self, compilation: Compilation) -> bool:
        raise KeyError("lost")


class _Breaking:
    name = "breaking"

    def run(self, compilation: Compilation) -> bool:
        first = compilation.graph[0]
        compilation.graph.remove(first)
        compilation.graph.append(first)
        return True


class _Refusing:
    name = "refusing"

    def run(self, compilation: Compilation) -> bool:
        raise NotSupported("not this")


class _Ordered:
    def __init__(self, name: str, requires: tuple[str, ...], ensures: tuple[str, ...]) -> None:
        self.name, self.requires, self.ensures = name, requires, ensures

    def run(self, compilation: Compilation) -> bool:
        return False


def test_a_pass_has_what_it_requires_in_front_of_it() -> None:
    first, second = _Ordered("first", (), ("shapes",)), _Ordered("second", ("shapes",), ())
    assert in_order(first, second) == (first, second)
    with pytest.raises(ValueError, match="pass second requires shapes; no pass before it ensures"):
        in_order(second, first)
    with pytest.raises(ValueError, match="pass first stands in a pipeline twice"):
        in_order(first, second, first)


_REQUIRED = {fact for step in PIPELINE for fact in step.requires}


@pytest.mark.parametrize("fact", sorted(_REQUIRED))
def test_the_pipeline_is_refused_without_a_pass_that_ensures_what_others_require(fact: str) -> None:
    rest = [step for step in PIPELINE if fact not in step.ensures]
    with pytest.raises(ValueError, match=f"requires .*{fact}.*; no pass before it ensures that"):
        in_order(*rest)


def test_scales_are_not_deleted_before_gradients_are_cut() -> None:
    cut, delete = (
        next(step for step in PIPELINE if step.name == name)
        for name in ("cut_gradients", "delete_scale")
    )
    swapped = [{id(cut): delete, id(delete): cut}.get(id(step), step) for step in PIPELINE]
    with pytest.raises(ValueError, match="delete_scale requires stopped gradients cut"):
        in_order(*swapped)


def _two_nodes(compilation_of: Read) -> Compilation:
    x = paddle.static.data("x", [-1], "float32")
    return compilation_of(["x"], [paddle.tanh(paddle.exp(x))])


def test_the_passes_that_changed_something_are_returned_and_all_are_heard(
    compilation_of: Read,
) -> None:
    heard: list[str] = []
    changed = run_passes(
        PIPELINE, _two_nodes(compilation_of), lambda name, graph, changed: heard.append(name)
    )
    assert heard == [step.name for step in PIPELINE]
    assert changed == ["bind_micro_batch"]


def test_a_failing_pass_is_named_with_those_before_it(compilation_of: Read) -> None:
    with pytest.raises(PassError, match=r"pass failing failed after no other pass: KeyError"):
        run_passes([_Failing()], _two_nodes(compilation_of))


def test_a_broken_graph_is_found(compilation_of: Read) -> None:
    with pytest.raises(PassError, match="tanh .* reads .* before it is made"):
        run_passes([_Breaking()], _two_nodes(compilation_of))


def test_an_error_for_the_user_passes_through(compilation_of: Read) -> None:
    with pytest.raises(NotSupported, match="not this"):
        run_passes([_Refusing()], _two_nodes(compilation_of))
