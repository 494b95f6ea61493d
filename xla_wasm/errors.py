"""The errors of xla_wasm: one family, so that a caller needs one `except`.

Every message says what is wrong, where (instruction, `op_name`, source line, argument name) and what to try.
"""


class XlaWasmError(Exception):
    """The root of every error that xla_wasm raises on purpose."""


class ParseError(XlaWasmError):
    """Bytes or text that are not a well-formed HLO module."""


class VerifyError(XlaWasmError):
    """A well-formed module that breaks a rule of HLO, such as a declared shape that is not the inferred one."""


class UnsupportedError(XlaWasmError):
    """A valid module that needs something not done yet; `docs/gaps.md` lists what."""


class NoRoomError(UnsupportedError):
    """A program that needs more memory than there is."""

    bytes = 0
    """The bytes that it needs."""


class ArgumentError(XlaWasmError):
    """Arguments of a call that do not fit: their count, shape, dtype or name."""


class ArtifactError(XlaWasmError):
    """A compiled artifact that is damaged, or whose manifest does not tell the truth."""


class LimitError(XlaWasmError):
    """A limit was reached: memory, fuel or time."""


class RunError(XlaWasmError):
    """A trap while a compiled module ran."""


class NonFiniteError(RunError, FloatingPointError):
    """A result has a NaN or an infinity, and whoever ran it asked for an error then."""


class ExchangeError(XlaWasmError):
    """Replicas that could not exchange data: one is missing, or their programs differ."""


COMPILE_ANEW = "; it is damaged, or made by something else: compile it anew"
"""The end of a message about an artifact that is not what the compiler writes."""


class OptionWarning(UserWarning):
    """An option of the compiler that has no effect on this module. Compiling goes on."""


_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
_UNSEEN = (*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_VISIBLE = _PICTURES | dict.fromkeys(_UNSEEN, "\ufffd")


def visible(text: str) -> str:
    """The text for a terminal or a log: names come from anywhere, and must not move the cursor, turn lines around or
    say what was not said.

    A character of control becomes the picture of it; what has none, and half a surrogate pair, the sign of what cannot
    be shown.
    """
    return text.translate(_VISIBLE)


def counted(count: int, what: str) -> str:
    """A number of things for a message, as in "1 input", "3 inputs" and "2 entries"."""
    if count == 1:
        return f"1 {what}"
    if what.endswith("y") and what[-2] not in "aeiou":
        return f"{count:,} {what[:-1]}ies"
    return f"{count:,} {what}{'es' if what.endswith(('s', 'x', 'ch', 'sh')) else 's'}"
