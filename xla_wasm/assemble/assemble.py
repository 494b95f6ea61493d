"""From a plan to an artifact: addresses, the step table, code, data, the runtime's functions, and the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..artifact import FORMAT, FORMAT_OF_PARTS, FORMAT_OF_RANGES, SECTION, Artifact, Parts, encode_manifest
from ..dataclass import dataclass, field, replace
from ..errors import NoRoomError
from ..hlo.layout import COMBINE, LAYOUT_FIELDS, is_plain, padding_element, physical_bytes
from ..hlo.marks import Devices, Request
from ..hlo.shape import Layout, Shape
from ..hlo.sharding import Shards
from ..hlo.signature import NamedShape, size_places
from ..hlo.types import TYPES
from ..link.link import Linker
from ..loop.emit import emit
from ..options import Options
from ..plan.buffer import ALIGNMENT, Buffer, Data, View
from ..plan.kernel import COPY
from ..plan.parts import share
from ..plan.plan import Ask, Plan, Step, all_steps
from ..target import CONFIG, MEMORY, MODULE, MOST_PAGES, PAGE, SERVER, STOP, THREAD_EXPORTS, Target
from ..wasm.func import Func
from ..wasm.module import Module, custom
from . import driver, front, threads, wasi_http

if TYPE_CHECKING:
    from ..link.link import Alloc

PRODUCER = f"xla_wasm {__version__}"
SIDECAR_BYTES = 1024
"""Constants of at least this size go to the sidecar, if there is to be one."""
BROUGHT_BYTES = 1 << 16
"""Constants of at least this size inside a module come into memory one by one, where each is packed before the next."""
_SHORT = 300
"""Bytes of what starts as zeros and may lie below the buffers."""
_SLACK = 64
"""Bytes behind everything, for vectors that reach beyond the last buffer."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface of a program: its flattened inputs and outputs, and those of them that stay inside."""

    name: str
    parameters: list[NamedShape]
    results: list[NamedShape]
    weights: tuple[int, ...]
    state: dict[int, int]
    least_sizes: list[tuple[int, ...]]
    """For each parameter the least size of each dimension, if there is any but 0 of those that are dynamic."""
    parameter_shards: Sequence[Shards | None] = ()
    result_shards: Sequence[Shards | None] = ()
    """For each parameter and result, the part of a global array that each device has; None if it is unknown."""
    undivided: str = ""
    """The reason for which a program that says how its arrays are to be divided among devices runs on one."""
    weight_formats: tuple[tuple[int, str], ...] = ()
    """The numbers of parameters that are stored in another format than they are given in, with that format."""
    structure: dict[str, Any] | None = None
    """The structure of the function that the program was made of, as the manifest has it."""
    initial: Mapping[int, Data] = field(default_factory=dict)
    """The first values of states, by their parameters; zeros for the others."""


@dataclass(slots=True)
class _Sidecar:
    """Constants outside the module, each at a multiple of `ALIGNMENT`."""

    parts: list[Data] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    end: int = 0

    def add(self, buffer: Buffer, data: Data, index: int) -> None:
        offset = -(-self.end // ALIGNMENT) * ALIGNMENT
        entry = {
            "index": index,
            "kind": "sidecar",
            "name": buffer.name,
            "staging": buffer.root().address,
            "bytes": len(data),
        }
        self.entries.append(entry | {"sidecar_offset": offset, "sha256": hashlib.sha256(data).hexdigest()})
        self.parts += [bytes(offset - self.end), data]
        self.end = offset + len(data)


def assemble(
    plan: Plan, interface: Interface, options: Options, target: Target, names: bool, devices: Devices | None = None
) -> Artifact:
    """The artifact of a plan, for the target and the devices that it was made for; `names` keeps function names in
    it."""
    wasm = Module()
    driver.drop_empty(plan)
    steps = all_steps(plan)
    room = driver.layout(steps, target.threads)
    shared, own = share(steps) if target.threads else ((), None)
    kernels = (COPY, *plan.funcs)
    slots = {name: wasm.slot(name) if options.kind == MODULE else i for i, name in enumerate(kernels)}
    wasm.data(*driver.table(steps, room, slots, shared))
    sidecar = _Sidecar()
    brought: dict[int, driver.Segment] = {}
    calls = plan.first_calls()
    # A server begins each request with them anew, so its front has them.
    kept_apart = interface.initial if options.kind == SERVER else {}
    elsewhere = {plan.parameters[p].buffer for p in kept_apart}
    for buffer in plan.buffers:
        if buffer.data is None or not buffer.bytes or buffer in elsewhere:
            continue
        index = calls.get(buffer, len(plan.init_calls()))
        if options.sidecar and buffer.bytes >= SIDECAR_BYTES:
            sidecar.add(buffer, buffer.data, index)
        elif buffer in calls:
            brought[index] = wasm.passive(buffer.data), buffer.address, buffer.bytes
        else:
            wasm.data(buffer.address, buffer.data)
    manifest = _manifest(plan, interface, target, room, options.kind, sidecar.entries, devices)
    waits = any(isinstance(s, Ask) for s in steps)
    direct = options.kind != MODULE
    running = driver.running(direct, target.threads, waits, bool(plan.inits), bool(brought))
    room_left = _Room(driver.start_of_buffers(plan, target.threads), front.low_bytes(options.kind), plan.end)
    arena = room_left.alloc(16 + front.ARENA, 8, False) if options.kind == SERVER else 0
    called = [driver.bring_function(brought)] if brought else []
    if direct:
        called.append(driver.dispatch_function(kernels))
        linker = _add_front(wasm, room_left.alloc, options.kind, manifest, running, called, arena, kept_apart)
    else:
        linker = Linker(wasm, room_left.alloc, chosen=running)
        for function in called:
            wasm.add(function)
    wasm.add(driver.copy_kernel())
    for func in plan.funcs.values():
        wasm.add(emit(func))
    if own is not None:
        wasm.add(threads.take_function(room.control, own))
        wasm.add(threads.fork_function(room.control))
        wasm.add(threads.stop_function(room.control))
    for symbol in reversed(running.values()):
        linker.need(symbol)
    linker.need_missing()
    if options.kind != MODULE:
        wasm.join_segments()
    top = check_room(plan, room_left.top, target)
    manifest["pages"], manifest["peak_bytes"] = -(-top // PAGE), top
    if own is not None:
        manifest["threads"] = {"control": room.control, "bytes": own.bytes}
        wasm.add(threads.work_function(room.control, manifest["pages"] * PAGE, own, linker.stack))
        wasm.add(threads.start_function(room.control, wasm.make_passive()))
        wasm.start("start")
    code = (
        _server(wasm, target, manifest["pages"], arena, names)
        if arena
        else _alone(wasm, target, manifest["pages"], running, names)
    )
    digest = hashlib.sha256()
    for part in (*code, encode_manifest(manifest)):
        digest.update(part)
    manifest["hash"] = digest.hexdigest()
    return Artifact([*code, custom(SECTION, encode_manifest(manifest))], manifest, sidecar.parts)


def check_room(plan: Plan, end: int, target: Target) -> int:
    """Returns the end of a memory, in bytes, of which all up to `end` is in use. Raises NoRoomError, which names the
    largest array, if that is too far."""
    top = end + _SLACK
    if top > target.memory_limit - PAGE:
        largest = max((b for b in plan.buffers if b.merged is None), key=lambda b: b.bytes)
        error = NoRoomError(
            f"the program needs {top / 2**30:.1f} GiB of memory, {largest.bytes / 2**30:.1f} GiB of it for "
            f"'{largest.name}'; "
            f"a memory addressed by {target.address} holds {target.memory_limit >> 30} GiB. Compute with smaller "
            f"arrays, or in several runs"
        )
        error.bytes = top
        raise error
    return top


def _alone(wasm: Module, target: Target, pages: int, running: Mapping[str, str], names: bool) -> Parts:
    """One module."""
    boundary(wasm, target, pages, running)
    return wasm.encode_parts(names=names)


def _server(wasm: Module, target: Target, pages: int, arena: int, names: bool) -> Parts:
    """A component of two: the memory with all data, and the code."""
    memory = Module()
    boundary(memory, target, pages, functions={})
    memory.add(front.realloc(arena))
    memory.export_func(wasi_http.REALLOC, wasi_http.REALLOC)
    wasm.move_data(memory)
    boundary(wasm, replace(target, memory=wasi_http.MEMORY), pages, functions={})
    imports = wasm.number_imports(wasi_http.CODE)
    return [wasi_http.server(wasm.encode(names=names), memory.encode(names=names), imports)]


class _Room:
    """Memory beside the plan's buffers, for what is linked: some below them, where addresses are short, and any amount
    behind."""

    def __init__(self, low: int, bytes: int, top: int) -> None:
        self._low, self._end = low, low + bytes
        self.top = top

    def alloc(self, size: int, align: int, content: bool) -> int:
        """The address of so many bytes, which nobody else has; `content`: they do not start as zeros."""
        address = -(-self._low // align) * align
        if (content or size <= _SHORT) and address + size <= self._end:
            self._low = address + size
        else:
            address = -(-self.top // align) * align
            self.top = address + size
        return address


def _add_front(
    wasm: Module,
    alloc: Alloc,
    kind: str,
    manifest: dict[str, Any],
    running: Mapping[str, str],
    called: Sequence[Func],
    arena: int,
    initial: Mapping[int, Data],
) -> Linker:
    """Adds the front of an artifact of this kind, what it calls and what it reads, before all else, so that their
    numbers are short."""
    front.check(kind, manifest)
    c_code = front.FRONTS[kind]
    linker = Linker(wasm, alloc, chosen={**running, **c_code.chosen(front.used_by(manifest))})
    linker.import_for(*c_code.exports.values())
    model, address, content = front.describe(manifest, alloc, initial)
    linker.place_by_size(*c_code.exports.values())
    wasm.data(address, content)
    for func in (
        *called,
        *(_constant(name, address) for name, address in ((front.DESCRIPTION, model), ("arena", arena)) if address),
    ):
        wasm.add(func)
    for export, symbol in c_code.exports.items():
        linker.need(symbol)
        wasm.export_func(export, symbol)
    return linker


def _constant(name: str, value: int) -> Func:
    """A function that gives a number."""
    function = Func(name, (), ("i32",))
    function.op("i32.const", value)
    return function


def boundary(wasm: Module, target: Target, pages: int, functions: Mapping[str, str]) -> None:
    """Declares the memory that a module has or imports, and what it exports: `functions` by these names, and a
    memory; that of threads is both."""
    if target.memory is None:
        wasm.memory(pages)
    else:
        wasm.import_memory(*target.memory, pages, MOST_PAGES if target.threads else pages, target.threads)
    if target.memory is None or target.threads:
        wasm.export_memory(MEMORY)
    for name, function in functions.items():
        wasm.export_func(name, function)
    for name in THREAD_EXPORTS if target.threads else ():
        wasm.export_func(name, name)


def _manifest(
    plan: Plan,
    interface: Interface,
    target: Target,
    room: driver.Layout,
    kind: str,
    sidecar: Sequence[dict[str, Any]],
    devices: Devices | None,
) -> dict[str, Any]:
    """Returns the manifest, without the size of the memory, which is not known yet, and the hash, which is taken of all
    else. `sidecar` has the `init` steps of its constants."""
    state = interface.state
    steps = [s.name for s in all_steps(plan)]
    parameters = []
    given_sizes, given_shards = (
        _sizes(interface.parameters, plan.parameters),
        _shards(interface.parameters, interface.parameter_shards),
    )
    for i, ((name, shape), view) in enumerate(zip(interface.parameters, plan.parameters)):
        role = "weight" if i in interface.weights else "state" if i in state else "input"
        entry = _array(name, shape, view, role) | given_sizes[i] | given_shards[i]
        if least := interface.least_sizes[i]:
            entry["least"] = list(least)
        parameters.append(entry | {"alias": state.get(i), "init": None})
    inits = _inits(plan, interface, parameters, sidecar)
    replaced = set(state.values())
    made_sizes, made_shards = (
        _sizes(interface.results, plan.results),
        _shards(interface.results, interface.result_shards),
    )
    results = [
        _array(name, shape, view, "state" if r in replaced else "output") | made_sizes[r] | made_shards[r]
        for r, ((name, shape), view) in enumerate(zip(interface.results, plan.results))
    ]
    return {
        "format": FORMAT_OF_RANGES
        if any(interface.least_sizes)
        else FORMAT_OF_PARTS
        if any(init.parts for init in plan.inits.values())
        else FORMAT,
        "producer": PRODUCER,
        "name": interface.name,
        "hash": "",
        "target": target.name,
        "tune": target.tune,
        "features": list(target.features),
        "pages": 0,
        "peak_bytes": 0,
        "parameters": parameters,
        "results": results,
        "inits": inits,
        "steps": {"address": room.table, "count": len(steps), "entry_bytes": driver.ENTRY_BYTES, "names": steps},
        "requests": _requests(all_steps(plan)),
        "devices": _devices(plan, devices),
        "undivided": interface.undivided or None,
        "config": CONFIG,
        "stop": None if driver.is_short(plan) else STOP,
        "request": room.record,
        **({"structure": interface.structure} if interface.structure and kind == MODULE else {}),
        **({} if kind == MODULE else {"kind": kind}),
        "stateful": any(b.kind == "persistent" and b.data is not None for b in plan.buffers),
    }


def _inits(
    plan: Plan, interface: Interface, parameters: list[dict[str, Any]], sidecar: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns the `init` steps: those of the sidecar first, since others may read its constants, then what prepares
    constants, then the weights, whose parameters get their number."""
    inits = list(sidecar)
    named = {entry["index"] for entry in inits}

    def prepares(index: int, name: str) -> dict[str, Any]:
        return {"index": index, "kind": "segment", "name": name, "staging": 0, "bytes": 0}

    calls = plan.first_calls()
    inits += [prepares(calls[b], b.name) for b in plan.poured if calls[b] not in named]
    inits += [prepares(calls[None], "constants")] if None in calls else []
    for source, index in calls.items():
        if source not in plan.weights:
            continue
        weight = parameters[interface.weights[plan.weights.index(source)]]
        weight["init"] = len(inits)
        made = {
            "index": index,
            "kind": "weight",
            "name": weight["name"],
            "staging": weight["offset"],
            "bytes": weight["bytes"],
        }
        inits.append(made | ({"part": source.part} if source.part else {}) | {"kept": _kept(plan, source)})
    return inits


def _kept(plan: Plan, weight: Buffer) -> list[list[int]]:
    """Address and bytes of what is there of a weight when `init` is done with it: the weight itself, if the run reads
    it, and what `init` has made; and whether it has only moved numbers there."""
    moved = {weight: True}
    for step in (s for source, steps in plan.init_calls() if source is weight for s in steps):
        moves = step.kernel.moves and all(moved.get(b, True) for b in step.inputs)
        moved |= {b: moves and moved.get(b, True) for b in step.outputs}
    return [
        [b.address, b.bytes, int(moves)]
        for b, moves in moved.items()
        if b.kind == "persistent" or (b is weight and not weight.staged)
    ]


def _requests(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Returns the requests that the host serves, in the order of the steps."""
    channels: dict[tuple[str | int, ...], int] = {}
    made = []
    for step in steps:
        if not isinstance(step, Ask):
            continue
        if step.request.kind == "exchange":
            made.append(_exchange(step, step.request, channels.setdefault(step.request.channel, len(channels))))
        else:
            made.append(_transfer(step, step.request))
    return made


def _exchange(step: Step, request: Request, channel: int) -> dict[str, Any]:
    """An exchange with other devices: what goes to which of them, and what comes from which (see
    `ops.collective.expand_exchange`)."""
    received, (to, sources, *sent) = step.arguments[: step.written], step.arguments[step.written :]

    def block(view: View, rows: View | None) -> int:
        return view.bytes if rows is None else view.bytes // rows.size if rows.size else 0

    sends = [{"offset": v.address, "bytes": block(v, to if request.blocks else None)} for v in sent]
    return {
        "kind": "exchange",
        "name": step.name,
        "opcode": request.opcode,
        "channel": channel,
        "buffered": request.buffered,
        "to": {"offset": to.address, "count": to.size},
        "from": {"offset": sources.address, "count": sources.size},
        "sends": [entry | {"stride": entry["bytes"] if request.blocks else 0} for entry in sends],
        "receives": [{"offset": v.address, "bytes": block(v, sources)} for v in received],
    }


def _devices(plan: Plan, devices: Devices | None) -> dict[str, Any] | None:
    """Returns the facts that a host needs to run the program on several devices; None if it is the same on all."""
    if devices is None:
        return None
    configuration = next(b for b in plan.buffers if b.kind == "configuration")
    return {"offset": configuration.address} | {name: getattr(devices, name) for name in devices.__dataclass_fields__}


def _transfer(step: Step, request: Request) -> dict[str, Any]:
    """A call that the host serves: it reads the operands and writes the results."""

    def arrays(kind: str, shapes: Sequence[Shape], views: Sequence[View]) -> list[dict[str, Any]]:
        sizes = _sizes([(kind, shape) for shape in shapes], views)
        return [_array(step.name, shape, view, kind) | own for shape, view, own in zip(shapes, views, sizes)]

    return {
        "kind": request.kind,
        "name": step.name,
        "target": request.target,
        "opaque": request.opaque,
        **({"place": request.place, "format": request.format} if request.kind == "callback" else {}),
        "operands": arrays("operand", request.operands, step.arguments[step.written :]),
        "results": arrays("result", request.results, step.arguments[: step.written]),
    }


def _array(name: str, shape: Shape, view: View, kind: str) -> dict[str, Any]:
    """An array of the boundary. Inside, it lies untiled; what else its layout asks for is the hosts' part."""
    entry = {
        "name": name,
        "element_type": shape.element_type,
        "dimensions": list(shape.dimensions),
        "minor_to_major": list(shape.minor_to_major),
        "offset": view.address,
        "bytes": shape.size * TYPES[shape.element_type].bytes,
        "kind": kind,
    }
    return entry | _layout_fields(shape)


def _sizes(leaves: list[NamedShape], views: Sequence[View]) -> list[dict[str, Any]]:
    """For each leaf with dynamic dimensions, where the actual sizes lie: s32 numbers, whose views follow those of the
    leaves."""
    places = size_places(leaves)
    sizes = views[len(leaves) :]
    return [
        {"sizes": [None if p is None else sizes[p].address for p in own]} if any(p is not None for p in own) else {}
        for own in places
    ]


def _shards(leaves: list[NamedShape], shards: Sequence[Shards | None]) -> list[dict[str, Any]]:
    """For each leaf, the global array of which each device has a part: its dimensions, and where the parts begin."""
    known = shards or [None] * len(leaves)
    return [
        {} if s is None else {"shards": {"dimensions": list(s.dimensions), "starts": [list(row) for row in s.starts]}}
        for s in known
    ]


def _layout_fields(shape: Shape) -> dict[str, Any]:
    """The fields of the manifest for a layout of more than an order of dimensions: what is not default, and the size in
    bytes."""
    layout = shape.layout
    if layout is None or is_plain(shape):
        return {}
    plain = Layout(layout.minor_to_major)
    fields: dict[str, Any] = {
        name: getattr(layout, name) for name in LAYOUT_FIELDS if getattr(layout, name) != getattr(plain, name)
    }
    if layout.tiles:
        fields["tiles"] = [["*" if size == COMBINE else size for size in tile] for tile in layout.tiles]
    if layout.padded_dimensions:
        fields["padded_dimensions"] = list(layout.padded_dimensions)
        if layout.padding_value:
            fields["padding_element"] = padding_element(shape).hex()
    return fields | {"physical_bytes": physical_bytes(shape)}
