"""The pages of a verification and of a comparison in a browser: what their tables do."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import (
    AGREES,
    DIVERGES,
    Finding,
    OperatorRow,
    ReportContents,
    StepRow,
)
from paddle_ipu.verification.page import page as verification_page
from paddle_ipu.verification.ranges import ScaleRow, ValueRange
from tests.unit.cost_model.programs import chain
from tests.unit.pages.browser import (
    CONTRAST,
    focus,
    in_colours,
    in_width,
    keys,
    needs_browser,
    overflowing,
    tab_stops,
    text,
)

pytestmark = needs_browser

EVIL = "</script><img src=x onerror='window.hacked=1'><b>"
OPERATORS = 70
LONG = "a_layer_with_a_long_name." * 6
ENTER = "\ue007"


def compared(name: str, *, drift: float, ok: bool = True) -> Comparison:
    return Comparison(
        name=name, what=f"gradient of {name}", source=f"read by add at /home/a/{EVIL}.py:3", ok=ok,
        shape=(8, 128, 1024), expected_shape=(8, 128, 1024), dtype="float16",
        expected_dtype="float32", max_abs=drift, magnitude=1.0, drift=drift, not_finite=0,
        differing=0 if ok else 1_000_000, size=1_048_576, index=(0, 0, 0), got=-1.2345678e-05,
        expected=1.2345678e-05, micro_batch=None,
    )  # fmt: skip


def contents() -> ReportContents:
    values = ValueRange(10, 0, 0, 0, 1e-9, 1e6, 1, 1, 1, {-30: 1, -20: 3, 0: 5, 19: 1})
    kept = ValueRange(10, 0, 0, 0, 1.0, 2.0, 0, 0, 0, {0: 10})
    operators = [
        OperatorRow(
            number=number, operator="matmul", source=f"/home/a/b/model.py:{number}",
            result=compared(f"x{number}", drift=math.inf if number == 9 else number / 100,
                            ok=number != 11),
            verdict=DIVERGES if number == 11 else AGREES, values=values if number == 13 else kept,
            layer=f"{LONG}{number}", gradient_values=kept,
        )
        for number in range(OPERATORS)
    ]  # fmt: skip
    return ReportContents(
        rtol=1e-5, atol=1e-6, steps=2, operators=operators,
        fetches=[compared("loss", drift=0.1)],
        gradients=[compared(f"w{n}", drift=0.1, ok=n > 0) for n in range(20)],
        updates=[compared(EVIL, drift=0.2)],
        findings=[Finding("Too large a rate", "It grows to 7.25e+13.", f"Lower it, {EVIL}.")],
        history=[StepRow(1.0, 1.0, 1.0, 0.1), StepRow(math.inf, math.nan, 2.0, 0.2)],
        scales=[ScaleRow(1.0, 0.0, 0.1, 0.2), ScaleRow(256.0, 0.1, 0.0, 0.0)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "verify.html"
    path.write_text(verification_page(contents()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(driver: Any, address: str) -> Any:
    driver.get(address)
    return driver


def shown(page: Any, column: int) -> list[str]:
    """A column's cells in the rows of operators that are shown."""
    return list(
        page.execute_script(
            "return [...document.querySelectorAll('#operators tbody tr:not([hidden])')]"
            ".map(row => row.cells[arguments[0]].textContent)",
            column,
        )
    )


def press_head(page: Any, name: str) -> None:
    page.execute_script(
        "[...document.querySelectorAll('#operators th button')]"
        ".find(b => b.textContent === arguments[0]).focus()",
        name,
    )
    keys(page, ENTER)


def test_nothing_is_loaded_complained_of_or_trusted(page: Any) -> None:
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.get_log("browser") == []
    assert page.execute_script("return window.hacked") is None
    assert EVIL in text(page, "#gradients tbody") and EVIL in text(page, "#summary .finding")


def test_each_finding_is_said_once(page: Any) -> None:
    said = text(page, "body").split("{")[0]
    for words in ("Too large a rate", "It grows to 7.25e+13.", "Lower it", "First diverging"):
        assert said.count(words) == 1, words
    findings = page.find_elements("css selector", "#summary .finding")
    assert [x.text.split(":")[0] for x in findings] == [
        "Too large a rate", "First diverging operator",
    ]  # fmt: skip
    tiles = [x.text for x in page.find_elements("css selector", "#summary .tile")]
    assert tiles == [
        "1\nfetches agree", "1 of 20\ngradients differ", "1\nweights and states agree",
    ]  # fmt: skip
    page.find_elements("css selector", "#summary .tile")[1].click()
    assert page.execute_script("return location.hash") == "#gradients"


@pytest.mark.parametrize("width", [320, 400, 700, 900, 1280, 1920, 2560])
def test_it_never_scrolls_sideways(page: Any, width: int) -> None:
    with in_width(page, width):
        for columns in range(3):
            assert overflowing(page) == [], f"columns {columns}"
            focus(page, "#operators fieldset input:checked")
            keys(page, "\ue014")  # arrow right


def test_tables_that_do_not_fit_are_cards_and_tables_again_where_they_do(page: Any) -> None:
    counted = "return document.querySelectorAll('table.cards').length"
    with in_width(page, 2560):
        assert page.execute_script(counted) == 0
    with in_width(page, 320):
        assert page.execute_script(counted) > 3
    with in_width(page, 2560):
        assert page.execute_script(counted) == 0


def test_operators_are_sorted_and_searched_with_the_keyboard(page: Any) -> None:
    assert shown(page, 0) == [str(n) for n in range(30)]
    press_head(page, "drift")
    assert shown(page, 0)[:3] == ["9", "69", "68"], "infinity is the largest"
    assert page.execute_script("return document.activeElement.textContent") == "drift"
    press_head(page, "drift")
    assert shown(page, 0)[:3] == ["0", "1", "2"]
    focus(page, "#operators .scroll + button")
    keys(page, ENTER)
    assert len(shown(page, 0)) == OPERATORS
    search = page.find_element("css selector", "#operators input[type=search]")
    search.send_keys("MODEL.py:6 matmul")
    assert shown(page, 0) == ["6", *(str(n) for n in range(60, 70))]
    assert text(page, "#operators [role=status]") == f"11 of 11 rows found among {OPERATORS}"


def test_only_what_differs_or_does_not_fit_half_is_shown(page: Any) -> None:
    focus(page, "#operators input[type=checkbox]")
    keys(page, " ")
    assert shown(page, 0) == ["11", "13"]
    assert text(page, "#operators [role=status]") == f"2 of 2 rows found among {OPERATORS}"


def test_one_group_of_columns_is_shown_at_a_time(page: Any) -> None:
    heads = (
        "return [...document.querySelectorAll('#operators th')].filter(x => x.checkVisibility())"
        ".map(x => x.textContent)"
    )
    always = ["#", "verdict", "operator", "result", "layer", "line"]
    first = page.execute_script(heads)
    assert first[:6] == always and "drift" in first and "> half" not in first
    focus(page, "#operators fieldset input:checked")
    keys(page, "\ue014")
    assert page.execute_script(heads) == [*always, "> half", "to 0", "subnormal", "values"]


def test_tab_reaches_every_control_and_shows_where_it_is(page: Any) -> None:
    reached = tab_stops(page, 120)
    assert reached.count(("input", "search")) == 2, "of operators and of gradients"
    assert reached.count(("input", "checkbox")) == 1 and reached.count(("input", "radio")) == 1
    assert reached.count(("a", "")) == 1 + 7 + 3, "the way past the links, the links, the tiles"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_colours(page: Any, scheme: str) -> None:
    in_colours(page, scheme)
    ground = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (int(ground.split("(")[1].split(",")[0]) > 128) == (scheme == "light")
    assert page.execute_script(CONTRAST) == []
    page.find_element("css selector", "#theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") != ground
    assert page.execute_script(CONTRAST) == []


def test_without_scripts_every_row_is_there(driver: Any, address: str) -> None:
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(address)
        found = "document.querySelectorAll('#operators tbody tr').length"
        rows = driver.execute_cdp_cmd("Runtime.evaluate", {"expression": found})
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert rows["result"]["value"] == OPERATORS
    html = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    assert html.count("/home/a/b/model.py:") == OPERATORS + 1, "each as a title, and the finding"
    assert " hidden" not in html.split("<main>")[1].split("<footer>")[0]


def test_of_many_rows_the_first_are_drawn_and_all_are_sorted_and_found(
    driver: Any, tmp_path: Path
) -> None:
    report, many = contents(), 1600
    first = report.operators[0]
    operators = [
        replace(first, number=n, result=compared(EVIL if n == 999 else f"x{n}", drift=n))
        for n in range(many)
    ]
    path = tmp_path / "page.html"
    path.write_text(verification_page(replace(report, operators=operators)), encoding="utf-8")
    driver.get(path.as_uri())
    assert driver.execute_script("return document.querySelectorAll('*').length") < 6000
    assert text(driver, "#operators [role=status]") == "30 of 1,600 rows"
    press_head(driver, "drift")
    assert shown(driver, 0) == [str(many - 1 - n) for n in range(30)]
    driver.find_element("css selector", "#operators input[type=search]").send_keys(EVIL)
    assert shown(driver, 0) == ["999"] and shown(driver, 3) == [EVIL]
    assert driver.execute_script("return window.hacked") is None
    assert driver.get_log("browser") == []
    with in_width(driver, 320):
        assert overflowing(driver) == []
    assert driver.execute_script(CONTRAST) == []


@pytest.fixture(scope="module")
def compared_pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The comparison of two reports, of programs of 12 layers each."""
    reports = []
    for width in (64, 128):
        program = chain(12, width=width)
        operators = (
            replace(operator, origin=NodeOrigin(layer=f"{LONG}part{chr(97 + at // 2)}"))
            for at, operator in enumerate(program.operators)
        )
        layered = replace(program, operators=tuple(operators))
        reports.append(PredictedReport(make_report(layered, machine_named("pod4"), name=EVIL)))
    path = tmp_path_factory.mktemp("compared") / "page.html"
    path.write_text(reports[0].compare(reports[1]).to_html(), encoding="utf-8")
    return path.as_uri()


def test_a_comparison_sorts_by_numbers_and_never_scrolls_sideways(
    driver: Any, compared_pages: str
) -> None:
    driver.get(compared_pages)
    assert driver.get_log("browser") == []
    for width in (320, 900, 1280, 2560):
        with in_width(driver, width):
            assert overflowing(driver) == [], width
    values = (
        "return [...document.querySelectorAll('#cycles tbody tr')]"
        ".map(row => Number(row.cells[2].dataset.sort))"
    )
    focus(driver, "#cycles th:nth-child(3) button")
    keys(driver, ENTER)
    falling = driver.execute_script(values)
    assert len(falling) > 10 and falling == sorted(falling, reverse=True)
    keys(driver, ENTER)
    assert driver.execute_script(values) == sorted(falling)
    assert driver.execute_script(CONTRAST) == []
