"""The artifact: one `.wasm` file whose custom section `xla_wasm` holds the manifest, and perhaps a `.weights` file
beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import files, showing
from .errors import ArtifactError
from .wasm.encoding import custom_section
from .wasm.module import custom

if TYPE_CHECKING:
    from pathlib import Path

SECTION = "xla_wasm"
FORMAT = 1
FORMAT_OF_PARTS = 2
"""Of manifests in which a weight comes in parts: hosts that do not know these must refuse it."""
FORMAT_OF_RANGES = 3
"""Of manifests in which an array has `least`: hosts that do not know it would let sizes in that the program is not made
for."""
FORMATS = (FORMAT, FORMAT_OF_PARTS, FORMAT_OF_RANGES)
"""All that hosts read."""


Parts = Sequence[bytes | memoryview]
"""Bytes one after another: constants are views of the file that they came from, and no copy is made of them before
somebody needs one."""


class Artifact:
    """A compiled module: the `.wasm` bytes, the manifest they carry, and the bytes of the sidecar (empty when there is
    none).

    `callbacks` are the Python functions that the program calls, by the names of its requests; no file holds them.
    """

    source: Callable[[], Any] = staticmethod(lambda: None)
    """Returns the `HloModule` that this process has compiled it from, by which `run(check_nan=True)` searches; None if
    there is none any more."""

    def __init__(
        self,
        wasm: bytes | Parts,
        manifest: dict[str, Any],
        weights: bytes | Parts = b"",
        callbacks: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.manifest = manifest
        """The module's interface and needs, as docs/embedding.md describes them."""
        self.callbacks = callbacks or {}
        """The Python functions that the program calls, by the names that hosts have for them; no file holds them."""
        self.trees: Any = None
        """The structure of arguments and results as JAX has it, of a function that this process has lowered."""
        self._wasm: Parts = (wasm,) if isinstance(wasm, bytes) else tuple(wasm)
        self._weights: Parts = (weights,) if isinstance(weights, bytes) else tuple(weights)

    @property
    def wasm(self) -> bytes:
        """The bytes of the module, made in one piece when they are first asked for; `save` does without."""
        self._wasm = (whole := _whole(self._wasm),)
        return whole

    @property
    def weights(self) -> bytes:
        """The bytes of the sidecar, likewise."""
        self._weights = (whole := _whole(self._weights),)
        return whole

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of the module, and of the sidecar."""
        return sum(map(len, self._wasm)), sum(map(len, self._weights))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Artifact):
            return NotImplemented
        return (self.wasm, self.manifest, self.weights) == (other.wasm, other.manifest, other.weights)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return showing.line(
            "Artifact", str(self.manifest.get("name")), showing.of_manifest(self.manifest), self._notes()
        )

    def _repr_html_(self) -> str:
        """Returns the table that notebooks show."""
        return showing.table(
            "Artifact", str(self.manifest.get("name")), showing.of_manifest(self.manifest), self._notes()
        )

    def _notes(self) -> list[str]:
        size, weights = self.sizes
        return [f"{size:,} bytes", *([f"{weights:,} bytes of weights"] if weights else [])]

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: bytes in the place of views of the file that they came from."""
        return {
            "manifest": self.manifest,
            "callbacks": self.callbacks,
            "trees": None,  # JAX's cannot be pickled
            "_wasm": (self.wasm,),
            "_weights": (self.weights,),
        }

    def is_whole(self) -> bool:
        """Returns True if the bytes of the module are those that the hash in its manifest was taken of. The sidecar's
        have hashes of their own."""
        import hashlib

        wasm, content = self.wasm, encode_manifest(self.manifest)
        section = custom(SECTION, content)
        if not wasm.endswith(section):
            return False
        digest = hashlib.sha256(memoryview(wasm)[: -len(section)])
        digest.update(encode_manifest({**self.manifest, "hash": ""}))
        return digest.hexdigest() == self.manifest.get("hash")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the `.wasm` to `path`, and the weights (if any) beside it under the suffix `.weights`; returns
        `path`."""
        from pathlib import Path

        target = Path(path)
        has_weights = self.sizes[1] > 0
        files.check_outputs(outputs(target, has_weights))
        if has_weights:
            files.write_parts(target.with_suffix(".weights"), self._weights)
        files.write_parts(target, self._wasm)
        return target

    @classmethod
    def open(
        cls, source: str | os.PathLike[str] | bytes | bytearray | memoryview, weights: bytes | None = None
    ) -> Artifact:
        """Reads an artifact from a path or from the bytes of a `.wasm`; a path brings the `.weights` file beside it, if
        there is one."""
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


def _whole(parts: Parts) -> bytes:
    return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)


def outputs(path: Path, weights: bool) -> Iterator[tuple[str, Path]]:
    """Yields the files that `save` writes at a path, each with its content."""
    yield "the module", path
    if weights:
        yield "its weights", path.with_suffix(".weights")


def encode_manifest(manifest: dict[str, Any]) -> bytes:
    """The content of the custom section: compact JSON in the order of the dictionary, so equal manifests give equal
    bytes."""
    return json.dumps(manifest, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def read_manifest(wasm: bytes) -> dict[str, Any]:
    """The manifest inside a `.wasm`, parsed but not yet checked: `xla_wasm.host.manifest` does that."""
    if wasm[:4] != b"\0asm":
        raise ArtifactError("this is not a WebAssembly module: it does not begin with the bytes '\\0asm'")
    section = custom_section(wasm, SECTION)
    if section is None:
        raise ArtifactError(
            f"this WebAssembly module has no custom section '{SECTION}': it was not made by xla_wasm, or was "
            f"stripped: compile it with "
            "xla_wasm, and leave its sections in it"
        )
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
