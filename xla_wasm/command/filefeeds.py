"""Exchanges of a run from the command line with its host: items from files, and files of what comes out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..check.draws import Draw, Drawing
from ..errors import ArgumentError, counted
from ..host.arrays import Array
from ..host.leaf import Leaf
from ..host.manifest import Manifest
from .inputs import opened

Key = tuple[str, str]
"""Kind and name of a transfer; infeed and outfeed have no name."""


def _elements(leaf: Leaf | None) -> int:
    return 0 if leaf is None else math.prod(leaf.dimensions)


class FileFeeds:
    """The ends of all transfers of a module. `came` holds what the first run put out, in order."""

    def __init__(
        self,
        manifest: Manifest,
        infeed: Sequence[Path],
        outfeed: Path | None,
        recv: Sequence[str],
        send: Sequence[str],
        drawing: Drawing | None,
        draw: Draw,
    ) -> None:
        """`recv` and `send` are pairs NAME=FILE and NAME=DIR; with a `drawing`, what no file gives is made up."""
        self._leaves: dict[Key, list[tuple[Leaf, ...]]] = {}
        for request in manifest.transfers.values():
            self._leaves.setdefault((request.kind, request.target), []).append(request.results or request.operands)
        self._files: dict[Key, list[Path]] = {("infeed", ""): list(infeed)}
        self._folders: dict[Key, Path] = {} if outfeed is None else {("outfeed", ""): outfeed}
        for pair in recv:
            name, path = self._named("recv", pair)
            self._files.setdefault(("recv", name), []).append(path)
        for pair in send:
            name, folder = self._named("send", pair)
            self._folders[("send", name)] = folder
        for kind, given in (("infeed", infeed), ("outfeed", outfeed)):
            if given and (kind, "") not in self._leaves:
                raise ArgumentError(f"--{kind}: the module has no {kind}, leave it out")
        self._drawing, self._draw = drawing, draw
        self.came: list[tuple[str, list[Array]]] = []

    def _named(self, kind: str, pair: str) -> tuple[str, Path]:
        name, separator, path = pair.rpartition("=")
        if not separator or (kind, name) not in self._leaves or (kind == "recv" and not Path(path).is_file()):
            known = ", ".join(name for same, name in self._leaves if same == kind)
            if not known:
                raise ArgumentError(f"--{kind} {pair}: the module has no {kind}, leave it out")
            what = "a file" if kind == "recv" else "a folder"
            raise ArgumentError(
                f"--{kind} {pair}: expected NAME={'X.NPY' if kind == 'recv' else 'DIR'} with a name ({known}) and "
                f"{what}"
            )
        return name, Path(path)

    def ends(self) -> dict[str, Any]:
        """Returns the feeds that a run takes: every run gets the same items."""
        self.came = []
        made: dict[str, Any] = {}
        for kind, name in self._leaves:
            end = self._source((kind, name)) if kind in ("infeed", "recv") else self._sink(kind, name)
            if name:
                made.setdefault(kind, {})[name] = end
            else:
                made[kind] = end
        return made

    def _source(self, key: Key) -> Iterator[Array | tuple[Array, ...]]:
        shapes = self._leaves[key]
        types = {tuple(leaf.element_type for leaf in leaves) for leaves in shapes}
        # Files do not know the small types; where instructions differ in theirs, items have to be of others.
        known = next(iter(types)) if len(types) == 1 else None
        sizes = [max(map(_elements, same)) for same in itertools.zip_longest(*shapes)]
        for path in self._files.get(key, ()):
            arrays = opened(path).listed(known, sizes)
            yield arrays[0] if len(arrays) == 1 else tuple(arrays)
        if (
            self._drawing is not None
            and len({tuple(leaf.dimensions for leaf in leaves) for leaves in shapes}) == len(types) == 1
        ):
            for number in itertools.count():
                yield tuple(self._drawing.item(self._draw, number, key[1] or None, shapes[0]))

    def _sink(self, kind: str, name: str) -> Any:
        count = itertools.count()

        def take(value: Any) -> None:
            arrays = list(value) if isinstance(value, tuple) else [value]
            self.came.append((f"{kind} {name or ''}".strip() + f" {next(count)}", arrays))

        return take

    def write(self) -> list[str]:
        """Writes what came out, 0.npy, 1.npy, ... into the folder of each transfer, and says so; several arrays go into
        one .npz."""
        said = []
        for (kind, name), folder in self._folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            own = [arrays for label, arrays in self.came if label.rpartition(" ")[0] == f"{kind} {name}".strip()]
            for i, arrays in enumerate(own):
                with files.writing(folder / (f"{i}.npy" if len(arrays) == 1 else f"{i}.npz")) as file:
                    if len(arrays) == 1:
                        np.save(file, arrays[0])
                    else:
                        np.savez(file, *arrays)
            said.append(f"{counted(len(own), 'item')} of {f'{kind} {name}'.strip()} written to {folder}/")
        return said
