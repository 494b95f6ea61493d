"""The manifest as typed records, checked before anything relies on it: a manifest can lie."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from ..artifact import FORMAT, FORMAT_OF_PARTS
from ..dataclass import dataclass, field, replace
from ..errors import ArgumentError, ArtifactError, counted
from ..hlo.layout import COMBINE, LAYOUT_FIELDS, physical_bytes
from ..hlo.shape import Layout, Shape
from ..hlo.structure import fault
from ..hlo.types import ARRAY_TYPES, TYPES
from ..target import FEATURES, MODULE, PAGE, THREADS
from .json_object import Object, is_int, show
from .manifest_fields import MAX_DEVICES, MAX_INT, MAX_RANK, TRANSFERS


@dataclass(frozen=True, slots=True)
class Shards:
    """A global array of which each device has a block of the leaf's own dimensions, from `starts[device]` on."""

    dimensions: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in the module's memory: a leaf of a parameter or of the result."""

    name: str
    element_type: str
    dimensions: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    offset: int
    bytes: int
    kind: str
    shape: Shape
    """The array with the layout that callers use. In the module's memory it lies in that order, but neither tiled nor
    padded."""
    sizes: tuple[int | None, ...] = field(default=(), kw_only=True)
    """Of an array with dynamic dimensions (`dimensions` are their bounds), where the actual size of each lies as s32;
    None: static."""
    shards: Shards | None = field(default=None, kw_only=True)
    """The blocks of a global array that the devices have; None if it is unknown."""

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(self.shown_dimensions)}]"

    @property
    def shown_dimensions(self) -> list[str]:
        """The dimensions for a message, those that are dynamic with their bounds."""
        sizes = self.sizes or (None,) * len(self.dimensions)
        return [str(bound) if size is None else f"<={bound}" for size, bound in zip(sizes, self.dimensions)]

    def fits(self, dimensions: tuple[int, ...]) -> bool:
        """Returns True for the dimensions of an array that goes in: the leaf's own, or where these are dynamic, up to
        their bounds."""
        if not self.sizes or len(dimensions) != len(self.dimensions):
            return dimensions == self.dimensions
        return all(
            size == bound or at is not None and size < bound
            for size, bound, at in zip(dimensions, self.dimensions, self.sizes)
        )

    def actual(self, stated: Iterable[int | None]) -> tuple[int, ...]:
        """Returns the array's dimensions, from the sizes that the module states; None: static. Raises ArtifactError
        beyond a bound."""
        made = []
        for d, (size, bound) in enumerate(zip(stated, self.dimensions)):
            size = bound if size is None else size
            if not 0 <= size <= bound:
                raise ArtifactError(f"the module states size {size} of dimension {d} of '{self.name}', which is {self}")
            made.append(size)
        return tuple(made)


@dataclass(frozen=True, slots=True)
class Parameter(Leaf):
    """An input (an argument of `run`), a weight (set once, perhaps packed by `init`) or a state (lives in the module
    between runs)."""

    alias: int | None
    init: int | None


@dataclass(frozen=True, slots=True)
class Result(Leaf):
    """An output (returned by `run`) or the new value of a state."""


@dataclass(frozen=True, slots=True)
class Init:
    """One `init(index)` call: its bytes come from a segment of the module, from the sidecar file or from `exe.set`."""

    index: int
    kind: str
    name: str
    staging: int
    bytes: int
    sidecar_offset: int
    sha256: str
    part: int = 0
    """Of a weight that comes in parts the bytes of each but the last. Each is written to the same place, and the next
    call of `init`, of a number more, takes it. 0: all comes at once."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a run: the host takes the operands, and writes the results.

    `kind`: custom_call or callback (of the function `target`), infeed, outfeed, send or recv (of the name `target`).
    """

    kind: str
    name: str
    target: str
    opaque: str
    operands: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    place: str = ""
    """Of a callback: where the user wrote it."""
    format: str = ""
    """Of a callback that prints: a line with numbers of operands as fields, as `str.format` takes it. Without a target:
    why a run ends."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to send blocks of memory to other devices and to receive some from them.

    Block j of every entry of `sends` goes to the device that the j-th number of `to` says; row i of every entry of
    `receives` is what the device sent that the i-th number of `sources` says. -1 stands for none.
    """

    name: str
    opcode: str
    channel: int
    """The number of the channel, the same for sender and receiver."""
    buffered: bool
    """True if it is over before anyone has received what was sent."""
    to: tuple[int, int]
    """The address of the devices' numbers, s32, and how many they are."""
    sources: tuple[int, int]
    sends: tuple[tuple[int, int, int], ...]
    """(address, bytes of a block, bytes from one block to the next: 0 where all receivers get the same)."""
    receives: tuple[tuple[int, int], ...]
    """(address, bytes of a row)."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a program runs on; None for a number that the host chooses."""

    offset: int
    """The address at which the host writes four u32: replica, partition, number of replicas, number of partitions."""
    replicas: int | None
    partitions: int | None
    least: int
    most: int | None
    axis: str
    """The meaning of a number of devices if nothing else is said: "replicas" or "partitions"."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The memory of threads, which they import together."""

    control: int
    """The address of the control block, by which they work together (see `xla_wasm.assemble.threads`)."""
    bytes: int
    """The bytes that each thread but the first needs, behind the memory of the program."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an artifact, checked: everything that a host relies on."""

    name: str
    hash: str
    producer: str
    target: str
    features: tuple[str, ...]
    pages: int
    peak_bytes: int
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    inits: tuple[Init, ...]
    steps: tuple[str, ...]
    config: int
    requests: tuple[Request | Exchange, ...]
    request: int
    """The address of the record of the request that a run waits for: its number, and the step to go on with."""
    stateful: bool
    """True if the module itself keeps something from run to run, as generators of random numbers do."""
    devices: Devices | None
    """None: the program is the same on every device, and knows of no other."""
    kind: str = MODULE
    """The kind of program: a module that a host runs, or one that runs by itself."""
    undivided: str = ""
    """Of a program on global arrays that says how these are to be divided among devices: why it runs on one."""
    threads: Threads | None = None
    """None: the module has a memory of its own, and one thread."""
    structure: Mapping[str, Any] | None = None
    """Of the arguments and results of the function that it was made of (`hlo.structure`); None if nobody says."""

    def check_for_host(self) -> None:
        """Raises ArtifactError for what is a program by itself."""
        if self.kind != MODULE:
            raise ArtifactError(
                f"'{self.name}' is compiled as a {self.kind}, which runs by itself under a WebAssembly runtime; "
                f"compile it "
                "without --kind for a host"
            )

    @property
    def sharded(self) -> int | None:
        """The number of devices that have a part of its global arrays; None if it is unknown."""
        return next((len(leaf.shards.starts) for leaf in (*self.parameters, *self.results) if leaf.shards), None)

    @property
    def transfers(self) -> dict[int, Request]:
        """The requests of the kinds in TRANSFERS, by their numbers."""
        return {i: r for i, r in enumerate(self.requests) if isinstance(r, Request) and r.kind in TRANSFERS}

    @property
    def memory_bytes(self) -> int:
        """Bytes of linear memory of one instance."""
        return self.pages * PAGE

    @property
    def sidecar_bytes(self) -> int:
        """Bytes that the `.weights` file must have at least."""
        return max((init.sidecar_offset + init.bytes for init in self.inits if init.kind == "sidecar"), default=0)

    def step_name(self, pc: int) -> str:
        """The instruction that step `pc` computes."""
        return self.steps[pc] if 0 <= pc < len(self.steps) else f"step {pc}"

    @staticmethod
    def parse(raw: Mapping[str, Any]) -> Manifest:
        """Checks every field; raises ArtifactError naming the first that is wrong."""
        return _manifest(Object(raw, "", ""))


def _manifest(top: Object) -> Manifest:
    version = top.integer("format", MAX_INT)
    if version not in (FORMAT, FORMAT_OF_PARTS):
        formats = f"formats {FORMAT} and {FORMAT_OF_PARTS}"
        top.fail(
            "format",
            f"this xla_wasm reads {formats}, the artifact has {version}",
            ": compile it again or use the matching version",
        )
    for feature in top.texts("features"):
        if feature not in (*FEATURES, THREADS):
            top.fail("features", f"this host does not know the feature {show(feature)}")
    memory = top.integer("pages") * PAGE
    steps = top.object("steps")
    names = steps.texts("names")
    count = steps.integer("count")
    if count != len(names):
        steps.fail("count", f"it is {count}, the number of names {len(names)}")
    steps.address("address", memory, count * steps.integer("entry_bytes"))
    result_count, init_count = len(top.array("results")), len(top.array("inits"))
    manifest = Manifest(
        name=top.text("name"),
        hash=top.text("hash"),
        producer=top.text("producer"),
        target=top.choice("target"),
        features=top.texts("features"),
        pages=memory // PAGE,
        peak_bytes=top.integer("peak_bytes", memory),
        parameters=top.objects("parameters", lambda item: _parameter(item, memory, result_count, init_count)),
        results=top.objects("results", lambda item: Result(**_leaf(item, memory))),
        inits=top.objects("inits", lambda item: _init(item, memory)),
        steps=names,
        config=top.address("config", memory),
        requests=top.objects("requests", lambda item: _request(item, memory)),
        request=top.address("request", memory),
        stateful=top.flag("stateful"),
        devices=_devices(top, memory),
        kind=top.choice("kind") if "kind" in top.raw else MODULE,
        undivided=top.text("undivided") if top.raw.get("undivided") is not None else "",
        threads=_threads(top, memory),
        structure=_structure(top, len(top.array("parameters")), result_count),
    )
    _check_together(top, manifest)
    return manifest


def _threads(top: Object, memory: int) -> Threads | None:
    if top.raw.get("threads") is None:
        return None
    item = top.object("threads")
    return Threads(item.address("control", memory), item.integer("bytes", memory))


def _structure(top: Object, parameters: int, results: int) -> Mapping[str, Any] | None:
    found = top.raw.get("structure")
    wrong = None if found is None else fault(found, parameters, results)
    if wrong:
        top.fail(f"structure.{wrong[0]}".rstrip("."), wrong[1])
    return found


def _leaf(item: Object, memory: int, placed: bool = True) -> dict[str, Any]:
    element_type = item.text("element_type")
    if element_type not in ARRAY_TYPES:
        item.fail("element_type", f"{show(element_type)} is not the type of an array")
    width = TYPES[element_type].bytes
    dimensions = item.integers("dimensions")
    if len(dimensions) > MAX_RANK or math.prod(d or 1 for d in dimensions) * width > MAX_INT:
        item.fail("dimensions", "they are too many or too large")
    minor_to_major = item.integers("minor_to_major")
    order = list(range(len(dimensions)))
    if sorted(minor_to_major) != order:
        item.fail("minor_to_major", f"{show(list(minor_to_major))} is not a permutation of {order}")
    size = item.integer("bytes")
    if size != math.prod(dimensions) * width:
        item.fail(
            "bytes",
            f"{element_type}[{','.join(map(str, dimensions))}] takes {math.prod(dimensions) * width} bytes, not {size}",
        )
    component = width // 2 if TYPES[element_type].kind == "complex" else width
    return {
        "name": item.text("name"),
        "element_type": element_type,
        "dimensions": dimensions,
        "minor_to_major": minor_to_major,
        "offset": item.address("offset", memory, size, component) if placed else 0,
        "bytes": size,
        "kind": item.choice("kind"),
        "shape": Shape(
            element_type, dimensions, _layout(item, Shape(element_type, dimensions, Layout(minor_to_major)))
        ),
        "sizes": _sizes(item, len(dimensions), memory),
        "shards": _shards(item, dimensions),
    }


def _shards(item: Object, own: tuple[int, ...]) -> Shards | None:
    """Returns the starts of the devices' blocks; None if there are none. Raises ArtifactError if they do not make up
    the global array."""
    if item.raw.get("shards") is None:
        return None
    at = Object(item.get("shards"), f"{item.path}.shards", "array.shards")
    whole = at.integers("dimensions")
    if len(whole) != len(own) or any(n % size if size else n for n, size in zip(whole, own)):
        at.fail("dimensions", f"{show(list(whole))} does not divide into blocks of {show(list(own))}")
    starts = tuple(tuple(row) if isinstance(row, (list, tuple)) else () for row in at.array("starts"))
    fitting = math.prod(n // size if size else 1 for n, size in zip(whole, own)) <= len(starts) <= MAX_DEVICES
    if not fitting or set(starts) != set(
        product(*(range(0, n, size) if size else (0,) for n, size in zip(whole, own)))
    ):
        at.fail("starts", f"blocks of {show(list(own))} from there on do not make up {show(list(whole))}")
    return Shards(whole, starts)


def _sizes(item: Object, rank: int, memory: int) -> tuple[int | None, ...]:
    """Returns the addresses of the sizes of dynamic dimensions; empty if there are none. Raises ArtifactError for wrong
    ones."""
    if "sizes" not in item.raw:
        return ()
    sizes = item.array("sizes")
    if len(sizes) != rank or all(size is None for size in sizes):
        item.fail("sizes", f"expected an address or null for each of {counted(rank, 'dimension')}, got {show(sizes)}")
    for size in sizes:
        if size is not None and (not is_int(size) or size % 4 or not 0 <= size <= memory - 4):
            item.fail("sizes", f"expected addresses of s32 inside the memory of {memory} bytes, got {show(size)}")
    if item.text("kind") == "weight":
        item.fail("sizes", "a weight has no dynamic dimensions")
    return tuple(sizes)


def _layout(item: Object, shape: Shape) -> Layout:
    """The layout that callers use: `shape` has its order of dimensions, `item` what else is not default."""
    layout = shape.layout or Layout()
    given = [name for name in LAYOUT_FIELDS if name in item.raw]
    if not given:
        return layout
    fields: dict[str, Any] = {name: item.integer(name) for name in given if name not in ("tiles", "padded_dimensions")}
    if "tiles" in given:
        fields["tiles"] = tuple(_tile(item, tile) for tile in item.array("tiles"))
    if "padded_dimensions" in given:
        fields["padded_dimensions"] = item.integers("padded_dimensions")
    layout = replace(layout, **fields)
    size = item.integer("physical_bytes")
    try:
        actual = physical_bytes(shape.with_layout(layout))
    except ArgumentError as error:
        item.fail("minor_to_major", str(error))
    if size != actual:
        item.fail("physical_bytes", f"{shape.with_layout(layout)} takes {actual} bytes, not {size}")
    return layout


def _tile(item: Object, tile: Any) -> tuple[int, ...]:
    if not isinstance(tile, (list, tuple)) or not 0 < len(tile) <= MAX_RANK:
        item.fail("tiles", f"expected lists of sizes, got {show(tile)}")
    if not all(size == "*" or is_int(size) and 0 < size <= MAX_INT for size in tile):
        item.fail("tiles", f"expected sizes above 0 or '*', got {show(tile)}")
    return tuple(COMBINE if size == "*" else size for size in tile)


def _parameter(item: Object, memory: int, results: int, inits: int) -> Parameter:
    init = item.index("init", inits)
    # A weight that `init` packs has no array of its own: the host writes it to the staging area.
    leaf = _leaf(item, memory, placed=init is None)
    return Parameter(**leaf, alias=item.index("alias", results), init=init)


def parts_of(init: Init, data: bytes | memoryview) -> list[bytes | memoryview]:
    """Returns the parts of the data, in order; each is written before a call of `init`."""
    return [data[start : start + init.part] for start in range(0, len(data), init.part)] if init.part else [data]


def _init(item: Object, memory: int) -> Init:
    kind = item.choice("kind")
    size = item.integer("bytes")
    part = item.integer("part", size) if "part" in item.raw else 0
    return Init(
        index=item.integer("index"),
        kind=kind,
        name=item.text("name"),
        # A segment is copied by the module itself: the host needs no address.
        staging=0 if kind == "segment" else item.address("staging", memory, part or size),
        bytes=size,
        sidecar_offset=item.integer("sidecar_offset") if kind == "sidecar" else 0,
        sha256=item.text("sha256") if kind == "sidecar" else "",
        part=part,
    )


def _devices(top: Object, memory: int) -> Devices | None:
    if top.get("devices") is None:
        return None
    item = top.object("devices")

    def count(key: str) -> int | None:
        return None if item.get(key) is None else item.integer(key)

    return Devices(
        offset=item.address("offset", memory),
        replicas=count("replicas"),
        partitions=count("partitions"),
        least=item.integer("least"),
        most=count("most"),
        axis=item.choice("axis"),
    )


def _exchange(item: Object, memory: int) -> Exchange:
    def numbers(key: str) -> tuple[int, int]:
        at = item.object(key)
        count = at.integer("count")
        return at.address("offset", memory, 4 * count), count

    to, sources = numbers("to"), numbers("from")

    def send(at: Object) -> tuple[int, int, int]:
        size, stride = at.integer("bytes"), at.integer("stride")
        if stride not in (0, size):
            at.fail("stride", f"expected 0 or {size}, the bytes of a block, got {stride}")
        return at.address("offset", memory, size if not stride else size * to[1]), size, stride

    def receive(at: Object) -> tuple[int, int]:
        size = at.integer("bytes")
        return at.address("offset", memory, size * sources[1]), size

    return Exchange(
        name=item.text("name"),
        opcode=item.text("opcode"),
        channel=item.integer("channel"),
        buffered=item.flag("buffered", required=True),
        to=to,
        sources=sources,
        sends=item.objects("sends", send),
        receives=item.objects("receives", receive),
    )


def _request(item: Object, memory: int) -> Request | Exchange:
    kind = item.choice("kind")
    if kind == "exchange":
        return _exchange(item, memory)
    return Request(
        kind=kind,
        name=item.text("name"),
        target=item.text("target"),
        opaque=item.text("opaque"),
        operands=item.objects("operands", lambda leaf: Leaf(**_leaf(leaf, memory))),
        results=item.objects("results", lambda leaf: Leaf(**_leaf(leaf, memory))),
        place=item.text("place") if kind == "callback" else "",
        format=item.text("format") if kind == "callback" else "",
    )


def _check_together(top: Object, manifest: Manifest) -> None:
    """Raises ArtifactError if entries of the manifest contradict each other."""
    for key, leaves in (("parameters", manifest.parameters), ("results", manifest.results)):
        for i, leaf in enumerate(leaves):
            if leaf.shards and len(leaf.shards.starts) != manifest.sharded:
                top.fail(
                    f"{key}[{i}].shards.starts", f"there are {len(leaf.shards.starts)}, others have {manifest.sharded}"
                )
    end = 0
    for i, init in sorted(enumerate(manifest.inits), key=lambda entry: entry[1].sidecar_offset):
        if init.kind == "sidecar":
            if init.sidecar_offset < end:
                top.fail(f"inits[{i}].sidecar_offset", f"the weights of '{init.name}' overlap others in the file")
            end = init.sidecar_offset + init.bytes
    names: set[str] = set()
    for i, parameter in enumerate(manifest.parameters):
        if parameter.name in names:
            top.fail(f"parameters[{i}].name", f"{show(parameter.name)} names two parameters")
        names.add(parameter.name)
        if parameter.init is None:
            continue
        init = manifest.inits[parameter.init]
        if (parameter.kind, init.kind, init.bytes) != ("weight", "weight", parameter.bytes):
            top.fail(
                f"parameters[{i}].init",
                f"the {parameter.kind} has {parameter.bytes} bytes, its init is for a {init.kind} of {init.bytes}",
            )
