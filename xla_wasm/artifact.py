"""The artifact: one `.wasm` file whose custom section `xla_wasm` holds the manifest, and perhaps a `.weights` file beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import files
from .dataclass import dataclass, field
from .errors import ArtifactError
from .wasm.encoding import custom_section

if TYPE_CHECKING:
    from pathlib import Path

SECTION = "xla_wasm"
FORMAT = 1


@dataclass(frozen=True)
class Artifact:
    """A compiled module: the `.wasm` bytes, the manifest they carry, and the bytes of the sidecar (empty when there is none).

    `callbacks` are the Python functions that the program calls, by the names of its requests; no file holds them.
    """

    wasm: bytes
    manifest: dict[str, Any]
    weights: bytes = b""
    callbacks: Mapping[str, Callable[..., Any]] = field(default_factory=dict, compare=False, repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the `.wasm` to `path`, and the weights (if any) beside it under the suffix `.weights`; returns `path`."""
        from pathlib import Path

        target = Path(path)
        files.check_outputs(outputs(target, bool(self.weights)))
        if self.weights:
            files.write(target.with_suffix(".weights"), self.weights)
        files.write(target, self.wasm)
        return target

    @classmethod
    def open(cls, source: str | os.PathLike[str] | bytes | bytearray | memoryview, weights: bytes | None = None) -> Artifact:
        """Reads an artifact from a path or from the bytes of a `.wasm`; a path brings the `.weights` file beside it, if there is one."""
        if isinstance(source, (bytes, bytearray, memoryview)):
            wasm = bytes(source)
        else:
            from pathlib import Path

            path = Path(source)
            wasm = path.read_bytes()
            sidecar = path.with_suffix(".weights")
            if weights is None and sidecar != path and sidecar.is_file():
                weights = sidecar.read_bytes()
        return cls(wasm, read_manifest(wasm), weights or b"")


def outputs(path: Path, weights: bool) -> Iterator[tuple[str, Path]]:
    """What `save` writes at a path, each file with what it is."""
    yield "the module", path
    if weights:
        yield "its weights", path.with_suffix(".weights")


def encode_manifest(manifest: dict[str, Any]) -> bytes:
    """The content of the custom section: compact JSON in the order of the dictionary, so equal manifests give equal bytes."""
    return json.dumps(manifest, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def read_manifest(wasm: bytes) -> dict[str, Any]:
    """The manifest inside a `.wasm`, parsed but not yet checked: `xla_wasm.host.manifest` does that."""
    if wasm[:4] != b"\0asm":
        raise ArtifactError("this is not a WebAssembly module: it does not begin with the bytes '\\0asm'")
    section = custom_section(wasm, SECTION)
    if section is None:
        raise ArtifactError(f"this WebAssembly module has no custom section '{SECTION}': it was not made by xla_wasm, or was stripped")
    try:
        manifest = json.loads(bytes(section).decode(), parse_constant=_refuse_constant)
        json.dumps(manifest, ensure_ascii=False).encode()  # JSON can state half of a surrogate pair, which is no text
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the manifest in section '{SECTION}' is not valid JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise ArtifactError(f"the manifest in section '{SECTION}' must be a JSON object, not {type(manifest).__name__}")
    return manifest


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
