"""compile: from a module to an artifact, stage by stage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .artifact import FORMAT, SECTION, Artifact, encode_manifest
from .errors import ArgumentError, UnsupportedError
from .hlo.ir import Instruction, Module
from .hlo.shape import Shape
from .hlo.types import TYPES
from .hlo.verify import verify
from .link.link import Linker
from .loop.emit import emit
from .ops.lowering import CONTROL, ELEMENTAL, ELEMENTWISE, KERNELS
from .options import Options
from .passes import pipeline
from .passes.clone import clone
from .plan import driver
from .plan.build import SUPPORTED_TYPES, build
from .plan.hoist import hoist
from .plan.memory import live_ranges, place, share, share_carries
from .plan.plan import Plan, View
from .wasm.module import Module as WasmModule

PRODUCER = "xla_wasm 0.1.0"
CONFIG = 64
"""Address of the driver's configuration block; what lies below stays zero, so that a null pointer hits nothing."""

PAGE = 65536
_MAX_BYTES = 2**32 - PAGE


def compile(module: Module, options: Options | None = None) -> Artifact:
    """Compiles an HLO module; `options` says for which target. Raises VerifyError or UnsupportedError."""
    return _compile(module, options or Options()).artifact


def stages(module: Module, options: Options | None = None) -> dict[str, str]:
    """What each stage of compiling gives, as text: hlo (after the passes), plan, loops, wat and manifest."""
    from .loop.text import to_text
    from .wasm.disasm import disassemble

    made = _compile(module, options or Options(), names=True)
    return {
        "hlo": made.module.to_text(),
        "plan": str(made.plan),
        "loops": "\n".join(to_text(f) for f in made.plan.funcs.values()),
        "wat": disassemble(made.artifact.wasm),
        "manifest": json.dumps(made.artifact.manifest, indent=1),
    }


def unsupported(module: Module) -> list[tuple[Instruction, str]]:
    """Every instruction that `compile` would refuse for its opcode or element type, with the reason."""
    found = []
    for x in module.instructions():
        if x.opcode not in OPCODES:
            found.append((x, f"opcode {x.opcode} is not supported yet"))
            continue
        for _, shape in x.shape.leaves():
            if shape.element_type not in SUPPORTED_TYPES:
                found.append((x, f"element type {shape.element_type} is not supported yet"))
                break
    return found


OPCODES = frozenset((*ELEMENTWISE, *ELEMENTAL, *KERNELS, *CONTROL, "call", "fusion", "copy", "opt-barrier"))
"""Every opcode that `compile` takes."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    artifact: Artifact
    module: Module
    plan: Plan


def _compile(module: Module, options: Options, names: bool = False) -> _Compiled:
    verify(module)
    refused = unsupported(module)
    if refused:
        x, reason = refused[0]
        more = f" ({len(refused) - 1} more; `xla-wasm inspect` lists them)" if len(refused) > 1 else ""
        raise UnsupportedError(f"{x.where}: {reason}{more}")
    canonical = clone(module)
    pipeline.run(canonical)
    inputs, outputs = [n for n, _ in parameter_leaves(module)], [n for n, _ in result_leaves(module)]
    weights = tuple(index_of(inputs, w, "parameter") for w in options.weights)
    state = {index_of(inputs, p, "parameter"): index_of(outputs, r, "result") for p, r in options.state}
    _check_state(module, weights, state)
    plan = build(canonical, options.relaxed, options.tune, weights, state)
    hoist(plan)
    live_ranges(plan)
    share(plan)
    share_carries(plan)
    live_ranges(plan)

    wasm = WasmModule()
    wasm.add(driver.copy_kernel())
    for func in plan.funcs.values():
        wasm.add(emit(func))
    slots = {name: wasm.slot(name) for name in (driver.COPY, *plan.funcs)}
    # Room for all steps: which of them vanish shows only when everything has its place.
    end = place(plan, _aligned(driver.layout(driver.all_steps(plan), CONFIG).end))
    driver.drop_empty(plan)
    steps = driver.all_steps(plan)
    room = driver.layout(steps, CONFIG)
    wasm.data(room.table, driver.table(steps, room, slots))
    for buffer in plan.buffers:
        if buffer.data is not None and buffer.bytes:
            wasm.data(buffer.address, bytes(buffer.data))
    wasm.add(driver.step_function(room))
    wasm.add(driver.run_function())
    wasm.add(driver.init_function(driver.init_starts(plan)))
    top = _aligned(end)

    def alloc(size: int, align: int) -> int:
        nonlocal top
        address = -(-top // align) * align
        top = address + size
        return address

    Linker(wasm, alloc).need_missing()
    top += 64
    if top > _MAX_BYTES:
        raise UnsupportedError(f"the program needs {top / 2**30:.1f} GiB of memory; a 32-bit WebAssembly memory holds 4 GiB")
    pages = -(-top // PAGE)
    wasm.memory(pages)
    wasm.export_memory("memory")
    for name in ("run", "init", "step"):
        wasm.export_func(name, name)
    manifest = _manifest(module, options, plan, weights, state, pages, top, room)
    wasm.custom(SECTION, encode_manifest(manifest))
    return _Compiled(Artifact(wasm.encode(names=names), manifest), canonical, plan)


def _aligned(address: int) -> int:
    return -(-address // 64) * 64


def _check_state(module: Module, weights: tuple[int, ...], state: dict[int, int]) -> None:
    inputs, outputs = parameter_leaves(module), result_leaves(module)
    for p, r in state.items():
        (name, before), (result, after) = inputs[p], outputs[r]
        if p in weights:
            raise ArgumentError(f"parameter {name!r} is named both as a weight and as state")
        if before.without_layout() != after.without_layout():
            raise ArgumentError(f"state {name!r} is {before}, but the result {result!r} that replaces it is {after}")
    if len(set(state.values())) != len(state):
        raise ArgumentError("one result replaces two parameters of the state")


def _manifest(
    module: Module, options: Options, plan: Plan, weights: tuple[int, ...], state: dict[int, int], pages: int, top: int, room: driver.Layout
) -> dict[str, Any]:
    names = [s.name for s in driver.all_steps(plan)]
    inits: list[dict[str, Any]] = []
    parameters = []
    for i, ((name, shape), view) in enumerate(zip(parameter_leaves(module), plan.parameters)):
        kind = "weight" if i in weights else "state" if i in state else "input"
        parameters.append(_array(name, shape, view, kind) | {"alias": state.get(i), "init": None})
    for index, group in enumerate(plan.inits):
        if group == 0:
            inits.append({"index": index, "kind": "segment", "name": "constants", "staging": 0, "bytes": 0})
            continue
        weight = parameters[weights[group - 1]]
        weight["init"] = index
        inits.append({"index": index, "kind": "weight", "name": weight["name"], "staging": weight["offset"], "bytes": weight["bytes"]})
    results = [
        _array(name, shape, view, "state" if r in state.values() else "output")
        for r, ((name, shape), view) in enumerate(zip(result_leaves(module), plan.results))
    ]
    return {
        "format": FORMAT,
        "producer": PRODUCER,
        "name": module.name,
        "hash": hashlib.sha256(repr(options).encode() + module.to_proto()).hexdigest(),
        "target": options.target,
        "tune": options.tune,
        "features": ["simd128", "relaxed-simd"] if options.relaxed else ["simd128"],
        "pages": pages,
        "peak_bytes": top,
        "parameters": parameters,
        "results": results,
        "inits": inits,
        "steps": {"address": room.table, "count": len(names), "entry_bytes": driver.ENTRY_BYTES, "names": names},
        "requests": [],
        "config": CONFIG,
        "request": CONFIG + 16,
        "profile": None,
    }


def _array(name: str, shape: Shape, view: View, kind: str) -> dict[str, Any]:
    # A result may be a parameter, which lies in that parameter's order.
    order = sorted(range(len(view.dims)), key=lambda d: (view.strides[d], -d)) if not view.dense else range(len(view.dims) - 1, -1, -1)
    return {
        "name": name,
        "element_type": shape.element_type,
        "dimensions": list(shape.dimensions),
        "minor_to_major": list(order),
        "offset": view.address,
        "bytes": shape.size * TYPES[shape.element_type].bytes,
        "kind": kind,
    }


def parameter_leaves(module: Module) -> list[tuple[str, Shape]]:
    """Name and shape of every leaf of every parameter, in order."""
    leaves = []
    for p in module.entry.parameters:
        base = p.metadata.op_name if p.metadata and p.metadata.op_name else p.name
        leaves += [(base + "".join(f".{i}" for i in index), shape) for index, shape in p.shape.leaves()]
    return _named(module, "xla_wasm.parameter_names", leaves)


def result_leaves(module: Module) -> list[tuple[str, Shape]]:
    """Name and shape of every leaf of the result, in order."""
    root = module.entry.root
    leaves = [("result" + "".join(f".{i}" for i in index), shape) for index, shape in root.shape.leaves()]
    return _named(module, "xla_wasm.result_names", leaves)


def _named(module: Module, attribute: str, leaves: list[tuple[str, Shape]]) -> list[tuple[str, Shape]]:
    """The leaves with the names that the module carries for them, made unique."""
    names = [name for name, _ in leaves]
    given = module.frontend_attributes.get(attribute)
    if given is not None:
        try:
            listed = json.loads(given)
        except ValueError:
            listed = None
        if isinstance(listed, list) and len(listed) == len(names) and all(isinstance(n, str) for n in listed):
            names = listed
    return list(zip(_unique(names), (shape for _, shape in leaves)))


def _unique(names: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        candidate, n = name, 1
        while candidate in seen:
            n += 1
            candidate = f"{name}.{n}"
        seen.add(candidate)
        yield candidate


def index_of(names: list[str], key: str | int, what: str) -> int:
    """The position of a parameter or result given by its name or number."""
    if isinstance(key, int):
        if 0 <= key < len(names):
            return key
        raise ArgumentError(f"there is no {what} {key}: the module has {len(names)}")
    if key in names:
        return names.index(key)
    raise ArgumentError(f"there is no {what} named {key!r}; there are {', '.join(names) or 'none'}")
