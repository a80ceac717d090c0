"""Pages rendered in headless Chromium, at the width of a phone and of a desk."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

# Inside the page: errors are kept, and once it stands its widths and every request of it go into the DOM.
_WATCH = """<script>
window.found = [];
window.addEventListener("error", event => found.push(String(event.message || event.target.outerHTML)), true);
const complain = console.error; console.error = (...told) => { found.push(told.join(" ")); complain(...told); };
</script>"""
_OUTER = """<!doctype html><body style="margin: 0"><iframe id="page" src="{page}" style="border: 0; width: {width}px;
height: 900px"></iframe><script>
document.getElementById("page").onload = event => {{
  const inside = event.target.contentWindow, root = inside.document.documentElement;
  const asked = inside.performance.getEntriesByType("resource").map(entry => entry.name);
  const told = {{ width: root.scrollWidth, window: root.clientWidth, errors: inside.found, asked: asked }};
  document.body.setAttribute("data-told", JSON.stringify(told));
}};
</script>"""


@dataclass(frozen=True)
class Rendered:
    """How wide a page came out in a window, the errors that it raised and what it asked for."""

    width: int
    window: int
    errors: list[str]
    asked: list[str]


def render(page: Path, width: int, folder: Path) -> Rendered:
    """Render a page in a frame of a width; a window of Chromium's own cannot be as narrow as a phone."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium to render the page")
    watched = page.read_text().replace("<head>", f"<head>{_WATCH}", 1)
    (folder / "watched.html").write_text(watched)
    outer = folder / f"outer-{width}.html"
    outer.write_text(_OUTER.format(page="watched.html", width=width))
    switches = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    home = f"--user-data-dir={folder / 'browser'}"
    size = f"--window-size={max(width, 500)},1000"
    dom = subprocess.run(
        [browser, *switches, home, size, "--virtual-time-budget=2000", outer.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    told = re.search(r'data-told="([^"]*)"', dom)
    assert told is not None, f"the page did not load: {dom[:500]}"
    return Rendered(**json.loads(html.unescape(told[1])))
