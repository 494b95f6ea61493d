"""The benchmark suite on its smallest workload: the right is timed, the wrong is called wrong, and what was measured is
kept."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import xla_wasm
import xla_wasm.jax
from benchmarks.models import Encoder
from benchmarks.node_host import find_node
from benchmarks.onnx_graph import Graph
from benchmarks.suite import check, command, compile_time, contestants, document, layers, results, table
from benchmarks.suite.contestants import NARROW, PLAIN, RELAXED, WASMTIME, XLA, Contestant, Process
from benchmarks.suite.driver import Driver, Effort, Entry
from benchmarks.suite.machine import MODES
from benchmarks.suite.workload import workloads
from tests.support.processes import output

FAKE = Path(__file__).parents[1] / "support" / "fake_contestant.py"
NAME = "matmul_64"
QUICK = ["--filter", NAME, "--rounds", "1", "--seconds", "0", "--warmup", "0"]
SHORT = Effort(1, 0, 0)


def fake(name: str, array: Any, folder: Path, *more: str) -> Contestant:
    """A peer that gives this array."""
    path = folder / f"{name}.bin"
    array = np.asarray(array)
    path.write_bytes(array.tobytes())
    return Contestant(
        name, (sys.executable, str(FAKE), str(path), array.dtype.name, *more), lambda workload, folder: {}, peer=True
    )


def measured(*given: Contestant) -> Any:
    """The row of the smallest workload with these contestants."""
    driver = Driver(contestants.machine_contestant(), given, SHORT)
    try:
        return driver.row(workloads()[NAME])
    finally:
        driver.close()


def test_ours_is_right_and_timed() -> None:
    row = measured(*contestants.our_contestants())
    entries = row["contestants"]
    assert list(entries) == [RELAXED, PLAIN, WASMTIME, XLA, NARROW]
    assert {entry["status"] for entry in entries.values()} == {"ok"}, entries
    for name in (RELAXED, PLAIN, WASMTIME):
        assert entries[name]["error"] < 1e-6 and entries[name]["bytes"] > 1000
        assert 0 < entries[name]["kernel"]["min"] <= entries[name]["kernel"]["median"]
        assert 0 < entries[name]["call"]["min"] <= entries[name]["call"]["median"]
    assert set(row["machine"]) == set(MODES) and all(limit["max"] > 0 for limit in row["machine"].values())
    assert table.ratio(row, table.KERNEL) is None and table.share(row) > 0


def test_wrong_values_are_no_times(tmp_path: Path) -> None:
    right = workloads()[NAME].expected()[0].astype(np.float32)
    off = right.copy()
    off.flat[77] += 0.01 * np.abs(right).max()
    nan = right.copy()
    nan.flat[5] = np.nan
    given = {"ort": right, "off": off, "nan": nan, "short": right[:-1], "double": right.astype(np.float64)}
    row = measured(*(fake(name, array, tmp_path) for name, array in given.items()))
    states = {name: entry["status"] for name, entry in row["contestants"].items()}
    assert states == {"ort": "ok", "off": "wrong", "nan": "wrong", "short": "wrong", "double": "ok"}
    assert abs(row["contestants"]["off"]["error"] - 0.01) < 1e-4
    assert "call" not in row["contestants"]["off"]
    assert table.troubles(NAME, row)[1:] == [f"{NAME}: {name} is wrong and not a little" for name in ("nan", "short")]
    json.dumps(row, allow_nan=False)


def test_what_goes_wrong_after_many_runs_is_wrong(tmp_path: Path) -> None:
    right = workloads()[NAME].expected()[0].astype(np.float32)
    row = measured(fake("ort", right, tmp_path, "spoils"))
    assert row["contestants"]["ort"]["status"] == "wrong" and "call" not in row["contestants"]["ort"]


def test_a_wrong_peer_is_not_the_best(tmp_path: Path) -> None:
    right = workloads()[NAME].expected()[0].astype(np.float32)
    row = measured(
        fake("ort", right * 2, tmp_path), fake("tfjs", right, tmp_path), fake("jax-js", right, tmp_path, "dies")
    )
    assert table.best(row, "call") == table.Best("tfjs", 1e-3)
    wrong, failed = table.troubles(NAME, row)
    assert "ort is wrong by 1.0e+00" in wrong and "out of memory" in failed
    alone = measured(fake("ort", right * 2, tmp_path))
    assert table.best(alone, "call") is None and "ort wrong" in table.cells(NAME, alone)


def test_ratios_take_the_best_figure(tmp_path: Path) -> None:
    right = workloads()[NAME].expected()[0].astype(np.float32)
    row = measured(fake(RELAXED, right, tmp_path), fake("ort", right, tmp_path))
    row["contestants"][RELAXED] |= {"kernel": {"min": 3e-3, "median": 4e-3}, "call": {"min": 6e-3, "median": 6e-3}}
    row["contestants"]["ort"] |= {"kernel": {"min": 4e-3, "median": 4e-3}, "call": {"min": 2e-3, "median": 2e-3}}
    assert table.ratio(row, "kernel") == 1.5 and table.ratio(row, "call") == 3
    assert table.figure(row, 2 * 64**3 / 1e9) == pytest.approx(1)


def test_results_are_kept_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = workloads()[NAME].expected()[0].astype(np.float32)
    output = tmp_path / "results.json"
    given = [fake(RELAXED, right, tmp_path), fake("ort", right, tmp_path)]
    arguments = [*QUICK, "--output", str(output)]
    assert command.main(arguments, given) == 0
    first = output.read_text()
    assert json.loads(first)["workloads"][NAME]["contestants"]["ort"]["call"] == {"min": 1e-3, "median": 1e-3}
    # Whatever is there is not measured again: a contestant that would be wrong is not asked.
    wrong = [fake(RELAXED, right + 1, tmp_path)]
    assert command.main(arguments, wrong) == 0 and output.read_text() == first
    assert command.main([*arguments, "--fresh"], wrong) == 1
    assert json.loads(output.read_text())["workloads"][NAME]["contestants"][RELAXED]["status"] == "wrong"
    monkeypatch.setattr(results, "_commit", lambda: "another")
    assert command.main(arguments, given) == 0
    assert json.loads(output.read_text())["workloads"][NAME]["commit"] != "another"
    monkeypatch.setattr(command, "stamp", lambda effort, node: {"sources": "others"})
    assert command.main(arguments, [fake(RELAXED, right, tmp_path)]) == 0
    assert json.loads(output.read_text())["workloads"][NAME]["sources"] == "others"
    assert NAME in capsys.readouterr().out


def test_what_a_loop_takes_beside_the_work_is_taken_off() -> None:
    """By the least of all and the median of all: a slow trip beside a fast sample would make the work too short."""
    entry = Entry(Process(Contestant("x", (), lambda workload, folder: None)))
    entry.samples, entry.less = {"kernel": [12.0, 10.0, 14.0]}, {"kernel": [4.0, 2.0, 3.0]}
    assert entry.summary() == {"status": "ok", "kernel": {"min": pytest.approx(8e-3), "median": pytest.approx(9e-3)}}


def test_filters(capsys: pytest.CaptureFixture[str]) -> None:
    assert [w.name for w in command.chosen(["sum_1M"], quick=False)] == ["sum_1M"]
    assert {w.name for w in command.chosen(["*sum_1M"], quick=False)} == {"sum_1M", "cumsum_1M"}
    assert {w.name for w in command.chosen(["topk"], quick=True)} == {
        "topk100_1M",
        "topk100_1M_ascending",
        "topk100_1M_descending",
    }
    quick = command.chosen([], quick=True)
    assert 10 < len(quick) < len(command.chosen([], quick=False))
    assert command.main(["--list", "--quick"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(quick)


def test_small_ratios_keep_a_digit() -> None:
    assert [table.ratio_text(value) for value in (None, 1.234, 0.05, 0.005, 0.0007)] == [
        "",
        "1.23",
        "0.05",
        "0.01",
        "0.0007",
    ]


@pytest.mark.parametrize(
    ("given", "wanted", "error"),
    [
        (np.float32([1, 2]), np.float64([1, 2.5]), 0.2),
        (np.float32([np.inf, 2]), np.float64([np.inf, 2]), 0),
        (np.float32([np.inf, 2]), np.float64([-np.inf, 2]), np.inf),
        (np.float32([np.nan, 2]), np.float64([1, 2]), np.inf),
        (np.float32([np.nan, 2]), np.float64([np.nan, 2]), 0),
        (np.float32([0, 1e-9]), np.float64([0, 0]), np.inf),
        (np.int64([3, 4]), np.int32([3, 4]), 0),
        (np.int64([3, 5]), np.int32([3, 4]), np.inf),
        (np.float32([3, 4]), np.int32([3, 4]), 0),
        (np.uint16([0x3F80]), np.float32([1]), 0x3F7F),
        (np.float32([3, 4]), np.complex128([3 + 4j]), 0),
        (np.complex64([3 + 4j]), np.complex128([3 + 5j]), 0.2),
        (np.float32([]), np.float64([]), 0),
    ],
)
def test_errors(given: Any, wanted: Any, error: float, tmp_path: Path) -> None:
    path = tmp_path / "0.bin"
    path.write_bytes(given.tobytes())
    found = check.error([{"path": str(path), "type": given.dtype.name}], [wanted])
    assert found == error or abs(found - error) < 1e-6
    assert check.error([], [wanted]) == np.inf


def test_bits_of_bfloat16(tmp_path: Path) -> None:
    import ml_dtypes

    wanted = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
    (tmp_path / "0.bin").write_bytes(wanted.tobytes())
    for kind in ("uint16", "bfloat16"):
        assert check.error([{"path": str(tmp_path / "0.bin"), "type": kind}], [wanted]) == 0


def test_dimension_orders(tmp_path: Path) -> None:
    wanted = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    (tmp_path / "0.bin").write_bytes(wanted.transpose(0, 3, 1, 2).tobytes())
    entry = [{"path": str(tmp_path / "0.bin"), "type": "float32"}]
    assert check.error(entry, [wanted], (0, 3, 1, 2)) == 0 and check.error(entry, [wanted]) > 0.1


def test_a_graph_in_a_loop_gives_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    graph = Graph({"w": np.float32([1, 2, 3, 4])})
    results = {"y": (graph.node("Mul", "x", "w"), np.float32, [None, None])}
    inputs = {"x": (np.float32, [3, 4])}
    once, looped = (
        onnx.load_model_from_string(make("test", inputs, results)) for make in (graph.model, graph.repeated)
    )
    (plain,) = ReferenceEvaluator(once).run(None, {"x": x})
    (again,) = ReferenceEvaluator(looped).run(None, {"x": x, "trips": np.array(3)})
    np.testing.assert_array_equal(plain, x * np.float32([1, 2, 3, 4]))
    np.testing.assert_array_equal(again, plain)


def test_a_small_network_is_the_same_to_all() -> None:
    """Its layers in JAX, compiled from there, and as nodes of ONNX; and what it is made of."""

    def network(net: layers.Layers, x: Any) -> Any:
        x = net.max_pool(net.conv(x, layers.Conv("stem", 3, 8, "relu", 7, 2)))
        y = net.conv(x, layers.Conv("taps", 8, 8, "relu6", 3, 1, depthwise=True))
        x = net.add(x, y, "relu")
        x = net.add(net.conv(x, layers.Conv("down", 8, 4, "", 3, 2)), net.conv(x, layers.Conv("skip", 8, 4, "", 1, 2)))
        return net.dense(net.mean(x), layers.Dense("classes", 4, 5))

    sizes = layers.Sizes()
    network(sizes, 22)
    assert sizes.flops == 2 * (11 * 11 * 49 * 3 * 8 + 6 * 6 * 9 * 8 + 3 * 3 * (9 + 1) * 8 * 4 + 4 * 5)
    rng = np.random.default_rng(3)
    weights, x = sizes.weights(rng), rng.standard_normal((1, 22, 22, 3), np.float32)
    expected = np.asarray(network(layers.Jax(weights), x))
    module = xla_wasm.jax.lower(lambda x, w: network(layers.Jax(w), x), x, weights)
    (ours,) = xla_wasm.load(xla_wasm.compile(module)).run(x, *(weights[name] for name in sorted(weights)))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    orders = sizes.orders()
    graph = Graph({name: array.transpose(orders[name]) if name in orders else array for name, array in weights.items()})
    y = network(layers.Onnx(graph), "x")
    model = graph.model("small", {"x": (np.float32, [1, 3, 22, 22])}, {"y": (y, np.float32, [None, None])})
    (theirs,) = ReferenceEvaluator(onnx.load_model_from_string(model)).run(None, {"x": x.transpose(orders["x"])})
    np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name, w in workloads().items() if w.onnx and name != "gpt2s_decode"])
def test_graphs_are_valid(name: str) -> None:
    workload = workloads()[name]
    model, loop = contestants.onnx_models(workload)
    assert len(model) > 50 and (loop is None) == workload.model
    workload.forget()


def test_expressions_are_javascript() -> None:
    given = [
        {"name": w.name, "names": [*w.inputs(np.random.default_rng(0))], "text": text}
        for w in workloads().values()
        if w.name not in ("gemv_4096", "matmul_2048")
        for text in (w.tfjs, w.jaxjs)
        if text is not None
    ]
    script = """
      const bad = [];
      for (const { name, names, text } of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
        try {
          new Function('tf', 'np', 'lax', 'nn', 'w', 'zero', ...names, `return ${text};`);
        } catch (error) {
          bad.push(`${name}: ${error}`);
        }
      }
      console.log(JSON.stringify(bad));
    """
    assert json.loads(output([find_node(), "-e", script], input=json.dumps(given))) == [] and len(given) > 60


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, workload in workloads().items()
        if not workload.model and workload.reference and workload.work <= 1e10
    ],
)
def test_references_are_what_xla_computes(name: str, tmp_path: Path) -> None:
    """The two ways in which the right values are found agree."""
    import jax

    workload = workloads()[name]
    results = jax.tree.leaves(jax.jit(workload.function)(*workload.arguments()))
    entries = []
    for number, leaf in enumerate(results):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(np.asarray(leaf).tobytes())
        entries.append({"path": str(path), "type": np.asarray(leaf).dtype.name})
    assert check.error(entries, workload.expected()) <= workload.tolerance
    workload.forget()


def _rows(folder: Path) -> dict[str, Any]:
    """Rows of an operation and of a model, with a peer each, and one whose only peer is wrong."""
    right = workloads()[NAME].expected()[0].astype(np.float32)
    row = measured(fake(RELAXED, right, folder), fake(PLAIN, right, folder), fake("ort", right, folder))
    row |= {
        "machine_of": {"cpu": "<a & b>", "node": "24", "wasmtime": "50"},
        "peers": {"ort": "1.2.3"},
        "commit": "abc",
    }
    wrong = measured(fake(RELAXED, right, folder), fake("ort", right + 1, folder)) | {
        key: row[key] for key in ("machine_of", "peers", "commit")
    }
    slow = {"min": 4e-3, "median": 5e-3}
    slower = {**row["contestants"], RELAXED: {**row["contestants"][RELAXED], "call": slow}}
    faster = {**row["contestants"], "ort": {**row["contestants"]["ort"], "call": slow, "kernel": slow}}
    kernel = {**faster, RELAXED: {**row["contestants"][RELAXED], "kernel": {"min": 2e-3, "median": 2e-3}}}
    return {
        NAME: {**row, "contestants": kernel},
        "sum_1M": wrong,
        "minilm_s128": {**row, "unit": "ms", "model": True, "contestants": faster},
        "resnet18": {**row, "unit": "ms", "model": True, "contestants": slower},
    }


def test_documents(tmp_path: Path) -> None:
    """Chart, table, page and the README's figures, from the same rows."""
    between = f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n"
    page = tmp_path / "web" / "demo" / "performance"
    (tmp_path / "docs").mkdir()
    page.mkdir(parents=True)
    (tmp_path / "docs" / "performance.md").write_text(between)
    (tmp_path / "README.md").write_text(between)
    images = '<source srcset="chart-narrow.svg" width="360" height="1"><img src="chart.svg" width="860" height="1">'
    (page / "index.html").write_text(f"{images}\n{between}")
    (page.parent / "index.html").write_text('<dd id="ratio">9</dd>')
    compiled = {"digits": {"seconds": 0.01, "instructions": 35, "bytes": 46000, "weights": 40000}}
    compiled["gradient of 12 blocks"] = {"seconds": 0.4, "instructions": 4000, "bytes": 150000, "weights": 0}
    document.write(_rows(tmp_path), compiled, tmp_path)

    text = (tmp_path / "docs" / "performance.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    lines = {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ")
        for line in text.splitlines()
        if line.startswith("| ")
    }
    assert lines[NAME][5:9] == ["ort", "0.131 / 0.131", "0.50", "0.25"]
    assert re.fullmatch(r"\d+ / \d+ / \d+ \|", lines[NAME][-1])
    assert lines["resnet18"][5:9] == ["ort", "1", "", "4.00"]
    assert lines["sum_1M"][5:7] == ["", "ort wrong"] and "- sum_1M: ort is wrong by" in text
    assert "| gradient of 12 blocks | 4,000 | 400 ms | 0.10 | 150,000 | 0 |" in text

    root = ElementTree.fromstring((tmp_path / "docs" / "performance.svg").read_text())
    space = "{http://www.w3.org/2000/svg}"
    assert [r.get("class") for r in root.iter(f"{space}rect")] == ["faster", "slower", "faster", "faster", "slower"]
    one = float(next(line for line in root.iter(f"{space}line") if line.get("class") == "one").attrib["x1"])
    faster, _, slower = list(root.iter(f"{space}rect"))[2:]
    assert float(slower.attrib["x"]) == one == pytest.approx(float(faster.attrib["x"]) + float(faster.attrib["width"]))
    assert float(slower.attrib["width"]) > float(faster.attrib["width"])
    assert (page / "chart.svg").read_text() == (tmp_path / "docs" / "performance.svg").read_text()

    narrow = ElementTree.fromstring((page / "chart-narrow.svg").read_text())
    assert len(list(narrow.iter(f"{space}rect"))) == 5
    assert all(float(r.attrib["x"]) + float(r.attrib["width"]) <= 360 for r in narrow.iter(f"{space}rect"))

    html = (page / "index.html").read_text()
    assert f'height="{narrow.attrib["viewBox"].split()[3]}"' in html
    assert f'height="{root.attrib["viewBox"].split()[3]}"' in html and "&lt;a &amp; b&gt;" in html
    assert '<th scope="row">resnet18</th>' in html and html.count("<h2>") == 3
    readme = (tmp_path / "README.md").read_text()
    assert "**0.25** of onnxruntime-web's time (relaxed-simd), **0.25** (simd128)" in readme
    assert "| ResNet-18, one image | **4.00** of onnxruntime-web's time |" in readme
    assert "10 ms for digits; 0.10 ms an instruction" in readme
    assert (page.parent / "index.html").read_text() == '<dd id="ratio">0.25</dd>'
    (tmp_path / "README.md").write_text("no lines\n")
    with pytest.raises(ValueError, match="README.md has no lines"):
        document.write(_rows(tmp_path), compiled, tmp_path)


def test_compile_times() -> None:
    tiny = Encoder(blocks=1, width=8, heads=2, hidden=8, tokens=3)
    found = compile_time.measured(1, tiny, tiny)
    assert list(found) == ["digits", "encoder of 1 blocks", "gradient of 1 blocks"]
    assert all(
        entry["seconds"] > 0 and entry["instructions"] > 30 and entry["bytes"] > 1000 for entry in found.values()
    )
    assert found["digits"]["weights"] > 30_000
