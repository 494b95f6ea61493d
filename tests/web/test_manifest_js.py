"""Both hosts take and refuse the same manifests: those of programs, changed at random by the table of fields."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import xla_wasm
from tests.support import seeds
from tests.support.embedding_cases import (
    collective,
    counter,
    divided,
    dynamic,
    fed,
    for_threads,
    in_parts,
    ranged,
    sent,
)
from tests.support.node_host import node_for
from tests.support.paths import ROOT
from tests.support.processes import output
from tests.support.toy_artifact import toy
from xla_wasm import Artifact
from xla_wasm.artifact import encode_manifest
from xla_wasm.host.manifest_fields import FIELDS, MAX_INT, ROWS, Field, field_of
from xla_wasm.wasm.encoding import named, sized

PROGRAMS: dict[str, Callable[[], Artifact]] = {
    "toy": toy,
    "in parts": in_parts,
    "state": counter,
    "dynamic": dynamic,
    "ranged": ranged,
    "collective": collective,
    "sent": sent,
    "fed": fed,
    "divided": divided,
    "for threads": for_threads,
    "for threads, with a file": lambda: for_threads(sidecar=True),
}
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    MAX_INT + 1,
    "",
    "x",
    [],
    [None],
    [-1],
    ["x"],
    {},
    {"x": 1},
    [[]],
)
"""Values of every type of JSON, to stand where another is meant."""
OPTIONAL = ("kind", "structure", "threads", "undivided")
"""Fields that most manifests do not have."""
REMOVED = object()
Path_ = tuple[str | int, ...]


def places(value: Any, path: Path_ = (), place: str = "") -> Iterator[tuple[Path_, Field]]:
    """Every field of a manifest that the table has, with its row."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i), f"{place}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            inside = "array.shards" if place.endswith("].shards") else place
            if f"{inside}.{key}".strip(".") in FIELDS or f"array.{key}" in FIELDS:
                yield (*path, key), field_of(inside, key)
            yield from places(item, (*path, key), f"{place}.{key}".strip("."))


def wrong_values(row: Field, value: Any, memory: int) -> list[Any]:
    """Returns the values that a field may become: nothing, a value of another type, one beyond a limit or beside it."""
    values: list[Any] = [REMOVED, *ODD, *row.choices]
    if isinstance(value, int) and not isinstance(value, bool):
        values += [value + 1, value - 1, 2 * value, row.low - 1, row.low, memory, memory - row.size, memory + 1]
        values += [n for n in (row.high, row.high + 1) if n <= MAX_INT]
    if isinstance(value, list) and value:
        values += [value[:-1], value[::-1], [*value, value[-1]], [value[0], *ODD[:4]]]
    return values


def changed(manifest: dict[str, Any], draw: random.Random) -> tuple[dict[str, Any], str]:
    """A manifest in which one field or two are wrong, or differ from what is right; and what was done."""
    made, done = copy.deepcopy(manifest), []
    for _ in range(draw.choice((1, 1, 1, 2))):
        # JavaScript cannot ask how large the memory is that a module imports, and does not copy packed weights.
        unread = [("pages",)] if manifest.get("threads") else []
        present = [(p, r) for p, r in places(made) if p not in unread and p[-1] != "kept"]
        absent = [((row.path,), row) for row in ROWS if row.path in OPTIONAL and row.path not in made]
        path, row = draw.choice(absent if absent and draw.random() < 0.1 else present)
        at: Any = made
        for key in path[:-1]:
            at = at[key]
        value = draw.choice(wrong_values(row, at.get(path[-1]), manifest["pages"] * 65536))
        if value is REMOVED:
            at.pop(path[-1], None)
        else:
            at[path[-1]] = copy.deepcopy(value)
        done.append(f"{'.'.join(map(str, path))}: {'removed' if value is REMOVED else json.dumps(value)}")
    return made, ", ".join(done)


def in_python(artifact: Artifact, manifest: dict[str, Any]) -> str | None:
    """Returns the message by which `load` refuses the artifact with another manifest; None if it takes it."""
    try:
        xla_wasm.load(Artifact(artifact.wasm, manifest, artifact.weights), threads=1).close()
    except xla_wasm.XlaWasmError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", PROGRAMS)
def test_hosts_agree(name: str, tmp_path: Path) -> None:
    artifact, draw = PROGRAMS[name](), random.Random(name)
    cases = [(copy.deepcopy(artifact.manifest), "as it is")]
    cases += [changed(artifact.manifest, draw) for _ in range(seeds.count(150, 2000))]
    section = sized(named("xla_wasm") + encode_manifest(artifact.manifest))
    program = {
        "bare": base64.b64encode(artifact.wasm[: -len(section) - 1]).decode(),
        "weights": base64.b64encode(artifact.weights).decode() if artifact.weights else None,
        "manifests": [json.dumps(manifest) for manifest, _ in cases],
    }
    (tmp_path / "programs.json").write_text(json.dumps([program]))
    command = [node_for("simd128"), ROOT / "tests" / "js" / "manifests.mjs", tmp_path / "programs.json"]
    (said,) = json.loads(output(command))
    own = [in_python(artifact, manifest) for manifest, _ in cases]
    assert own[0] is None and said[0] is None, (own[0], said[0])
    assert sum(answer is not None for answer in own) > len(own) // 3
    differ = [
        f"{what}\n  Python: {mine}\n  JavaScript: {theirs}"
        for (_, what), mine, theirs in zip(cases, own, said)
        if (mine is None) is not (theirs is None)
    ]
    assert not differ, "\n".join(differ)
