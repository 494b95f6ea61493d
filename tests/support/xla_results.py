"""Results that XLA:CPU once gave for a module and its arguments. XLA takes longer to compile most of the modules than
all the rest of their tests takes.

A result is looked up by the hash of module, arguments, version of jaxlib, its flags and kind of processor, in
`tests/data/xla_results.json.gz`, then in `.tools/xla-results/`, where each new one is put. With `--exhaustive` XLA is
asked again. `python -m tests.support.xla_results` writes the first of these from the small ones in the second: after a
whole run with an empty folder and without that file, it has what the tests ask for and nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes  # noqa: F401  numpy gets to know the names of its types
import numpy as np

from . import seeds
from .paths import ROOT

Array = np.ndarray[Any, Any]
Results = list[list[Array]]
"""Of each device."""

_PACK = ROOT / "tests" / "data" / "xla_results.json.gz"
_FOLDER = ROOT / ".tools" / "xla-results"
_MOST, _MOST_PACKED = 1 << 20, 1 << 13
"""Bytes of results that are kept, and of those that become part of the tree."""


def key(proto: bytes, arguments: Sequence[Sequence[Any]], replicas: int, partitions: int) -> str:
    """Returns the key that a result is looked up by: 20 hexadecimal digits."""
    import jaxlib

    told = hashlib.sha256(proto)
    flags = sorted({*os.environ.get("XLA_FLAGS", "").split()})  # a process of pytest-xdist has them twice
    about = [jaxlib.__version__, flags, platform.machine(), replicas, partitions]
    told.update(json.dumps(about).encode())
    for device in arguments:
        for value in map(np.asarray, device):
            told.update(f"{value.dtype.name}{value.shape}".encode() + value.tobytes())
    return told.hexdigest()[:20]


def known(key: str) -> Results | None:
    """The results, if XLA has given them before."""
    if seeds.exhaustive:
        return None
    if (told := _pack().get(key)) is None:
        try:
            told = json.loads((_FOLDER / key).read_text())
        except FileNotFoundError:
            return None
    return [
        [np.frombuffer(base64.b64decode(data), np.dtype(name)).reshape(shape).copy() for name, shape, data in device]
        for device in told
    ]


def keep(key: str, results: Results) -> None:
    """Keeps the results, unless they are large."""
    if sum(array.nbytes for device in results for array in device) > _MOST:
        return
    told = [
        [[array.dtype.name, array.shape, base64.b64encode(array.tobytes()).decode()] for array in device]
        for device in results
    ]
    _FOLDER.mkdir(parents=True, exist_ok=True)
    # Other processes read and write here.
    new = _FOLDER / f"{key}.{os.getpid()}"
    new.write_text(json.dumps(told, separators=(",", ":")))
    new.replace(_FOLDER / key)


@cache
def _pack() -> dict[str, Any]:
    return json.loads(gzip.decompress(_PACK.read_bytes())) if _PACK.exists() else {}


def main() -> None:
    small = (path for path in sorted(_FOLDER.iterdir()) if path.stat().st_size <= _MOST_PACKED)
    found = {path.name: json.loads(path.read_text()) for path in small}
    data = json.dumps(found, separators=(",", ":")).encode()
    _PACK.write_bytes(gzip.compress(data, mtime=0))
    print(f"{_PACK}: {len(found)} results, {_PACK.stat().st_size} bytes")


if __name__ == "__main__":
    main()
