"""A browser that looks at pages, and what tests ask it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER and find_spec("selenium")),
    reason="Chromium, its chromedriver and selenium are not all installed",
)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """Chromium, 1280 pixels wide, with its settings in a folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    found.set_window_size(1280, 900)
    try:
        yield found
    finally:
        found.quit()


def keys(page: Any, *pressed: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*pressed).perform()


def text(page: Any, selector: str) -> str:
    return str(
        page.execute_script("return document.querySelector(arguments[0]).textContent", selector)
    )


def focus(page: Any, selector: str) -> None:
    page.execute_script("document.querySelector(arguments[0]).focus()", selector)


@contextmanager
def in_width(page: Any, width: int) -> Iterator[None]:
    """The window in another width."""
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        # Two frames: one for the boxes that are watched, one for what they change.
        page.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20)))"
        )
        yield
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def overflowing(page: Any) -> list[str]:
    """What makes the page scroll sideways, and boxes of tables that scroll: [] of a good page."""
    return list(
        page.execute_script(
            "const root = document.documentElement;"
            "return [root, ...document.querySelectorAll('.scroll:has(table)')]"
            ".filter(box => box.scrollWidth > box.clientWidth).map(box => box.id || box.tagName + "
            "box.textContent.slice(0, 60))"
        )
    )


def tab_stops(page: Any, most: int = 80) -> list[tuple[str, str]]:
    """(tag, role or type) of what Tab reaches, each of which has to show the focus."""
    reached = []
    for _ in range(most):
        keys(page, "\ue004")  # tab
        found = page.execute_script(
            "const e = document.activeElement, s = getComputedStyle(e), n = e.nextElementSibling;"
            "const t = e.type === 'radio' ? getComputedStyle(n) : s;"
            "return [e.tagName, e.getAttribute('role') || e.type || '', t.outlineStyle]"
        )
        if found[0] == "BODY":
            break
        assert found[2] != "none", f"{found} has the focus and does not show it"
        reached.append((found[0].lower(), found[1]))
    return reached


def in_colours(page: Any, scheme: str) -> None:
    """Opens the page anew as the system's light or dark colours have it."""
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    page.refresh()


# Text against what is behind it, by WCAG: 4.5 for text of this size.
CONTRAST = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => { const f = x => (x /= 255) <= 0.03928 ? x / 12.92
  : ((x + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const ground = e => { for (; e; e = e.parentElement) {
  const c = getComputedStyle(e).backgroundColor;
  if (rgb(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
return [...document.querySelectorAll("h1, h2, p, span, td, th, b, dt, dd, code, a, small")]
  .filter(e => e.checkVisibility() && e.textContent.trim()).map(e => {
    const a = light(rgb(getComputedStyle(e).color)), b = light(rgb(ground(e)));
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)]; })
  .filter(([contrast]) => contrast < 4.5);
"""
