"""Python without assertions (`python -O`) compiles the same bytes: no assertion does part of the work."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = """
import hashlib, sys
import xla_wasm
for path in sys.argv[1:]:
    module = xla_wasm.HloModule.from_proto(open(path, "rb").read())
    for target in ("simd128", "relaxed-simd"):
        print(hashlib.sha256(xla_wasm.compile(module, xla_wasm.Options(target=target)).wasm).hexdigest())
"""
EXAMPLES = sorted(map(str, (ROOT / "examples/digits").glob("*.hlo.pb")))


def test_the_bytes_do_not_depend_on_assertions() -> None:
    assert EXAMPLES
    runs = [
        subprocess.run([sys.executable, *flags, "-c", PROGRAM, *EXAMPLES], capture_output=True, text=True)
        for flags in ([], ["-O"])
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.split()) == 2 * len(EXAMPLES)
