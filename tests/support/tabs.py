"""Tabs of browsers that Playwright does not drive: pages are opened, clicked, drawn on, typed into and asked."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


class BrowserError(Exception):
    """A browser could not be started, or refused a command, or a script of a page failed."""


class Refused(BrowserError):
    """A browser refused a command, or a page that was left could not answer it."""


class Tab(ABC):
    """A tab."""

    @abstractmethod
    def goto(self, url: str) -> None:
        """Loads `url` and everything it names."""

    @abstractmethod
    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise, as JSON carries it."""

    @abstractmethod
    def act(self, source: dict[str, Any]) -> None:
        """Does what a source of input, as WebDriver describes it, has to do."""

    @abstractmethod
    def screenshot(self, path: Path) -> None:
        """A picture of the page, as much of it as the browser gives."""

    @abstractmethod
    def close(self) -> None:
        """Closes it."""

    def call(self, function: str, *arguments: Any) -> Any:
        """The value of a JavaScript function for arguments that JSON carries, awaited if it is a promise."""
        return self.evaluate(f"({function})({', '.join(map(json.dumps, arguments))})")

    def wait(self, expression: str, timeout: float = 60) -> Any:
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
                raise BrowserError(f"not true after {timeout} s: {expression}{reason}")
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
        self.act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions})

    def press(self, *keys: str) -> None:
        """Keys one after another: characters, or names such as Enter."""
        values = [_SPECIAL.get(key, key) for key in keys]
        actions = [{"type": kind, "value": value} for value in values for kind in ("keyDown", "keyUp")]
        self.act({"type": "key", "id": "keyboard", "actions": actions})

    def type(self, text: str) -> None:
        """Text, character by character, into what has the focus."""
        self.press(*text)
