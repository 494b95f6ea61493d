"""Changes at random: of bytes, of tokens of a text, of values of JSON."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Sequence
from typing import Any

NUMBERS = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63, 10**23, -1)
VALUES = (*NUMBERS, 0.5, 1e308, float("inf"), float("nan"), "", "x", "\0", "\ud800", "__proto__", None, True, [], {}, [[]], {"a": 1})
_TOKEN = re.compile(rb"[A-Za-z_]+|\d+|\s+|.", re.DOTALL)
_LONGEST = 1 << 16


def changed(draw: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """The data with a few changes; `words` are pieces that mean something to what reads it, `others` are other inputs."""
    for _ in range(1 << draw.randrange(4)):
        way = draw.randrange(10)
        if way == 0 and (made := _json(draw, data)) is not None:
            data = made
        elif way <= 2 and words:
            data = _tokens(draw, data, others, words)
        else:
            data = _bytes(draw, data, others, words)
    return data[:_LONGEST]


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
