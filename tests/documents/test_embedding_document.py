"""docs/embedding.md tells the truth: its host runs, its table has the fields that manifests have, its example is what
the compiler makes.

Where the example's bytes are meant to change, `pytest tests/documents/test_embedding_document.py --update-golden`
writes them anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import wasmtime

import xla_wasm
from tests.support.embedding_cases import (
    DIGITS,
    ROOT,
    artifacts,
    called,
    collective,
    counter,
    dense,
    digits,
    fed,
    in_parts,
    sent,
    turned,
)
from xla_wasm import Artifact, HloModule
from xla_wasm.artifact import encode_manifest
from xla_wasm.command import c_header
from xla_wasm.hlo.structure import fault, leaves
from xla_wasm.hlo.types import ARRAY_TYPES, TYPES
from xla_wasm.wasm.encoding import custom_section
from xla_wasm.wasm.module import custom

PATH = ROOT / "docs" / "embedding.md"
DOCUMENT = PATH.read_text()
EXAMPLE = DOCUMENT[DOCUMENT.index("## An example, byte by byte") :]
ROW = re.compile(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} ?){16})", re.MULTILINE)


def section(title: str) -> str:
    return DOCUMENT.split(f"\n## {title}\n")[1].split("\n## ")[0]


# --- the table of the manifest's fields
# ---------------------------------------------------------------------------------------

ARRAYS = re.compile(r"^(parameters|results|requests\[\]\.(operands|results))\[\](?=\.)")
Seen = dict[str, list[tuple[dict[str, Any], Any]]]


def fields() -> dict[str, str]:
    """The types of the fields in the table, by their paths."""
    rows = re.findall(r"^\| `([a-z0-9_.\[\]]+)` \| (.*?) \|.*?\| .+ \|$", section("The manifest"), re.MULTILINE)
    assert len(rows) == len(dict(rows)) > 60, "fields stand in the table once"
    return dict(rows)


def walk(path: str, value: Any, seen: Seen) -> None:
    """Notes every field of a manifest under the path that the table has for it, with the object that it is part of."""
    if isinstance(value, list):
        for item in value:
            walk(f"{path}[]", item, seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{path}.{key}".strip(".")
            own = place.rpartition(".")[2] in ("alias", "init")
            place = place if own else ARRAYS.sub("array", place)
            seen[place].append((value, item))
            walk(place if "array" in place else f"{path}.{key}".strip("."), item, seen)


def is_of_type(value: Any, stated: str) -> bool:
    """Returns true if a value has the type that the table states in words."""
    kinds: dict[str, Callable[[Any], bool]] = {
        "integer": lambda x: isinstance(x, int) and not isinstance(x, bool),
        "string": lambda x: isinstance(x, str),
        "boolean": lambda x: isinstance(x, bool),
        "object": lambda x: isinstance(x, dict),
        "list": lambda x: isinstance(x, list),
        "list of integers": lambda x: isinstance(x, list) and all(map(kinds["integer"], x)),
        "list of strings": lambda x: isinstance(x, list) and all(map(kinds["string"], x)),
        "list of objects": lambda x: isinstance(x, list) and all(map(kinds["object"], x)),
        "list of lists": lambda x: isinstance(x, list) and all(map(kinds["list"], x)),
        "tree": lambda x: (
            fault({"names": [], "positional": 0, "arguments": [], "results": x}, 0, len([*leaves(x)])) is None
        ),
        "list of trees": lambda x: isinstance(x, list) and kinds["tree"](["list", *x]),
    }
    plain = stated.split(",")[0]
    return (plain.endswith(" or null") and value is None) or kinds[plain.removesuffix(" or null")](value)


def test_the_table_is_that_of_the_hosts() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "manifest_fields.py"))
    assert tool["written"](DOCUMENT) == DOCUMENT, "python tools/manifest_fields.py writes it anew"
    assert tool["javascript"]() == tool["JAVASCRIPT"].read_text(), "python tools/manifest_fields.py writes it anew"


def test_every_field_is_in_the_table() -> None:
    """And every field of the table is in some manifest, of the type that it states, and missing only where it may
    be."""
    seen: Seen = defaultdict(list)
    threaded = xla_wasm.compile(
        HloModule.from_bytes((DIGITS / "digits.hlo.pb").read_bytes()), xla_wasm.Options(threads=True)
    )
    for artifact in (*artifacts().values(), threaded):
        walk("", artifact.manifest, seen)
    table = fields()
    assert set(seen) == set(table), set(seen) ^ set(table)
    for path, stated in table.items():
        values = [value for _, value in seen[path]]
        wrong = [value for value in values if not is_of_type(value, stated)]
        assert not wrong, f"{path} is {wrong[0]!r}, and not {stated}"
        if " or null" in stated:
            assert None in values and any(value is not None for value in values), (
                f"{path} is null in all manifests, or in none"
            )
        parent = path.rpartition(".")[0].removesuffix("[]")
        owners = [x for _, x in seen[parent]] if parent in seen else [a.manifest for a in artifacts().values()]
        if parent == "array":
            owners = list(arrays())
        objects = [x for owner in owners for x in (owner if isinstance(owner, list) else [owner]) if x is not None]
        for thing in objects:
            only = re.search(r", (not )?of (exchange|callback)s$", stated)
            there = (thing.get("kind") == only[2]) is not bool(only[1]) if only else None
            if stated.endswith(", optional"):
                continue
            assert (path.rpartition(".")[2] in thing) is (there is not False), f"{path} in {thing}"
        if stated.endswith(", optional"):
            assert not all(path.rpartition(".")[2] in thing for thing in objects), f"{path} is never missing"


def arrays() -> Iterator[dict[str, Any]]:
    """The objects that the table calls arrays."""
    for artifact in artifacts().values():
        manifest = artifact.manifest
        yield from (*manifest["parameters"], *manifest["results"])
        for request in manifest["requests"]:
            yield from (*request.get("operands", ()), *request.get("results", ()))


def test_words_of_the_table() -> None:
    """The document names every value of the fields that have few."""
    seen: Seen = defaultdict(list)
    for artifact in artifacts().values():
        walk("", artifact.manifest, seen)
    for path in ("array.kind", "requests[].kind", "inits[].kind", "devices.axis", "target"):
        (meaning,) = re.findall(rf"^\| `{re.escape(path)}` \| (.*)$", DOCUMENT, re.MULTILINE)
        assert {value for _, value in seen[path]} <= set(re.findall(r"`([\w-]+)`", meaning)), path


def test_element_types() -> None:
    """The table of element types has all, with their bytes and the C type that headers use."""
    rows = re.findall(r"^\| (`\w+`(?: `\w+`)*) \| ([\d, ]+) \| `(.*?)`(.*?) \|", section("Arrays"), re.MULTILINE)
    found = {}
    for names, sizes, c, more in rows:
        listed = re.findall(r"\w+", names)
        widths = [int(size) for size in sizes.split(",")]
        types = [c, *re.findall(r"`(\w+)`", more)]
        for i, name in enumerate(listed):
            found[name] = (
                widths[i % len(widths)],
                types[i] if len(types) == len(listed) > 1 else None if "..." in more else c,
            )
    assert set(found) == set(ARRAY_TYPES)
    for name, (width, c) in found.items():
        assert TYPES[name].bytes == width, name
        assert c is None or c_header.c_type(name) == c, name


# --- the host in Python
# -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host() -> Any:
    """The class `Host` of the document."""
    names: dict[str, Any] = {}
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(code, names)
    return names["Host"]


def same(got: dict[str, bytes], exe: Any, wanted: list[Any]) -> None:
    """The bytes of results, each in the order of its layout."""
    results = [r for r in exe.results if r.kind == "output"]
    assert list(got) == [r.name for r in results]
    for leaf, array in zip(results, wanted, strict=True):
        assert got[leaf.name] == np.ascontiguousarray(array.transpose(leaf.minor_to_major[::-1])).tobytes(), leaf.name


def test_the_host_on_digits(host: Any) -> None:
    exe, small = xla_wasm.load(digits()), host(digits().wasm)
    for image in np.load(DIGITS / "images.npy")[:3].reshape(3, 1, 8, 8, 1).astype(np.float32) / 16:
        same(small.run({"image": image.tobytes()}), exe, exe.run(image))


@pytest.mark.parametrize("sidecar", [False, True])
def test_the_host_on_weights(host: Any, sidecar: bool) -> None:
    artifact = dense(sidecar)
    x, w, b = (
        np.random.default_rng(i).standard_normal(shape).astype(np.float32)
        for i, shape in enumerate([(6, 64), (16, 5), (5,)])
    )
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    exe.set("b", b)
    small = host(artifact.wasm, {"w": w.tobytes(), "b": b.tobytes()}, artifact.weights)
    for _ in range(2):
        same(small.run({"x": x.tobytes()}), exe, exe.run(x))


def test_the_host_on_a_weight_in_parts(host: Any) -> None:
    exe = xla_wasm.load(in_parts())
    table, rows = (
        np.arange(40000 * 128, dtype=np.float32).reshape(40000, 128) % 256,
        np.array([0, 16384, 39999], np.int32),
    )
    exe.set("table", table)
    small = host(in_parts().wasm, {"table": table.tobytes()})
    same(small.run({"rows": rows.tobytes()}), exe, [table[rows]])


def test_the_host_on_states_and_layouts(host: Any) -> None:
    exe, small = xla_wasm.load(counter()), host(counter().wasm)
    for x in np.arange(8, dtype=np.float32).reshape(2, 4):
        same(small.run({"x": x.tobytes()}), exe, exe.run(x))
    (total,) = (p for p in counter().manifest["parameters"] if p["kind"] == "state")
    assert small.read(total["offset"], 16) == exe.get("total").tobytes() != bytes(16), (
        "a state lies where the parameter does"
    )
    exe, small = xla_wasm.load(turned()), host(turned().wasm)
    given = [np.zeros(leaf.dimensions, slot.dtype) for leaf, slot in zip(exe.parameters, exe._inputs)]
    given[0] = np.arange(6, dtype=np.float32).reshape(2, 3)
    same(
        small.run({p.name: np.ascontiguousarray(x.T).tobytes() for p, x in zip(exe.parameters, given)}),
        exe,
        exe.run(*given),
    )


def test_the_host_serves_requests(host: Any) -> None:
    exe = xla_wasm.load(called(), custom_calls={"my function": lambda x, n: (x * np.float32(n), n + 1)})
    seen = []

    def serve(request: dict[str, Any], given: list[bytes]) -> list[bytes]:
        seen.append((request["kind"], request["target"], request["opaque"]))
        x, n = np.frombuffer(given[0], np.float32), np.frombuffer(given[1], np.int32)
        return [(x * np.float32(n[0])).tobytes(), (n + 1).astype(np.int32).tobytes()]

    x, n = np.float32([1, 2, 3]), np.int32(4)
    same(host(called().wasm, serve=serve).run({"x": x.tobytes(), "n": n.tobytes()}), exe, exe.run(x, n))
    assert seen == [("custom_call", "my function", "with this")]

    items, out, again = [np.float32([i, 1, 2]) for i in range(4)], [], []
    feed = iter(items)
    small = host(
        fed().wasm,
        serve=lambda request, given: (
            [next(feed).tobytes()] if request["kind"] == "infeed" else again.extend(given) or []
        ),
    )
    exe = xla_wasm.load(fed())
    n = np.int32(0)
    same(small.run({"n": n.tobytes(), "x": x.tobytes()}), exe, exe.run(n, x, infeed=items, outfeed=out))
    assert again == [item.tobytes() for item in out] and len(out) == 5


# --- what it says of modules
# --------------------------------------------------------------------------------------------------


class Raw:
    """An instance with nothing around it."""

    def __init__(self, artifact: Artifact) -> None:
        self.manifest = artifact.manifest
        self.store = wasmtime.Store()
        self.exports = wasmtime.Instance(self.store, wasmtime.Module(self.store.engine, artifact.wasm), []).exports(
            self.store
        )
        for entry in self.manifest["inits"]:
            assert entry["kind"] == "segment"
            self.call("init", entry["index"])

    def call(self, name: str, *arguments: int) -> Any:
        return self.exports[name](self.store, *arguments)  # type: ignore[operator]

    def read(self, at: int, size: int) -> bytes:
        return bytes(self.exports["memory"].read(self.store, at, at + size))  # type: ignore[union-attr]

    def write(self, at: int, data: bytes) -> None:
        self.exports["memory"].write(self.store, data, at)  # type: ignore[union-attr]

    def words(self, at: int, count: int, dtype: type = np.uint32) -> list[int]:
        return [int(word) for word in np.frombuffer(self.read(at, 4 * count), dtype)]


@pytest.mark.parametrize("name", [name for name, artifact in artifacts().items() if "kind" not in artifact.manifest])
def test_what_every_module_is(name: str) -> None:
    """The exports, the memory that cannot grow, no imports, no start function, the section at the end, the hash, few
    features."""
    artifact = artifacts()[name]
    config = wasmtime.Config()
    for (
        feature
    ) in "multi_value threads relaxed_simd multi_memory memory64 tail_call exceptions function_references gc".split():
        setattr(config, f"wasm_{feature}", feature == "relaxed_simd" and name == "relaxed")
    module = wasmtime.Module(wasmtime.Engine(config), artifact.wasm)
    assert not module.imports
    exports = {item.name: item.type for item in module.exports}
    stated = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section("The module"), re.MULTILINE))
    assert list(stated) == ["memory", "run", "init", "step"] and set(exports) == set(stated)
    memory = exports.pop("memory")
    assert isinstance(memory, wasmtime.MemoryType) and not memory.is_64
    assert (memory.limits.min, memory.limits.max) == (artifact.manifest["pages"],) * 2
    for export, kind in exports.items():
        assert isinstance(kind, wasmtime.FuncType)
        shown = f"`({', '.join(map(str, kind.params))}) -> {str(kind.results[0]) if kind.results else '()'}`"
        assert shown == stated[export]
    content = encode_manifest(artifact.manifest)
    assert custom_section(artifact.wasm, "xla_wasm") == content
    version = {"in parts": 2, "ranged": 3}.get(name, 1)
    assert content.startswith(f'{{"format":{version},'.encode())
    tail = custom("xla_wasm", content)
    code = artifact.wasm.removesuffix(tail)
    assert len(code) + len(tail) == len(artifact.wasm) and 8 not in kinds(code), (
        "it comes last, and there is no start section"
    )
    if name != "named":  # whose names were changed afterwards
        assert (
            hashlib.sha256(code + encode_manifest(artifact.manifest | {"hash": ""})).hexdigest()
            == artifact.manifest["hash"]
        )


def kinds(wasm: bytes) -> list[int]:
    from xla_wasm.wasm.encoding import sections

    return [kind for kind, _ in sections(wasm)]


def test_stepping_is_running() -> None:
    """Step by step, requests served, a run gives what `run` does; then `run` works again once the record is cleared."""
    raw, manifest = Raw(fed()), fed().manifest
    leaf = {p["name"]: p["offset"] for p in manifest["parameters"]}
    (result,) = manifest["results"]
    items = [np.float32([i, 1, 2]) for i in range(4)]
    expected = xla_wasm.load(fed()).run(np.int32(0), np.float32([1, 2, 3]), infeed=items, outfeed=[])[0].tobytes()

    def begin() -> Iterator[np.ndarray[Any, Any]]:
        raw.write(leaf["n"], bytes(4))
        raw.write(leaf["x"], np.float32([1, 2, 3]).tobytes())
        return iter(items)

    def serve(feed: Iterator[np.ndarray[Any, Any]]) -> int:
        number, after = raw.words(manifest["request"], 2)
        for x in manifest["requests"][number]["results"]:
            raw.write(x["offset"], next(feed).tobytes())
        return after

    feed, pc, names = begin(), 0, []
    while pc != -1:
        names.append(manifest["steps"]["names"][pc])
        after = raw.call("step", pc)
        assert raw.words(manifest["config"], 1) == [pc], "the step that ran is at `config`"
        pc = serve(feed) if after == -2 else after
    assert raw.read(result["offset"], 12) == expected and names.count("a") <= 5 and len(names) > 10
    raw.write(manifest["request"] + 4, bytes(4))
    feed = begin()
    while raw.call("run"):
        serve(feed)
    assert raw.read(result["offset"], 12) == expected
    # A host that gives up in the middle: 0 there, and the next run begins anew.
    feed = begin()
    assert raw.call("run") == 1
    raw.write(manifest["request"] + 4, bytes(4))
    feed = begin()
    while raw.call("run"):
        serve(feed)
    assert raw.read(result["offset"], 12) == expected


def test_the_step_table() -> None:
    """Eight u32 an entry, of the kinds that the document lists, in the order in which it lists what they are."""
    listed = re.findall(r"\d \w+", section("Steps").split("kind (")[1].split(")")[0])
    assert listed == ["0 halt", "1 kernel", "2 jump", "3 branch", "4 switch", "5 request", "6 kernel"]
    raw, steps = Raw(fed()), fed().manifest["steps"]
    entries = [raw.words(steps["address"] + i * steps["entry_bytes"], 8) for i in range(steps["count"])]
    assert [entry[0] for entry in entries if entry[0] in (0, 5)] == [5, 5, 5, 0]
    assert [entry[1] for entry in entries if entry[0] == 5] == [0, 1, 2]
    assert all(entry[5] < steps["count"] for entry in entries if entry[0] in (2, 3))
    assert [entry[5] for entry in entries if entry[0] == 0] == [0xFFFFFFFF]


def exchange(instances: list[Raw]) -> None:
    """Runs instances to their ends, with exchanges served as the document says, by someone who has read nothing
    else."""
    messages: dict[tuple[int, int, int], list[list[bytes]]] = defaultdict(list)
    waiting: dict[int, dict[str, Any]] = {}
    running = list(range(len(instances)))
    while running or waiting:
        for d in running:
            raw = instances[d]
            if not raw.call("run"):
                continue
            request = waiting[d] = raw.manifest["requests"][raw.words(raw.manifest["request"], 1)[0]]
            for j, receiver in enumerate(raw.words(request["to"]["offset"], request["to"]["count"], np.int32)):
                if receiver >= 0:
                    blocks = [raw.read(x["offset"] + j * x["stride"], x["bytes"]) for x in request["sends"]]
                    messages[d, receiver, request["channel"]].append(blocks)
        running = []
        for d, request in list(waiting.items()):
            raw = instances[d]
            senders = raw.words(request["from"]["offset"], request["from"]["count"], np.int32)
            keys = [(s, d, request["channel"]) for s in senders]
            if all(key[0] < 0 or messages[key] for key in keys):
                for i, key in enumerate(keys):
                    for x, block in zip(request["receives"], messages[key].pop(0) if key[0] >= 0 else []):
                        raw.write(x["offset"] + i * x["bytes"], block)
                running.append(d)
                del waiting[d]
        assert running or not waiting, "all wait"
    assert not any(messages.values()), "nothing is left"


@pytest.mark.parametrize(
    ("artifact", "devices"), [(collective(2), 2), (collective(3), 3), (sent(), 2)], ids=["two", "three", "sent"]
)
def test_exchanges(artifact: Artifact, devices: int) -> None:
    manifest = artifact.manifest
    rng = np.random.default_rng(0)
    inputs = [p for p in manifest["parameters"] if p["kind"] == "input"]
    given = [
        [
            np.int32(3) if not p["dimensions"] else rng.standard_normal(p["dimensions"]).astype(np.float32)
            for p in inputs
        ]
        for _ in range(devices)
    ]
    instances = [Raw(artifact) for _ in range(devices)]
    for d, raw in enumerate(instances):
        offset = manifest["devices"]["offset"]
        assert raw.words(offset, 4) == [0, 0, 1, 1]
        by_replica = manifest["devices"]["axis"] == "replicas"
        raw.write(offset, np.uint32([d, 0, devices, 1] if by_replica else [0, d, 1, devices]).tobytes())
        for p, x in zip(inputs, given[d]):
            raw.write(p["offset"], x.tobytes())
    exchange(instances)
    for raw, results in zip(instances, xla_wasm.load(artifact).run_replicated(given), strict=True):
        for leaf, x in zip(manifest["results"], results, strict=True):
            assert raw.read(leaf["offset"], leaf["bytes"]) == x.tobytes()


def test_dynamic_sizes() -> None:
    """Strides come from the bounds; the sizes lie beside."""
    artifact = artifacts()["dynamic"]
    raw, (x,), (y,) = Raw(artifact), artifact.manifest["parameters"], artifact.manifest["results"]
    value = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert x["sizes"][1] is None and y["sizes"][1] is None
    raw.write(x["sizes"][0], np.int32(2).tobytes())
    raw.write(x["offset"], value.tobytes())
    assert raw.call("run") == 0
    assert raw.words(y["sizes"][0], 1, np.int32) == [2]
    np.testing.assert_array_equal(np.frombuffer(raw.read(y["offset"], 32), np.float32).reshape(2, 4), -value)


# --- the example
# --------------------------------------------------------------------------------------------------------------


def rows(data: bytes, base: int = 0) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(data), 16):
        yield base + at, data[at : at + 16]


def test_the_example(request: pytest.FixtureRequest) -> None:
    """Every byte that it shows is there; of the memory, every row that is not zero is shown."""
    text, file, manifest, memory = re.findall(r"```(?:\w*)\n(.*?)```", EXAMPLE, re.DOTALL)[:4]
    artifact = xla_wasm.compile(HloModule.from_text(text))
    raw = Raw(artifact)
    (x,), (y,) = artifact.manifest["parameters"], artifact.manifest["results"]
    raw.write(x["offset"], np.float32([1, 3, 2, 4]).tobytes())
    assert raw.call("run") == 0
    np.testing.assert_array_equal(np.frombuffer(raw.read(y["offset"], 16), np.float32), [11, 22, 33, 44])
    start = artifact.wasm.index(custom("xla_wasm", encode_manifest(artifact.manifest)))
    in_file = dict([*rows(artifact.wasm[:16]), *rows(artifact.wasm[start : start + 32], start)])
    in_memory = {at: row for at, row in rows(raw.read(0, 65536 * artifact.manifest["pages"])) if any(row)}
    keys = [
        key
        for key in artifact.manifest
        if key not in ("producer", "hash", "target", "tune", "peak_bytes", "devices", "undivided", "stateful")
    ]
    if request.config.getoption("update_golden"):
        update(file, in_file, manifest, {key: artifact.manifest[key] for key in keys}, memory, in_memory)
        return
    hint = "pytest tests/documents/test_embedding_document.py --update-golden"
    for shown, there in ((file, in_file), (memory, in_memory)):
        assert {int(at, 16): bytes.fromhex(row) for at, row in ROW.findall(shown)} == there, hint
        assert len(shown.splitlines()) == len(there), hint
    assert json.loads(manifest) == {key: artifact.manifest[key] for key in keys}, hint


def update(
    file: str, in_file: dict[int, bytes], manifest: str, shown: dict[str, Any], memory: str, in_memory: dict[int, bytes]
) -> None:
    """Writes the example anew; what is said beside the bytes of an address stays there."""

    def dump(old: str, there: dict[int, bytes]) -> str:
        said = {int(line[:8], 16): line[57:].strip() for line in old.splitlines()}
        lines = [f"{at:08x}  {row.hex(' '):47}  {said.get(at, '')}".rstrip() for at, row in there.items()]
        return "\n".join(lines) + "\n"

    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in shown.items()]
    example = EXAMPLE.replace(f"```json\n{manifest}```", "```json\n{\n" + ",\n".join(lines) + "\n}\n```")
    head, first, rest = example.partition(f"```text\n{file}```")
    example = head + f"```text\n{dump(file, in_file)}```" + rest
    before, _, after = example.rpartition(f"```text\n{memory}```")
    example = before + f"```text\n{dump(memory, in_memory)}```" + after
    PATH.write_text(DOCUMENT.removesuffix(EXAMPLE) + example)
