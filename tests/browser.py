"""Headless Chromium: pages rendered at the width of a phone and of a desk, and pages that are used."""

import base64
import html
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

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
    browser = chromium()
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


def chromium() -> str:
    """The program; tests that need it are skipped where there is none."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium to render the page")
    return browser


class Page:
    """A page that is used as a person would, through the protocol of Chromium's own developer tools."""

    def __init__(self, to_browser: BinaryIO, from_browser: BinaryIO) -> None:
        self._to, self._from = to_browser, from_browser
        self._number = itertools.count(1)
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command to the page."""
        return self._call(method, self._session, **parameters)

    def open(self, url: str, width: int = 1200, height: int = 900) -> None:
        """Open an address in a window of a size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=url)
        self.wait("document.readyState == 'complete' && location.href != 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str, patience: float = 30) -> None:
        """Wait until an expression is true; while a page is being left there is none to ask."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = self.call("Runtime.evaluate", expression=condition, returnByValue=True)
            if found.get("result", {}).get("value") is True:
                return
            time.sleep(0.05)
        raise AssertionError(f"never came true: {condition}")

    def press(self, key: str) -> None:
        """One key, as typed."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            extra = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)

    def type(self, text: str) -> None:
        """Text, into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self._number)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _read(self) -> bytes:
        read = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            read += byte
        return bytes(read)

    def _note(self, event: Any) -> None:
        told = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"]["text"])
        elif event.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])


@contextmanager
def page(folder: Path) -> Iterator[Page]:
    """A Chromium of its own, with one page."""
    browser = chromium()
    (read_commands, to_browser), (from_browser, write_answers) = os.pipe(), os.pipe()

    def place() -> None:  # Chromium reads commands from 3 and writes answers to 4
        commands, answers = os.dup(read_commands), os.dup(write_answers)
        os.dup2(commands, 3)
        os.dup2(answers, 4)

    process = subprocess.Popen(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'browser'}",
        ],
        close_fds=False,
        preexec_fn=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        with os.fdopen(to_browser, "wb") as to, os.fdopen(from_browser, "rb", buffering=1 << 16) as answers:
            yield Page(to, answers)
    finally:
        process.kill()
        process.wait()
