"""The ends of transfers in Python: iterables, queues, functions, and errors that say what is wanted."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support.hostio_cases import IN_LOOP, TURNED, Array, X, Y, compare_all, module, run, transfer
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import lying, write_lies
from xla_wasm import ArgumentError, ArtifactError, RunError, UnsupportedError
from xla_wasm.errors import VerifyError


def test_queues() -> None:
    """A thread that feeds, and one that takes, while the program runs."""
    items: queue.Queue[Array] = queue.Queue(1)
    out: queue.SimpleQueue[Array] = queue.SimpleQueue()
    feeder = threading.Thread(target=lambda: [items.put(Y * (i + 1)) for i in range(4)])
    feeder.start()
    (result,) = xla_wasm.load(xla_wasm.compile(IN_LOOP)).run(np.int32(0), X, infeed=items, outfeed=out)
    feeder.join()
    np.testing.assert_array_equal(result, -(X + 10 * Y))
    assert [out.get().tolist() for _ in range(5)][-1] == (X + 10 * Y).tolist()


def test_an_item_of_one_array_may_be_a_sequence_of_one() -> None:
    m = module("f = (f32[1], token[]) infeed(t)\n ROOT a = f32[1] get-tuple-element(f), index=0", "")
    exe = xla_wasm.load(xla_wasm.compile(m))
    one = np.float32([5])
    for item in (one, [one], (one,), [5], (5,), [np.float32(5)]):
        np.testing.assert_array_equal(exe.run(infeed=[item])[0], [5])
    m = module("f = (f32[], token[]) infeed(t)\n ROOT a = f32[] get-tuple-element(f), index=0", "")
    exe = xla_wasm.load(xla_wasm.compile(m))
    for scalar in (5.0, np.float32(5), (np.float32(5),), [np.array(5, np.float32)]):
        assert exe.run(infeed=[scalar])[0] == 5


def test_what_comes_out_is_a_copy() -> None:
    out: list[Any] = []
    exe = xla_wasm.load(xla_wasm.compile(IN_LOOP))
    exe.run(np.int32(3), X, infeed=[Y], outfeed=out)
    kept = [a.copy() for a in out]
    exe.run(np.int32(3), -X, infeed=[Y], outfeed=[])
    np.testing.assert_array_equal(out, kept)


def test_profiles() -> None:
    out: list[Any] = []
    spent = xla_wasm.load(xla_wasm.compile(IN_LOOP)).profile(np.int32(2), X, infeed=[Y, Y], outfeed=out)
    assert len(out) == 3 and {"f", "o"} <= {name for name, _ in spent}


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"outfeed": []},
        ArgumentError,
        r"'m' takes float32\[3\] from its host in infeed 'f': pass run\(..., infeed=items\)",
    ),
    (
        {"infeed": [X]},
        ArgumentError,
        r"'m' gives float32\[3\] to its host in outfeed 'o': pass run\(..., outfeed=function\)",
    ),
    (
        {"infeed": 3, "outfeed": []},
        ArgumentError,
        "infeed must be an iterable of items, or a queue with a method 'get'; got int",
    ),
    (
        {"infeed": [X], "outfeed": 3},
        ArgumentError,
        "outfeed must be a function, or an object with a method 'append' or 'put'; got int",
    ),
    (
        {"infeed": [X], "outfeed": [], "send": {"a": print}},
        ArgumentError,
        r"given send, but there is no send of the name 'a' \(known: it has none\)",
    ),
    (
        {"infeed": [X], "outfeed": [], "recv": [X]},
        ArgumentError,
        r"recv must be a mapping from names, as in recv=\{'name': items\}; got list",
    ),
    (
        {"infeed": [X], "outfeed": []},
        RunError,
        r"infeed 'f' takes item 1 of this run, float32\[3\], but its feed has ended",
    ),
    (
        {"infeed": [X, X[:2]], "outfeed": []},
        ArgumentError,
        r"infeed 'f', item 1 of this run: the array must be float32\[3\], got float32\[2\]",
    ),
    (
        {"infeed": [X, np.arange(3, dtype=np.int32)], "outfeed": []},
        ArgumentError,
        r"item 1 of this run: .* got int32\[3\]; convert it with .astype",
    ),
    (
        {"infeed": [X, (X, X)], "outfeed": []},
        ArgumentError,
        r"item 1 of this run: it must be one array, float32\[3\], not 2",
    ),
    ({"infeed": [X, "text"], "outfeed": []}, ArgumentError, r"item 1 of this run: the array must be float32\[3\]"),
]


def stopping(error: Exception) -> Iterator[Array]:
    yield X
    raise error


@pytest.mark.parametrize(("given", "kind", "message"), WRONG, ids=[m[:40] for _, _, m in WRONG])
def test_errors_say_what_is_wanted_and_the_next_run_works(
    given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    exe = xla_wasm.load(xla_wasm.compile(IN_LOOP))
    for call in (exe.run, exe.profile):
        with pytest.raises(kind, match=message):
            call(np.int32(2), X, **given)
    np.testing.assert_array_equal(exe.run(np.int32(2), X, infeed=[X, Y], outfeed=[]), [-2 * X - Y])


def test_errors_of_the_host_are_named() -> None:
    exe = xla_wasm.load(xla_wasm.compile(IN_LOOP))
    error = ValueError("no more")
    with pytest.raises(
        RunError, match="infeed 'f': item 1 of this run could not be had: ValueError: no more"
    ) as caught:
        exe.run(np.int32(0), X, infeed=stopping(error), outfeed=[])
    assert caught.value.__cause__ is error

    def full(_: Array) -> None:
        raise error

    with pytest.raises(
        RunError, match="outfeed 'o': the host failed to take what it gives: ValueError: no more"
    ) as caught:
        exe.run(np.int32(0), X, infeed=[X], outfeed=full)
    assert caught.value.__cause__ is error
    np.testing.assert_array_equal(exe.run(np.int32(4), X, infeed=[], outfeed=[]), [-X])


def test_a_module_without_transfers_refuses_feeds() -> None:
    exe = xla_wasm.load(xla_wasm.compile(module("ROOT r = f32[3] negate(x)")))
    with pytest.raises(ArgumentError, match="'m' was given infeed, but there is no infeed in it"):
        exe.run(X, infeed=[])
    with pytest.raises(ArgumentError, match="'m' was given outfeed, but there is no outfeed in it"):
        exe.run(X, outfeed=[])
    np.testing.assert_array_equal(exe.run(X, send={}, recv=None), [-X])


def at(name: str) -> str:
    return f'is_host_transfer=true, frontend_attributes={{_xla_host_transfer_rendezvous="{name}"}}'


NAMED = module(
    f"""s = (f32[3], u32[], token[]) send(x, t), channel_id=1, {at("loss")}
    n = token[] send-done(s), channel_id=1, is_host_transfer=true
    v = (f32[3], u32[], token[]) recv(n), channel_id=2, {at("rate")}
    w = (f32[3], token[]) recv-done(v), channel_id=2, is_host_transfer=true
    ROOT a = f32[3] get-tuple-element(w), index=0"""
)


def test_names() -> None:
    results, _, sent = run(NAMED, X, recv={"rate": [Y]}, send=["loss"])
    compare_all([*results, *sent["loss"]], [Y, X])
    exe = xla_wasm.load(xla_wasm.compile(NAMED))
    missing: list[tuple[Mapping[str, Any], str]] = [
        ({}, r"'m' sends float32\[3\] to its host in send 's': pass run\(..., send=\{'loss': function\}\)"),
        (
            {"send": {"loss": print}},
            r"'m' receives float32\[3\] from its host in recv-done 'w': pass run\(..., recv=\{'rate': items\}\)",
        ),
        ({"send": {"los": print}}, r"given send, but there is no send of the name 'los' \(known: 'loss'\)"),
        ({"send": {"loss": print}, "recv": {"loss": [X]}}, r"there is no recv of the name 'loss' \(known: 'rate'\)"),
    ]
    for given, message in missing:
        with pytest.raises(ArgumentError, match=message):
            exe.run(X, **given)


def test_a_send_answers_what_is_received() -> None:
    """The host computes what comes in from what went out, between the two."""

    def answers(sent: list[Array]) -> Iterator[Array]:
        while True:
            yield sent[-1] * 2

    sent: list[Array] = []
    exe = xla_wasm.load(xla_wasm.compile(NAMED))
    np.testing.assert_array_equal(exe.run(X, send={"loss": sent}, recv={"rate": answers(sent)}), [2 * X])


def test_the_evaluator_says_what_is_missing() -> None:
    with pytest.raises(ArgumentError, match=r"infeed 'f': nothing is given to feed it, evaluate\(..., infeed=...\)"):
        xla_wasm.evaluate(IN_LOOP, np.int32(0), X)
    with pytest.raises(ArgumentError, match=r"outfeed 'o': nobody takes what it gives, evaluate\(..., outfeed=...\)"):
        xla_wasm.evaluate(IN_LOOP, np.int32(0), X, infeed=[X])
    with pytest.raises(RunError, match=r"infeed 'f': there is no item left for it, it takes \(f32\[3\]\)"):
        xla_wasm.evaluate(IN_LOOP, np.int32(0), X, infeed=[X], outfeed=[])
    with pytest.raises(ArgumentError, match=r"an item of infeed 'f' is f32\[3\]: expected dtype float32, got float16"):
        xla_wasm.evaluate(IN_LOOP, np.int32(0), X, infeed=[np.zeros(3, np.float16)], outfeed=[])


def test_an_outfeed_of_another_shape() -> None:
    with pytest.raises(VerifyError, match=r"outfeed 'o': \(C2\)"):
        xla_wasm.compile(module("o = token[] outfeed(x, t), outfeed_shape=f32[4]\n ROOT r = f32[3] negate(x)"))
    m = module("o = token[] outfeed(x, t)\n ROOT r = f32[3] negate(x)")
    _, out, _ = run(m, X, outfeed=True)
    np.testing.assert_array_equal(out, [X])


def test_types_without_arrays_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="element type opaque"):
        xla_wasm.compile(module("f = (opaque[], token[]) infeed(t)\n ROOT r = f32[3] negate(x)"))


# --- JavaScript
# ----------------------------------------------------------------------------------------------------------------


TUPLES = """f = ((f32[2], s8[1]), token[]) infeed(t)
d = (f32[2], s8[1]) get-tuple-element(f), index=0
a = f32[2] get-tuple-element(d), index=0
o = token[] outfeed(d, t), outfeed_shape=(f32[2], s8[1])
v = (f64[1], u32[], token[]) recv(o), channel_id=2, RATE
w = (f64[1], token[]) recv-done(v), channel_id=2, is_host_transfer=true
r = f64[1] get-tuple-element(w), index=0
k = token[] get-tuple-element(w), index=1
s = (f64[1], u32[], token[]) send(r, k), channel_id=1, LOSS
n = token[] send-done(s), channel_id=1, is_host_transfer=true
x = (s64[2], u32[], token[]) recv(n), channel_id=4, is_host_transfer=true
y = (s64[2], token[]) recv-done(x), channel_id=4, is_host_transfer=true
z = s64[2] get-tuple-element(y), index=0
q = (s64[2], u32[], token[]) send(z, n), channel_id=3, is_host_transfer=true
p = token[] send-done(q), channel_id=3, is_host_transfer=true
ROOT b = f32[2] copy(a)""".replace("RATE", at("rate")).replace("LOSS", at("loss"))

DYNAMIC = """f = (f32[<=4,2], token[]) infeed(t)
a = f32[<=4,2] get-tuple-element(f), index=0
b = f32[<=4,2] add(a, a)
o = token[] outfeed(b, t), outfeed_shape=f32[<=4,2]
zero = f32[] constant(0)
ROOT r = f32[2] reduce(b, zero), dimensions={0}, to_apply=add"""
ADD = "add {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"


THRICE = module(
    """n = f32[3] negate(x)
    a = (f32[3], u32[], token[]) send(x, t), channel_id=1
    b = (f32[3], u32[], token[]) send(n, t), channel_id=1
    c = (f32[3], u32[], token[]) send(n, t), channel_id=1
    v = (f32[3], u32[], token[]) recv(t), channel_id=1
    d = (f32[3], token[]) recv-done(v), channel_id=1
    w = (f32[3], u32[], token[]) recv(t), channel_id=1
    e = (f32[3], token[]) recv-done(w), channel_id=1
    y = f32[3] get-tuple-element(d), index=0
    z = f32[3] get-tuple-element(e), index=0
    ROOT r = (f32[3], f32[3]) tuple(y, z)"""
)
"""Of three arrays that it sends, a device receives the first two."""


def test_what_a_device_sends_to_itself_comes_in_order() -> None:
    exe = xla_wasm.load(xla_wasm.compile(THRICE))
    for x in (X, Y):  # what the first run left behind does not come in the second
        compare_all(exe.run(x), [x, -x])
    compare_all(xla_wasm.evaluate(THRICE, X), [X, -X])


LIES: tuple[tuple[str, Any], ...] = (
    ("requests.0.kind", "infood"),
    ("requests.0.target", 3),
    ("requests.0.results.0.offset", 2**31),
    ("requests.0.results.0.bytes", 4),
    ("requests.1.operands.0.kind", "result"),
    ("requests.1.operands", None),
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifacts of tests/js/feeds.test.mjs."""
    folder = tmp_path_factory.mktemp("feeds")
    loop = xla_wasm.compile(IN_LOOP)
    loop.save(folder / "loop.wasm")
    for name, made in {
        "plain": module("ROOT r = f32[3] negate(x)"),
        "tuples": module(TUPLES, ""),
        "dynamic": module(DYNAMIC, "", ADD),
        "turned": module(TURNED, "x: s4[4]"),
        "thrice": THRICE,
        "sent": module(transfer(None, 1, done_first=True) + "\n ROOT r = f32[3] copy(y)"),
    }.items():
        xla_wasm.compile(made).save(folder / f"{name}.wasm")
    write_lies(loop, LIES, folder)
    return folder


def test_in_node(modules: Path) -> None:
    script = ROOT / "tests" / "js" / "feeds.test.mjs"
    output([node_for("simd128"), "--test", script], env={"MODULES": str(modules)})


@pytest.mark.parametrize(("path", "value"), LIES)
def test_a_manifest_that_lies_about_transfers(path: str, value: Any) -> None:
    artifact = xla_wasm.compile(IN_LOOP)
    with pytest.raises(ArtifactError, match=r"requests\[\d\]\."):
        xla_wasm.load(lying(artifact, path, value))


def test_the_document(tmp_path: Path) -> None:
    """The examples of docs/host_io.md run as they are written."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "host_io.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(code for language, code in blocks if language == "python"), names)
    names["artifact"].save(tmp_path / "artifact.wasm")
    (example,) = [code for language, code in blocks if language == "js"]
    web, artifact = (ROOT / "web").as_uri(), json.dumps(str(tmp_path / "artifact.wasm"))
    head = (
        f"import {{ load }} from '{web}/xla_wasm.js';\nimport {{ Queue }} from '{web}/requests/feeds.js';\nconst "
        f"artifact = {artifact};\n"
    )
    script = tmp_path / "example.mjs"
    script.write_text(
        f"{head}{example}\nconsole.log(JSON.stringify([[...mean], [...again], seen.map((item) => [...item])]));\n"
    )
    means = [[1, 10], [2, 15], [4, 20]]
    assert json.loads(output([node_for("simd128"), script])) == [[4, 20], [4, 20], means * 2]
