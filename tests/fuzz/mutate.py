"""Changes at random: of bytes, of tokens of a text, of values of JSON."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from xla_wasm.errors import ArtifactError
from xla_wasm.wasm.encoding import sections, sized

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53,
    2**63,
    10**23,
    -1,
)
VALUES = (
    *NUMBERS,
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x",
    "\0",
    "\ud800",
    "__proto__",
    None,
    True,
    [],
    {},
    [[]],
    {"a": 1},
)
_TOKEN = re.compile(rb"[A-Za-z_]+|\d+|\s+|.", re.DOTALL)
_LONGEST = 1 << 16
_HEAD = b"\0asm\1\0\0\0"


Change = Callable[[random.Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]
"""Makes another input of one."""


def changed(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The data with a few changes; `words` are pieces that mean something to what reads it, `others` are other
    inputs."""
    for _ in range(1 << draw.randrange(4)):
        way = draw.randrange(10)
        if way == 0 and (made := _json(draw, data)) is not None:
            data = made
        elif way <= 2 and words:
            data = _tokens(draw, data, others, words)
        else:
            data = _bytes(draw, data, others, words)
    return data[:_LONGEST]


def changed_json(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The same of a file of JSON, which mostly stays one."""
    if not draw.randrange(5):
        return changed(draw, data, others, words)
    for _ in range(1 << draw.randrange(3)):
        data = _json(draw, data) or data
    return data[:_LONGEST]


def changed_module(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The same of a WebAssembly module, whose sections mostly stay as long as they say."""
    if not draw.randrange(5):
        return changed(draw, data, others, words)
    parts = _sections(data)
    for _ in range(1 << draw.randrange(3)):
        at = draw.randrange(len(parts))
        number, content = parts[at]
        way = draw.randrange(8)
        if way == 0 and len(parts) > 1:
            del parts[at]
        elif way == 1:
            parts.insert(at, draw.choice(_sections(draw.choice(others))))
        elif way == 2:
            parts[at] = draw.choice((number, draw.randrange(15))), _bytes(draw, content, others, words)
        elif way <= 4 and (made := _json(draw, content)) is not None:
            parts[at] = number, made
        else:
            parts[at] = number, _flipped(draw, content)
    return (_HEAD + b"".join(bytes([number]) + sized(content) for number, content in parts))[:_LONGEST]


def changed_request(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The same of a request, whose length mostly stays what it says."""
    head, blank, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: \d+", head)
    if not length or not draw.randrange(4):
        return changed(draw, data, others, words)
    if draw.randrange(4):
        body = changed(draw, body, [other.partition(b"\r\n\r\n")[2] for other in others], words)
    else:
        head = changed(draw, head, [other.partition(b"\r\n\r\n")[0] for other in others], words)
    return (head.replace(length[0], b"Content-Length: %d" % len(body), 1) + blank + body)[:_LONGEST]


def _sections(data: bytes) -> list[tuple[int, bytes]]:
    """The sections of a module as far as they can be told apart."""
    found: list[tuple[int, bytes]] = []
    with suppress(ArtifactError):
        found.extend((number, reader.data[reader.pos : reader.end]) for number, reader in sections(data))
    return found or [(0, data)]


def _flipped(draw: random.Random, data: bytes) -> bytes:
    """With another byte somewhere."""
    at = draw.randrange(len(data) or 1)
    return data[:at] + bytes([draw.choice((draw.randrange(256), 0, 1, 4, 127))]) + data[at + 1 :]


def _bytes(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    at = draw.randrange(len(data) + 1)
    length = min(1 << draw.randrange(10), len(data) - at)
    way = draw.randrange(9)
    if way == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if way == 1:
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    if way == 2:
        return data[:at] + data[at + length :]
    if way == 3:
        return data[:at] + data[at : at + length] * draw.choice((2, 2, 3, 50)) + data[at + length :]
    if way == 4:
        return data[:at]
    if way == 5:
        size, order = draw.choice((1, 2, 4, 8)), draw.choice("<>")
        number = draw.choice(NUMBERS) & (1 << 8 * size) - 1
        return data[:at] + struct.pack(order + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], number) + data[at + size :]
    if way == 6:
        other = draw.choice(others)
        start = draw.randrange(len(other) + 1)
        return data[:at] + other[start : start + length] + data[at + draw.choice((0, length)) :]
    if way == 7 and words:
        return data[:at] + draw.choice(words) + data[at + draw.choice((0, 1, length)) :]
    return data[:at] + draw.randbytes(draw.randrange(1, 9)) + data[at:]


def _tokens(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    parts = _TOKEN.findall(data)
    if not parts:
        return draw.choice(words)
    at = draw.randrange(len(parts))
    way = draw.randrange(6)
    if way == 0:
        del parts[at : at + draw.choice((1, 2, 5))]
    elif way == 1:
        parts[at] = draw.choice(words)
    elif way == 2:
        parts[at:at] = [draw.choice(words)]
    elif way == 3:
        parts[at] = str(draw.choice(NUMBERS)).encode()
    elif way == 4:
        other = _TOKEN.findall(draw.choice(others)) or [b""]
        start = draw.randrange(len(other))
        parts[at : at + draw.choice((0, 1, 4))] = other[start : start + draw.choice((1, 3, 8))]
    else:
        other_at = draw.randrange(len(parts))
        parts[at], parts[other_at] = parts[other_at], parts[at]
    return b"".join(parts)


def _json(draw: random.Random, data: bytes) -> bytes | None:
    """With another value somewhere, if there is JSON in it."""
    start = data.find(b"{")
    if start < 0:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(data[start:].decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    found = _places(value)
    if not found:
        return None
    place, key = draw.choice(found)
    way = draw.randrange(4)
    if way == 0:
        del place[key]
    elif way == 1:
        other, other_key = draw.choice(found)
        place[key] = other[other_key] if other is not place else draw.choice(VALUES)
    else:
        place[key] = draw.choice(VALUES)
    try:
        made = json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return None
    rest = data[start:].decode("utf-8", "surrogatepass")[end:].encode("utf-8", "surrogatepass")
    return data[:start] + made + rest


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    work = [value]
    while work and len(found) < 4000:
        item = work.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            found.append((item, key))
            work.append(item[key])
    return found
