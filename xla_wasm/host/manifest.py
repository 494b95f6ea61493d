"""The manifest as typed records, checked before anything relies on it: a manifest can lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..artifact import FORMATS
from ..dataclass import dataclass
from ..errors import ArtifactError
from ..hlo.structure import fault
from ..target import FEATURES, MODULE, PAGE, THREADS
from .json_object import Object, is_int, show
from .leaf import Leaf, leaf_fields
from .manifest_fields import MAX_INT, TRANSFERS


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
    kept: tuple[tuple[int, int], ...] = ()
    """Of a weight address and bytes of each place that has what `init` makes of it. Empty: an artifact that does not
    say it."""
    moved: tuple[bool, ...] = ()
    """Of each of these places True if `init` has only moved numbers there."""


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

    format: int
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
    stop: int | None
    """The address of the word by which another thread ends a run; None: the program does not look."""
    is_short: bool
    """True if no run takes so long that anybody would end it."""
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
    """The structure of the compiled function's arguments and results (`hlo.structure`); None if it is unknown."""

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
    if version not in FORMATS:
        formats = f"formats {FORMATS[0]} to {FORMATS[-1]}"
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
        format=version,
        name=top.text("name"),
        hash=top.text("hash"),
        producer=top.text("producer"),
        target=top.choice("target"),
        features=top.texts("features"),
        pages=memory // PAGE,
        peak_bytes=top.integer("peak_bytes", memory),
        parameters=top.objects("parameters", lambda item: _parameter(item, memory, result_count, init_count)),
        results=top.objects("results", lambda item: Result(**leaf_fields(item, memory))),
        inits=top.objects("inits", lambda item: _init(item, memory)),
        steps=names,
        config=top.address("config", memory),
        stop=top.index("stop", memory) if "stop" in top.raw else None,
        is_short="stop" in top.raw and top.raw["stop"] is None,
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


def _parameter(item: Object, memory: int, results: int, inits: int) -> Parameter:
    init = item.index("init", inits)
    # A weight that `init` packs has no array of its own: the host writes it to the staging area.
    leaf = leaf_fields(item, memory, placed=init is None)
    return Parameter(**leaf, alias=item.index("alias", results), init=init)


def parts_of(init: Init, data: bytes | memoryview) -> list[bytes | memoryview]:
    """Returns the parts of the data, in order; each is written before a call of `init`."""
    return [data[start : start + init.part] for start in range(0, len(data), init.part)] if init.part else [data]


def _init(item: Object, memory: int) -> Init:
    kind = item.choice("kind")
    size = item.integer("bytes")
    part = item.integer("part", size) if "part" in item.raw else 0
    kept = _kept(item, memory) if "kept" in item.raw else []
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
        kept=tuple((address, size) for address, size, _ in kept),
        moved=tuple(moved == 1 for *_, moved in kept),
    )


def _kept(item: Object, memory: int) -> Sequence[Any]:
    places = item.array("kept")
    for place in places:
        are_numbers = isinstance(place, (list, tuple)) and len(place) == 3 and all(is_int(n) and n >= 0 for n in place)
        if not are_numbers or place[2] > 1:
            item.fail("kept", f"expected an address, a number of bytes and 0 or 1, got {show(place)}")
        address, size, _ = place
        if address + size > memory:
            item.fail("kept", f"{size} bytes at {address} would reach beyond the memory of {memory} bytes")
    return places


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
        operands=item.objects("operands", lambda leaf: Leaf(**leaf_fields(leaf, memory))),
        results=item.objects("results", lambda leaf: Leaf(**leaf_fields(leaf, memory))),
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
    kept = sum(size for init in manifest.inits for _, size in init.kept)
    if kept > manifest.memory_bytes:
        top.fail("inits", f"weights would keep {kept} bytes of a memory of {manifest.memory_bytes}")
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
