"""The weights of a device: what instances have in their memory is kept nowhere else. Needs no numpy."""

from __future__ import annotations

from collections.abc import Sequence

from .manifest import Manifest, Parameter


class Weight:
    """The value that one call of `set` has given a weight, on one device.

    Once an instance has it in its memory, that is the only place where it is: other instances copy from there what the
    module has made of it.
    """

    __slots__ = ("data", "forms", "given")

    def __init__(
        self,
        data: bytes | memoryview | None,
        forms: Sequence[bytes | memoryview] | None = None,
        given: object = None,
    ) -> None:
        self.data = data
        """Its bytes in the order of its layout, until an instance has taken them."""
        self.forms = forms
        """Copies of what an instance had of it, one for each place, until another one has taken them."""
        self.given = given or object()
        """The same object on all devices that one call has set it on."""

    def __reduce__(self) -> tuple[object, ...]:
        data = None if self.data is None else bytes(self.data)
        return Weight, (data, self.forms and tuple(map(bytes, self.forms)), self.given)


def kept(manifest: Manifest, parameter: Parameter) -> tuple[tuple[int, int], ...]:
    """Address and bytes of each place that has a weight, or what the module has made of it. Empty for an artifact that
    does not say where."""
    if parameter.init is None:
        return ((parameter.offset, parameter.bytes),)
    return manifest.inits[parameter.init].kept


def moved(manifest: Manifest, parameter: Parameter) -> tuple[bool, ...]:
    """Of each of these places True if the numbers there are those of the weight, in any order."""
    return (True,) if parameter.init is None else manifest.inits[parameter.init].moved


def own_place(manifest: Manifest, parameter: Parameter) -> int | None:
    """The number of the place where a weight lies as it was set; None if it lies nowhere so."""
    own = parameter.offset if parameter.init is None else manifest.inits[parameter.init].staging
    places = kept(manifest, parameter)
    return places.index((own, parameter.bytes)) if (own, parameter.bytes) in places else None
