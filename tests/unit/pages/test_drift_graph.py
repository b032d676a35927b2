"""The graph of operators by layer on the page of `verify`: its data, and itself in a browser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from paddle_ipu.pages.layer_graph import OperatorFlow
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import (
    AGREES,
    DIVERGES,
    FOLLOWS,
    NotFinite,
    OperatorRow,
    ReportContents,
)
from paddle_ipu.verification.layer_graph import graph_data
from paddle_ipu.verification.page import page as verification_page
from tests.unit.pages.browser import (
    CONTRAST,
    focus,
    in_colours,
    in_width,
    keys,
    needs_browser,
    overflowing,
    text,
)
from tests.unit.pages.layer_graph import BOX_CONTRASTS, boxes, chosen, press

EVIL = "</script><b onclick=x>"
RIGHT, LEFT, DOWN, HOME, ENTER = "\ue014", "\ue012", "\ue015", "\ue011", "\ue007"

BLOCKS = 3
WRONG = 6
"""The number of the operator that diverges: the tanh of the second block."""
OF_BLOCK = (("linear", "matmul"), ("linear", "add"), ("", "tanh"), ("", "add"))


def compared(name: str, drift: float = 0.0, not_finite: int = 0, ok: bool = True) -> Comparison:
    return Comparison(
        name=name, what="", source="", ok=ok, shape=(4, 8), expected_shape=(4, 8),
        dtype="float32", expected_dtype="float32", max_abs=drift, magnitude=1.0, drift=drift,
        not_finite=not_finite, differing=0, size=32, index=(0, 0), got=1.0, expected=1.0,
        micro_batch=None,
    )  # fmt: skip


def drift_of(number: int) -> float:
    """1e-7 at first, a hundred thousand times as much from the wrong one on, in steps."""
    return 1e-7 * (1.1 + number / 7) * (1 if number < WRONG else 1e5)


def operator(number: int, name: str, layer: str) -> OperatorRow:
    verdict = AGREES if number < WRONG else DIVERGES if number == WRONG else FOLLOWS
    result = compared(f"{name}_{number}.tmp", drift_of(number))
    return OperatorRow(number, name, f"/a/net.py:{number}", result, verdict, layer=layer)


def contents(blocks: int = BLOCKS) -> ReportContents:
    """Blocks ``net.<number>``, each with a residual; then two operators in no layer."""
    operators, flows = [], []
    for block in range(blocks):
        for part, name in OF_BLOCK:
            layer = f"net.{block}.{part}".removesuffix(".")
            operators.append(operator(len(operators), name, layer))
        last = len(operators) - 1
        before = [OperatorFlow(4 * block - 1, at, 128) for at in (last - 3, last) if block]
        flows += [*before, *(OperatorFlow(at, at + 1, 128) for at in range(last - 3, last))]
    for name in ("mean", EVIL):
        flows.append(OperatorFlow(len(operators) - 1, len(operators), 128))
        operators.append(operator(len(operators), name, ""))
    return ReportContents(
        1e-5, 1e-6, 1, operators=operators, flows=flows,
        fetches=[compared("loss", 0.1, ok=False)],
    )  # fmt: skip


def marks(report: ReportContents) -> list[str | None]:
    data = graph_data(report)
    assert data is not None
    at = data["operators"]["columns"].index("mark")
    return [
        None if row[at] is None else data["marks"][row[at]] for row in data["operators"]["rows"]
    ]


# -- data -----------------------------------------------------------------------------------------


def test_there_is_no_graph_without_flows_or_layers() -> None:
    report = contents()
    unlayered = [replace(row, layer="") for row in report.operators]
    for without in (replace(report, flows=[]), replace(report, operators=unlayered)):
        html = verification_page(without)
        assert 'id="layers"' not in html and 'id="data"' not in html
        assert 'id="operators"' in html and "function layerGraph" not in html
    assert 'id="layers"' in verification_page(report)


def test_an_operator_is_told_by_the_result_that_drifts_most() -> None:
    report = contents()
    second = replace(report.operators[0], result=compared("other", math.inf))
    report.operators.insert(1, second)
    data = graph_data(report)
    assert data is not None
    rows = [
        dict(zip(data["operators"]["columns"], x, strict=True)) for x in data["operators"]["rows"]
    ]
    assert len(rows) == 4 * BLOCKS + 2
    assert (rows[0]["result"], rows[0]["drift"]) == ("other", "Infinity")
    assert [row["number"] for row in rows] == list(range(len(rows)))


def test_flows_lead_from_row_to_row_where_numbers_have_gaps() -> None:
    report = contents()
    report.operators = [replace(row, number=10 * row.number) for row in report.operators]
    report.flows = [OperatorFlow(10 * a, 10 * b, size) for a, b, size in report.flows]
    data = graph_data(report)
    assert data is not None
    assert data["flows"] == [list(flow) for flow in contents().flows]


def test_marks_say_what_matters_most() -> None:
    count = 4 * BLOCKS + 2
    assert marks(contents()) == [
        *[None] * WRONG, DIVERGES, *[FOLLOWS] * (count - WRONG - 1),
    ]  # fmt: skip
    report = contents()
    report.derivatives = [report.operators[WRONG], replace(report.operators[WRONG], number=2)]
    assert marks(report)[2] == "derivative diverges" and marks(report)[WRONG] == DIVERGES


def test_the_origin_of_what_is_not_finite_is_marked() -> None:
    report = contents()
    lost = compared("lost", not_finite=3)
    report.operators[3] = replace(report.operators[3], result=lost)
    assert marks(report)[3] is None, "an infinity in a mask is meant"
    report.fetches = [compared("loss", not_finite=1)]
    assert marks(report)[3] == "not finite"
    origin = NotFinite("NaN", "backward", "add", "", "x", 0, 1, 32, "", "", number=5)
    report.not_finite = [origin, replace(origin, phase="weight", number=None)]
    assert [number for number, mark in enumerate(marks(report)) if mark == "first NaN"] == [5]


# -- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "verify.html"
    path.write_text(verification_page(contents()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(driver: Any, address: str) -> Any:
    driver.get(address)
    return driver


def said(page: Any) -> list[str]:
    """What is said of each box."""
    return list(
        page.execute_script(
            "return [...document.querySelectorAll('#layers [role=treeitem]')]"
            ".map(x => x.ariaDescription)"
        )
    )


def figures(page: Any) -> dict[str, str]:
    """What is called what -> the figures in its box, of the folded ones."""
    return dict(
        page.execute_script(
            "return [...document.querySelectorAll('#layers [role=treeitem]')]"
            ".filter(x => x.ariaExpanded !== 'true')"
            ".map(x => [x.ariaDescription.split(': ')[0], [...x.querySelectorAll('.name')].at(-1)"
            ".textContent])"
        )
    )


def largest(path: str, rows: Sequence[OperatorRow]) -> str:
    """The largest drift among the operators of a layer, as the page writes it."""
    of = [x.result.drift for x in rows if x.layer == path or x.layer.startswith(f"{path}.")]
    digits, power = f"{max(of):.1e}".split("e")
    return f"{digits}e{int(power)}"


@needs_browser
def test_it_begins_at_the_operator_that_diverges(page: Any) -> None:
    block = [f"  {n}" for n in range(BLOCKS)]
    assert boxes(page) == [
        "net", *block[:2], "    linear", "    tanh, add", "      tanh", "      add", *block[2:],
        f"mean, {EVIL}",
    ]  # fmt: skip
    assert text(page, "#layers .readout") == (
        f"net.1, tanh: drift 2.0e-2 in tanh_{WRONG}.tmp; diverges"
    )
    assert page.get_log("browser") == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


@needs_browser
def test_a_folded_layer_has_the_largest_drift_of_its_operators(page: Any) -> None:
    rows = contents().operators
    press(page, "fold all")
    assert figures(page)["net"] == f"{largest('net', rows)}, diverges"
    focus(page, "#layers [role=treeitem][tabindex='0']")
    keys(page, HOME, RIGHT)
    found = figures(page)
    for block in range(BLOCKS):
        assert found[f"net.{block}"].split(",")[0] == largest(f"net.{block}", rows)
    keys(page, RIGHT, ENTER)
    assert figures(page)["net.0.linear"] == largest("net.0.linear", rows)
    follows = sum(row.verdict == FOLLOWS and row.layer.startswith("net.2") for row in rows)
    assert found["net.2"].endswith(f", follows ×{follows}")


@needs_browser
def test_every_operator_has_its_own_drift(page: Any) -> None:
    press(page, "unfold all")
    rows = contents().operators
    leaves = [x for x in said(page) if " operators" not in x]
    singles = [x for x in leaves if ": drift" in x]
    assert len(singles) == len(rows)
    for row in rows:
        digits, power = f"{row.result.drift:.1e}".split("e")
        place = f"{row.layer or 'in no layer'}, {row.operator}"
        drift = f"drift {digits}e{int(power)} in {row.result.name}"
        mark = "" if row.verdict == AGREES else f"; {row.verdict}"
        assert f"{place}: {drift}{mark}" in singles


@needs_browser
def test_operators_with_findings_and_what_they_are_in_have_a_bar(page: Any) -> None:
    press(page, "unfold all")
    marked = page.execute_script(
        "return [...document.querySelectorAll('#layers [role=treeitem]')].map(x => "
        "[x.ariaDescription, x.querySelector('.mark')?.classList[1] ?? ''])"
    )
    for described, bar in marked:
        expected = "bad" if "diverges" in described else "mild" if "follows" in described else ""
        assert bar == expected, described
    assert [x for x in marked if x[1] == "bad"][0][0].startswith("net: ")
    legend = page.execute_script(
        "return [...document.querySelectorAll('#layers .key li')].map(x => x.textContent)"
    )
    assert legend == [
        "no drift", "up to 1e-6", "up to 1e-5", "up to 1e-4", "up to 1e-3", "up to 1e-2",
        "up to 1e-1", "diverges", "follows",
    ]  # fmt: skip


@needs_browser
def test_colours_are_those_of_the_legend(page: Any) -> None:
    press(page, "unfold all")
    swatches = dict(
        page.execute_script(
            "return [...document.querySelectorAll('#layers .key li')].map(x => "
            "[x.textContent, getComputedStyle(x.querySelector('i')).backgroundColor])"
        )
    )
    fills = page.execute_script(
        "return [...document.querySelectorAll('#layers [role=treeitem]')]"
        ".filter(x => x.ariaExpanded === null)"
        ".map(x => [x.ariaDescription, getComputedStyle(x.querySelector('.layer')).fill])"
    )
    assert len(fills) == 4 * BLOCKS + 2
    for described, fill in fills:
        drift = float(described.split("drift ")[1].split()[0])
        assert fill == swatches[f"up to 1e-{math.floor(-math.log10(drift))}"], described
    assert len({*swatches.values()}) == len(swatches)


@needs_browser
def test_the_gradients_drift_is_a_colour_of_its_own(driver: Any, tmp_path: Any) -> None:
    report = contents()
    report.operators = [
        replace(row, gradient=compared("g", drift_of(2 * WRONG - row.number)))
        if row.layer else row
        for row in report.operators
    ]  # fmt: skip
    path = tmp_path / "gradients.html"
    path.write_text(verification_page(report), encoding="utf-8")
    driver.get(path.as_uri())
    press(driver, "fold all")
    assert "gradient drift" in text(driver, "#layers .readout")
    focus(driver, "#layers fieldset input:checked")
    keys(driver, RIGHT)
    worst = max(row.gradient.drift for row in report.operators if row.gradient is not None)
    digits, power = f"{worst:.1e}".split("e")
    assert figures(driver)["net"].startswith(f"{digits}e{int(power)}, ")
    others = [x for place, x in figures(driver).items() if place.startswith("in no layer")]
    assert others == ["no gradient, follows ×2"]


@needs_browser
def test_a_layers_operators_are_shown_in_the_table_and_let_go(page: Any) -> None:
    rows = (
        "return [...document.querySelectorAll('#operators tbody tr:not([hidden])')]"
        ".map(row => Number(row.cells[0].textContent))"
    )
    focus(page, "#layers [role=treeitem][tabindex='0']")
    assert "tanh" in chosen(page)
    press(page, "its operators")
    assert page.execute_script(rows) == [WRONG]
    focus(page, "#layers [role=treeitem][tabindex='0']")
    keys(page, LEFT, LEFT, LEFT)
    assert chosen(page).startswith("net.1: 4 operators, the largest drift ")
    press(page, "its operators")
    assert page.execute_script(rows) == [4, 5, 6, 7]
    only = "#operators .controls span button"
    assert text(page, only) == "only net.1 ×"
    focus(page, only)
    keys(page, ENTER)
    assert len(page.execute_script(rows)) == 4 * BLOCKS + 2
    assert page.find_elements("css selector", only) == []


@needs_browser
@pytest.mark.parametrize("width", [320, 700, 1280, 2560])
def test_the_page_does_not_scroll_sideways(page: Any, width: int) -> None:
    press(page, "unfold all")
    with in_width(page, width):
        assert overflowing(page) == []


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_both_colours(page: Any, scheme: str) -> None:
    in_colours(page, scheme)
    press(page, "unfold all")
    found = page.execute_script(BOX_CONTRASTS)
    assert len(found) > 4 * BLOCKS and min(found) >= 4.5
    assert page.execute_script(CONTRAST) == []


@needs_browser
def test_tab_reaches_one_box_which_shows_the_focus(page: Any) -> None:
    press(page, "unfold all")
    stops = page.find_elements("css selector", "#layers [role=treeitem][tabindex='0']")
    assert len(stops) == 1
    focus(page, "#layers [role=treeitem][tabindex='0']")
    keys(page, DOWN)
    width = "return getComputedStyle(document.activeElement.querySelector('.layer')).strokeWidth"
    assert page.execute_script(width) == "3px"
    assert chosen(page).startswith("net.1, add: drift ")


@needs_browser
def test_as_many_operators_as_bert_large_has_are_small_and_all_drawn(
    driver: Any, tmp_path: Any
) -> None:
    blocks = 400
    report = contents(blocks)
    with_graph = verification_page(report)
    without = verification_page(replace(report, flows=[]))
    operators = len(report.operators)
    assert len(with_graph) - len(without) < 150 * operators
    path = tmp_path / "many.html"
    path.write_text(with_graph, encoding="utf-8")
    driver.get(path.as_uri())
    assert len(boxes(driver)) < 2 * blocks, "only what is unfolded"
    press(driver, "unfold all")
    # Each block, its layer, the run of its own two, the four; net; those in no layer.
    assert len(boxes(driver)) == blocks * (1 + 1 + 1 + 4) + 1 + 1 + 2
