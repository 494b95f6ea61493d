"""xla_wasm compiles XLA HLO modules to small standalone WebAssembly modules.

    import xla_wasm

    module = xla_wasm.HloModule.from_proto(data)    # serialized HloModuleProto or HloProto
    artifact = xla_wasm.compile(module)             # Artifact: .wasm, .manifest, .weights, .save(path)
    exe = xla_wasm.load(artifact)                   # Executable under wasmtime; in Pyodide, in the engine around it
    outputs = exe.run(*arrays)                      # the flattened result as numpy arrays
    expected = xla_wasm.evaluate(module, *arrays)   # the same from the NumPy reference evaluator

    f = xla_wasm.jax.jit(f)                         # JAX functions, compiled and called as jax.jit has it

Names load on first use: importing the package, reading modules and compiling them need nothing outside the standard
library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ArgumentError,
    ArtifactError,
    ExchangeError,
    LimitError,
    NonFiniteError,
    OptionWarning,
    ParseError,
    RunError,
    UnsupportedError,
    VerifyError,
    XlaWasmError,
)
from .hlo.foreign import hand_in as hand_in_tools
from .hlo.op import hand_in

if TYPE_CHECKING:
    from .artifact import Artifact
    from .compiler import compile
    from .hlo.ir import Module as HloModule
    from .host.executor import Executable, load
    from .ops.custom.expand_registry import custom_call
    from .options import Options
    from .reference import evaluate

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Artifact",
    "ArtifactError",
    "ExchangeError",
    "Executable",
    "HloModule",
    "LimitError",
    "NonFiniteError",
    "OptionWarning",
    "Options",
    "ParseError",
    "RunError",
    "UnsupportedError",
    "VerifyError",
    "XlaWasmError",
    "__version__",
    "compile",
    "custom_call",
    "evaluate",
    "load",
]

# Pyodide has no wasmtime, and an engine of its own around it.
_HOST = "host.pyodide" if sys.platform == "emscripten" else "host.executor"

_LAZY = {
    "Artifact": ("artifact", "Artifact"),
    "Executable": (_HOST, "Executable"),
    "HloModule": ("hlo.ir", "Module"),
    "Options": ("options", "Options"),
    "compile": ("compiler", "compile"),
    "custom_call": ("ops.custom.expand_registry", "custom_call"),
    "evaluate": ("reference", "evaluate"),
    "load": (_HOST, "load"),
}
"""Public name -> the module that defines it, and its name there."""
_PACKAGES = {"jax": ".jax", "mpi": ".host.mpi", "safetensors": ".safetensors"}
"""Public name -> the module that it is."""


# The records of all operations: reading and printing HLO needs them, and `hlo` knows no operation by itself.
hand_in(lambda: import_module(".ops.table", __name__).OPS)
hand_in_tools(
    {
        "from_jax": lambda: import_module(".jax.lowering", __name__).lowered,
        "from_stablehlo": lambda: import_module(".stablehlo.read", __name__).from_stablehlo,
        "from_exported": lambda: import_module(".stablehlo.exported", __name__).from_exported,
        "explain_nonfinite": lambda: import_module(".check.nonfinite", __name__).explain,
        "to_stablehlo": lambda: import_module(".stablehlo.writer", __name__).to_stablehlo,
    }
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(_PACKAGES[name], __name__)
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
