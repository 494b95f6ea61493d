"""The C header of an artifact: what a C compiler makes of it is what the manifest says, whatever names it has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedding_cases import ARTIFACTS, NAMES, artifacts, dense, digits, dynamic, fed, named, ranged
from tests.support.toolchains import WARNINGS, build, environment, tool
from tests.support.toy_artifact import toy
from xla_wasm import ArgumentError, Artifact
from xla_wasm.command import c_header
from xla_wasm.hlo.types import ARRAY_TYPES
from xla_wasm.host.manifest import Exchange, Manifest, Parameter

KINDS = ("input", "weight", "state", "output")


def header(artifact: Artifact, prefix: str = "MODEL") -> str:
    return c_header.header(Manifest.parse(artifact.manifest), prefix)


def bases(text: str) -> list[str]:
    """The names of the arrays of a header, in its order."""
    return re.findall(r"^#define (\w+)_TYPE ", text, re.MULTILINE)


def leaves(manifest: Manifest) -> list[Any]:
    """The arrays of a manifest in the order of the header."""
    found: list[Any] = []
    for kind in KINDS:
        found += [leaf for leaf in (manifest.results if kind == "output" else manifest.parameters) if leaf.kind == kind]
    for request in manifest.requests:
        found += [] if isinstance(request, Exchange) else [*request.operands, *request.results]
    return found


def run(program: str, headers: dict[str, str], folder: Path) -> list[str]:
    """Compiles a C program as C99 and as C11, of which the older is picky about more, and returns the texts that it
    prints, each ended by a zero byte. Any warning is an error."""
    for name, text in headers.items():
        (folder / name).write_text(text)
    (folder / "program.c").write_text(program)
    for version in ("c99", "c11"):
        build(
            [
                tool("gcc"),
                f"-std={version}",
                *WARNINGS,
                "-fsanitize=address,undefined",
                folder / "program.c",
                "-o",
                folder / "program",
            ]
        )
    done = subprocess.run([folder / "program"], capture_output=True, check=True, env=environment(), timeout=60)
    return done.stdout.decode().split("\0")[:-1]


def printed(base: str, rank: int) -> str:
    """C that prints all of an array's macros."""
    lines = [
        f"  item(sizeof({base}_TYPE)); item({base}_OFFSET); item({base}_BYTES); item({base}_COUNT); item({base}_RANK);"
    ]
    for what in ("DIMENSIONS", "STRIDES") if rank else ():
        lines.append(
            f"  {{ const uint64_t list[] = {base}_{what}; for (size_t i = 0; i < {rank}; i++) item(list[i]); }}"
        )
    return "\n".join(lines)


PROGRAM = r"""
#include <stddef.h>
#include <stdio.h>
#include "model.h"
#include "model.h"

static void item(unsigned long long value) { printf("%llu%c", value, 0); }
static void text(const char *value) { printf("%s%c", value, 0); }
struct array { const char *name, *type; uint32_t at, bytes; int32_t init; };
struct constant { const char *name; uint32_t at, bytes; int32_t init; uint64_t in_file; const char *sha256; };
struct request { const char *kind, *name, *target, *opaque; };
struct request_array { uint32_t request; int written; const char *type; uint32_t at, bytes; };

static void show(const struct array *row) {
  for (; row->name; row++) { text(row->name); text(row->type); item(row->at); item(row->bytes); item((uint32_t)row->init); }
}

int main(void) {
  const struct array inputs[] = {MODEL_INPUTS {0}}, weights[] = {MODEL_WEIGHTS {0}};
  const struct array states[] = {MODEL_STATES {0}}, outputs[] = {MODEL_OUTPUTS {0}};
  const struct constant constants[] = {MODEL_CONSTANTS {0}};
  const struct request requests[] = {MODEL_REQUESTS {0}};
  const struct request_array arrays[] = {MODEL_REQUEST_ARRAYS {0}};
  item(MODEL_FORMAT); text(MODEL_NAME); text(MODEL_HASH); text(MODEL_FEATURES); item(MODEL_PAGES); item(MODEL_SIDECAR_BYTES);
  item(MODEL_STATEFUL); item(MODEL_DYNAMIC); item(MODEL_LEAST_DEVICES); item(MODEL_CONFIG); item(MODEL_REQUEST); item(MODEL_STEP_COUNT);
  show(inputs); show(weights); show(states); show(outputs);
  for (const struct constant *c = constants; c->name; c++) {
    text(c->name); item(c->at); item(c->bytes); item((uint32_t)c->init); item(c->in_file); text(c->sha256);
  }
  for (const struct request *r = requests; r->kind; r++) { text(r->kind); text(r->name); text(r->target); text(r->opaque); }
  for (const struct request_array *a = arrays; a->type; a++) {
    item(a->request); item((unsigned)a->written); text(a->type); item(a->at); item(a->bytes);
  }
@ARRAYS@
  return 0;
}
"""  # noqa: E501


def facts(manifest: Manifest) -> list[str | int]:
    """Returns the facts of a manifest in the order in which the program prints them."""
    stated: list[str | int] = [
        manifest.format,
        manifest.name,
        manifest.hash,
        ",".join(manifest.features),
        manifest.pages,
        manifest.sidecar_bytes,
    ]
    requests = [leaf for r in manifest.requests if not isinstance(r, Exchange) for leaf in (*r.operands, *r.results)]
    sized = any(leaf.sizes for leaf in (*manifest.parameters, *manifest.results, *requests))
    least = max(manifest.sharded or 1, manifest.devices.least if manifest.devices else 1)
    stated += [int(manifest.stateful), int(sized), least, manifest.config, manifest.request, len(manifest.steps)]
    places = []
    for leaf in leaves(manifest):
        at, init = leaf.offset, -1
        if isinstance(leaf, Parameter) and leaf.init is not None:
            at, init = manifest.inits[leaf.init].staging, manifest.inits[leaf.init].index
        places.append(at)
        if leaf.kind in KINDS:
            stated += [leaf.name, leaf.element_type, at, leaf.bytes, init % 2**32]
    for init in manifest.inits:
        if init.kind != "weight":
            at, size = (init.staging, init.bytes) if init.kind == "sidecar" else (0, 0)
            stated += [init.name, at, size, init.index, init.sidecar_offset, init.sha256]
    arrays: list[str | int] = []
    for i, request in enumerate(manifest.requests):
        if isinstance(request, Exchange):
            stated += ["exchange", request.name, request.opcode, ""]
            continue
        stated += [request.kind, request.name, request.target, request.opaque]
        for written, group in enumerate((request.operands, request.results)):
            for leaf in group:
                arrays += [i, written, leaf.element_type, leaf.offset, leaf.bytes]
    stated += arrays
    for leaf, at in zip(leaves(manifest), places, strict=True):
        count = leaf.bytes // max(1, _size(leaf))
        stated += [_size(leaf), at, leaf.bytes, count, len(leaf.dimensions), *leaf.dimensions]
        stride, strides = leaf.bytes // max(1, _elements(leaf)), dict.fromkeys(range(len(leaf.dimensions)), 0)
        for d in leaf.minor_to_major:
            strides[d], stride = stride, stride * leaf.dimensions[d]
        stated += strides.values()
    return stated


def _elements(leaf: Any) -> int:
    count = 1
    for size in leaf.dimensions:
        count *= size
    return count


def _size(leaf: Any) -> int:
    """Bytes of the C type: of a complex number it is that of a part."""
    return leaf.bytes // _elements(leaf) // (2 if leaf.element_type[0] == "c" else 1)


HEADED = [name for name in ARTIFACTS if name != "in parts"]
"""The artifacts that have headers: hosts in C know no weights that come in parts."""


@pytest.mark.parametrize("name", [*HEADED, "toy"])
def test_what_c_makes_of_it(name: str, tmp_path: Path) -> None:
    artifact = toy() if name == "toy" else artifacts()[name]
    manifest, text = Manifest.parse(artifact.manifest), header(artifact)
    listed = leaves(manifest)
    assert len(bases(text)) == len(listed)
    arrays = "\n".join(printed(base, len(leaf.dimensions)) for base, leaf in zip(bases(text), listed))
    shown = run(PROGRAM.replace("@ARRAYS@", arrays), {"model.h": text}, tmp_path)
    assert shown == [str(fact) for fact in facts(manifest)]


def test_names_stay_apart() -> None:
    """No macro is defined twice, each begins with the prefix, and names that leave the same letters get numbers."""
    for artifact in (*(artifacts()[name] for name in HEADED), toy()):
        text = header(artifact)
        assert text == header(artifact) and text.isascii()
        macros = re.findall(r"^#define (\S+)", text, re.MULTILINE)
        assert len(macros) == len(set(macros)), [m for m in macros if macros.count(m) > 1]
        assert all(re.fullmatch(r"(XLA_WASM_)?MODEL_[A-Z0-9_]+", macro) and "__" not in macro for macro in macros)
    found = bases(header(named()))
    assert len(found) == 2 * len(NAMES) - 2, "states are listed once"
    assert {"MODEL_INPUT_A_B", "MODEL_WEIGHT_A_B", "MODEL_STATE_A_B", "MODEL_OUTPUT_A_B_2", "MODEL_OUTPUT_A_B_3"} < set(
        found
    )
    assert {"MODEL_OUTPUT_9", "MODEL_OUTPUT_INT", "MODEL_OUTPUT_PARAMS_DENSE_KERNEL"} < set(found)


def test_two_models_in_one_program(tmp_path: Path) -> None:
    body = 'printf("%u%c%u%c", A_INPUT_IMAGE_BYTES, 0, b_INPUT_X_BYTES, 0);'
    program = f'#include <stdio.h>\n#include "a.h"\n#include "b.h"\nint main(void) {{ {body} return 0; }}\n'
    assert run(program, {"a.h": header(digits(), "A"), "b.h": header(dense(), "b")}, tmp_path) == ["256", "1536"]


def test_sizes_and_weights() -> None:
    """Only arrays with dynamic dimensions have macros of their sizes, and only weights of their inits; arrays of
    requests have macros of their places."""
    text = header(dynamic())
    (x,), (y,) = dynamic().manifest["parameters"], dynamic().manifest["results"]
    assert f"#define MODEL_INPUT_X_SIZES {{{x['sizes'][0]}u, 0u}}\n" in text
    assert f"#define MODEL_OUTPUT_RESULT_SIZES {{{y['sizes'][0]}u, 0u}}\n" in text
    assert "/* input 'x': f32[<=5,4], minor_to_major {1,0} */" in text and "#define MODEL_DYNAMIC 1\n" in text
    assert "#define MODEL_INPUT_X_LEAST {0u, 4u}\n" in text and "#define MODEL_FORMAT 1\n" in text
    text = header(ranged())
    assert "#define MODEL_INPUT_X_LEAST {4u, 3u}\n" in text and "#define MODEL_FORMAT 3\n" in text
    assert "/* input 'x': f32[4..8,3], minor_to_major {1,0} */" in text
    text = header(dense())
    assert "#define MODEL_WEIGHT_W_INIT 1\n" in text and "#define MODEL_WEIGHT_B_INIT -1\n" in text
    assert "INPUT_X_INIT" not in text and "_SIZES" not in text
    assert "#define MODEL_REQUEST_0_RESULT_0_OFFSET" in header(
        fed()
    ) and "#define MODEL_REQUEST_1_OPERAND_0_OFFSET" in header(fed())


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_types(element_type: str) -> None:
    """The C type is as wide as an element, or as the part of a complex number."""
    from xla_wasm.hlo.types import TYPES

    name = c_header.c_type(element_type)
    bits = {"float": 32, "double": 64}.get(name) or int(re.findall(r"\d+", name)[0])
    assert bits * (2 if element_type[0] == "c" else 1) == 8 * TYPES[element_type].bytes
    assert name.startswith("u") == (
        TYPES[element_type].kind in ("unsigned", "pred") or bits < 32 and element_type[0] in "fb"
    )


@pytest.mark.parametrize(
    ("stem", "prefix"),
    [("digits", "DIGITS"), ("9 lives", "MODEL_9_LIVES"), ("é", "MODEL"), ("my-net.v2", "MY_NET_V2"), ("__x", "X")],
)
def test_the_prefix_comes_from_the_file(stem: str, prefix: str) -> None:
    assert c_header.prefix_for(stem) == prefix


@pytest.mark.parametrize("prefix", ["", "9", "a b", "é", "_X", "A-B", "A\n"])
def test_prefixes_that_cannot_be(prefix: str) -> None:
    with pytest.raises(ArgumentError, match="cannot begin the names of macros"):
        header(digits(), prefix)
