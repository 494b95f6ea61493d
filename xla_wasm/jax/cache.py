"""Compiled artifacts on disk, by what they were compiled from: many processes may use one folder at once."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from .. import files
from ..artifact import Artifact
from ..errors import XlaWasmError
from ..options import Options
from .lowering import Traced

MOST_BYTES = 1 << 30
"""The largest size of a folder, unless somebody says otherwise."""
_SUFFIX = ".wasm"
_ABANDONED = 3600
"""Seconds after which the beginning of a file belongs to a process that has ended."""


def default_folder() -> Path:
    """`$XDG_CACHE_HOME/xla_wasm`, or `~/.cache/xla_wasm`."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()) / "xla_wasm"


def key_of(traced: Traced, options: Options) -> str:
    """Returns the name of an artifact in the cache: a hash of the traced program, the options and the compiler. Scopes
    and source lines have no part in it."""
    digest = hashlib.sha256(f"{_compiler()}\n{options!r}\n".encode())
    for part in traced.content():
        digest.update(part)
    return digest.hexdigest()


class Cache:
    """A folder of artifacts, of which those that were not used for longest go when there are too many bytes.

    A folder that cannot be read or written is one without artifacts: nobody's work depends on it.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = default_folder() if folder is None else Path(folder)
        self.most_bytes = most_bytes

    def get(self, key: str) -> Artifact | None:
        """The artifact of this key; None if there is none, or the file is damaged, which `put` replaces."""
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            artifact = Artifact.open(path.read_bytes())
            if not artifact.is_whole():
                return None
            os.utime(path)
        except (OSError, XlaWasmError):
            return None
        return artifact

    def put(self, key: str, artifact: Artifact) -> None:
        """Keeps an artifact, unless it would take more than half of the room, and makes room for others."""
        size = sum(artifact.sizes)
        if size > self.most_bytes // 2 or artifact.sizes[1]:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write(self.folder / f"{key}{_SUFFIX}", artifact.wasm)
            self._make_room()

    def _make_room(self) -> None:
        found = []
        for entry in os.scandir(self.folder):
            with suppress(FileNotFoundError):  # another process makes room too
                status = entry.stat()
                if entry.name.endswith(_SUFFIX):
                    found.append((status.st_mtime_ns, status.st_size, entry.path))
                elif entry.name.endswith(".tmp") and time.time() - status.st_mtime > _ABANDONED:
                    os.unlink(entry.path)
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.most_bytes:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


@cache
def _compiler() -> str:
    """The compiler as it is on disk: its version, and the size and time of every file of it, which differ where it is
    being worked on."""
    from .. import __version__

    root = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{__version__} {sys.version_info[:2]}".encode())
    for path in sorted(p for pattern in ("*.py", "*.bin") for p in root.rglob(pattern)):
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
