"""The JavaScript host: weights that are asked for while the module comes, and that are packed one after another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import xla_wasm
from tests.support.node_host import nodes
from tests.support.paths import ROOT
from tests.support.processes import output
from xla_wasm import HloModule, Options
from xla_wasm.builder import XlaBuilder
from xla_wasm.hlo.literal import Literal
from xla_wasm.hlo.shape import Shape

N = 136
"""A matrix has more than 64 KiB."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of products with six constants, of which the run reads one as it is, too."""
    made = tmp_path_factory.mktemp("poured")
    rng = np.random.default_rng(0)
    matrices = np.stack([np.eye(N)[rng.permutation(N)] * rng.choice([-1, 1], N) for _ in range(6)]).astype(np.float32)
    x = rng.integers(-2, 3, (2, N)).astype(np.float32)
    b = XlaBuilder("poured")
    value, want = b.Parameter(0, Shape("f32", (2, N)), "x"), x
    for i, matrix in enumerate(matrices):
        constant = b.Constant(Literal(Shape("f32", (N, N)), matrix.tobytes()))
        value, want = b.Dot(value, constant), want @ matrix
        if i == 3:
            value, want = b.Add(value, b.Slice(constant, [5, 0], [7, N], [1, 1])), want + matrix[5:7]
    module = HloModule.from_proto(b.module(value).to_proto())
    xla_wasm.compile(module, Options(sidecar=True)).save(made / "poured.wasm")
    xla_wasm.compile(module).save(made / "inside.wasm")
    (made / "poured.json").write_text(json.dumps({"x": x.ravel().tolist(), "y": want.ravel().tolist()}))
    return made


@pytest.mark.parametrize("version", nodes())
def test_poured(version: str, folder: Path) -> None:
    node, _ = nodes()[version]
    output([node, ROOT / "tests/js/poured.test.mjs"], env={"FIXTURES": str(folder)})
