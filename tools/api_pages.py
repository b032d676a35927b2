"""The pages in docs/api: which public names have an entry, and where.

An entry is a line ``::: path.of.a.name``, in whose place the site has the docstring
(``make docs``). It reads sources without importing them, so a path is one that the sources show.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import ModuleType

import paddle_ipu
import popdist
from paddle_ipu import errors, popart, serving
from paddle_ipu.popart.opsets import NAMESPACES, ONNX_NAMESPACES, operator_methods
from popdist import popart as popdist_popart

_PADDLE_IPU = """\
What `import paddle_ipu` gives. Most scripts need none of it: the package gives Paddle's own names
their IPU backend, and [programs and strategies](programs.md) are those names. Modules have pages
of their own: [errors](errors.md), [popart](popart.md), [serving](serving.md).
"""

_PROGRAMS = """\
Paddle's names that the plugin puts a backend behind: `paddle.static.IpuStrategy` holds options,
each described in [options.md](../options.md); `paddle.static.IpuCompiledProgram` compiles a
program. `IpuStrategy` is Paddle's own class; what it asks is the first class below.
"""

_PREDICTIONS = """\
What [`paddle_ipu.report` and `paddle_ipu.plan`](paddle_ipu.md) give back. How to read them is in
[notebooks.md](../notebooks.md), how the numbers are made in [ipu_model.md](../ipu_model.md).
"""
_VERIFICATION = """\
What [`paddle_ipu.verify`](paddle_ipu.md) gives back, and what `paddle-ipu check` asks. How to read
a report is in [diverging.md](../diverging.md), what is asked of a program in
[porting.md](../porting.md).
"""

_SERVING = """\
Requests of many threads in shared micro-batches: [serving.md](../serving.md) shows it.
"""

_ERRORS = """\
Every exception of the package. A message says what went wrong, where, what was got and expected,
and what to do. `paddle_ipu.errors.PaddleIpuError` catches all but PopART's own family.
"""

_POPDIST = """\
PopDist's API, in scripts that `poprun` starts: [poprun.md](../poprun.md). Functions of `popdist`
come first, then those of `popdist.popart`.
"""

_POPART = """\
Classes and functions of `paddle_ipu.popart`, a module with the names of Graphcore's `popart` 3.4.
[popart.md](../popart.md) lists what else it has (the members of its enumerations, the prefixes of
tensors' names), what it lacks and what it does otherwise; [operators](popart_operators.md) and
[errors](errors.md) are on pages of their own.
"""

_OPERATORS = """\
Operators of `builder.aiOnnx`, `builder.aiOnnxOpset11`, `builder.aiGraphcore` and their like. Each
puts one node into the program and gives the id of its output, or a list of ids. Ids of inputs come
first, then the attributes; all can be given by name.
"""

COMMENT = "<!-- Made from tools/api_pages.py: python -m tools.generate_docs --write -->"

_FIRST = popart.AiOnnxOpset11
"""The set of `ai.onnx` whose operators are listed whole."""
_ONNX = [operators for operators in ONNX_NAMESPACES.values() if operators is not _FIRST]
"""The others, of which is listed what differs."""


def _page(title: str, intro: str, entries: Sequence[str]) -> str:
    parts = [f"# {title}\n", f"{COMMENT}\n", intro, *(f"::: {entry}\n" for entry in entries)]
    return "\n".join(parts)


def paddle_ipu_page() -> str:
    """docs/api/paddle_ipu.md: the names of the package that are no modules."""
    return _page("paddle_ipu", _PADDLE_IPU, _public(paddle_ipu))


def programs_page() -> str:
    """docs/api/programs.md: the classes behind Paddle's names."""
    entries = [
        "paddle_ipu.options.strategy.CoreIpuStrategy",
        "paddle_ipu.compiler.compiled_program.IpuCompiledProgram",
        "paddle_ipu.runtime.ipu_program.IpuProgram",
    ]
    return _page("Programs and strategies", _PROGRAMS, entries)


def verification_page() -> str:
    """docs/api/verification.md: reports, and the porting check."""
    entries = [
        "paddle_ipu.verification.report.VerificationReport",
        "paddle_ipu.verification.porting.check_program",
        "paddle_ipu.verification.porting.PortingReport",
        "paddle_ipu.verification.porting.Finding",
    ]
    return _page("Verification", _VERIFICATION, entries)


def predictions_page() -> str:
    """docs/api/predictions.md: what reports and plans are."""
    entries = [
        "paddle_ipu.cost_model.report.predicted_report.PredictedReport",
        "paddle_ipu.cost_model.report.comparison.Comparison",
        "paddle_ipu.compiler.strategy_plan.StrategyPlan",
        "paddle_ipu.compiler.proposals.Proposal",
        "paddle_ipu.compiler.pod_plans.PodPlans",
        "paddle_ipu.compiler.pod_plans.PodPlan",
    ]
    return _page("Predictions", _PREDICTIONS, entries)


def serving_page() -> str:
    """docs/api/serving.md: runners and models, and the HTTP server."""
    entries = [*_public(serving), "paddle_ipu.serving.http.server.HttpServer"]
    return _page("Serving", _SERVING, entries)


def errors_page() -> str:
    """docs/api/errors.md: every exception, in the order of the module."""
    names = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    return _page("Errors", _ERRORS, [f"{errors.__name__}.{name}" for name in names])


def popdist_page() -> str:
    """docs/api/popdist.md: the functions of both its modules."""
    return _page("popdist", _POPDIST, [*_public(popdist), *_public(popdist_popart)])


def popart_page() -> str:
    """docs/api/popart.md: classes and functions; other names have tables in docs/popart.md."""
    values = (getattr(popart, name) for name in popart.__all__)
    entries = [_path(value) for value in values if has_entry(value)]
    return _page("paddle_ipu.popart", _POPART, entries)


def has_entry(value: object) -> bool:
    """Whether a public value of popart has an entry, not a row of a table.

    Enumerations, operator sets and what is made at run time are in tables, and errors have entries
    on the page of their module.
    """
    if getattr(value, "__module__", None) == errors.__name__:
        return False
    if isinstance(value, type):
        return not issubclass(value, Enum) and value not in NAMESPACES
    return inspect.isfunction(value) and "<locals>" not in value.__qualname__


def popart_operators_page() -> str:
    """docs/api/popart_operators.md: the operators of each set, with their signatures."""
    lines = ["# PopART's operators\n", f"{COMMENT}\n", _OPERATORS]
    for operators in sorted(NAMESPACES, key=lambda operators: operators is not _FIRST):
        signatures = _signatures(operators)
        lines.append(f"## {operators.__name__}\n")
        if operators in _ONNX:
            lines.append(_beside(signatures, first := _signatures(_FIRST)))
            signatures = {op: text for op, text in signatures.items() if first.get(op) != text}
        if signatures:
            lines += ["```python", *signatures.values(), "```\n"]
    return "\n".join(lines)


def _beside(signatures: dict[str, str], first: dict[str, str]) -> str:
    lacking = ", ".join(f"`{op}`" for op in first if op not in signatures)
    without = f" without {lacking}" if lacking else ""
    otherwise = any(first.get(op) != text for op, text in signatures.items())
    return f"As `{_FIRST.__name__}`{without}{'; otherwise:' if otherwise else '.'}\n"


def _signatures(operators: type) -> dict[str, str]:
    """The operators of a set, by name, and how each is called."""
    return {
        name: _signature(name, getattr(operators, name)) for name in operator_methods(operators)
    }


def _signature(name: str, method: Callable[..., object]) -> str:
    """What a method made from the table says of itself; of one written by hand, its own."""
    text = inspect.getdoc(method) or ""
    if text.startswith("Appends "):
        return text.split("``")[1]
    own = inspect.signature(method)
    _, *parameters = own.parameters.values()
    # Annotations are strings, shown in quotes.
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", f"{name}{own.replace(parameters=parameters)}")


def _public(module: ModuleType) -> list[str]:
    names = (name for name in module.__all__ if not inspect.ismodule(getattr(module, name)))
    return [f"{module.__name__}.{name}" for name in names]


def _path(value: object) -> str:
    """Where the sources define a class or a function."""
    return f"{getattr(value, '__module__')}.{getattr(value, '__qualname__')}"  # noqa: B009


API_PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    f"api/{page.__name__.removesuffix('_page')}": (
        f"docs/api/{page.__name__.removesuffix('_page')}.md",
        page,
    )
    for page in (
        paddle_ipu_page,
        programs_page,
        verification_page,
        predictions_page,
        serving_page,
        errors_page,
        popdist_page,
        popart_page,
        popart_operators_page,
    )
}
"""For tools/generate_docs.py: name -> (path under the root, function that gives the page)."""
