"""compile: from a module to an artifact, stage by stage."""

from __future__ import annotations

import gc
import json
import os
import warnings
import weakref
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from .artifact import Artifact
from .assemble.assemble import BROUGHT_BYTES, SIDECAR_BYTES, Interface, assemble, check_room
from .assemble.driver import start_of_buffers
from .assemble.front import low_bytes, written_pages
from .dataclass import dataclass, replace
from .errors import ArgumentError, NoRoomError, OptionWarning, ParseError, UnsupportedError, XlaWasmError, counted
from .hlo.foreign import apply
from .hlo.ir import Instruction, Module
from .hlo.layout import physical_bytes
from .hlo.marks import Devices
from .hlo.op import records
from .hlo.shape import Shape
from .hlo.signature import (
    NamedShape,
    leaf_index,
    leaf_indices,
    leaf_pairs,
    least_sizes,
    parameter_leaves,
    result_leaves,
    size_places,
    structure_of,
)
from .hlo.types import ARRAY_TYPES
from .hlo.verify import verify
from .ops.collective.groups import devices_of
from .ops.custom.expand_registry import find as find_custom_call
from .ops.custom.expand_registry import how_to
from .ops.dot.stored import BLOCK
from .options import ALL_WEIGHTS, DROP, TRAP, WINOGRAD, Options
from .passes import pipeline
from .passes.clone import clone
from .passes.given import Given
from .passes.manual import PerDevice, per_device
from .passes.weight_formats import IN_BLOCKS, INT4, INT8, WEIGHT_TYPES
from .plan.build import Setting, plan_module
from .plan.kernel import KernelCache
from .plan.memory import place
from .plan.parts import share
from .plan.plan import Plan, all_steps
from .plan.prepare import prepare
from .target import MODULE, PAGE, RELAXED_SIMD, Target


def compile(source: Any, options: Options | None = None, *, args: Sequence[Any] | None = None) -> Artifact:
    """Compiles a module; `options` says for which target.

    `source` is an `HloModule`; the path of a file that `HloModule.from_bytes` reads, or its content; what JAX has
    traced, lowered, compiled or exported (`jax.stages.Lowered` and its like, `jax.export.Exported`); or a JAX function
    with `args`, the arguments that it is traced on, for which shapes will do. A text of one line is a path.

    Raises VerifyError or UnsupportedError, what `from_bytes` raises, and ArgumentError for what is none of these.
    """
    return trace(_module(source, args), options or Options()).artifact


def _module(source: Any, args: Sequence[Any] | None) -> Module:
    """The module that a source is, or holds, or is made into."""
    if args is None:
        if isinstance(source, Module):
            return source
        is_path = isinstance(source, os.PathLike) or (isinstance(source, str) and not any(c in source for c in "\n{"))
        if is_path or isinstance(source, (str, bytes, bytearray, memoryview)):
            return _read(source) if is_path else Module.from_bytes(source)
    if isinstance(source, Artifact):
        raise ArgumentError(f"{source!r} is compiled already: load it")
    module: Module = apply("from_jax", source, args)
    return module


def _read(path: str | os.PathLike[str]) -> Module:
    """The module in a file. Raises ArgumentError if there is none, and what reading it raises, with the path."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"cannot read {os.fspath(path)!r}, a path of a file with HLO or StableHLO: {reason}"
        ) from error
    if data.startswith(b"\0asm"):
        raise ArgumentError(f"{os.fspath(path)!r} is compiled already: xla_wasm.load reads it")
    try:
        return Module.from_bytes(data)
    except ParseError as error:
        raise ParseError(f"{os.fspath(path)}: {error}") from error
    except XlaWasmError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error


def stages(module: Module, options: Options | None = None) -> dict[str, str]:
    """Returns the output of each stage of compiling as text: hlo (after the passes), plan, kernels (facts of their
    loops), loops, wat, manifest."""
    from .loop.facts import facts
    from .loop.text import to_text
    from .wasm.disasm import disassemble

    made = trace(module, options or Options(), names=True)
    return {
        "hlo": made.module.to_text(large_constants=False),
        "plan": str(made.plan),
        "kernels": "".join(facts(f) for f in made.plan.funcs.values()),
        "loops": "\n".join(to_text(f) for f in made.plan.funcs.values()),
        "wat": disassemble(made.artifact.wasm),
        "manifest": json.dumps(made.artifact.manifest, indent=1),
    }


def unsupported(module: Module, host_calls: Sequence[str] = ()) -> list[tuple[Instruction, str]]:
    """Every instruction that `compile` would refuse for its opcode, element type or target, with the reason."""
    found = []
    types: dict[int, str] = {}
    """The first element type of a shape that is not supported."""
    for shape in module.shapes():
        for _, leaf in shape.leaves():
            if leaf.element_type not in ARRAY_TYPES and not leaf.is_token:
                types.setdefault(id(shape), leaf.element_type)
    known = records()
    for x in module.instructions():
        if x.opcode not in known:
            found.append((x, f"opcode {x.opcode} is not supported yet"))
            continue
        unread = [name for name in x.kept if name in x.attrs] if x.kept else []
        if unread:
            found.append(
                (x, f"{unread[0]} holds fields that this version does not know; the module comes from a newer XLA")
            )
            continue
        if x.opcode == "custom-call":
            target = x.attrs["custom_call_target"]
            if target not in host_calls and find_custom_call(target) is None:
                found.append((x, how_to(target)))
                continue
        if id(x.shape) in types:
            found.append((x, f"element type {types[id(x.shape)]} is not supported yet"))
    return found


_MOST_BYTES = 2**32
_KEPT = 16 << 20
"""Bytes of constants up to which an artifact keeps the module that it was compiled from."""
_MOST_ELEMENTS = 2**31
"""Elements of an array, also of one that has no place in memory: kernels count them in 32 bits."""


@dataclass(frozen=True, slots=True)
class Trace:
    """An artifact with what it came from: the module after the passes, and the plan."""

    artifact: Artifact
    module: Module
    plan: Plan


def trace(module: Module, options: Options, names: bool = False) -> Trace:
    """As `compile`, with what lies on the way; `names` are for people: functions have theirs, and no two instructions
    share one."""
    collecting = gc.isenabled()
    # nearly all that the stages make lives until the end: looking for garbage in it takes a fifteenth of the time
    gc.disable()
    try:
        return _trace(module, options, names)
    except NoRoomError as error:
        raise NoRoomError(f"{error}{_smaller(module, options, error.bytes)}") from None
    finally:
        if collecting:
            gc.enable()


def _smaller(module: Module, options: Options, needed: int) -> str:
    """Returns the end of a message about a program that needs too much memory: the options with which it would need
    less, and how much. Empty if there are none."""
    convolves = any(x.opcode == "convolution" for x in module.instructions())
    direct: dict[str, Any] = {"winograd": "off"} if convolves and options.winograd != "off" else {}
    asks = bool(options.weights) and not options.weight_format
    formats: list[dict[str, Any]] = [{"weight_format": name} for name in ("bf16", INT8, INT4) if asks]
    found: dict[int, str] = {}
    for change in filter(None, (direct, *formats, *(direct | each for each in formats if direct))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OptionWarning)
                made = _trace(module, replace(options, **change, prepared=False), False)
            size = int(made.artifact.manifest["pages"]) * PAGE
        except NoRoomError as error:
            size = error.bytes
        if size < 0.95 * min([needed, *found]):  # the first of those that give as much is the least change
            found[size] = f"{size / 2**30:.1f} GiB with " + " and ".join(f"{k}={v!r}" for k, v in change.items())
    return f". It would need {', '.join(found.values())}" if found else ""


def _trace(module: Module, options: Options, names: bool) -> Trace:
    verify(module)
    callbacks, trees = dict(module.callbacks), module.trees
    division = per_device(module)
    if division.module is not module and options.num_partitions not in (None, division.module.num_partitions):
        count = division.module.num_partitions
        raise ArgumentError(
            f"num_partitions={options.num_partitions}: the manual computations of '{module.name}' are for "
            f"{counted(count, 'device')}"
        )
    source, module = module, division.module
    refused = unsupported(module, options.host_calls)
    if refused:
        x, reason = refused[0]
        more = f" ({len(refused) - 1} more; `xla-wasm inspect` lists them)" if len(refused) > 1 else ""
        raise UnsupportedError(f"{x.where}: {reason}{more}")
    interface = _interface(division, options)
    devices = devices_of(module, options.num_replicas, options.num_partitions)
    called = {x.attrs["custom_call_target"] for x in module.having("custom-call")}
    canonical = clone(module)
    serves, drops = options.callbacks != TRAP, options.callbacks == DROP
    results = tuple(shape for _, shape in interface.results)
    winograd, formats = WINOGRAD[options.winograd], interface.weight_formats
    target = Target.named(options.target, options.tune, options.threads)
    least = interface.least_sizes
    states = tuple((p, interface.parameters[p][0], least[p]) for p in interface.state if least[p])
    given = Given(
        options.host_calls,
        serves,
        drops,
        devices,
        winograd,
        states,
        interface.weights,
        formats,
        results,
        options.threads,
        RELAXED_SIMD in target.features,
    )
    pipeline.run(canonical, given)
    huge = [id(shape) for shape in canonical.shapes() if shape.is_array and shape.size > _MOST_ELEMENTS]
    for x in canonical.instructions() if huge else ():
        if id(x.shape) in huge:
            raise UnsupportedError(
                f"{x.where}: {x.shape} has {counted(x.shape.size, 'element')}; arrays of up to 2^31 are supported"
            )
    for x in canonical.having("custom-call"):
        request = x.marks.request
        for shape in (*request.operands, *request.results) if request else ():
            _check_layout(x.name, shape)
    if names:
        _name_apart(canonical)

    def lay(plan: Plan) -> None:
        place(plan, start_of_buffers(plan, target.threads) + low_bytes(options.kind), written_pages(options.kind))
        check_room(plan, plan.end, target)  # no address beyond the memory reaches a later stage

    prepares = _prepares(options)
    poured = None if prepares or options.kind != MODULE else SIDECAR_BYTES if options.sidecar else BROUGHT_BYTES
    is_hosted = options.kind == MODULE  # a program by itself reads all weights, then packs them
    state, configured = _state_with_sizes(interface), devices is not None
    setting = Setting(interface.weights, state, interface.initial, configured, poured, one_by_one=is_hosted)
    cache = KernelCache(target)
    if verifies := bool(os.environ.get("XLA_WASM_VERIFY")):
        from .plan.verify import VerifiedCache, verify_plan

        cache = VerifiedCache(target)
    plan = plan_module(canonical, cache, lay, setting)
    if None in plan.inits and prepares:
        from .host.prepared import memory_after_init

        alone = Target.named(options.target, options.tune)
        plain = assemble(plan, interface, replace(options, kind=MODULE, threads=False), alone, names, devices)
        prepare(plan, memory_after_init(plain), lay)
    artifact = assemble(plan, interface, options, target, names, devices)
    made = Trace(artifact, canonical, plan)
    for without in _without_effect(options, interface, called, devices, made):
        warnings.warn(f"'{module.name}': {without}", OptionWarning, stacklevel=4)
    if verifies:
        verify_plan(plan)
    if callbacks:
        artifact.callbacks = callbacks
    artifact.trees = trees if interface.structure is not None else None
    constants = sum([x.shape.bytes for x in source.having("constant")])
    artifact.source = (lambda: source) if constants <= _KEPT else weakref.ref(source)
    return made


def _without_effect(
    options: Options, interface: Interface, called: set[str], devices: Devices | None, made: Trace
) -> Iterator[str]:
    """Yields a sentence on each option that has no effect on this program. Options that say how to treat parts that may
    be there, as `callbacks`, are left out."""
    unknown = [name for name in options.host_calls if name not in called]
    if unknown:
        yield f"host_calls names {unknown[0]!r}, and the module calls {', '.join(sorted(called)) or 'nobody'}"
    for name in ("num_replicas", "num_partitions") if devices is None else ():
        if (getattr(options, name) or 1) > 1:
            yield f"{name}={getattr(options, name)}: the program is the same on every device, and knows of no other"
    if options.sidecar and options.kind == MODULE and not made.artifact.sizes[1]:
        yield f"sidecar=True: no constant has {SIDECAR_BYTES:,} bytes or more, so there is no file of weights"
    if options.threads and not any(share(all_steps(made.plan))[0]):
        yield "threads=True: no operation is large enough to be shared, so it runs on one thread"
    vectors = [interface.parameters[i][0] for i, _ in interface.weight_formats if interface.parameters[i][1].rank < 2]
    if vectors and len(vectors) == len(interface.weight_formats):
        yield (
            f"weight_format: {', '.join(vectors[:4])} {'stay as they are' if len(vectors) > 1 else 'stays as it is'}, "
            f"as all vectors do"
        )
    matrices = [interface.parameters[i] for i, name in interface.weight_formats if name == INT4]
    names = [name for name, shape in matrices if shape.rank >= 2]
    if names and not any(x.marks.weight_format in IN_BLOCKS for x in made.module.instructions()):
        yield (
            f"weight_format: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''} "
            f"{'are' if len(names) > 1 else 'is'} stored as int8; int4 is for weights that are only operands of "
            f"products, outside of loops, summed along one dimension whose length is a multiple of {BLOCK}"
        )


def _prepares(options: Options) -> bool:
    """Returns True if compiling is to do what `init` does. By default a program by itself does, if there is an engine
    to run it with."""
    if options.prepared is not None:
        return options.prepared
    if options.kind == MODULE:
        return False
    from .host.prepared import has_engine

    return has_engine()


def _name_apart(module: Module) -> None:
    """Gives instructions that share a name names of their own: what a pass makes is named after what it replaces."""
    taken: set[str] = set()
    for x in module.instructions():
        name, count = x.name, 0
        while name in taken:
            count += 1
            name = f"{x.name}.{count}"
        taken.add(name)
        x.name = name


def _interface(division: PerDevice, options: Options) -> Interface:
    """The inputs and outputs, with the weights and the state that the options name."""
    module = division.module
    inputs, outputs = parameter_leaves(module), result_leaves(module)
    structure = structure_of(module, len(inputs), len(outputs))
    named = list(dict.fromkeys(i for w in options.weights for i in leaf_indices(inputs, w, "parameter", structure)))
    formats = _weight_formats(inputs, named, options)
    weights = tuple(dict.fromkeys((*named, *formats)))
    for w in weights:
        if inputs[w][1].is_dynamic:
            raise UnsupportedError(
                f"the weight {inputs[w][0]!r} is {inputs[w][1]}: weights with dynamic dimensions are not supported"
            )
    state = dict(pair for p, r in options.state for pair in leaf_pairs(inputs, outputs, p, r, structure))
    for p, r in state.items():
        (name, before), (result, after) = inputs[p], outputs[r]
        if p in weights:
            raise ArgumentError(f"parameter {name!r} is named both as a weight and as state: leave one out")
        if before.without_layout() != after.without_layout():
            raise ArgumentError(
                f"state {name!r} is {before}, but the result {result!r} that replaces it is {after}: name a result of "
                f"the same type"
            )
        if division.parameters[p] != division.results[r]:
            raise ArgumentError(
                f"state {name!r} is sharded otherwise than the result {result!r} that replaces it: shard them alike"
            )
        outputs[r] = (result, before)  # it ends where the state lies, and as it does
    if len(set(state.values())) != len(state):
        raise ArgumentError("one result replaces two parameters of the state: name another result for one of them")
    for name, shape in (*inputs, *outputs):
        _check_layout(name, shape)
    stored = tuple((i, format) for i, format in formats.items() if format != "f32")
    shards = (division.parameters, division.results)
    initial: dict[int, bytes] = {}
    if options.initial:
        from .assemble.initial import initial_values  # which knows structures as hosts do

        initial = initial_values(inputs, state, division.parameters, options.initial, structure)
    return Interface(
        module.name,
        inputs,
        outputs,
        weights,
        state,
        least_sizes(module),
        *shards,
        division.undivided,
        stored,
        structure,
        initial,
    )


def _weight_formats(inputs: list[NamedShape], weights: Sequence[int], options: Options) -> dict[int, str]:
    """Returns the format that each parameter is stored in: of the names and patterns that suit one, the last counts."""
    found: dict[int, str] = {}
    for key, format in options.weight_format:
        if key == ALL_WEIGHTS:
            suited = [*weights]
        elif isinstance(key, int):
            suited = [leaf_index(inputs, key, "parameter")]
        else:
            suited = [
                i
                for i, (name, _) in enumerate(inputs)
                if name == key or name.startswith(f"{key}.") or fnmatchcase(name, key)
            ]
        if not suited:
            names = ", ".join(name for name, _ in inputs)
            raise ArgumentError(
                "weight_format is for weights, and Options.weights names none"
                if key == ALL_WEIGHTS
                else f"weight_format: no parameter is named {key!r}; there are {names or 'none'}"
            )
        if format != "f32" and all(inputs[i][1].element_type not in WEIGHT_TYPES for i in suited):
            name, shape = inputs[suited[0]]
            raise ArgumentError(
                f"weight_format: {name!r} is {shape.without_layout()}; only weights of "
                f"{', '.join(WEIGHT_TYPES)} are stored in other formats"
            )
        found |= dict.fromkeys(suited, format)
    return found


def _state_with_sizes(interface: Interface) -> dict[int, int]:
    """Parameters and the results that replace them, with those that hold the sizes of their dynamic dimensions."""
    state = dict(interface.state)
    before, after = size_places(interface.parameters), size_places(interface.results)
    for p, r in interface.state.items():
        for a, b in zip(before[p], after[r]):
            if a is not None and b is not None:
                state[len(interface.parameters) + a] = len(interface.results) + b
    return state


def _check_layout(name: str, shape: Shape) -> None:
    """Refuses a layout of the boundary that hosts could not convert."""
    try:
        size = physical_bytes(shape) if shape.is_array else 0
    except ArgumentError as error:
        raise UnsupportedError(f"'{name}': {error}") from None
    if size > _MOST_BYTES:
        raise UnsupportedError(
            f"'{name}': {shape} takes {size} bytes with its padding; arrays of up to 4 GiB are supported"
        )
