"""Drives Debian's Firefox over WebDriver BiDi, which Playwright cannot: pages are opened, clicked, drawn on, typed into
and asked."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import connect

_LISTENING = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
_START = 60  # seconds until it listens
_ANSWER = 60  # seconds for each command
# No updates, reports or first-run pages: a test talks to its own server only.
_PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.prefetch-next": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
}
_SPECIAL = {
    "Enter": "\ue007",
    "Tab": "\ue004",
    "Escape": "\ue00c",
    "Backspace": "\ue003",
    "Space": " ",
    "Home": "\ue011",
    "End": "\ue010",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
}


class FirefoxError(Exception):
    """Firefox could not be started, or refused a command, or a script of the page failed."""


class Refused(FirefoxError):
    """Firefox refused a command, or a page that was left could not answer it."""


class Firefox:
    """A headless Firefox with a profile of its own. `with Firefox() as firefox: page = firefox.open(url)`."""

    def __init__(self, **preferences: bool | int | str) -> None:
        path = shutil.which("firefox-esr") or shutil.which("firefox")
        if path is None:
            raise FirefoxError("no firefox-esr: ./build.sh test installs it with apt")
        self._open = contextlib.ExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        lines = [
            f"user_pref({json.dumps(name)}, {json.dumps(value)});"
            for name, value in (_PREFERENCES | preferences).items()
        ]
        Path(self._folder.name, "user.js").write_text("\n".join(lines))
        self._log = Path(self._folder.name, "log")
        command = [
            path,
            "--headless",
            "--no-remote",
            "--profile",
            self._folder.name,
            "--remote-debugging-port",
            "0",
            "about:blank",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._count = 0
        try:
            connection = connect(f"{self._address()}/session", max_size=None, open_timeout=_START, compression=None)
            self._socket = self._open.enter_context(connection)
            self.send("session.new", {"capabilities": {}})
        except BaseException:
            self._end()
            raise

    def _address(self) -> str:
        until = time.monotonic() + _START
        while time.monotonic() < until and self._process.poll() is None:
            if found := _LISTENING.search(self._log.read_bytes()):
                return found[1].decode()
            time.sleep(0.05)
        raise FirefoxError(f"Firefox did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def send(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """A command of WebDriver BiDi and its result; events that come in between are of no interest."""
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=_ANSWER))
            if answer.get("id") == self._count:
                break
        if answer["type"] == "error":
            raise Refused(f"{method}: {answer['error']}: {answer['message']}")
        return dict(answer["result"])

    def open(self, url: str, width: int = 1280, height: int = 900) -> Page:
        """A new tab at `url`, when it has loaded."""
        context = self.send("browsingContext.create", {"type": "tab"})["context"]
        page = Page(self, context)
        self.send("browsingContext.setViewport", {"context": context, "viewport": {"width": width, "height": height}})
        page.goto(url)
        return page

    def _end(self) -> None:
        self._open.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._folder.cleanup()

    def __enter__(self) -> Firefox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


class Page:
    """A tab."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self.firefox = firefox
        self.context = context

    def goto(self, url: str) -> None:
        """Loads `url` and everything it names."""
        self.firefox.send("browsingContext.navigate", {"context": self.context, "url": url, "wait": "complete"})

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise, as JSON carries it."""
        # Through JSON, since BiDi has a notation of its own for values.
        result = self.firefox.send(
            "script.evaluate",
            {
                "expression": f"(async () => JSON.stringify([await ({expression})]))()",
                "target": {"context": self.context},
                "awaitPromise": True,
                "userActivation": True,
            },
        )
        if result["type"] == "exception":
            raise FirefoxError(f"{expression}: {result['exceptionDetails']['text']}")
        return json.loads(result["result"]["value"])[0]

    def wait(self, expression: str, timeout: float = 30) -> Any:
        """The value of the expression once it is true."""
        until = time.monotonic() + timeout
        reason = ""
        while True:
            # A page that loads itself again has no body for a moment, and leaves without an answer.
            try:
                if value := self.evaluate(f"document.body && ({expression})"):
                    return value
            except Refused as error:
                reason = f" ({error})"
            if time.monotonic() > until:
                raise FirefoxError(f"not true after {timeout} s: {expression}{reason}")
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        """Returns the text that the element shows."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of the element, scrolled into view."""
        script = f"""(element => {{
          element.scrollIntoView({{block: 'nearest', behavior: 'instant'}});
          const {{left, top, width, height}} = element.getBoundingClientRect();
          return [left, top, width, height];
        }})(document.querySelector({json.dumps(selector)}))"""
        left, top, width, height = self.evaluate(script)
        return left, top, width, height

    def click(self, selector: str) -> None:
        """A click in the middle of the element."""
        left, top, width, height = self.box(selector)
        self.drag([(left + width / 2, top + height / 2)])

    def drag(self, points: Sequence[tuple[float, float]]) -> None:
        """The mouse goes down at the first point, along the others, and up at the last."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y)} for x, y in points]
        actions = [moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], {"type": "pointerUp", "button": 0}]
        self._act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions})

    def press(self, *keys: str) -> None:
        """Keys one after another: characters, or names such as Enter."""
        values = [_SPECIAL.get(key, key) for key in keys]
        actions = [{"type": kind, "value": value} for value in values for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": actions})

    def type(self, text: str) -> None:
        """Text, character by character, into what has the focus."""
        self.press(*text)

    def _act(self, source: dict[str, Any]) -> None:
        self.firefox.send("input.performActions", {"context": self.context, "actions": [source]})

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        picture = self.firefox.send(
            "browsingContext.captureScreenshot", {"context": self.context, "origin": "document"}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))
