"""Options say what they mean: one name is one name, types take what may be given, and what has no effect is said."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mypy import api

import xla_wasm
from tests.support.paths import ROOT
from xla_wasm import ArgumentError, HloModule, Options, OptionWarning
from xla_wasm.jax import lower


def test_one_name_is_one_name() -> None:
    assert Options(weights="xw").weights == ("xw",)
    assert Options(weights=3).weights == (3,)
    assert Options(weights=["x", 1]).weights == ("x", 1) == Options(weights=("x", 1)).weights
    assert Options(host_calls="target").host_calls == ("target",)
    assert Options(state={"w": "w_next"}).state == (("w", "w_next"),) == Options(state=[("w", "w_next")]).state
    assert Options(weight_format={"w": "int8"}).weight_format == (("w", "int8"),)
    assert Options(weight_format="int8") == Options(weight_format={-1: "int8"})
    module = lower(lambda x, w, xw: x + w + xw, 1.0, 2.0, 3.0)
    kinds = {p["name"]: p["kind"] for p in xla_wasm.compile(module, Options(weights="xw")).manifest["parameters"]}
    assert kinds == {"x": "input", "w": "input", "xw": "weight"}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights": {"w": 1}}, r"weights is a list of names, as in weights=\['params', 'table'\]; got \{'w': 1\}"),
        ({"weights": [1.5]}, "weights is a list of names, .*; 1.5 is no name"),
        ({"weights": [True]}, "True is no name"),
        ({"weights": b"w"}, "weights is a list of names"),
        ({"weights": None}, "weights is a list of names"),
        ({"host_calls": [3]}, "host_calls is a list of names, .*; 3 is no name"),
        ({"state": "wv"}, r"state is a mapping, as in state=\{'w': 'w_next'\}; got 'wv'"),
        ({"state": ["wv"]}, "state is a mapping"),
        ({"state": {"w": None}}, "state is a mapping"),
        ({"state": ("w", "w_next")}, "state is a mapping"),
        ({"state": 3}, "state is a mapping"),
        ({"weight_format": ["ab"]}, "weight_format is a mapping"),
        ({"weight_format": {"w": "int7"}}, "unknown weight_format 'int7'"),
    ],
)
def test_what_is_no_option(options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Options(**options)


X = np.ones((2, 3), np.float32)
X32 = np.ones((2, 32), np.float32)
MODULE = lower(lambda x, w, b: x @ w + b, X, X.T, X[0, :2])
CALLING = HloModule.from_text(
    'HloModule m\nENTRY e { x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="mine" }'
)

WITHOUT: dict[str, tuple[HloModule, dict[str, Any], str]] = {
    "a function that nobody calls": (
        CALLING,
        {"host_calls": ["mine", "yours"]},
        "'m': host_calls names 'yours', and the module calls mine",
    ),
    "a function in a module of none": (
        MODULE,
        {"host_calls": "mine"},
        "host_calls names 'mine', and the module calls nobody",
    ),
    "replicas": (MODULE, {"num_replicas": 4}, "num_replicas=4: the program is the same on every device"),
    "a file of weights": (
        MODULE,
        {"sidecar": True},
        "sidecar=True: no constant has 1,024 bytes or more, so there is no file of weights",
    ),
    "threads": (MODULE, {"threads": True}, "threads=True: no operation is large enough to be shared"),
    "the format of a vector": (
        MODULE,
        {"weight_format": {"b": "int8"}},
        "weight_format: b stays as it is, as all vectors do",
    ),
    "four bits of a weight whose length is no multiple of a block": (
        MODULE,
        {"weight_format": {"[wb]": "int4"}},
        "weight_format: w is stored as int8; int4 is for weights that are only operands of products, outside of loops, "
        "summed along one dimension whose length is a multiple of 32",
    ),
    "four bits of a weight in a loop": (
        lower(lambda x, w: jax.lax.fori_loop(0, 3, lambda i, y: y @ w, x), X32, np.ones((32, 32), np.float32)),
        {"weight_format": {"w": "int4"}},
        "weight_format: w is stored as int8; int4 is for",
    ),
}


@pytest.mark.parametrize("case", WITHOUT)
def test_options_without_effect_are_said(case: str) -> None:
    module, options, message = WITHOUT[case]
    with pytest.warns(OptionWarning, match=re.escape(message)) as caught:
        xla_wasm.compile(module, Options(**options))
    assert [w.filename for w in caught] == [__file__], "it is about this line"


WITH: dict[str, Callable[[], Any]] = {
    "none": lambda: xla_wasm.compile(MODULE),
    "those that say how": lambda: xla_wasm.compile(
        MODULE, Options(callbacks="drop", winograd="f4", tune="v8", prepared=True)
    ),
    "a function that is called": lambda: xla_wasm.compile(CALLING, Options(host_calls="mine")),
    "a file of weights": lambda: xla_wasm.compile(
        lower(lambda x: x @ np.sin(np.arange(1200, dtype=np.float32)).reshape(3, 400), X), Options(sidecar=True)
    ),
    "threads": lambda: xla_wasm.compile(
        lower(lambda x: jnp.tanh(x @ x.T), np.ones((512, 512), np.float32)), Options(threads=True)
    ),
    "formats": lambda: xla_wasm.compile(MODULE, Options(weights=("w", "b"), weight_format="int8")),
    "four bits of one of two weights": lambda: xla_wasm.compile(
        lower(lambda x, w, table: x @ w.T + table[0, :2], X32, X32, X),
        Options(weight_format={"w": "int4", "table": "int4"}),
    ),
}


@pytest.mark.parametrize("case", WITH)
def test_options_with_effect_are_not(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OptionWarning)
        WITH[case]()


def test_types_take_what_the_documents_give(tmp_path: Path) -> None:
    """Each call of Options in README and the documents, and those of people who write lists."""
    found = [
        call
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
        for call in re.findall(r"Options\((?:[^()]|\([^()]*\))*\)", path.read_text())
    ]
    calls = [
        *dict.fromkeys(call for call in found if "..." not in call and "=," not in call),
        "Options(weights=names)",
        "Options(state=pairs)",
        "Options(state={'w': 0})",
        "Options(initial={'w': 0})",
        "Options(initial={0: [1, 2]})",
        "Options(initial=[('w', 1.5), (0, key)])",
    ]
    assert len(calls) > 10
    variables = [
        "names: list[str] = []",
        "pairs: dict[str, str] = {}",
        "key: object = 0",
        "params: object = 0",
        "import numpy as np",
    ]
    lines = ["from xla_wasm import Options", *variables, *calls]
    lines += ["reveal_type(Options().weights)", "reveal_type(Options().state)"]
    (tmp_path / "calls.py").write_text("\n".join(lines))
    out, _, status = api.run(["--strict", "--no-incremental", "--follow-imports=silent", str(tmp_path / "calls.py")])
    assert status == 0, out
    assert 'Revealed type is "tuple[str | int, ...]"' in out
