"""Drives Debian's Firefox over WebDriver BiDi, which Playwright cannot."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import connect

from tests.support import tabs
from tests.support.tabs import BrowserError, Refused

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


class Firefox:
    """A headless Firefox with a profile of its own. `with Firefox() as firefox: tab = firefox.open(url)`."""

    def __init__(self, **preferences: bool | int | str) -> None:
        path = shutil.which("firefox-esr") or shutil.which("firefox")
        if path is None:
            raise BrowserError("no firefox-esr: ./build.sh test installs it with apt")
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
        raise BrowserError(f"Firefox did not start: {self._log.read_text(errors='replace')[-2000:]}")

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

    def open(self, url: str, width: int = 1280, height: int = 900) -> Tab:
        """A new tab at `url`, when it has loaded."""
        context = self.send("browsingContext.create", {"type": "tab"})["context"]
        tab = Tab(self, context)
        self.send("browsingContext.setViewport", {"context": context, "viewport": {"width": width, "height": height}})
        tab.goto(url)
        return tab

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


class Tab(tabs.Tab):
    """A tab of Firefox."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self.firefox = firefox
        self.context = context

    def goto(self, url: str) -> None:
        self.firefox.send("browsingContext.navigate", {"context": self.context, "url": url, "wait": "complete"})

    def evaluate(self, expression: str) -> Any:
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
            raise BrowserError(f"{expression}: {result['exceptionDetails']['text']}")
        return json.loads(result["result"]["value"])[0]

    def act(self, source: dict[str, Any]) -> None:
        self.firefox.send("input.performActions", {"context": self.context, "actions": [source]})

    def screenshot(self, path: Path) -> None:
        picture = self.firefox.send(
            "browsingContext.captureScreenshot", {"context": self.context, "origin": "document"}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self.firefox.send("browsingContext.close", {"context": self.context})
