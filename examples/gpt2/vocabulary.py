"""Text as GPT-2's tokens, and back: byte-pair encoding with the published vocab.json and merges.txt, or a token for
each byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

_WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
"""The parts of a text within which pairs are merged: words, numbers, other characters, spaces."""


class Bytes:
    """A token for each byte."""

    def encode(self, text: str) -> list[int]:
        return [*text.encode()]

    def decode(self, tokens: list[int]) -> bytes:
        return bytes(tokens)


class Pairs:
    """The published vocabulary, in a folder with vocab.json and merges.txt."""

    @staticmethod
    def letters() -> dict[int, str]:
        """The printable character that stands for each byte in the published files."""
        plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
        others = [byte for byte in range(256) if byte not in plain]
        return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}

    def __init__(self, folder: Path):
        self._tokens: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        self._ranks = {(a, b): rank for rank, (a, b) in enumerate(pairs)}
        self._letters = self.letters()
        self._bytes = {letter: byte for byte, letter in self._letters.items()}
        self._words = {token: word for word, token in self._tokens.items()}

    def encode(self, text: str) -> list[int]:
        return [self._tokens[part] for word in _WORDS.findall(text) for part in self._merged(word)]

    def _merged(self, word: str) -> list[str]:
        parts = [self._letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in zip(parts, parts[1:])]
            best = min(ranks)
            if best == len(self._ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def decode(self, tokens: list[int]) -> bytes:
        return bytes(self._bytes[letter] for token in tokens for letter in self._words[token])
