"""From the body of a request to the arrays of a run, and from its results to the body of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import counted
from ..hlo.types import TYPES
from ..host.arrays import Array, dtype_of
from ..host.leaf import Leaf
from . import forms, json_arrays
from .accept import best
from .npy_arrays import check_names, from_npy, from_npz, from_raw, npy_bound, npz_bound, to_npy, to_npz, to_raw
from .problems import Problem, unfit, unreadable

JSON, NPY, NPZ, ZIP, RAW = (
    "application/json",
    "application/x-npy",
    "application/x-npz",
    "application/zip",
    "application/octet-stream",
)
FORM, TEXT = "multipart/form-data", "text/plain"
_OF_CURL = "application/x-www-form-urlencoded"
"""The type that `curl -d` gives to any body."""
BODIES = (JSON, NPY, NPZ, ZIP, FORM, RAW)
ANSWERS = (JSON, NPY, NPZ, ZIP, RAW)
_ENDINGS = {".json": JSON, ".npy": NPY, ".npz": NPZ, ".zip": ZIP, ".txt": TEXT, ".csv": TEXT, ".bin": RAW, ".raw": RAW}
_SINGLE = (NPY, RAW)
"""Forms that hold one array."""


def body_type(header: str | None) -> str:
    """The form of a body, of BODIES, by the header `Content-Type`."""
    media_type = (header or JSON).partition(";")[0].strip().lower() or JSON
    if media_type not in BODIES:
        cure = f"; with curl -d add -H 'Content-Type: {JSON}'" if media_type == _OF_CURL else ""
        raise Problem(415, f"bodies of type {media_type[:80]} are not known; the types are: {', '.join(BODIES)}{cure}")
    return media_type


def answer_type(accept: str | None, body: str, results: Sequence[Leaf]) -> str:
    """The form of the answer, of ANSWERS, by the header `Accept`; by default that of the body."""
    usual = {NPY: NPY, NPZ: NPZ, ZIP: ZIP, RAW: RAW}.get(body, JSON)
    if usual in _SINGLE and len(results) != 1:
        usual = NPZ
    offered = [usual, *(kind for kind in ANSWERS if kind != usual)]
    able = [kind for kind in offered if kind not in _SINGLE or len(results) == 1]
    chosen = best(accept, able)
    if chosen is None:
        hint = (
            f"; {NPY} and {RAW} hold one array, and the model has {counted(len(results), 'result')}: ask for {NPZ}"
            if best(accept, offered)
            else ""
        )
        raise Problem(
            406, f"none of the types that the header Accept names can be given{hint}; the types are: {', '.join(able)}"
        )
    return chosen


class Reader:
    """The inputs of a model, as requests bring them."""

    def __init__(self, inputs: Sequence[Leaf], most: int | None = None) -> None:
        """`most` bounds the bytes of bodies of all forms; else each has its own bound, from the sizes of the inputs."""
        self._inputs = tuple(inputs)
        self._read: Mapping[str, Callable[[str, bytes], list[Array]]] = {
            JSON: lambda _, data: self._from_json(data),
            NPY: lambda _, data: [from_npy(self._only(NPY), data)],
            NPZ: lambda _, data: from_npz(self._inputs, data),
            ZIP: lambda _, data: from_npz(self._inputs, data),
            FORM: self._from_form,
            RAW: lambda _, data: [from_raw(self._only(RAW), data)],
        }
        text = sum(json_arrays.bound(leaf) + 2 * len(json.dumps(leaf.name)) for leaf in inputs) + 1024
        files = npz_bound(inputs)
        raw = sum(leaf.bytes for leaf in inputs)
        npy = sum(map(npy_bound, inputs))
        # A form has parts of any form, each with headers.
        form = text + files + 2048 * len(inputs) + 2048
        bounds = {JSON: text, NPY: npy, NPZ: files, ZIP: files, FORM: form, RAW: raw}
        self.bounds = {kind: bound if most is None else most for kind, bound in bounds.items()}
        """The largest body of each form, in bytes."""

    def read(self, kind: str, header: str | None, data: bytes) -> list[Array]:
        """The arrays of a body of a form; `header` is `Content-Type` in full. Problem if they are not there, or do not
        fit."""
        if not data and not self._inputs:
            return []
        return self._read[kind](header or "", data)

    def _only(self, kind: str) -> Leaf:
        if len(self._inputs) != 1:
            names = ", ".join(leaf.name for leaf in self._inputs) or "none"
            raise unfit(
                f"a body of type {kind} is one array, and the model has "
                f"{counted(len(self._inputs), 'input')}: {names}; send {NPZ} or {JSON}"
            )
        return self._inputs[0]

    def _from_json(self, data: bytes) -> list[Array]:
        value = json_arrays.parse(data)
        if not isinstance(value, dict):
            if len(self._inputs) != 1:
                names = ", ".join(leaf.name for leaf in self._inputs) or "none"
                raise unfit(f"the body must be a JSON object with a member for each input ({names})")
            return [json_arrays.to_array(self._inputs[0], value)]
        check_names([leaf.name for leaf in self._inputs], list(value))
        return [json_arrays.to_array(leaf, value[leaf.name]) for leaf in self._inputs]

    def _from_form(self, header: str, data: bytes) -> list[Array]:
        found = forms.given(forms.parts(header, data))
        check_names([leaf.name for leaf in self._inputs], list(found))
        return [_from_part(leaf, found[leaf.name]) for leaf in self._inputs]


def _from_part(leaf: Leaf, part: forms.Part) -> Array:
    kind = part.media_type
    if kind in ("", TEXT, RAW):  # what browsers call the files that they do not know
        ending = part.filename[part.filename.rfind(".") :].lower() if "." in part.filename else ""
        kind = _ENDINGS.get(ending, kind or TEXT)
    if kind == TEXT:
        return _from_text(leaf, part.content)
    if kind == JSON:
        return json_arrays.to_array(leaf, json_arrays.parse(part.content), infer=True)
    if kind == NPY:
        return from_npy(leaf, part.content)
    if kind in (NPZ, ZIP):
        return from_npz([leaf], part.content)[0]
    if kind == RAW:
        return from_raw(leaf, part.content)
    raise Problem(415, f"part '{part.name}' of the form has the type {kind[:80]}, which is not known", field=leaf.name)


def _from_text(leaf: Leaf, data: bytes) -> Array:
    """Numbers with spaces, commas or lines between them, or JSON."""
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise unreadable(f"input '{leaf.name}' is not text: byte {error.start} is not UTF-8", leaf.name) from None
    if text.startswith("["):
        return json_arrays.to_array(leaf, json_arrays.parse(text.encode()), infer=True)
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    numbers: Any = [_number(leaf, word) for word in words]
    return json_arrays.to_array(leaf, numbers[0] if len(numbers) == 1 and not leaf.dimensions else numbers, infer=True)


_WORDS = {"true": True, "false": False, "inf": "Infinity", "+inf": "Infinity", "-inf": "-Infinity"} | {
    word.lower(): word for word in json_arrays.SPECIAL
}


def _number(leaf: Leaf, word: str) -> Any:
    """A word as what JSON would have for it."""
    try:
        if TYPES[leaf.element_type].kind == "complex":
            number = complex(word[:-1] + "j" if word.endswith("i") else word)
            return [_WORDS.get(str(part), part) for part in (number.real, number.imag)]
        known = _WORDS.get(word.lower())
        if known is not None:
            return known
        return int(word) if re.fullmatch(r"[+-]?\d{1,400}", word, re.ASCII) else float(word)
    except ValueError:
        raise unreadable(f"input '{leaf.name}': {word[:40]!r} is not a number", leaf.name) from None


def write(kind: str, results: Sequence[Leaf], arrays: Sequence[Array]) -> bytes:
    """The body of an answer of a form that `answer_type` has chosen."""
    if kind == NPY:
        return to_npy(arrays[0])
    if kind == RAW:
        return to_raw(arrays[0])
    if kind in (NPZ, ZIP):
        return to_npz({leaf.name: array for leaf, array in zip(results, arrays)})
    lists = {leaf.name: json_arrays.to_lists(array, leaf.element_type) for leaf, array in zip(results, arrays)}
    return json.dumps(lists, separators=(",", ":"), allow_nan=False).encode()


def example(leaf: Leaf) -> Array:
    """Zeros (ones of the type that has no zero) that the input takes, for descriptions; of dynamic dimensions one
    element, if there may be so few."""
    shape = [min(bound, max(least, 1)) for bound, least in zip(leaf.dimensions, leaf.least_dimensions)]
    return (np.ones if leaf.element_type == "f8e8m0fnu" else np.zeros)(shape, dtype_of(leaf.element_type))
