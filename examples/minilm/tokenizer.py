"""The tokeniser of BERT models without upper case: text to the numbers of word pieces. web/demo/search/tokenizer.js
mirrors it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

LONGEST_WORD = 100
SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
_IDEOGRAPHS = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
]
_IDEOGRAPHS += [(0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def is_ideograph(char: str) -> bool:
    """Chinese characters, each of which is a word of its own."""
    return any(low <= ord(char) <= high for low, high in _IDEOGRAPHS)


def is_punctuation(char: str) -> bool:
    """Punctuation, and the signs of ASCII that Unicode counts as symbols."""
    return char in "$+<=>^`|~" or unicodedata.category(char).startswith("P")


def is_dropped(char: str) -> bool:
    """Control characters and others that nobody sees, but not white space."""
    return char not in "\t\n\r" and (char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co"))


def words(text: str) -> list[str]:
    """Lower-case words without accents; punctuation marks and ideographs are words of one character."""
    text = "".join(f" {c} " if is_ideograph(c) else c for c in text if not is_dropped(c))
    text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    # One character at a time: a sigma at the end of a word is one like any other.
    text = "".join(c.lower() for c in text)
    return "".join(f" {c} " if is_punctuation(c) else c for c in text).split()


class Tokenizer:
    """Splits words into the longest pieces that the vocabulary has."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.numbers = {piece: number for number, piece in enumerate(vocabulary)}

    def encode(self, text: str, limit: int = 128) -> list[int]:
        """The numbers of at most `limit` pieces, from [CLS] to [SEP]."""
        numbers: list[int] = []
        for part in SPECIAL.split(text):
            if SPECIAL.fullmatch(part):
                numbers.append(self.numbers[part])
            else:
                numbers += (number for word in words(part) for number in self.pieces(word))
        return [self.numbers["[CLS]"], *numbers[: limit - 2], self.numbers["[SEP]"]]

    def pieces(self, word: str) -> list[int]:
        """The numbers of a word's pieces; of [UNK] if it cannot be put together."""
        unknown = [self.numbers["[UNK]"]]
        if len(word) > LONGEST_WORD:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.numbers), None)
            if end is None:
                return unknown
            found.append(self.numbers[prefix + word[start:end]])
            start = end
        return found
