"""The graph of a program by layer: what flows in the JSON, and the graph in a browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.report.as_json import report_as_json
from paddle_ipu.cost_model.report.contents import Report, make_report
from paddle_ipu.cost_model.report.directory import page_of
from paddle_ipu.dialect.node_origin import NodeOrigin
from tests.unit.cost_model.programs import chain
from tests.unit.pages.browser import focus, in_colours, keys, needs_browser, text
from tests.unit.pages.layer_graph import BOX_CONTRASTS, boxes, chosen, press

ROWS, WIDTH, BLOCKS = 8, 64, 4
RIGHT, LEFT, DOWN, UP, HOME, END, ENTER = (
    "\ue014", "\ue012", "\ue015", "\ue013", "\ue011", "\ue010", "\ue007",
)  # fmt: skip


def layered(blocks: int = BLOCKS) -> Report:
    """Blocks of ``net.<number>``: a product in its layer ``linear``, a tanh of its own."""
    program = chain(blocks, rows=ROWS, width=WIDTH, stages=2)
    operators, number = [], 0
    for operator in program.operators:
        layer = {"MatMul": f"net.{number}.linear", "Tanh": f"net.{number}"}.get(
            operator.op_type, ""
        )
        number += operator.op_type == "Tanh"
        operators.append(replace(operator, origin=NodeOrigin("", "a.py:1", layer)))
    return make_report(replace(program, operators=tuple(operators)), machine_named("pod4"))


def test_flows_are_tensors_between_operators() -> None:
    found = report_as_json(layered())
    names = found["nodes"]["columns"]
    layers = [dict(zip(names, row, strict=True)) for row in found["nodes"]["rows"]]
    flows = [
        dict(zip(found["flows"]["columns"], row, strict=True)) for row in found["flows"]["rows"]
    ]
    between = [(layers[flow["source"]]["layer"], layers[flow["target"]]["layer"]) for flow in flows]
    assert between == [
        ("net.0.linear", "net.0"), ("net.0", "net.1.linear"), ("net.1.linear", "net.1"),
        ("net.1", "net.2.linear"), ("net.2.linear", "net.2"), ("net.2", "net.3.linear"),
        ("net.3.linear", "net.3"), ("net.3", ""),
    ]  # fmt: skip
    assert {flow["bytes"] for flow in flows} == {ROWS * WIDTH * 2}


def test_memory_of_whole_layers_is_that_of_folded_ones() -> None:
    for ipu in report_as_json(layered())["memory"]["ipus"]:
        assert sum(ipu["whole_layers"].values()) == sum(ipu["layers"].values())
        for layer in ("net.*.linear", "net.*"):
            whole = (
                size for name, size in ipu["whole_layers"].items()
                if name.count(".") == layer.count(".")
            )  # fmt: skip
            assert sum(whole) == ipu["layers"].get(layer, 0)


def test_a_program_that_names_no_layer_has_no_graph() -> None:
    html = page_of(make_report(chain(2), machine_named("pod4")))
    assert 'id="layers"' not in html and 'id="operators"' in html


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(layered()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(driver: Any, address: str) -> Any:
    driver.get(address)
    return driver


@needs_browser
def test_layers_unfold_and_fold_with_the_keyboard(page: Any) -> None:
    assert boxes(page) == ["net", "L1"]
    focus(page, "#layers [role=treeitem][tabindex='0']")
    assert chosen(page).startswith(f"net: {2 * BLOCKS} operators, IPU 0–1, ")
    keys(page, RIGHT)
    blocks = [f"  {n}" for n in range(BLOCKS)]
    assert boxes(page) == ["net", *blocks, "L1"]
    keys(page, RIGHT, DOWN)
    assert chosen(page).startswith("net.1: 2 operators, IPU 0, ")
    keys(page, ENTER)
    assert boxes(page) == ["net", *blocks[:2], "    linear", "    Tanh", *blocks[2:], "L1"]
    keys(page, DOWN, DOWN)
    assert chosen(page).startswith("net.1, Tanh: 1 operator, IPU 0, ")
    keys(page, LEFT)
    assert chosen(page).startswith("net.1: ")
    keys(page, LEFT, LEFT, LEFT)
    assert boxes(page) == ["net", "L1"] and chosen(page).startswith("net: ")
    keys(page, END)
    assert chosen(page).startswith("in no layer, L1: 1 operator, IPU 1, ")
    keys(page, HOME, UP)
    assert chosen(page).startswith("net: ")


@needs_browser
def test_shares_of_the_boxes_are_those_of_the_operators(page: Any) -> None:
    press(page, "unfold all")
    found = page.execute_script(
        "const graph = [...document.querySelectorAll('#layers [role=treeitem]')];"
        "return graph.filter(x => !x.ariaExpanded).map(x => x.ariaDescription)"
    )
    assert len(found) == 2 * BLOCKS + 1, "each linear, each tanh, the loss"
    rows = report_as_json(layered())["nodes"]
    at = [rows["columns"].index(name) for name in ("layer", "forward", "backward", "recompute")]
    cycles = [(row[at[0]], sum(row[column] for column in at[1:])) for row in rows["rows"]]
    whole = sum(part for _, part in cycles)
    linear = next(part for layer, part in cycles if layer == "net.2.linear") / whole
    (described,) = (text for text in found if text.startswith("net.2.linear: "))
    assert f"{linear * 100:.{0 if linear >= 0.1 else 1}f} % of the cycles" in described


@needs_browser
def test_lines_go_down_and_say_what_they_carry(page: Any) -> None:
    press(page, "unfold all")
    lines = page.execute_script(
        "return [...document.querySelectorAll('#layers .flow')].map(x => [x.classList[1], "
        "x.textContent])"
    )
    carried = "1.02 kB of a micro-batch"
    assert len(lines) == (BLOCKS - 1) + BLOCKS + 1, "between blocks, in them, to the loss"
    assert {kind for kind, _ in lines} == {"next"}
    assert [f"0 to 1: {carried}", f"linear to Tanh: {carried}", f"net to L1: {carried}"] == [
        next(said for _, said in lines if said.startswith(start))
        for start in ("0 to 1", "linear to", "net to")
    ]


@needs_browser
def test_a_layers_operators_are_shown_and_let_go(page: Any) -> None:
    press(page, "unfold all")
    page.execute_script(
        "[...document.querySelectorAll('#layers [role=treeitem]')].find(x => "
        "x.ariaDescription.startsWith('net.3:')).dispatchEvent(new MouseEvent('click'))"
    )
    press(page, "unfold all")
    press(page, "its operators")
    rows = (
        "return [...document.querySelectorAll('#operators tbody tr')]"
        ".map(row => row.cells[1].textContent)"
    )
    assert sorted(page.execute_script(rows)) == ["MatMul", "Tanh"]
    only = "#operators .controls span button"
    assert text(page, only) == "only net.3 ×"
    focus(page, only)
    keys(page, ENTER)
    assert len(page.execute_script(rows)) == 3
    assert page.find_elements("css selector", only) == []


@needs_browser
def test_the_graph_is_zoomed_with_keys_buttons_and_the_wheel(page: Any) -> None:
    width = "return document.querySelector('.graph svg').width.baseVal.value"
    first = page.execute_script(width)
    focus(page, "#layers [role=treeitem][tabindex='0']")
    keys(page, "+")
    assert page.execute_script(width) == pytest.approx(1.25 * first)
    assert chosen(page).startswith("net: "), "the focus stays"
    keys(page, "-")
    press(page, "smaller")
    assert page.execute_script(width) == pytest.approx(0.8 * first)
    press(page, "larger")
    for ctrl, factor in (("false", 1.0), ("true", 1.1)):
        page.execute_script(
            "document.querySelector('.graph').dispatchEvent("
            f"new WheelEvent('wheel', {{deltaY: -1, ctrlKey: {ctrl}}}))"
        )
        assert page.execute_script(width) == pytest.approx(factor * first)


@needs_browser
def test_the_colour_is_that_of_cycles_or_of_memory(page: Any) -> None:
    fills = (
        "return [...document.querySelectorAll('#layers .layer')].map(x => x.getAttribute('fill'))"
    )
    assert "var(--c-forward) 45.0%" in page.execute_script(fills)[0]
    focus(page, "#layers fieldset input:checked")
    keys(page, RIGHT)
    assert "var(--c-stash) 45.0%" in page.execute_script(fills)[0]


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_can_be_read_on_every_colour(page: Any, scheme: str) -> None:
    in_colours(page, scheme)
    press(page, "unfold all")
    for _ in range(2):
        found = page.execute_script(BOX_CONTRASTS)
        assert len(found) > 4 * BLOCKS and min(found) >= 4.5
        focus(page, "#layers fieldset input:checked")
        keys(page, RIGHT)


@needs_browser
def test_many_layers_are_drawn_only_when_unfolded(driver: Any, tmp_path: Any) -> None:
    many = tmp_path / "many.html"
    many.write_text(page_of(layered(400)), encoding="utf-8")
    driver.get(many.as_uri())
    assert len(boxes(driver)) == 2
    press(driver, "unfold all")
    assert len(boxes(driver)) == 2 + 3 * 400
    press(driver, "whole width")
    assert driver.execute_script(
        "const box = document.querySelector('.graph'); return box.scrollWidth <= box.clientWidth"
    )
