"""Pages in headless Chromium, for tests of what runs in one."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

STATIC = Path(__file__).parents[1] / "_static"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium; on Debian `apt-get install chromium` brings it"
)


@contextmanager
def launched():
    """Give the system's Chromium, which shows scrollbars as on Windows and Linux."""
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], ignore_default_args=["--hide-scrollbars"]
        )


def dom_after(shown, script, folder, action=""):
    """Return the DOM of a page with one figure, after an action.

    Args:
        shown: the HTML of the figure, as a notebook displays it.
        script: the file of `_static/` that moves it.
        folder: to work in.
        action: JavaScript, in which `root` is the figure.

    """
    page = folder / "page.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><script>{(STATIC / script).read_text()}</script>"
        f'<body style="margin: 0">{shown.data}'
    )
    with launched() as chromium:
        tab = chromium.new_page()
        tab.goto(page.as_uri())
        tab.evaluate(f"() => {{ const root = document.querySelector('.movable'); {action} }}")
        return tab.content()
