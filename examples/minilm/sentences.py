"""Writes the vectors of the search page's sentences, so that a visit need not make them: `python
examples/minilm/sentences.py`.

The encoder that the page loads makes them, under wasmtime. `sentences.bin` is a line of JSON, with the sentences and
what tells the weights, and then a vector for each: 384 numbers of bf16. The page takes them if its module has the same
weights.
"""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import model
import numpy as np
from check import arguments, tokenizer

import xla_wasm
from xla_wasm import Artifact
from xla_wasm.site import minilm

FOLDER = Path(__file__).parents[2] / "web" / "demo" / "search"


def weights_of(artifact: Artifact) -> str:
    """Returns an identifier of a module's weights: the beginnings of their hashes in its manifest."""
    return "".join(init["sha256"][:8] for init in artifact.manifest["inits"] if init["kind"] == "sidecar")


def main() -> None:
    """Embeds the sentences and writes the file."""
    artifact = minilm.compiled()
    exe = xla_wasm.load(artifact)
    encoder = tokenizer()
    sentences = [line for line in (FOLDER / "sentences.txt").read_text(encoding="utf-8").split("\n") if line]
    vectors = np.stack([exe.run(*arguments(encoder.encode(sentence)))[0] for sentence in sentences])
    assert vectors.shape == (len(sentences), model.WIDTH)
    head = json.dumps({"weights": weights_of(artifact), "sentences": sentences}, ensure_ascii=False).encode() + b"\n"
    data = head + vectors.astype(ml_dtypes.bfloat16).tobytes()
    (FOLDER / "sentences.bin").write_bytes(data)
    print(f"sentences.bin: {len(sentences)} sentences, {len(data):,} bytes")


if __name__ == "__main__":
    main()
