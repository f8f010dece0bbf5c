"""A page operated in headless Chromium, for tests of what runs in one."""

import shutil
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[1] / "_static"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium; on Debian `apt-get install chromium` brings it"
)

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom")


def dom_after(shown, script, folder, action=""):
    """Return the page's DOM after an action.

    Args:
        shown: the HTML of a figure, as a notebook displays it.
        script: the file of `_static/` that moves it.
        folder: to work in.
        action: JavaScript, in which `root` is the figure.

    """
    page = folder / "page.html"
    then = f'addEventListener("load", () => {{ const root = document.querySelector(".movable"); {action} }});'
    page.write_text(
        f"<!doctype html><meta charset=utf-8><script>{(STATIC / script).read_text()}</script>"
        f'<body style="margin: 0">{shown.data}<script>{then}</script>'
    )
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
