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


class ArgumentError(XlaWasmError):
    """Arguments of a call that do not fit: their count, shape, dtype or name."""


class ArtifactError(XlaWasmError):
    """A compiled artifact that is damaged, or whose manifest does not tell the truth."""


class LimitError(XlaWasmError):
    """A limit was reached: memory, fuel or time."""


class RunError(XlaWasmError):
    """A trap while a compiled module ran."""


class ExchangeError(XlaWasmError):
    """Replicas that could not exchange data: one is missing, or their programs differ."""
