"""A module's instructions after compiling, as one dictionary of plain values: their graph, and the lines of each stage
and the kernels that came from each of them.

Instructions are known by their number in the module, in order. What a pass makes keeps the metadata of what it stands
for, so metadata of its own tells where each instruction behind the passes comes from; a name says it for the few
without any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ..artifact import Artifact
from ..command.opening import with_sizes
from ..compiler import Trace, compile, trace
from ..dataclass import replace
from ..errors import UnsupportedError, XlaWasmError
from ..hlo.attrs import Metadata
from ..hlo.ir import Computation, Instruction, Module
from ..hlo.text import printer
from ..lines import Lines
from ..loop.text import to_text
from ..ops.reading import record
from ..ops.table import FAMILIES
from ..options import Options
from ..passes.clone import clone
from ..plan.buffer import View
from ..plan.plan import Copy, Launch, Step, all_steps
from ..wasm.binary import function_names
from ..wasm.binary import read_module as read_wasm
from ..wasm.disasm import printed

Range = tuple[int, int, list[int]]
"""First and last line, counted from 0, and the instructions that they came from."""

_FAMILY = {op.opcode: name for name, family in FAMILIES.items() for op in family.ops}
_HEADER = re.compile(r"\s*(?:ENTRY\s+)?%?([A-Za-z_][\w.-]*)\s*(?:\([^=]*->.*)?\{")
_HEAD = re.compile(r"\s*(?:ROOT\s+)?%?([A-Za-z_][\w.-]*)\s*=\s")
_WHERE = re.compile(r"([\w-]+) '([^']+)'")
_OPEN_SIZES = re.compile(r"(.*?), as in (?:from_exported|HloModule)\b.* as in (--dim .*)", re.DOTALL)


class Workbench:
    """A module in work: read, compiled, explained, and compared with the reference evaluator.

    `sizes` are those that the source leaves open, as `--dim` takes them, with spaces between: "b=8 n=1..128".
    """

    def __init__(self, source: str | bytes, sizes: str = "") -> None:
        self.module = with_sizes(source, sizes.split())
        self.text = source if isinstance(source, str) else self.module.to_text(large_constants=False)
        self.artifact: Artifact | None = None

    def compile(self, options: Options | None = None) -> Artifact:
        """The artifact, which is kept."""
        self.artifact = compile(self.module, options)
        return self.artifact

    def explain(self, options: Options | None = None) -> dict[str, Any]:
        """See the function `explain`."""
        return explain(self.module, self.text, options or Options())

    def compare(self, inputs: Iterable[bytes], outputs: Iterable[bytes]) -> list[dict[str, Any]]:
        """Returns the differences of results from the reference evaluator's. Inputs and results are bytes in row-major
        order. Raises UnsupportedError without NumPy and ml_dtypes."""
        try:
            import numpy as np

            from ..check.compare import difference, differing, tolerance
            from ..host.arrays import dtype_of
            from ..reference import evaluate
        except ImportError as error:
            raise UnsupportedError(
                f"the reference evaluator needs NumPy and ml_dtypes, and here is no {error.name}"
            ) from None
        leaves = [shape for p in self.module.entry.parameters for _, shape in p.shape.leaves() if not shape.is_token]
        arrays = [
            np.frombuffer(data, dtype_of(s.element_type)).reshape(s.dimensions) for data, s in zip(inputs, leaves)
        ]
        rows = []
        for expected, data in zip(evaluate(self.module, *arrays), outputs):
            actual = np.frombuffer(data, expected.dtype).reshape(expected.shape)
            worst, allowed = difference(actual, expected), tolerance(expected.dtype)
            agrees = not bool(differing(actual, expected, allowed).any())
            rows.append({"absolute": worst.absolute, "relative": worst.relative, "ulp": worst.ulp, "agrees": agrees})
        return rows


def failure(error: XlaWasmError, text: str) -> dict[str, Any]:
    """An error as plain values, with the line of the text that it is about, counted from 1, if one can be told.
    `sizes` is an example of those that the module leaves open, if they are what is wrong."""
    message = str(error)
    found: dict[str, Any] = {"kind": type(error).__name__, "line": None, "column": None, "sizes": ""}
    if open_sizes := _OPEN_SIZES.fullmatch(message):
        example = open_sizes[2].replace("--dim ", "")
        return found | {"message": f"{open_sizes[1]} under Sizes, as in {example}", "sizes": example}
    found["message"] = message.replace("--dim ", "")
    if hasattr(error, "line"):
        found |= {
            "line": error.line,
            "column": getattr(error, "column", None),
            "message": message.partition("\n")[0],
        }
    elif where := _WHERE.search(message):
        for number, line in enumerate(text.splitlines(), 1):
            for head in re.finditer(
                rf"(?:^|[\s{{])%?({re.escape(where[2])})\s*=\s[^=]*?{re.escape(where[1])}\s*\(", line
            ):
                return found | {"line": number, "column": head.start(1) + 1}
    return found


def explain(module: Module, text: str, options: Options) -> dict[str, Any]:
    """The graph of a module before and after the passes, its stages with what their lines came from, kernels and
    steps."""
    marked = clone(module)
    number: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for i, x in enumerate(marked.instructions()):
        x.metadata = replace(x.metadata or Metadata())
        number[id(x.metadata)] = i
        by_name.setdefault(x.name, i)
    made = trace(marked, options, names=True)
    view = _View(made, number, by_name, [x.opcode for x in module.instructions()])
    hlo, plan, loops, wat = printer.printed(made.module), made.plan.printed(), Lines[str](), printed(made.artifact.wasm)
    for i, (name, func) in enumerate(made.plan.funcs.items()):
        loops.add([""] if i else [])
        loops.add(to_text(func).rstrip("\n"), name)
    names = function_names(read_wasm(made.artifact.wasm))
    return {
        "name": module.name,
        "nodes": _nodes(module, lambda x, i: [i]),
        "passed": _nodes(made.module, lambda x, _: view.origin[x]),
        "source": _source_lines(text, module),
        "stages": [
            _stage("HLO after passes", hlo, view.origin.get),
            _stage("Plan", plan, view.of_line),
            _stage("Loops", loops, view.of_kernel.get),
            _stage("WebAssembly", wat, lambda index: view.of_kernel.get(names.get(index, ""))),
        ],
        "steps": [
            {
                "name": s.name,
                "kind": "kernel" if isinstance(s, Launch | Copy) else type(s).__name__.lower(),
                "kernel": _kernel(s),
                "instructions": view.of_step[i],
                "before": i >= len(made.plan.entries),
            }
            for i, s in enumerate(view.steps)
        ],
        "kernels": _kernels(made, view),
        "memory": made.artifact.manifest["peak_bytes"],
    }


class _View:
    """The instructions of the module from which each instruction behind the passes and each step came."""

    def __init__(self, made: Trace, number: dict[int, int], by_name: dict[str, int], opcodes: list[str]) -> None:
        self.made = made
        self.named = {x.name: x for x in made.module.instructions()}
        self.origin = {x: _origin(x, number, by_name) for x in made.module.instructions()}
        self.opcodes = opcodes
        self.steps = all_steps(made.plan)
        self.owned = {
            v.buffer.name for s in self.steps if isinstance(s, Launch | Copy) for v in s.arguments[: s.written]
        }
        self.of_step = [self._numbers(self._members(s)) for s in self.steps]
        self.of_kernel: dict[str, list[int]] = {}
        for step, members in zip(self.steps, self.of_step):
            name = _kernel(step)
            self.of_kernel[name] = sorted({*self.of_kernel.get(name, ()), *members})

    def of_line(self, about: Step | View) -> list[int] | None:
        """The instructions of a line of the plan: of a step, or of the array that a parameter or result is."""
        if isinstance(about, View):
            x = self.named.get(about.buffer.root().name)
            return self.origin[x] if x else None
        return self._numbers(self._members(about))

    def _numbers(self, found: Iterable[Instruction]) -> list[int]:
        # A zero that a pass made may serve many that have nothing to do with what it was made for.
        return sorted(
            {i for x in found for i in self.origin[x] if x.opcode != "constant" or self.opcodes[i] == "constant"}
        )

    def _members(self, step: Step) -> list[Instruction]:
        """The instructions that a step computes: its results, and what these need down to what other steps leave in
        buffers."""
        x = self.named.get(step.name)
        if not isinstance(step, Launch):
            return [x] if x else []
        packed = self.named.get(step.name.removesuffix(".pack")) if step.name.endswith(".pack") else None
        roots = [self.named[v.buffer.name] for v in step.arguments[: step.written] if v.buffer.name in self.named]
        if packed is not None and not roots:
            roots = [packed.operands[1]]
        found: dict[Instruction, None] = {packed: None} if packed is not None else {}
        pending = roots or ([x] if x else [])
        while pending:
            y = pending.pop()
            if y in found:
                continue
            found[y] = None
            if not record(y).control:
                for computation in y.called:
                    found |= dict.fromkeys(_nested(computation))
            for o in y.operands:
                if o.name not in self.owned and _FAMILY[o.opcode] != "control":
                    pending.append(o)
        return list(found)


def _origin(x: Instruction, number: dict[int, int], by_name: dict[str, int]) -> list[int]:
    known = number.get(id(x.metadata))
    if known is not None:
        return [known]
    name = x.name
    while name not in by_name and "." in name:
        name = name.rpartition(".")[0]
    return [by_name[name]] if name in by_name else []


def _nested(computation: Computation) -> Iterable[Instruction]:
    for x in computation.instructions:
        yield x
        for called in x.called:
            yield from _nested(called)


def _kernel(step: Step) -> str:
    """The function that a step calls."""
    return step.func.name if isinstance(step, Launch) else "copy" if isinstance(step, Copy) else ""


def _nodes(module: Module, origin: Any) -> list[dict[str, Any]]:
    """The graph: operands as places in this list."""
    place = {x: i for i, x in enumerate(module.instructions())}
    return [
        {
            "name": x.name,
            "opcode": x.opcode,
            "family": _FAMILY.get(x.opcode, "custom"),
            "shape": str(x.shape.without_layout()),
            "computation": c.name,
            "entry": c is module.entry,
            "root": x is c.root,
            "operands": [place[o] for o in x.operands],
            "called": [called.name for called in x.called],
            "origin": origin(x, place[x]),
        }
        for c in module.computations
        for x in c.instructions
    ]


def _source_lines(text: str, module: Module) -> list[Range]:
    """Returns the lines where the text defines each instruction; one that spans several lines counts for its first."""
    place = {
        (c.name, x.name): i for i, (c, x) in enumerate((c, x) for c in module.computations for x in c.instructions)
    }
    known = {c.name for c in module.computations}
    current, found = module.entry.name, []
    for line, content in enumerate(text.splitlines()):
        header = _HEADER.match(content)
        if header and header[1] in known and not _HEAD.match(content):
            current = header[1]
            content = content[header.end() :]
        head = _HEAD.match(content)
        i = place.get((current, head[1])) if head else None
        if i is not None:
            found.append((line, line, [i]))
    return found


def _stage(name: str, lines: Lines[Any], came_from: Callable[[Any], list[int] | None]) -> dict[str, Any]:
    """The text of a stage, and the lines of which it is known which instructions they came from."""
    known = [(first, last, came_from(about)) for first, last, about in lines.about]
    return {"name": name, "text": str(lines), "lines": [row for row in known if row[2] is not None]}


def _kernels(made: Trace, view: _View) -> list[dict[str, Any]]:
    """The functions with the bytes of their code, and the steps that call each."""
    wasm = read_wasm(made.artifact.wasm)
    names = function_names(wasm)
    called: dict[str, list[int]] = {}
    for i, step in enumerate(view.steps):
        called.setdefault(_kernel(step), []).append(i)
    return [
        {
            "name": names.get(i, f"function {i}"),
            "bytes": body.code.end - body.code.pos,
            "steps": called.get(names.get(i, ""), []),
            "instructions": view.of_kernel.get(names.get(i, ""), []),
        }
        for i, body in enumerate(wasm.bodies)
    ]
