"""Writes text with a GPT-2, one token after the other, in WebAssembly: `python examples/gpt2/generate.py "ROMEO"`.

By default the model is the small one beside this, which has read two plays. `--save` keeps the module for generate.mjs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import gpt2
import numpy as np
from vocabulary import Bytes, Pairs

import xla_wasm

HERE = Path(__file__).parent
FORMATS = ("f32", "f16", "bf16", "int8", "int4")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", nargs="?", default="ROMEO.\n", help="how the text begins")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="a safetensors file with a GPT-2 of any size")
    parser.add_argument("--random", action="store_true", help="random weights of GPT-2-small, to measure its speed")
    parser.add_argument(
        "--vocabulary", type=Path, metavar="FOLDER", help="where vocab.json and merges.txt are; else a token is a byte"
    )
    parser.add_argument("--length", type=int, default=200, metavar="TOKENS", help="tokens to write; default 200")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="0 takes the likeliest token each time; default 0.8"
    )
    parser.add_argument("--top", type=int, default=40, help="how many of the likeliest tokens to draw from; default 40")
    parser.add_argument("--seed", type=int, default=0, help="of the random draws; default 0")
    parser.add_argument(
        "--weight-format", choices=FORMATS, default="f32", help="what weights are stored as; default f32"
    )
    parser.add_argument("--threads", type=int, default=1, help="how many threads share the work; default 1")
    parser.add_argument("--save", type=Path, metavar="OUT.WASM", help="keep the module, too")
    return parser.parse_args()


def main() -> None:
    given = options()
    vocabulary = Pairs(given.vocabulary) if given.vocabulary else Bytes()
    prompt = vocabulary.encode(given.prompt) or [0]
    if given.random:
        print("random weights: what comes is no text", file=sys.stderr)
        config, weights = gpt2.SMALL, gpt2.random_weights(gpt2.SMALL)
    else:
        try:
            config, weights = gpt2.read(given.weights or HERE / "tiny.safetensors")
        except (OSError, ValueError, xla_wasm.XlaWasmError) as error:
            sys.exit(f"{given.weights}: {error}")
    shows = given.vocabulary is not None or config.vocabulary <= 256
    length = min(config.context, -(-(len(prompt) + given.length) // 64) * 64)
    began = time.perf_counter()
    artifact = gpt2.compiled(config, length, given.top, given.weight_format, given.threads > 1)
    if given.save:
        artifact.save(given.save)
    exe = xla_wasm.load(artifact, threads=given.threads)
    for name, array in weights.items():
        exe.set(name, array)
    gpt2.begin(exe, config, length, given.seed)
    print(f"{len(artifact.wasm) / 1e3:.0f} KB, ready in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    spent, token, temperature = 0.0, -1, np.float32(given.temperature)
    for number in range(min(len(prompt) + given.length, length)):
        own = prompt[number] if number < len(prompt) else token
        if shows:
            sys.stdout.buffer.write(vocabulary.decode([own]))
        else:
            sys.stdout.write(f"{own} ")
        sys.stdout.flush()
        before = time.perf_counter()
        (drawn,) = exe.run(np.int32(own), temperature)
        spent, token = spent + time.perf_counter() - before, int(drawn)
    print(
        f"\n{(number + 1) / spent:.1f} tokens a second, {given.weight_format}, threads: {given.threads}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
