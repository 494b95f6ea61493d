"""Arrays as files have them and as models are sent them: .npy, .npz and forms, with the types that name them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
JSON, NPY, NPZ, RAW = "application/json", "application/x-npy", "application/x-npz", "application/octet-stream"


def npy(array: Array) -> bytes:
    """An array as numpy.save writes it."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(deflated: bool = False, *arrays: Array, **named: Array) -> bytes:
    """Arrays as numpy.savez writes them."""
    file = io.BytesIO()
    (np.savez_compressed if deflated else np.savez)(file, *arrays, **named)  # type: ignore[arg-type]
    return file.getvalue()


def load_npy(data: bytes) -> Array:
    """The array of a .npy file; of types that NumPy lacks the bytes."""
    array: Array = np.load(io.BytesIO(data))
    return array


def load_npz(data: bytes) -> dict[str, Array]:
    """The arrays of a .npz file."""
    return dict(np.load(io.BytesIO(data)))


def multipart(parts: list[tuple[str, str, str, bytes]]) -> tuple[bytes, str]:
    """A form of (name, file name, type, content), and its Content-Type."""
    boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
    body = b""
    for name, filename, type_, content in parts:
        name = name.replace('"', "%22")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"' + (
            f'; filename="{filename}"' if filename else ""
        )
        body += (head + (f"\r\nContent-Type: {type_}" if type_ else "") + "\r\n\r\n").encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def damaged(data: bytes, rng: np.random.Generator, cut: bool) -> bytes:
    """With other bytes in a few places, and without its end if it is `cut`."""
    changed = bytearray(data[: int(rng.integers(len(data)))] if cut else data)
    for _ in range(int(rng.integers(1, 4))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)
