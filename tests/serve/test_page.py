"""The page in a browser: the playground judges, the tabs work by keyboard, the views fill."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from serving import ServerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = os.environ.get("TOCSIN_SCREENSHOTS")
"""A folder for screenshots, to look at them."""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: "Browser", server: ServerProcess) -> Iterator["Page"]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    foreign: list[str] = []
    opened.on("request", lambda request: foreign.append(request.url) if server.address not in request.url else None)
    opened.goto(server.address)
    yield opened
    opened.close()
    assert complaints == []
    assert [url for url in foreign if not url.startswith("data:")] == []


def shot(page: "Page", name: str) -> None:
    """Keep pictures of a view in both widths and both colours."""
    if not SHOTS:
        return
    for width in (1280, 400):
        for colours in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=colours)
            page.screenshot(path=str(Path(SHOTS) / f"{name}-{width}-{colours}.png"), full_page=True)


def test_the_playground_tells_true_false_and_null(page: "Page") -> None:
    page.get_by_role("button", name="Missing").click()
    badges = "[...document.querySelectorAll('#tree .badge')].map(badge => badge.innerText).join()"
    page.wait_for_function(f"() => {badges} === 'NULL,FALSE,NULL'")
    assert page.locator("#verdict").inner_text() == "NO MATCH"
    shot(page, "playground")
    page.locator("#event").fill('{"price": 5}')
    page.wait_for_function("() => document.querySelector('#verdict').textContent === 'MATCHES'")


def test_the_playground_marks_what_was_found_in_texts(page: "Page") -> None:
    page.get_by_role("button", name="Words").click()
    page.wait_for_selector("#marked mark")
    assert page.locator("#marked mark").all_inner_texts() == ["Takeover", "rumours"]
    assert page.locator("#marked p").inner_text() == "Takeover rumours lift the shares"
    page.locator("#event").fill('{"news": "\U0001f514 a PROFIT  warning"}')
    page.wait_for_function("() => document.querySelector('#marked mark')?.textContent.startsWith('PROFIT')")
    assert page.locator("#marked mark").all_text_contents() == ["PROFIT  warning"]
    shot(page, "words")


def test_an_error_is_shown_at_its_place(page: "Page") -> None:
    page.locator("#where").fill("price < 10 AND author = ")
    page.wait_for_selector("#complaint.bad")
    assert page.locator("#complaint").inner_text()
    assert page.locator("#painted .wrong").count() == 1
    assert page.locator("#where").get_attribute("aria-invalid") == "true"
    shot(page, "error")


def test_attribute_names_are_completed_by_keyboard(page: "Page", client: httpx.Client, name: str) -> None:
    client.put(f"/subscriptions/{name}", json={"where": f"{name} < 10"})
    page.reload()
    page.wait_for_function(f"() => attributes.includes('{name}')")
    page.locator("#where").fill("")
    page.locator("#where").press_sequentially(name[:6])
    page.wait_for_selector("#names li")
    page.locator("#where").press("Enter")
    assert page.locator("#where").input_value() == name


def test_tabs_by_keyboard_and_live_feed(page: "Page", client: httpx.Client, name: str) -> None:
    client.put(f"/subscriptions/{name}", json={"where": f"{name} >= 0", "subscriber": name})
    page.locator("#tab-play").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#live").is_visible()
    assert page.locator("#play").is_hidden()
    page.locator("#subscriber").fill(name)
    page.get_by_role("button", name="Follow").click()
    page.locator("#test-event").fill(f'{{"{name}": 7}}')
    page.get_by_role("button", name="Publish").click()
    page.wait_for_selector("#feed li")
    assert name in page.locator("#feed li").first.inner_text()
    page.wait_for_selector("#figures dd")
    figures = page.locator("#figures dt").all_inner_texts()
    assert {"lag, ms", "segments", "merges"} <= set(figures)
    page.wait_for_selector("#segments li")
    page.wait_for_selector("#slowest tbody tr")
    shot(page, "live")


def test_backtest_and_browse(page: "Page", client: httpx.Client, name: str) -> None:
    client.put(f"/subscriptions/{name}", json={"where": f"{name} < 3", "tags": {"group": name}})
    client.post("/publish", json={"events": [{name: value} for value in range(10)]})
    page.locator("#tab-back").click()
    page.locator("#back-where").fill(f"{name} < 5")
    page.locator("#backtest button").click()
    page.wait_for_selector("#back-answer:not([hidden])")
    assert page.locator("#back-changes").is_hidden(), "nothing was compared"
    page.locator("#back-id").fill(name)
    page.locator("#backtest button").click()
    page.wait_for_selector("#back-changes:not([hidden])")
    assert page.locator("#back-figures dd").all_inner_texts()[1:] == ["5", "3", "2", "0"]
    assert page.locator("#back-gained li").all_inner_texts() == [f'{{ "{name}": {value} }}' for value in (3, 4)]
    assert page.locator("#back-lost li").all_inner_texts() == ["none"]
    shot(page, "backtest")
    page.locator("#tab-browse").click()
    page.locator("#tag").fill(f"group:{name}")
    page.locator("#search button").click()
    page.wait_for_function(f"() => document.querySelector('#found tbody tr td')?.textContent === '{name}'")
    assert page.locator("#found tbody tr td").nth(4).inner_text() == "3"
    shot(page, "browse")
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.locator("#found tbody tr").first.inner_text().split("\n")[:2] == [name, f"{name} < 3"]
    ends = "[...document.querySelectorAll('#found tbody tr td')].map(cell => cell.getBoundingClientRect().right)"
    assert max(page.evaluate(ends)) <= 400, "no cell has to be scrolled to"


def test_nothing_is_wider_than_a_small_screen(page: "Page") -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    for tab in ("play", "live", "back", "browse"):
        page.locator(f"#tab-{tab}").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, tab
