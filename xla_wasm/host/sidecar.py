"""The bytes of a `.weights` file, checked."""

from __future__ import annotations

from hashlib import sha256

from ..errors import ArtifactError
from .manifest import Manifest


def sidecar_parts(manifest: Manifest, weights: bytes) -> tuple[memoryview, ...]:
    """The bytes of each init, empty for those that are not in the sidecar; hashed once, since files get mixed up."""
    data = memoryview(weights)
    if manifest.sidecar_bytes > len(data):
        why = "and none was given" if not data else f"but has only {len(data)}: it is cut short or of another module"
        raise ArtifactError(
            f"the .weights file of '{manifest.name}' must have {manifest.sidecar_bytes} bytes {why}: take "
            f"the one that was written with the module"
        )
    parts = []
    for init in manifest.inits:
        part = data[init.sidecar_offset : init.sidecar_offset + init.bytes] if init.kind == "sidecar" else data[:0]
        if init.kind == "sidecar" and sha256(part).hexdigest() != init.sha256:
            raise ArtifactError(
                f"the weights of '{init.name}' are not those the module was compiled with: wrong or damaged .weights "
                f"file"
            )
        parts.append(part)
    return tuple(parts)
