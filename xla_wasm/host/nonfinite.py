"""Runs that end in an error where a result has a NaN or an infinity, with the instruction in which that begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ArgumentError, NonFiniteError, UnsupportedError
from ..hlo.ir import Module
from ..hlo.signature import parameter_leaves
from .arrays import Array
from .manifest import Manifest

if TYPE_CHECKING:
    from ..artifact import Artifact

Get = Callable[[str], Array]
"""Returns a copy of a weight or a state by its name."""


class Watch:
    """The values that a run begins with. Its results are looked at when it has ended."""

    def __init__(self, module: Module, manifest: Manifest, inputs: Sequence[Array], get: Get) -> None:
        """`inputs` are the arrays of the run in order; the rest is where the run will read it."""
        given = iter(inputs)
        self._module, self._manifest, self._get = module, manifest, get
        self._begun = [
            None if p.kind == "weight" else np.copy(next(given)) if p.kind == "input" else get(p.name)
            for p in manifest.parameters
        ]
        """The arguments, but for weights, which the run leaves as they are."""
        self._states = [p.name for p in manifest.parameters if p.kind == "state"]

    def check(self, results: Sequence[Array]) -> None:
        """Raises NonFiniteError if a result, or a state, is not finite, as `complain` does."""
        names = [r.name for r in self._manifest.results if r.kind == "output"]
        after = [*zip(names, results), *((name, self._get(name)) for name in self._states)]
        complain(after, lambda: self._module, self._arguments, self._manifest.name, self._manifest.target)

    def _arguments(self) -> list[Array]:
        parameters = self._manifest.parameters
        return [self._get(p.name) if array is None else array for p, array in zip(parameters, self._begun)]


def complain(
    results: Iterable[tuple[str, Array]],
    module: Callable[[], Module],
    arguments: Callable[[], Sequence[Array]],
    program: str,
    target: str,
    nan: bool = True,
    infinity: bool = True,
) -> None:
    """Raises NonFiniteError if a result has a NaN or an infinity that does not come from constants or infinite
    arguments alone. `arguments` gives the flattened ones of the module, before the run."""
    found = next((name for name, array in results if _has(array, nan, infinity)), None)
    if found is None:
        return
    try:
        told = module().explain_nonfinite(*arguments(), target=target, nan=nan, infinity=infinity)
    except (UnsupportedError, ArgumentError) as error:  # of weights of which the numbers are gone
        told = f"where it begins cannot be searched for: {error}"
    if told:
        raise NonFiniteError(f"'{found}' of '{program}' is not finite: {told}")


def source_of(artifact: Artifact, given: Module | bool, manifest: Manifest, physical: bool) -> Module:
    """The module that an artifact was compiled from: the given one, or the one that it still knows."""
    if physical:
        raise ArgumentError("check_nan takes logical arrays: load without physical=True")
    if manifest.requests:
        raise UnsupportedError(
            f"'{manifest.name}' calls its host, and check_nan would run its instructions once more without one"
        )
    module = artifact.source() if given is True else given
    if not isinstance(module, Module):
        raise ArgumentError(
            f"check_nan needs the module of '{manifest.name}', which files of artifacts do not have: give it, "
            "check_nan=module, or let the command look: xla-wasm check --nan"
        )
    if [name for name, _ in parameter_leaves(module)] != [p.name for p in manifest.parameters]:
        raise ArgumentError(f"check_nan: '{module.name}' is not what '{manifest.name}' was compiled from")
    return module


def _has(array: Array, nan: bool, infinity: bool) -> bool:
    if array.dtype.kind not in "fcV" or "int" in array.dtype.name:
        return False
    with np.errstate(invalid="ignore"):
        return bool((nan and np.isnan(array).any()) or (infinity and np.isinf(array).any()))
