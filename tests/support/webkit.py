"""Drives Debian's WebKitGTK, the engine of Safari in another browser, over WebDriver. Its windows go to a display that
nobody sees."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support import tabs
from tests.support.tabs import BrowserError, Refused

_START = 60  # seconds until it listens
_ANSWER = 120  # seconds for each command
_DISPLAY = ["Xvfb", "-displayfd", "1", "-screen", "0", "1400x1100x24", "-nolisten", "tcp"]
_ENVIRONMENT = {
    "GDK_BACKEND": "x11",
    "LIBGL_ALWAYS_SOFTWARE": "1",
    "WEBKIT_DISABLE_DMABUF_RENDERER": "1",
    "NO_AT_BRIDGE": "1",
    # Isolated pages have shared memory in Safari; this build would have none.
    "JSC_useSharedArrayBuffer": "1",
}


def _browser() -> str:
    for folder in sorted(Path("/usr/lib").glob("*/webkit2gtk-4.*"), reverse=True):
        if (folder / "MiniBrowser").exists():
            return str(folder / "MiniBrowser")
    raise BrowserError("no MiniBrowser of WebKitGTK: ./build.sh test installs webkit2gtk-driver with apt")


class WebKit:
    """A WebKitGTK that keeps nothing. `with WebKit() as webkit: tab = webkit.open(url)`."""

    def __init__(self) -> None:
        for command, package in (("WebKitWebDriver", "webkit2gtk-driver"), ("Xvfb", "xvfb")):
            if shutil.which(command) is None:
                raise BrowserError(f"no {command}: ./build.sh test installs {package} with apt")
        self._open = contextlib.ExitStack()
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise

    def _start(self) -> None:
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="webkit-", ignore_cleanup_errors=True))
        display = self._process(_DISPLAY, {}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        number = display.stdout.readline().decode().strip() if display.stdout else ""
        if not number:
            raise BrowserError("Xvfb did not start")
        log = self._open.enter_context(Path(folder, "log").open("w+b"))
        environment = _ENVIRONMENT | {"DISPLAY": f":{number}", "HOME": folder, "XDG_RUNTIME_DIR": folder}
        # No number of a port that is free would be so when it listens.
        for port in range(20000 + os.getpid() % 5000, 65536, 5000):
            driver = self._process(["WebKitWebDriver", f"--port={port}"], environment, stdout=log, stderr=log)
            self._address = f"http://127.0.0.1:{port}"
            if self._listens(driver):
                break
        else:
            raise BrowserError("WebKitWebDriver finds no port")
        options = {"binary": _browser(), "args": ["--automation"]}
        asked = {"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}}
        self._session = ""
        self._session = f"/session/{self.send('POST', '/session', asked)['sessionId']}"
        self._open.callback(self._leave)
        self._first = self.send("GET", "/window")
        self.send("POST", "/timeouts", {"script": _ANSWER * 1000})

    def _process(self, command: list[str], environment: dict[str, str], **streams: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=os.environ | environment, **streams)

        def end() -> None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

        self._open.callback(end)
        return process

    def _listens(self, driver: subprocess.Popen[bytes]) -> bool:
        until = time.monotonic() + _START
        while driver.poll() is None and time.monotonic() < until:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                with urllib.request.urlopen(f"{self._address}/status", timeout=_ANSWER):
                    return driver.poll() is None
            time.sleep(0.05)
        return False

    def _leave(self) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self.send("DELETE", "")

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """A command of WebDriver and its value."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + self._session + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER + 10) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.loads(error.read())["value"]
            raise Refused(f"{path}: {value['error']}: {value['message']}") from None

    def open(self, url: str, width: int = 1280, height: int = 900) -> Tab:
        """A new window at `url`, when it has loaded."""
        # A session whose window was closed has none until it takes another.
        self.send("POST", "/window", {"handle": self._first})
        handle = self.send("POST", "/window/new", {"type": "window"})["handle"]
        tab = Tab(self, handle)
        tab.goto(url)
        self.send("POST", "/window/rect", {"width": width, "height": height})
        return tab

    def __enter__(self) -> WebKit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


class Tab(tabs.Tab):
    """A tab of WebKitGTK."""

    def __init__(self, webkit: WebKit, handle: str) -> None:
        self.webkit = webkit
        self.handle = handle

    def _send(self, path: str, body: Any) -> Any:
        self.webkit.send("POST", "/window", {"handle": self.handle})
        return self.webkit.send("POST", path, body)

    def goto(self, url: str) -> None:
        self._send("/url", {"url": url})

    def evaluate(self, expression: str) -> Any:
        script = f"""const done = arguments[0];
        (async () => [await ({expression})])().then(
          (value) => done(JSON.stringify(value)),
          (error) => done(JSON.stringify({{ error: `${{error}} ${{error?.stack}}` }})),
        );"""
        said = json.loads(self._send("/execute/async", {"script": script, "args": []}))
        if isinstance(said, dict):
            raise BrowserError(f"{expression}: {said['error']}")
        return said[0]

    def act(self, source: dict[str, Any]) -> None:
        self._send("/actions", {"actions": [source]})

    def screenshot(self, path: Path) -> None:
        self.webkit.send("POST", "/window", {"handle": self.handle})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.webkit.send("GET", "/screenshot")))

    def close(self) -> None:
        self.webkit.send("POST", "/window", {"handle": self.handle})
        self.webkit.send("DELETE", "/window")
