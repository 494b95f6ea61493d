"""examples/gpt2: one token after the other gives what the whole text at once gives, in Python as in Node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_wasm
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm import Options
from xla_wasm.jax import lower

EXAMPLE = ROOT / "examples" / "gpt2"
sys.path.insert(0, str(EXAMPLE))
import gpt2  # noqa: E402
import training  # noqa: E402
from vocabulary import Bytes, Pairs  # noqa: E402

SIZE = gpt2.Config(2, 64, 2, 96, 32)
TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, SIZE.vocabulary, 20)]


def weights(seed: int = 1) -> dict[str, Any]:
    """Random ones, of which biases and scales are not what training begins with."""
    rng = np.random.default_rng(seed)
    return {
        name: w + rng.standard_normal(w.shape, np.float32) * np.float32(0.1)
        for name, w in gpt2.random_weights(SIZE, seed).items()
    }


def test_token_by_token_is_the_whole_text() -> None:
    given = weights()
    cache = gpt2.initial(SIZE, SIZE.context)["cache"]

    def decode(cache: Any, token: Any, position: Any, **w: Any) -> Any:
        return gpt2.decode(w, cache, token, position, SIZE)

    module = lower(decode, cache, np.int32(0), np.int32(0), **given)
    exe = xla_wasm.load(
        xla_wasm.compile(module, Options(weights=tuple(given), state={f"cache.{name}": f"1.{name}" for name in cache}))
    )
    for name, array in (*given.items(), *((f"cache.{name}", array) for name, array in cache.items())):
        exe.set(name, array)
    expected = np.asarray(gpt2.logits(given, jnp.asarray(TOKENS), SIZE))
    for position, token in enumerate(TOKENS):
        (actual,) = exe.run(np.int32(token), np.int32(position))
        np.testing.assert_allclose(actual, expected[position], rtol=1e-4, atol=1e-4)


def generated(
    artifact: xla_wasm.Artifact, given: dict[str, Any], prompt: list[int], count: int, temperature: float, seed: int
) -> list[int]:
    exe = xla_wasm.load(artifact)
    for name, array in given.items():
        exe.set(name, array)
    gpt2.begin(exe, SIZE, SIZE.context, seed)
    tokens, drawn = [], -1
    for i in range(count):
        tokens.append(prompt[i] if i < len(prompt) else drawn)
        drawn = int(exe.run(np.int32(tokens[-1]), np.float32(temperature))[0])
    return tokens


def test_the_likeliest_tokens() -> None:
    given = weights()
    artifact = gpt2.compiled(SIZE, SIZE.context, target="simd128")
    tokens = generated(artifact, given, TOKENS[:5], 20, 0, 0)
    found = np.asarray(gpt2.logits(given, jnp.asarray(tokens), SIZE))
    assert tokens[5:] == found.argmax(-1)[4:-1].tolist()


def test_sampling_is_that_of_jax() -> None:
    logits = np.random.default_rng(2).standard_normal(50).astype(np.float32)
    artifact = xla_wasm.compile(
        lower(
            lambda x, key, t: gpt2.sample(x, jax.random.wrap_key_data(key), t, 8),
            logits,
            np.zeros(2, np.uint32),
            np.float32(0),
        )
    )
    exe = xla_wasm.load(artifact)
    best = set(np.argsort(-logits)[:8].tolist())
    drawn = set()
    for seed in range(40):
        key = np.asarray(jax.random.key_data(jax.random.key(seed)))
        (token,) = exe.run(logits, key, np.float32(0.7))
        assert int(token) == int(gpt2.sample(jnp.asarray(logits), jax.random.key(seed), jnp.float32(0.7), 8))
        drawn.add(int(token))
    assert drawn <= best and len(drawn) > 3
    assert int(exe.run(logits, key, np.float32(0))[0]) == logits.argmax()


@pytest.mark.parametrize("weight_format", ["f32", "int8", "int4"])
def test_node_writes_the_same(weight_format: str, tmp_path: Path) -> None:
    gpt2.write(tmp_path / "w.safetensors", weights())
    config, given = gpt2.read(tmp_path / "w.safetensors")
    assert config == gpt2.Config(2, 64, 1, 96, 32)  # the shapes do not tell the number of heads
    artifact = gpt2.compiled(SIZE, SIZE.context, weight_format=weight_format, target="simd128")
    artifact.save(tmp_path / "m.wasm")
    prompt = "ABC"
    expected = generated(artifact, given, [*prompt.encode()], 23, 0.9, 7)
    command = [
        node_for("simd128"),
        EXAMPLE / "generate.mjs",
        tmp_path / "m.wasm",
        prompt,
        "--weights",
        tmp_path / "w.safetensors",
    ]
    command += ["--length", "20", "--temperature", "0.9", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [*done.stdout] == expected and b"tokens a second" in done.stderr


def test_files_of_something_else(tmp_path: Path) -> None:
    given = weights()
    with pytest.raises(ValueError, match="these are not the weights of a GPT-2"):
        gpt2.config_of({"a": (1,)})
    with pytest.raises(ValueError, match=r"the weight h\.1\.ln_1\.bias is missing"):
        gpt2.config_of({name: w.shape for name, w in given.items() if name != "h.1.ln_1.bias"})
    with pytest.raises(
        ValueError,
        match=r"the weight h\.0\.attn\.c_attn\.weight is \[64, 64\], and a GPT-2 of this width has \[64, 192\]",
    ):
        gpt2.config_of({name: w.shape for name, w in given.items()} | {"h.0.attn.c_attn.weight": (64, 64)})
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    done = subprocess.run(
        [sys.executable, EXAMPLE / "generate.py", "--weights", tmp_path / "x.safetensors"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "x.safetensors" in done.stderr and "Traceback" not in done.stderr


def test_what_the_small_model_has_learnt() -> None:
    """Nats for each character of the text's end, on which it was not trained; 4.9 would be no idea at all."""
    _, given = gpt2.read(EXAMPLE / "tiny.safetensors")
    characters = training.text()
    assert training.held_out(given, characters[int(len(characters) * (1 - training.HELD_OUT)) :]) < 1.7


def test_pairs(tmp_path: Path) -> None:
    """A vocabulary like the published one: all bytes, and some merges."""
    letters = "".join(Pairs.letters().values())
    merges = ["h e", "l l", "he ll", "Ġ w", "Ã ©"]
    words = [*letters, *(pair.replace(" ", "") for pair in merges)]
    (tmp_path / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    texts = ["hello world", "  he'll  é 12 ab_c\n\n x", "", "naïve ☃"]
    pairs = Pairs(tmp_path)
    tokens = [pairs.encode(text) for text in texts]
    assert [pairs.decode(t).decode() for t in tokens] == texts
    assert len(tokens[0]) == len(["hell", "o", "Ġw", "o", "r", "l", "d"])
    script = f"""
        const {{ pairs }} = await import({json.dumps((EXAMPLE / "vocabulary.mjs").as_uri())});
        const made = await pairs({json.dumps(str(tmp_path))});
        const tokens = {json.dumps(texts)}.map((text) => made.encode(text));
        console.log(JSON.stringify([tokens, tokens.map((t) => made.decode(t).toString())]));"""
    assert json.loads(output([node_for("simd128"), "--input-type=module", "-e", script])) == [tokens, texts]
    assert Bytes().decode(Bytes().encode("é")) == "é".encode()
