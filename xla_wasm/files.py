"""Writing files, whole or not at all: whoever reads sees the old content or the new, also if the writer is killed or
the disk is full."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .errors import ArgumentError

Path = str | os.PathLike[str]


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end, unless there was an error; threads may do so at
    once."""
    where, mode = _place(path)
    # Beside it, since a file cannot move to another disk at once. Not named after it: that name may be as long as names
    # can be.
    temporary = os.path.join(os.path.dirname(where), f".xla_wasm-{os.urandom(8).hex()}.tmp")
    try:
        if mode is not None and not stat.S_ISREG(
            mode
        ):  # a pipe or a device: what is written to it has no place that could be taken
            with open(where, "wb") as file:
                yield file
            return
        file = open(temporary, "xb")
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # else a crash of the machine may leave the new name on nothing
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, where)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        if error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _place(path: Path) -> tuple[str, int | None]:
    """The file that a path leads to: of a link, not the link but what it leads to. And its mode, if it is there."""
    try:
        where = os.path.realpath(path)
        return where, os.stat(where).st_mode if os.path.lexists(where) else None
    except ValueError as error:
        raise ArgumentError(f"{os.fspath(path)!a} cannot be the name of a file: {error}") from None


def make_folder(path: Path) -> None:
    """Makes a folder, and those that it lies in, unless it is there."""
    try:
        os.makedirs(path or ".", exist_ok=True)
    except FileExistsError:
        raise ArgumentError(
            f"{os.fspath(path)} is a file, and a folder of that name is to be written to: choose another name"
        ) from None
    except ValueError as error:
        raise ArgumentError(f"{os.fspath(path)!a} cannot be the name of a folder: {error}") from None


def write(path: Path, content: bytes | bytearray | memoryview | str) -> None:
    """Writes a file; text as UTF-8."""
    with writing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_parts(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Writes a file of parts, one after another."""
    with writing(path) as file:
        for part in parts:
            file.write(part)


def copy(source: Path, target: Path) -> None:
    """Copies a file's content."""
    with open(source, "rb") as file, writing(target) as out:
        while block := file.read(1 << 20):
            out.write(block)


def check_outputs(outputs: Iterable[tuple[str, Path]], inputs: Iterable[Path] = ()) -> None:
    """Refuses outputs, each with what it is, that are no names of files, or that would overwrite each other or an
    input.

    Comes before the work, which would be in vain.
    """
    taken: list[tuple[str, Path]] = [("what is read", path) for path in inputs]
    for what, path in outputs:
        try:
            if os.path.isdir(path) or not os.path.basename(path):
                raise ArgumentError(f"{os.fspath(path)} is a folder, and {what} is a file: give it a name")
            other = next((known for known, place in taken if _same(path, place)), None)
        except ValueError as error:
            raise ArgumentError(f"{os.fspath(path)!a} cannot be the name of a file: {error}") from None
        if other is not None:
            raise ArgumentError(
                f"{os.fspath(path)} would be both {other} and {what}, which would overwrite it: choose another name"
            )
        taken.append((what, path))


def _same(a: Path, b: Path) -> bool:
    """Returns True if two paths lead to one file, which need not be there; on some disks the case of letters makes no
    difference."""
    if os.path.realpath(a) == os.path.realpath(b):
        return True
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)
