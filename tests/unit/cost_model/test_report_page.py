"""The report's page in a browser: what is drawn, with the keyboard and in every colour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.directory import page_of
from paddle_ipu.dialect.node_origin import NodeOrigin
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
MEASURED = {
    "machine": "this one",
    "steps": 2,
    "seconds_per_run": 0.25,
    "families": [{"family": "matmul", "seconds": 0.25, "share": 1.0}],
    "lines": [
        {"source": EVIL, "operator": "matmul", "popart": "MatMul", "family": "matmul",
         "forward": 0.1, "backward": 0.15, "seconds": 0.25},
        {"source": "a.py:1", "layer": "part.3.x", "operator": "add", "popart": "Add",
         "family": "elementwise", "forward": 0.0, "backward": 0.125, "seconds": 0.125},
    ],
}  # fmt: skip
LAYERS = 600
SECTIONS = (
    "summary", "insights", "memory", "liveness", "timeline", "roofline", "operators", "measured",
    "sources",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of a pipeline of many operators, whose names would break a page that trusts them."""
    program = chain(LAYERS, width=16, stages=4, accumulation=64, recompute=True, replicas=2)
    operators = tuple(replace(op, origin=NodeOrigin("", EVIL)) for op in program.operators)
    state = {weight.name: 8 * weight.elements for weight in program.weights}
    program = replace(program, operators=operators, state=state)
    program = program.with_settings(state_on_chip=False)
    report = make_report(program, machine_named("pod16"), name=EVIL, measured=MEASURED)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(report), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(driver: Any, address: str) -> Any:
    driver.get(address)
    return driver


def test_every_colour_that_is_told_is_painted(page: Any) -> None:
    assert "weight update (strip below)" in text(page, "#liveness .key")
    unpainted = page.execute_script(
        "return [...document.querySelectorAll('.key li')].filter(told => {"
        " const {backgroundColor, backgroundImage} = getComputedStyle(told.querySelector('i'));"
        " return backgroundColor === 'rgba(0, 0, 0, 0)' && backgroundImage === 'none';"
        "}).map(told => told.textContent)"
    )
    assert unpainted == []


def test_every_view_is_drawn_and_nothing_is_loaded_or_complained_of(page: Any) -> None:
    drawn = page.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('section')].map(s => [s.id, "
        "s.querySelectorAll('svg rect, svg circle, svg path, tbody tr, li, dd').length]))"
    )
    assert drawn.keys() == set(SECTIONS)
    assert min(drawn.values()) > 0, drawn
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.get_log("browser") == []


def test_what_requests_wait_is_told(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    program, pod4 = chain(2, training=False), machine_named("pod4")
    most = make_report(program, pod4).prediction.cycles.throughput
    for asked, told in ((most / 2, " within "), (2 * most, "too many, the queue grows")):
        path.write_text(page_of(make_report(program, pod4, requests=asked)), encoding="utf-8")
        driver.get(path.as_uri())
        shown = text(driver, "#summary")
        assert told in shown and "NaN" not in shown
        assert f"At most {most:,.0f} a second are answered." in shown
        assert driver.get_log("browser") == []


def test_names_of_a_program_stay_text(page: Any) -> None:
    assert page.execute_script("return window.hacked") is None
    assert (
        page.execute_script("return document.querySelectorAll('img, main b:not(.tile b)').length")
        == 0
    )
    assert EVIL in text(page, "h1") and EVIL in text(page, "#operators tbody")
    assert EVIL in text(page, "#measured")


def test_measured_layers_stand_beside_their_prediction(page: Any) -> None:
    rows = page.execute_script(
        "const head = [...document.querySelectorAll('#measured h3')].find(h => "
        "h.textContent === 'By layer');"
        "return [...head.nextElementSibling.querySelectorAll('tr')].map(row => "
        "[...row.cells].map(cell => cell.textContent))"
    )
    assert rows[0] == ["layer", "measured here", "of the run", "predicted for POD16"]
    assert rows[1][:3] == ["in no layer", "250 ms", "100 %"] and rows[1][3].endswith("s")
    assert rows[2] == ["part.*.x", "125 ms", "50 %", "0 s"]


def test_many_operators_are_not_all_drawn_at_once(page: Any) -> None:
    assert page.execute_script("return document.querySelectorAll('*').length") < 3000
    choose_each(page)
    assert text(page, "#operators [role=status]").startswith("30 of 1,20")
    focus(page, "#operators > button")
    keys(page, "\ue007")  # enter
    rows = page.execute_script("return document.querySelectorAll('#operators tbody tr').length")
    assert rows == 330


def choose_each(page: Any) -> None:
    focus(page, "#operators fieldset input:checked")
    keys(page, "\ue014")  # arrow right


def test_operators_are_searched_and_sorted(page: Any) -> None:
    choose_each(page)
    search = page.find_element("css selector", "#operators input[type=search]")
    search.send_keys("tanh ipu3")
    rows = page.find_elements("css selector", "#operators tbody tr")
    assert len(rows) == 30 and all("Tanh" in row.text for row in rows[:3])
    assert f"of {LAYERS // 4} operators" in text(page, "#operators [role=status]")
    column = "document.querySelector('#operators [data-column=name]')"
    page.execute_script(f"{column}.focus()")
    keys(page, "\ue007")  # enter
    assert page.execute_script(f"return {column}.closest('th').ariaSort") == "ascending"
    assert page.execute_script(f"return document.activeElement === {column}"), "focus stays"
    first = "return document.querySelector('#operators tbody tr').cells[3].textContent"
    name = page.execute_script(first)
    keys(page, "\ue007")
    assert page.execute_script(f"return {column}.closest('th').ariaSort") == "descending"
    assert page.execute_script(first) != name
    search.send_keys("nowhere")
    assert text(page, "#operators [role=status]").startswith("0 of 0")


def test_charts_are_walked_through_with_the_arrow_keys(page: Any) -> None:
    for section, steps in (("memory", 3), ("liveness", 2), ("timeline", 3), ("roofline", 1)):
        chart = f"#{section} svg[role=slider]"
        focus(page, chart)
        keys(page, "\ue011")  # home
        first = text(page, f"#{section} .readout")
        for _ in range(steps):
            keys(page, "\ue014")
        element = page.find_element("css selector", chart)
        assert element.get_attribute("aria-valuenow") == str(steps)
        now = text(page, f"#{section} .readout")
        assert now == element.get_attribute("aria-valuetext") and now != first
        keys(page, "\ue010", "\ue014")  # end, and no further
        last = element.get_attribute("aria-valuemax")
        assert element.get_attribute("aria-valuenow") == last
    assert "micro-batch 0 in stage 0 on IPU 0" in page.execute_script(
        "const s = document.querySelector('#timeline svg[role=slider]');"
        "s.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'})); return s.ariaValueText"
    )


def test_each_figure_of_the_summary_leads_to_how_it_is_computed(page: Any) -> None:
    tiles = page.find_elements("css selector", "#summary .tile")
    assert len(tiles) == 5
    for tile in tiles:
        page.execute_script("arguments[0].focus()", tile)
        keys(page, "\ue007")  # enter
        name = tile.find_element("css selector", "b").text
        target = page.execute_script("return document.querySelector(':target').textContent")
        if "fullest tile" not in tile.text:
            assert target.startswith(f"{name} ")


def test_every_link_leads_somewhere_that_is_shown(page: Any) -> None:
    broken = page.execute_script(
        "return [...document.querySelectorAll('a')].map(link => link.getAttribute('href'))"
        ".filter(to => !document.getElementById(to.slice(1))?.checkVisibility())"
    )
    assert broken == []


def test_the_map_of_memory_adds_up(page: Any) -> None:
    """Of each IPU the areas of the map are to each other as the bytes of its categories."""
    ipus = page.execute_script(
        "return JSON.parse(document.getElementById('data').textContent).memory.ipus"
    )
    cells = page.execute_script(
        "return [...document.querySelectorAll('#memory .cell')].map(cell => "
        "[cell.getAttribute('fill'), cell.width.baseVal.value * cell.height.baseVal.value])"
    )
    whole = sum(area for _, area in cells)
    everything = sum(ipu["peak"] for ipu in ipus)
    for name, paint in (("weights", "weights"), ("stash", "stash"), ("temporaries", "temporaries")):
        area = sum(area for fill, area in cells if fill == f"var(--c-{paint})")
        held = sum(ipu["categories"][name] for ipu in ipus)
        assert area / whole == pytest.approx(held / everything, rel=1e-3)
    assert "1.1 times the mean" in text(page, "#memory")


def test_an_ipu_is_chosen_with_the_arrow_keys(page: Any) -> None:
    before = page.find_element("css selector", "#liveness svg").get_attribute("aria-label")
    focus(page, "#liveness fieldset input:checked")
    keys(page, "\ue014")
    after = page.find_element("css selector", "#liveness svg").get_attribute("aria-label")
    assert before != after and after.startswith("Memory alive on IPU ")


def test_tab_reaches_every_control_and_shows_where_it_is(page: Any) -> None:
    reached = tab_stops(page, 300)
    links = page.execute_script("return document.querySelectorAll('a').length")
    assert reached.count(("svg", "slider")) == 4
    assert reached.count(("a", "")) == links > 1 + len(SECTIONS), "the way past the navigation, it"
    assert reached.count(("input", "search")) == 3, "of tensors, of operators, of figures"
    assert reached.count(("input", "radio")) == 3
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('button, input, svg[role], [role=img]')].filter(e => "
        "!(e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent.trim())).length"
    )
    assert unnamed == 0


# Numbers of micro-batches on the marks that they stand on.
MARKS = """
const style = getComputedStyle(document.documentElement);
const light = name => { const hex = style.getPropertyValue(name).trim();
  const f = x => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  return [1, 3, 5].map(at => f(parseInt(hex.slice(at, at + 2), 16)))
    .reduce((sum, x, at) => sum + x * [0.2126, 0.7152, 0.0722][at], 0); };
const text = light("--on-mark");
return ["--c-forward", "--c-backward"].map(light).map(mark =>
  (Math.max(mark, text) + 0.05) / (Math.min(mark, text) + 0.05));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_colours(page: Any, scheme: str) -> None:
    in_colours(page, scheme)
    ground = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (int(ground.split("(")[1].split(",")[0]) > 128) == (scheme == "light")
    assert page.execute_script(CONTRAST) == []
    assert min(page.execute_script(MARKS)) > 4.5
    page.find_element("css selector", "#theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") != ground
    assert page.execute_script(CONTRAST) == []


def test_a_narrow_window_and_paper_hold_it(page: Any) -> None:
    for width in (320, 400, 1280, 2560):
        with in_width(page, width):
            assert overflowing(page) == [], width
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter(e => e.checkVisibility()).length"
        )
        assert page.execute_script(shown, "nav, button#theme, fieldset") == 0
        assert page.execute_script(shown, "section") == len(SECTIONS)
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_without_scripts_the_summary_is_there_and_the_page_is_small(address: str) -> None:
    html = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    assert len(html.encode()) < 2_000_000
    assert "<noscript><pre>training on POD16" in html
