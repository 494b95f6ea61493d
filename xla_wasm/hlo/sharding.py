"""The part of an array that each device holds: OpSharding messages and Shardy's attributes in one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from ..dataclass import dataclass
from ..errors import UnsupportedError, counted
from .attrs import MOST_DEVICES, transposed_iota
from .proto.schema import MESSAGES
from .proto.wire import Buffer, Fields, decode
from .shape import Index

AxisPart = tuple[int, int, int]
"""(axis, pre, size): the part of that size of a mesh axis, `pre` being the product of the parts before it."""

_KINDS = ("replicated", "maximal", "tuple", "tiled", "manual", "unknown", "unreduced")


@dataclass(frozen=True, slots=True)
class Shards:
    """An array of which each device holds a block of one size: `sizes` elements from `starts[device]` on, in each
    dimension."""

    dimensions: Index
    sizes: Index
    starts: tuple[Index, ...]

    @property
    def whole(self) -> bool:
        """True if every device holds all of it."""
        return self.sizes == self.dimensions

    @property
    def complete(self) -> bool:
        """True if the blocks make up the array: among the same devices no two dimensions are cut alike."""
        return len(set(self.starts)) == prod(n // size if size else 1 for n, size in zip(self.dimensions, self.sizes))

    def block(self, device: int) -> tuple[Any, ...]:
        """Returns the part that a device holds, as an index of the whole."""
        return (..., *(slice(begin, begin + size) for begin, size in zip(self.starts[device], self.sizes)))

    def along(self, dimension: int) -> tuple[int, list[int]]:
        """The size of the blocks in one dimension, and where each device's begins."""
        return self.sizes[dimension], [start[dimension] for start in self.starts]


def whole(dimensions: Index, devices: int) -> Shards:
    """An array that every device holds all of."""
    return Shards(dimensions, dimensions, ((0,) * len(dimensions),) * devices)


@dataclass(frozen=True, slots=True)
class Sharding:
    """The division of arrays: into `counts[d]` blocks along dimension d, of which a device holds the one at
    `blocks[device]`.

    `kind` is "tiled", or one of those that cut nothing: "replicated", "maximal" (one device holds all), "manual"
    (inside a manual computation), "partial" (some of the devices hold it), "unknown" (nobody has decided) and
    "unreduced" (parts that are still to be summed).
    """

    kind: str
    counts: Index = ()
    blocks: tuple[Index, ...] = ()

    @property
    def devices(self) -> int:
        """For how many devices it is; 0 where it fits any number."""
        return len(self.blocks)

    def shards(self, dimensions: Index, devices: int, where: str) -> Shards:
        """The blocks of an array of these dimensions. `where` begins the messages of errors."""
        if self.kind == "replicated":
            return whole(dimensions, devices)
        if self.kind != "tiled":
            raise UnsupportedError(
                f"{where}: a sharding of kind {self.kind!r} is not supported; arrays are cut in blocks or replicated"
            )
        if self.devices != devices or len(self.counts) != len(dimensions):
            raise UnsupportedError(
                f"{where}: its sharding cuts {counted(len(self.counts), 'dimension')} over "
                f"{counted(self.devices, 'device')}, "
                f"the array has {len(dimensions)} and the program runs on {devices}"
            )
        for d, (size, count) in enumerate(zip(dimensions, self.counts)):
            if size % count:
                raise UnsupportedError(
                    f"{where}: dimension {d} of size {size} does not divide into {count} equal shards: "
                    "uneven shards are not supported; pad the array"
                )
        sizes = tuple(size // count for size, count in zip(dimensions, self.counts))
        return Shards(dimensions, sizes, tuple(tuple(b * s for b, s in zip(block, sizes)) for block in self.blocks))

    def cut(self, sizes: Index, devices: int, where: str) -> Shards:
        """As `shards`, where the sizes of the blocks are known and the array is what they make up."""
        counts = self.counts if len(self.counts) == len(sizes) else (1,) * len(sizes)
        return self.shards(tuple(size * count for size, count in zip(sizes, counts)), devices, where)


REPLICATED = Sharding("replicated")


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices in rows along named axes: `ids` are their numbers, the last axis varying fastest."""

    axes: tuple[tuple[str, int], ...]
    ids: tuple[int, ...]

    @staticmethod
    def of(axes: Iterable[tuple[str, int]], ids: Sequence[int] = ()) -> Mesh:
        """A mesh of the devices 0, 1, 2 ... in order, unless `ids` lists them."""
        axes = tuple(axes)
        _check_count(size for _, size in axes)
        return Mesh(axes, tuple(ids) or tuple(range(prod(size for _, size in axes))))

    def sharding(self, dimensions: Iterable[Iterable[AxisPart]]) -> Sharding:
        """Each dimension cut along parts of axes, of which the last varies fastest."""
        if not self.axes:
            return Sharding("maximal") if self.ids != (0,) else REPLICATED
        if sorted(self.ids) != list(range(prod(size for _, size in self.axes))):
            raise UnsupportedError(
                f"a mesh of the axes {dict(self.axes)} lists the devices {self.ids[:16]}: each must be there once"
            )
        parts = [
            [(axis, pre or 1, size or self.axes[axis][1]) for axis, pre, size in dimension] for dimension in dimensions
        ]
        counts = tuple(prod(size for _, _, size in dimension) for dimension in parts)
        if all(count == 1 for count in counts):
            return Sharding("replicated", blocks=((),) * len(self.ids))
        if any(self.axes[axis][1] % (pre * size) for dimension in parts for axis, pre, size in dimension):
            raise UnsupportedError(
                f"a sharding takes parts of axes that do not divide those of its mesh, {dict(self.axes)}"
            )
        blocks: list[Index] = [()] * len(self.ids)
        for place, device in enumerate(self.ids):
            blocks[device] = tuple(self._block(place, dimension) for dimension in parts)
        return Sharding("tiled", counts, tuple(blocks))

    def _block(self, place: int, dimension: list[AxisPart]) -> int:
        block = 0
        for axis, pre, size in dimension:
            length = self.axes[axis][1]
            coordinate = place // prod(n for _, n in self.axes[axis + 1 :]) % length
            block = block * size + coordinate // (length // (pre * size)) % size
        return block


def _check_count(sizes: Iterable[int]) -> None:
    count = prod(sizes)
    if not 0 < count <= MOST_DEVICES:
        raise UnsupportedError(f"a sharding over {counted(count, 'device')}: at most {MOST_DEVICES} are supported")


def _ids(shape: Index, order: Index, listed: Sequence[int]) -> list[int]:
    """Devices in the order of a list, or of an iota of some shape that is transposed."""
    if not shape:
        return list(listed)
    _check_count(shape)
    order = order or tuple(range(len(shape)))
    if sorted(order) != list(range(len(shape))):
        raise UnsupportedError(f"a sharding permutes {counted(len(shape), 'dimension')} by {order}")
    return transposed_iota(shape, order)


def read_sharding(data: Buffer) -> list[Sharding]:
    """Returns the sharding of each leaf of a tuple, or of one array, from an OpSharding."""
    fields = decode(MESSAGES["OpSharding"], data)
    if "named_sharding" in fields:
        return [_named(decode(MESSAGES["NamedShardingProto"], fields["named_sharding"]))]
    number = fields.get("type", 0)
    kind = _KINDS[number] if 0 <= number < len(_KINDS) else "unknown"
    if kind == "tuple":
        return [leaf for part in fields.get("tuple_shardings", ()) for leaf in read_sharding(part)]
    return [_tiled(fields) if kind == "tiled" else Sharding(kind)]


def _tiled(fields: Fields) -> Sharding:
    tiles = tuple(fields.get("tile_assignment_dimensions", ()))
    shape, order = tuple(fields.get("iota_reshape_dims", ())), tuple(fields.get("iota_transpose_perm", ()))
    ids = _ids(shape, order, fields.get("tile_assignment_devices", ()))
    # The last dimensions of the tiling count copies, or what a manual computation has cut itself.
    spare = len(fields.get("last_tile_dims", ())) or int(bool(fields.get("replicate_on_last_tile_dim")))
    counts = tiles[: len(tiles) - spare]
    if len(ids) != prod(tiles):
        raise UnsupportedError(f"a sharding over {prod(tiles)} devices lists {ids[:16]}")
    if sorted(ids) != list(range(len(ids))):
        return Sharding("partial", blocks=((),) * len(ids))
    if all(count == 1 for count in counts):
        return Sharding("replicated", blocks=((),) * len(ids))
    blocks: list[Index] = [()] * len(ids)
    for place, device in enumerate(ids):
        blocks[device] = tuple(place // prod(tiles[d + 1 :]) % tiles[d] for d in range(len(counts)))
    return Sharding("tiled", counts, tuple(blocks))


def _named(fields: Fields) -> Sharding:
    if fields.get("unreduced_axes"):
        return Sharding("unreduced")
    proto = decode(MESSAGES["MeshProto"], fields.get("mesh", b""))
    axes = [
        (axis.get("name", ""), axis.get("size", 0))
        for axis in (decode(MESSAGES["MeshAxis"], d) for d in proto.get("axes", ()))
    ]
    iota = decode(MESSAGES["IotaTransform"], proto.get("iota_transform", b""))
    shape, order = tuple(iota.get("reshape_dims", ())), tuple(iota.get("transpose_perm", ()))
    ids = _ids(shape, order, proto.get("device_ids", ()))
    dimensions = [
        decode(MESSAGES["DimensionSharding"], item).get("axes", ()) for item in fields.get("dim_shardings", ())
    ]
    return Mesh.of(axes, ids).sharding([[_axis_part(ref) for ref in dimension] for dimension in dimensions])


def _axis_part(data: Buffer) -> AxisPart:
    ref = decode(MESSAGES["AxisRefProto"], data)
    sub = decode(MESSAGES["SubAxis"], ref.get("sub_axis_info", b""))
    return ref.get("mesh_axis_index", 0), sub.get("pre_size", 0), sub.get("size", 0)
