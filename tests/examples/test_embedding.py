"""The hosts in C, Rust and Go (examples/embedding): the bits that Python gets, and a plain message for whatever is
wrong."""

from __future__ import annotations

import ctypes
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime
from wasmtime import _bindings, _ffi

import xla_wasm
from tests.support import seeds
from tests.support.embedding_cases import (
    DIGITS,
    NAMES,
    ROOT,
    artifacts,
    called,
    collective,
    counter,
    dense,
    digits,
    divided,
    dynamic,
    fed,
    late,
    named,
    turned,
)
from tests.support.processes import output
from tests.support.toolchains import EXAMPLES, build, build_c, build_go, build_rust, environment, link_flags, tool
from tests.support.toy_artifact import LIES, SHAPE, WAT, change, lying, toy, toy_expected, with_manifest
from xla_wasm import Artifact
from xla_wasm.artifact import encode_manifest
from xla_wasm.command import c_header
from xla_wasm.host.manifest import Manifest
from xla_wasm.wasm.module import custom

Array = np.ndarray[Any, Any]
LANGUAGES = ("c", "rust", "go")


class Host:
    """A host in one language, at work in a folder."""

    def __init__(self, language: str, find: Callable[[Artifact], Path], folder: Path) -> None:
        self.language = language
        self._find = find
        self.folder = folder
        self.program = Path()

    def take(self, artifact: Artifact, described: Artifact | None = None) -> None:
        """The artifact becomes `model.wasm`. A host in C knows another one beforehand, where one is `described`."""
        self.program = self._find(described or artifact)
        artifact.save(self.folder / "model.wasm")

    def call(self, *arguments: str, stdin: bytes = b"", **files: Array | bytes) -> subprocess.CompletedProcess[bytes]:
        """Runs the program on `model.wasm`, with files of these names beside."""
        for name, content in files.items():
            (self.folder / name).write_bytes(
                content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes()
            )
        command = [self.program, "model.wasm", *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, cwd=self.folder, env=environment(), timeout=120
        )

    def run(self, *arguments: str, stdin: bytes = b"", **files: Array | bytes) -> bytes:
        """Returns the bytes that a call prints, which must succeed and print no errors."""
        done = self.call(*arguments, stdin=stdin, **files)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode(errors="replace")
        return done.stdout

    def fail(self, *arguments: str, stdin: bytes = b"", **files: Array | bytes) -> str:
        """Returns the one message of a call that must fail with exit code 1, without a crash or a report of a
        sanitizer."""
        done = self.call(*arguments, stdin=stdin, **files)
        message = done.stderr.decode()
        assert done.returncode == 1 and message.startswith("error: ") and "Sanitizer" not in message, (
            done.returncode,
            message,
        )
        return message


@pytest.fixture(scope="module")
def find_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Artifact], Path]:
    """Builds each host once: in C one for each artifact, since that is compiled with its header."""
    built: dict[str, Path] = {}
    folder = tmp_path_factory.mktemp("hosts")

    def find(language: str, artifact: Artifact) -> Path:
        header = c_header.header(Manifest.parse(artifact.manifest), "MODEL") if language == "c" else ""
        if language + header not in built:
            if language == "c":
                built[language + header] = build_c(header, folder / str(len(built)))
            else:
                built[language] = {"rust": build_rust, "go": build_go}[language](folder)
        return built[language + header]

    return find


@pytest.fixture(params=LANGUAGES)
def host(request: pytest.FixtureRequest, find_host: Callable[[str, Artifact], Path], tmp_path: Path) -> Host:
    language = str(request.param)
    return Host(language, lambda artifact: find_host(language, artifact), tmp_path)


def laid(arrays: list[Array], leaves: list[Any]) -> bytes:
    """The bytes of arrays, one after another, each in the order of its layout."""
    return b"".join(
        np.ascontiguousarray(array.transpose(leaf.minor_to_major[::-1])).tobytes()
        for array, leaf in zip(arrays, leaves, strict=True)
    )


def outputs(exe: Any, *arrays: Any, **feeds: Any) -> bytes:
    """Returns the bytes that a host must print for a run."""
    return laid(exe.run(*arrays, **feeds), [r for r in exe.results if r.kind == "output"])


# --- results
# ------------------------------------------------------------------------------------------------------------------


def test_digits(host: Host) -> None:
    host.take(digits())
    images = np.load(DIGITS / "images.npy")[:20].reshape(20, 1, 8, 8, 1).astype(np.float32) / 16
    expected = b"".join(outputs(xla_wasm.load(digits()), image) for image in images)
    assert host.run("--runs=20", stdin=images.tobytes()) == expected
    assert host.run("image=x", x=images[3]) == expected[120:160]


@pytest.mark.parametrize("sidecar", [False, True])
def test_weights(host: Host, sidecar: bool) -> None:
    """One packed, one not, and a constant that is packed, from inside or from the file beside."""
    artifact = dense(sidecar)
    host.take(artifact)
    x, w, b = (
        np.random.default_rng(i).standard_normal(shape).astype(np.float32)
        for i, shape in enumerate([(6, 64), (16, 5), (5,)])
    )
    exe = xla_wasm.load(artifact)
    exe.set("w", w)
    exe.set("b", b)
    assert host.run("--runs=2", "w=w", "b=b", stdin=np.stack([x, -x]).tobytes(), w=w, b=b) == outputs(exe, x) + outputs(
        exe, -x
    )


def test_constants_come_before_weights(host: Host) -> None:
    host.take(late())
    x, w = np.eye(8, dtype=np.float32), np.arange(64, dtype=np.float32)
    exe = xla_wasm.load(late())
    exe.set("w", w)
    assert host.run("w=w", stdin=x.tobytes(), w=w) == outputs(exe, x)


@pytest.mark.parametrize("begun", [(), (5, 6, 7, 8)])
@pytest.mark.parametrize("first", [None, np.float32([1, 2, 3, 4])])
def test_states_stay(host: Host, first: Array | None, begun: tuple[float, ...]) -> None:
    host.take(counter(*begun))
    exe = xla_wasm.load(counter(*begun))
    given = {}
    if first is not None:
        exe.set("total", first)
        given["start"] = first
    items = np.arange(12, dtype=np.float32).reshape(3, 4) / 3
    expected = b"".join(outputs(exe, x) for x in items)
    assert host.run("--runs=3", *("total=start" for _ in given), stdin=items.tobytes(), **given) == expected


def test_layouts_and_types(host: Host) -> None:
    host.take(turned())
    exe = xla_wasm.load(turned())
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(-8, 8, leaf.dimensions).astype(slot.dtype)
        for leaf, slot in zip(exe.parameters, exe._inputs, strict=True)
    ]
    assert host.run(stdin=laid(arrays, list(exe.parameters))) == outputs(exe, *arrays)


def test_a_handwritten_artifact(host: Host) -> None:
    """Its `init` does something else for each kind: a segment, a weight that it negates, and the sidecar."""
    host.take(toy())
    x, w = np.arange(6, dtype=np.float32).reshape(SHAPE), np.ones(SHAPE, np.float32)
    y, k, positive = toy_expected(x, w, 5)
    assert host.run("x=x", "w=w", "k=k", x=x, w=w, k=np.int64(5)) == y.tobytes() + k.tobytes() + positive.tobytes()


def test_feeds(host: Host) -> None:
    host.take(fed())
    items, out = np.arange(12, dtype=np.float32).reshape(4, 3), []
    n, x = np.int32(0), np.float32([1, 2, 3])
    expected = outputs(xla_wasm.load(fed()), n, x, infeed=list(items), outfeed=out)
    assert host.run("--infeed=in", "--outfeed=out", "n=n", "x=x", n=n, x=x, **{"in": items}) == expected
    assert (host.folder / "out").read_bytes() == b"".join(item.tobytes() for item in out)
    assert "it ends after 8 of the 12 bytes" in host.fail(
        "--infeed=in", "--outfeed=out", "n=n", "x=x", **{"in": items.tobytes()[:-4]}
    )
    assert "infeed" in host.fail("--outfeed=out", "n=n", "x=x")


def test_random_numbers_go_on(host: Host) -> None:
    """A module's own random state stays from one run to the next, too: three runs give three different results."""
    artifact = artifacts()["random"]
    host.take(artifact)
    exe = xla_wasm.load(artifact)
    expected = [outputs(exe) for _ in range(3)]
    assert len(set(expected)) == 3 and host.run("--runs=3") == b"".join(expected)


def test_any_names(host: Host) -> None:
    """Inputs, weights and states by names that shells, C and JSON have to escape."""
    artifact = named()
    host.take(artifact)
    exe = xla_wasm.load(artifact)
    values = {
        p.name: np.random.default_rng(i).standard_normal(p.dimensions).astype(np.float32)
        for i, p in enumerate(exe.parameters)
    }
    for p in exe.parameters:
        if p.kind != "input":
            exe.set(p.name, values[p.name])
    expected = outputs(exe, *(values[p.name] for p in exe.parameters if p.kind == "input"))
    files = {f"file{i}": values[name] for i, name in enumerate(NAMES)}
    assert host.run(*(f"{name}=file{i}" for i, name in enumerate(NAMES)), **files) == expected


# --- what is wrong
# ------------------------------------------------------------------------------------------------------------


def test_arguments(host: Host) -> None:
    host.take(digits())
    image = np.zeros(64, np.float32).tobytes()
    assert "usage: " in subprocess.run([host.program], capture_output=True, text=True, env=environment()).stderr
    assert "standard input: it ends after 100 of the 256 bytes of 'image'" in host.fail(stdin=image[:100])
    assert "standard input: it has more than" in host.fail(stdin=image + b"0")
    assert "x: it ends after 255 of the 256 bytes of 'image'" in host.fail("image=x", x=image[1:])
    assert "x: it has more than the 256 bytes of 'image'" in host.fail("image=x", x=image + b"0")
    assert "none" in host.fail("image=none")
    assert "imag=x: there is no such option, input, weight or state" in host.fail("imag=x")
    assert "--runs=0: it must be 1 or more" in host.fail("--runs=0", stdin=image)
    assert "--runs=x: it must be 1 or more" in host.fail("--runs=x", stdin=image)
    host.take(dense())
    assert "weight 'w' has not been set: give w=FILE, 320 bytes" in host.fail()
    assert "w: it ends after 4 of the 320 bytes of 'w'" in host.fail("w=w", w=image[:4])
    assert "w: it has more than the 320 bytes of 'w'" in host.fail("w=w", w=bytes(321))


def test_sidecars(host: Host) -> None:
    artifact = dense(sidecar=True)
    host.take(artifact)
    weights = {"w": bytes(320), "b": bytes(20)}
    beside = host.folder / "model.weights"
    beside.write_bytes(artifact.weights[:100])
    assert "model.weights: it" in host.fail("w=w", "b=b", **weights)
    beside.unlink()
    assert "model.weights: " in (message := host.fail("w=w", "b=b", **weights)) and "o such file" in message
    beside.write_bytes(bytes(len(artifact.weights)))
    if host.language == "go":
        assert "is not what the module was compiled with" in host.fail("w=w", "b=b", **weights)
    else:  # they say in their text that they do not look at the hashes
        x = np.ones((6, 64), np.float32)
        assert host.run("w=w", "b=b", stdin=x.tobytes()) == np.tanh(np.zeros((6, 5), np.float32)).tobytes()


def test_files_that_are_no_artifacts(host: Host) -> None:
    wasm = digits().wasm
    host.take(digits())
    path = host.folder / "model.wasm"
    bare = wasm.removesuffix(custom("xla_wasm", encode_manifest(digits().manifest)))
    for content, message in (
        (b"", "this is not a WebAssembly module"),
        (b"<!doctype html>", "this is not a WebAssembly module"),
        (wasm[:8], "it has no section 'xla_wasm'"),
        (bare, "it has no section 'xla_wasm'"),
        (wasm[:300] + b"\xff\xff\xff" + wasm[303:], ""),  # what the engine says of it
        (wasm[:8] + b"\x00\xff\xff\xff\xff\xff\xff\xff" + wasm[8:], "it is damaged: it ends within a section"),
        (lying(digits(), "format", 2), "this host reads format 1, the artifact has 2: compile it again"),
    ):
        path.write_bytes(content)
        assert f"model.wasm: {message}" in host.fail(), content[:20]
    path.unlink()
    assert "o such file" in host.fail()
    path.mkdir()
    assert "model.wasm" in host.fail()


def test_a_module_that_is_cut_short(host: Host) -> None:
    """Wherever it ends."""
    host.take(counter())
    wasm = counter().wasm
    for size in [*range(12), *range(12, len(wasm), 61), *range(len(wasm) - 700, len(wasm), 97), len(wasm) - 1]:
        (host.folder / "model.wasm").write_bytes(wasm[:size])
        message = host.fail(stdin=bytes(16))
        assert (
            "not a WebAssembly module" in message or "it ends within a section" in message or "no section" in message
        ), size


def test_another_artifact_than_the_header(host: Host) -> None:
    """Only the host in C can mix them up."""
    host.take(counter(), digits())
    if host.language == "c":
        assert "model.h is of another artifact: write it anew" in host.fail(stdin=bytes(16))
    else:
        assert host.run(stdin=bytes(16)) == bytes(4)


def test_traps(host: Host) -> None:
    host.take(toy())
    files = {"x": np.full(SHAPE, -1, np.float32), "w": np.zeros(SHAPE, np.float32), "k": np.int64(0)}
    message = host.fail("x=x", "w=w", "k=k", **files)
    assert "in step 0" in message and "unreachable" in message
    assert host.language == "c" or "'affine.1'" in message
    begin = '(func $init (export "init") (param $i i32) (local $p i32)'
    host.take(toy(wat=WAT.replace(begin, begin + " unreachable")))
    assert "unreachable" in host.fail("x=x", "w=w", "k=k", **files)


def test_what_it_does_not_serve(host: Host) -> None:
    """Functions of a host, other devices, and sizes that change."""
    host.take(called())
    assert "asks for custom_call my function" in host.fail("x=x", "n=n", x=bytes(12), n=bytes(4))
    reduced = artifacts()["relaxed"]
    host.take(reduced)
    assert "asks for exchange" in host.fail("x=x", x=bytes(16))
    for artifact, message in (
        (dynamic(), "dynamic dimensions"),
        (collective(), "several devices"),
        (divided(), "several devices"),
    ):
        if host.language == "c":
            with pytest.raises(AssertionError, match=message):
                host.take(artifact)
            continue
        host.take(artifact)
        found = host.fail(stdin=bytes(1000))
        assert message in found or "devices and more" in found


@pytest.mark.parametrize("language", ["rust", "go"])
def test_manifests_that_lie(language: str, find_host: Callable[[str, Artifact], Path], tmp_path: Path) -> None:
    """Hosts that read the manifest: whatever is in it, there are results or a message, and never a crash or memory of
    others."""
    host = Host(language, lambda artifact: find_host(language, artifact), tmp_path)
    host.take(toy())
    files = {"x": np.zeros(SHAPE, np.float32), "w": np.zeros(SHAPE, np.float32), "k": np.int64(0)}
    expected = host.run("x=x", "w=w", "k=k", **files)
    wasm = bytes(wasmtime.wat2wasm(WAT))
    refused = 0
    manifests = [encode_manifest(change(path, value)) for path, value, _ in LIES]
    whole = encode_manifest(toy().manifest)
    rng = random.Random(1)
    for _ in range(seeds.count(10, 60)):
        at = rng.randrange(len(whole))
        manifests.append(whole[:at] + bytes([rng.choice(b'0{}[]",:\\ux9e-. ')]) + whole[at + 1 :])
    manifests += [
        b"",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"null",
        b'{"format":1',
        b'"\\u12',
        b'{"format":1,"features":[],"pages":99999999999999999999}',
    ]
    for manifest in manifests:
        (host.folder / "model.wasm").write_bytes(with_manifest(wasm, manifest))
        done = host.call("x=x", "w=w", "k=k")
        assert done.returncode in (0, 1), (manifest[:100], done.stderr)
        if done.returncode:
            refused += 1
            assert done.stderr.startswith(b"error: ") and b"panic" not in done.stderr, done.stderr
        else:
            assert done.stderr == b""
    assert refused > len(manifests) // 3 and expected
    (host.folder / "model.wasm").write_bytes(with_manifest(wasm, change("features", ["gc"])))
    assert "this host does not know the feature gc" in host.fail("x=x", "w=w", "k=k")


# --- what they are built with
# -------------------------------------------------------------------------------------------------


def test_the_declarations_in_c(tmp_path: Path) -> None:
    """capi.h has the structs and the constants of the library that the hosts are linked with, as its Python package has
    them."""
    structs = [
        "wasmtime_func",
        "wasmtime_memory",
        "wasmtime_instance",
        "wasmtime_extern",
        "wasmtime_val",
        "wasm_byte_vec",
    ]
    lines = [f'printf("%zu ", sizeof({name}_t));' for name in structs]
    lines += [
        f'printf("%zu ", offsetof({name}, {member}));'
        for name, member in (("wasmtime_extern_t", "of"), ("wasmtime_val_t", "of"), ("wasm_byte_vec_t", "data"))
    ]
    lines += [f'printf("%d ", {name});' for name in ("WASMTIME_EXTERN_FUNC", "WASMTIME_EXTERN_MEMORY", "WASMTIME_I32")]
    (tmp_path / "sizes.c").write_text(
        '#include "capi.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\n}\n"
    )
    build([tool("gcc"), f"-I{EXAMPLES / 'c'}", tmp_path / "sizes.c", "-o", tmp_path / "sizes"])
    got = output([tmp_path / "sizes"])
    expected = [ctypes.sizeof(getattr(_bindings, f"{name}_t")) for name in structs]
    expected += [
        _bindings.wasmtime_extern_t.of.offset,
        _bindings.wasmtime_val_t.of.offset,
        _bindings.wasm_byte_vec_t.data.offset,
    ]
    expected += [_ffi.WASMTIME_EXTERN_FUNC.value, _ffi.WASMTIME_EXTERN_MEMORY.value, _ffi.WASMTIME_I32.value]
    assert [int(number) for number in got.split()] == expected
    declared = re.findall(r"\b(wasm\w+)\(", (EXAMPLES / "c" / "capi.h").read_text())
    assert len(declared) > 15 and all(hasattr(_bindings, name) for name in declared)


def test_go_is_formatted_and_vetted() -> None:
    files = sorted((EXAMPLES / "go").glob("*.go"))
    assert output([tool("gofmt"), "-l", *files]) == ""
    build([tool("go"), "vet", *files], CGO_LDFLAGS=" ".join(link_flags()))


def test_the_readme(tmp_path: Path) -> None:
    """Its commands, from the top of the repository: all three hosts print the same."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (commands,) = re.findall(r"```sh\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    output(["bash", "-euc", commands], tmp_path, environment(), timeout=600)
    image = np.load(DIGITS / "images.npy")[0].reshape(1, 8, 8, 1).astype(np.float32) / 16
    expected = xla_wasm.load(digits()).run(image)[0].tobytes()
    assert [(tmp_path / "dist" / f"{language}.out").read_bytes() for language in LANGUAGES] == [expected] * 3
