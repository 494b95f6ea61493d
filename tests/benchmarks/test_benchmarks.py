"""The benchmarks run, on tiny sizes. What they measure is nobody's business here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import xla_wasm
from benchmarks import edge, pages, replicas, replicas_js, worker
from benchmarks.models import Encoder
from benchmarks.onnx_graph import SMALL_FORMS, Graph
from benchmarks.wasmtime_host import Resident
from tests.support.processes import output

TINY = Encoder(blocks=2, width=16, heads=2, hidden=24, tokens=6)


def test_encoder_under_wasmtime_is_that_of_jax() -> None:
    module, weights = TINY.forward(), TINY.weights()
    artifact = xla_wasm.compile(module, xla_wasm.Options(weights=tuple(weights)))
    resident = Resident(artifact, [TINY.input()], weights)
    resident()
    np.testing.assert_allclose(
        resident.output(), np.asarray(TINY.apply(TINY.input(), TINY.tree())), rtol=1e-4, atol=1e-5
    )
    assert all(seconds >= 0 for _, seconds in resident.profile(2))


def test_onnx_encoder_is_the_same() -> None:
    graph, shape = Graph(TINY.weights()), TINY.input().shape
    y = TINY.nodes(graph, "x")
    model = onnx.load_model_from_string(
        graph.model("encoder", {"x": (np.float32, shape)}, {"y": (y, np.float32, shape)})
    )
    (theirs,) = ReferenceEvaluator(model).run(None, {"x": TINY.input()})
    np.testing.assert_allclose(theirs, np.asarray(TINY.apply(TINY.input(), TINY.tree())), rtol=1e-4, atol=1e-5)


def test_onnx_forms_of_weights() -> None:
    """Weights stored in few bits are within one step of the form of the original ones; the product of int8 is one of
    ONNX's own operators, and runs."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((64, 24)).astype(np.float32), rng.standard_normal((3, 64)).astype(np.float32)
    for form in SMALL_FORMS:
        graph = Graph({"w": w})
        y = graph.node("Relu", graph.node("MatMul", "x", "w"))
        graph.store_weights(form)
        model = onnx.load_model_from_string(
            graph.model("small", {"x": (np.float32, x.shape)}, {"y": (y, np.float32, (3, 24))})
        )
        assert "w" not in graph.weights
        if form == "int8":
            (theirs,) = ReferenceEvaluator(model).run(None, {"x": x})
            np.testing.assert_allclose(theirs, np.maximum(x @ w, 0), atol=0.3)
            continue
        (node,) = (n for n in model.graph.node if n.op_type == "MatMulNBits")
        a = {attribute.name: attribute.i for attribute in node.attribute}
        numbers, scales = graph.weights[node.input[1]], graph.weights[node.input[2]]
        if a["bits"] == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], -1)
        zero = 1 << (a["bits"] - 1)
        stored = (numbers.reshape(a["N"], -1, a["block_size"]) - float(zero)) * scales.reshape(a["N"], -1, 1)
        np.testing.assert_allclose(stored.reshape(a["N"], a["K"]).T, w, atol=np.abs(w).max() / (zero - 1))


def test_replicas_on_threads_and_over_mpi(tmp_path: Path) -> None:
    document = tmp_path / "replicas.md"
    document.write_text(f"before\n{replicas.BEGIN}\nold\n{replicas.END}\nafter\n")
    replicas.main(["--seconds", "0", "--sizes", "4096", "65536", "--output", str(document)])
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    for opcode in replicas.OPCODES:
        assert len(re.findall(rf"^\| {opcode} \| (4|64) KiB \| [\d.]+ [mu]s \| [\d.]+ [mu]s ", text, re.M)) == 2
    assert re.search(
        r"^\| 4 KiB \| [\d.]+ us \| condition variable \| [\d.]+ us \| [\d.]+ \| at most 10 \|$", text, re.M
    )


def test_other_transports_are_columns_too(tmp_path: Path) -> None:
    contestants = (replicas.THREADS, replicas.MPI, replicas.ALLREDUCE, replicas.ROUND_TRIP)
    times = {(name, opcode, 4096): 1e-5 for name in contestants for opcode in replicas.OPCODES}
    (columns, rows), _ = replicas.tables(times, [4096], {"workers": {"all-gather": {"4096": 0.25}}})
    assert columns[-1] == ">workers" and [row[-1] for row in rows] == ["", "250.0 us", "", "", "", ""]


def test_replicas_in_workers(tmp_path: Path) -> None:
    replicas_js.main(
        ["--seconds", "0", "--opcodes", "all-reduce", "all-to-all", "--sizes", "4096", "--output", str(tmp_path)]
    )
    times = json.loads((tmp_path / "replicas_js.json").read_text())
    contestants = (replicas_js.NODE, replicas_js.SHARED, replicas_js.MESSAGES)
    assert {name: list(times[name]) for name in contestants} == {
        name: ["all-reduce", "all-to-all"] for name in contestants
    }
    assert list(times[replicas_js.PLAIN]) == ["all-reduce"]
    assert all(ms > 0 for by in times.values() for of in by.values() for ms in of.values())


def test_workers() -> None:
    measured = worker.measure(1, 0, worker.CONTESTANTS[:1])
    (times,) = measured.values()
    assert min(times.started + times.first + times.answers) > 0 and times.linear % 65536 == 0 and times.grown[0] >= 0
    assert worker.table(measured).startswith("| worker |") and "| digits |" in worker.table(measured)


def test_a_body_for_wrk_is_a_string_of_lua(tmp_path: Path) -> None:
    """Whatever bytes it has: brackets end what Lua calls long strings, and then wrk goes on without the script."""
    body = bytes(range(256)) + b']]"\\\n'
    text = edge.script(tmp_path / "x.lua", "application/json", body).read_text()
    (quoted,) = re.findall(r'^wrk.body = "(.*)"$', text, re.MULTILINE)
    assert bytes(int(code) for code in re.findall(r"\\(\d{3})", quoted)) == body
    assert not re.sub(r"\\\d{3}", "", quoted)


def test_the_empty_server_is_one(tmp_path: Path) -> None:
    """A component that wasmtime compiles."""
    code, memory = edge.EMPTY_SERVER.replace("SIZE", "2"), edge.MEMORY.replace("BODY", "{}")
    (tmp_path / "empty.wasm").write_bytes(edge.empty_server(code, memory))
    output([edge.wasmtime_cli(), "compile", tmp_path / "empty.wasm", "-o", tmp_path / "empty.cwasm"])


def test_a_page_that_trains() -> None:
    """Two steps in Chromium: figures of the page, and a table that says beside which goal they stand."""
    from playwright.sync_api import sync_playwright

    measured = pages.Measured()
    with sync_playwright() as playwright, pages.served() as address, pages.context(playwright, measured) as context:
        ready, answer = pages.search(context.new_page(), address)
        pages.generate(context.new_page(), address, 2, measured)
    measured.note(pages.MODEL, ready)
    measured.note(pages.ANSWER, answer)
    assert min(ready, answer, measured.training, measured.rate) > 0 and 2 < measured.loss < 5
    text = pages.table(measured, 2, 0.25)
    assert f"| {pages.ANSWER} | " in text and "| Generate: 2 steps of training | " in text and "| 3 s |" in text
    assert "others used the machine" not in text and "others used" in pages.table(measured, 2, 3.0)
