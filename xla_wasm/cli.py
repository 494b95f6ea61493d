"""The command `xla-wasm`. Commands print to standard output, errors to standard error in one line.

Exit codes: 0 done; 1 `check` found a difference; 2 the input or the command line is wrong; 130 interrupted.
"""

from __future__ import annotations

import glob
import io
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from . import __version__, files, report
from .artifact import Artifact
from .artifact import outputs as artifact_outputs
from .errors import ArgumentError, ArtifactError, UnsupportedError, XlaWasmError
from .hlo.ir import Module
from .opening import artifact_of, compile_as, module_of, read
from .options import CALLBACKS, HOST, WINOGRAD, Options
from .target import KINDS, MODULE, PORTABLE, SERVER, SIMD128, TARGETS, TUNES, WORKER
from .wasi_http import INTERFACES

if TYPE_CHECKING:
    from .host.executor import Executable

EXAMPLE = "jax.jit(f).lower(*args).compiler_ir('hlo').as_serialized_hlo_module_proto()"

app = typer.Typer(
    help=f"""Compiles XLA HLO modules to small standalone WebAssembly modules.

    MODULE is HLO text, a serialized HloModuleProto or HloProto as JAX writes it, StableHLO, or a file of jax.export:

    {EXAMPLE}
    """,
    epilog="Start with:  xla-wasm compile model.hlo.pb  &&  xla-wasm run model.wasm --random-inputs",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

if TYPE_CHECKING:
    TargetName: TypeAlias = str
    Tune: TypeAlias = str
    Kind: TypeAlias = str
    Callbacks: TypeAlias = str
    Algorithm: TypeAlias = str
else:
    TargetName, Tune, Kind, Callbacks = Literal[tuple(TARGETS)], Literal[TUNES], Literal[(*KINDS, WORKER)], Literal[CALLBACKS]
    Algorithm = Literal[tuple(WINOGRAD)]
Stage = Literal["hlo", "plan", "kernels", "loops", "wat", "manifest"]

ModulePath = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
AnyPath = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, metavar="MODULE|OUT.WASM")]
TargetOption = Annotated[TargetName, typer.Option("--target", help="simd128 runs everywhere; relaxed-simd adds fused multiply-add.")]
TuneOption = Annotated[Tune, typer.Option("--tune", help="Engine to shape the matrix kernels for.")]
WeightOption = Annotated[
    list[str], typer.Option("--weight", metavar="NAME", help="A parameter (name or index) set once, not at each run. Repeatable.")
]
FormatOption = Annotated[
    list[str],
    typer.Option(
        "--weight-format",
        metavar="[NAME=]FORMAT",
        help="What a weight is stored as: f32, f16, bf16, int8 or int4. NAME may be a pattern, as 'params.*'; without it, it is for all "
        "that --weight names. Repeatable.",
    ),
]
DimOption = Annotated[
    list[str],
    typer.Option(
        "--dim", metavar="NAME=SIZE", help="The size of a symbolic dimension of jax.export, or a range such as 1..128. Repeatable."
    ),
]
StateOption = Annotated[
    list[str],
    typer.Option("--state", metavar="NAME=RESULT", help="A parameter that stays inside, and the result it becomes. Repeatable."),
]
InputOption = Annotated[
    list[str], typer.Option("--input", "-i", metavar="X.NPY", help="An argument, in the parameters' order. Repeatable.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"xla-wasm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")] = False,
) -> None:
    pass


@app.command("compile")
def compile_command(
    module: ModulePath,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; else MODULE's name with .wasm, here.")] = None,
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    weight: WeightOption = [],  # noqa: B006 (typer copies defaults)
    weight_format: FormatOption = [],  # noqa: B006
    state: StateOption = [],  # noqa: B006
    dim: DimOption = [],  # noqa: B006
    kind: Annotated[
        Kind,
        typer.Option(
            "--kind",
            help="module: what a host runs; command: a program for `wasmtime run`, which reads and writes files; "
            "server: a component for `wasmtime serve`; worker: for edge runtimes, with JavaScript that imports the .wasm.",
        ),
    ] = MODULE,
    prepared: Annotated[
        bool | None,
        typer.Option(
            "--prepared/--no-prepared", help="Pack constants now, not in each new instance. By default what --kind makes a program is."
        ),
    ] = None,
    sidecar: Annotated[bool, typer.Option("--sidecar", help="Put large constants into a .weights file beside the .wasm.")] = False,
    callbacks: Annotated[
        Callbacks,
        typer.Option(
            "--callbacks",
            help="Python functions that a JAX program calls. host: a run that reaches one asks its host, which may have a function for it, "
            "and prints what jax.debug.print prints; trap: it ends there; drop: those without results are left out.",
        ),
    ] = HOST,
    winograd: Annotated[
        Algorithm,
        typer.Option(
            "--winograd",
            help="Which of Winograd's algorithms convolutions with windows of 3x3 may take. off: none; f2: as exact as direct sums; "
            "f4: about ten times the error, and faster.",
        ),
    ] = "f2",
    threads: Annotated[
        bool, typer.Option("--threads", help="Have large operations shared by the threads that a host starts, on memory that they share.")
    ] = False,
    js: Annotated[
        bool, typer.Option("--js", help="Write a .js and a .d.ts too, which load the .wasm and name what goes in and out.")
    ] = False,
    loader: Annotated[
        str | None, typer.Option("--loader", metavar="WHERE", help="With --js: the npm package or relative path to import the loader from.")
    ] = None,
    copy_loader: Annotated[
        bool, typer.Option("--copy-loader", help="With --js: put the loader into a folder beside, and import that.")
    ] = False,
) -> None:
    """Compiles MODULE to one .wasm file."""
    js = js or kind == WORKER
    if js and kind not in (MODULE, WORKER):
        raise ArgumentError(f"--js writes JavaScript that loads a module, and a {kind} runs by itself: leave --js or --kind {kind} out")
    if threads and kind != MODULE:
        raise ArgumentError(f"--threads is for modules, whose hosts start threads: leave --threads or --kind {kind} out")
    if not js and (loader is not None or copy_loader):
        raise ArgumentError("--loader and --copy-loader are about the JavaScript that --js writes")
    where = output or Path(_stem(module) + ".wasm")
    if js:
        from . import javascript
    files.check_outputs(javascript.outputs(where, sidecar, kind) if js else artifact_outputs(where, sidecar), [module])
    source = module_of(module, "compile", dim)
    began = time.perf_counter()
    artifact = compile_as(
        source,
        target,
        tune,
        weight,
        state,
        sidecar,
        MODULE if kind == WORKER else kind,
        prepared,
        callbacks,
        winograd,
        weight_format,
        threads,
    )
    seconds = time.perf_counter() - began
    if js:
        if copy_loader:
            javascript.copy_loader(where.parent)
        # A worker has its loader beside it unless told otherwise: it may have no npm.
        usual = javascript.BESIDE if copy_loader else None if kind == WORKER else javascript.PACKAGE
        javascript.save(artifact, where, loader or usual, kind)
    else:
        artifact.save(where)
    size, weights_size = artifact.sizes
    what = f"  {report.size(size)}"
    if weights_size:
        place = f"{javascript.ASSETS}/" if kind == WORKER else where.with_suffix(".weights").name
        what += f" + {report.size(weights_size)} of weights in {place}"
    what += f", compiled in {report.duration(seconds)}"
    if kind == WORKER:
        what += f"; {javascript.memory(artifact)}"
    report.console().print(Text.assemble((str(where), "bold"), what), soft_wrap=True)


@app.command()
def run(
    path: AnyPath,
    inputs: InputOption = [],  # noqa: B006
    settings: Annotated[list[str], typer.Option("--set", metavar="NAME=X.NPY", help="The value of a weight or state. Repeatable.")] = [],  # noqa: B006
    dim: DimOption = [],  # noqa: B006
    random_inputs: Annotated[bool, typer.Option("--random-inputs", help="Make up what --input and --set do not give.")] = False,
    seed: SeedOption = 0,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Run so many times and print the times.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="How many threads share the work; by default all processors, if it is compiled for threads."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Print how long each step takes.")] = False,
    output: Annotated[str | None, typer.Option("--output", metavar="DIR", help="Folder for the results: 0.npy, 1.npy, ...")] = None,
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    infeed: Annotated[list[str], typer.Option("--infeed", metavar="X.NPY", help="An item for infeed, or .npz. Repeatable.")] = [],  # noqa: B006
    outfeed: Annotated[str | None, typer.Option("--outfeed", metavar="DIR", help="Folder for what outfeed gives.")] = None,
    recv: Annotated[list[str], typer.Option("--recv", metavar="NAME=X.NPY", help="An item for a recv of that name. Repeatable.")] = [],  # noqa: B006
    send: Annotated[list[str], typer.Option("--send", metavar="NAME=DIR", help="Folder for what that send gives. Repeatable.")] = [],  # noqa: B006
    replicated: Annotated[bool, typer.Option("--replicated", help="Run on several devices: threads, or with mpiexec processes.")] = False,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="With --replicated: how many, if MODULE does not say.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--num-partitions", min=1, help="With --replicated: how many of them are partitions of one replica.")
    ] = None,
    mpi: Annotated[bool, typer.Option("--mpi", help="With --replicated: use MPI even if no mpiexec is recognised.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="With --replicated: how long a device waits for others in one exchange.")
    ] = 60.0,
) -> None:
    """Runs a module or a compiled artifact under wasmtime and prints the results.

    With --replicated it runs on several devices, and {rank} in the names of files and folders stands for the number of the
    device, which is replica * partitions + partition:

    xla-wasm run M --replicated --devices 4 -i 'x.{rank}.npy' --output 'out.{rank}'

    mpiexec -n 4 xla-wasm run M --replicated -i 'x.{rank}.npy' --output 'out.{rank}'
    """
    from . import launch

    if not replicated and (devices or partitions or mpi):
        raise ArgumentError("--devices, --num-partitions and --mpi are about runs on several devices: add --replicated")
    if replicated:
        mpi = mpi or launch.rank() is not None
        launch.supervise()

    from .running import Files, Several, run

    several = Several(devices, partitions, mpi, timeout) if replicated else None
    files = Files(inputs, settings, output, infeed, outfeed, recv, send, random_inputs, seed)
    artifact = artifact_of(read(path, dim), target, tune, threads is not None and threads > 1)
    run(_load(artifact, threads), files, iterations, profile, several)


@app.command()
def check(
    module: ModulePath,
    inputs: InputOption = [],  # noqa: B006
    dim: DimOption = [],  # noqa: B006
    seed: SeedOption = 0,
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", min=0, help="Difference allowed, relative to the result's largest value. By default the type's."),
    ] = None,
    isolate: Annotated[bool, typer.Option("--isolate", help="Find the first instruction that differs, in loops and branches too.")] = False,
    reproducer: Annotated[
        Path | None,
        typer.Option("--reproducer", dir_okay=False, metavar="FILE", help="With --isolate: its HLO text, with its inputs beside."),
    ] = None,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="On how many devices, if MODULE does not say.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--num-partitions", min=1, help="How many of the devices are partitions of one replica.")
    ] = None,
    weight: WeightOption = [],  # noqa: B006
    weight_format: FormatOption = [],  # noqa: B006
) -> None:
    """Compares the compiled MODULE with the reference evaluator, on random inputs where --input gives none.

    Inputs are .npy files; bfloat16 and its like as NumPy saves them, or as any type that holds the same values.
    Integers must be equal, sums may differ by some hundred rounding errors.
    Exit code 1 if results differ.

    On several devices each has inputs of its own: {rank} in the names of files stands for the number of the device.

    With --isolate, every instruction is compiled anew and judged by itself.
    The first that differs is printed: its name, source line and shapes, and its values both ways.

    With --weight-format, results are compared with those of weights in f32 instead: the greatest and the mean difference of each, and
    the cosine. They only fail beyond --tolerance.
    """
    if weight_format:
        from .check_formats import check_formats

        if isolate or devices is not None or partitions is not None:
            raise ArgumentError("--weight-format compares whole results on one device: leave --isolate, --devices and --num-partitions out")
        source = module_of(module, "check", dim)
        if not check_formats(report.console(), source, target, tune, weight, weight_format, inputs, seed, tolerance):
            raise typer.Exit(1)
        return
    if weight:
        raise ArgumentError("--weight says which weights --weight-format is about")
    from .check import check

    if reproducer is not None and not isolate:
        raise ArgumentError(f"--reproducer {reproducer}: it takes --isolate to find what to write there")
    if reproducer is not None:
        own = [Path(name) for name in inputs]
        beside = [path for path in own if path.match(f"{glob.escape(reproducer.stem)}.*.npy")]  # its inputs are REPRODUCER.0.npy, ...
        files.check_outputs(
            [("the instruction", reproducer), *(("its inputs", reproducer.with_name(p.name)) for p in beside)], [module, *own]
        )
    source = module_of(module, "check", dim)
    options = Options(target=target, tune=tune)
    if not check(report.console(), source, options, inputs, seed, tolerance, isolate, reproducer, devices, partitions):
        raise typer.Exit(1)


@app.command()
def inspect(
    path: AnyPath,
    dim: DimOption = [],  # noqa: B006
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    c_header: Annotated[bool, typer.Option("--c-header", help="Print a C header with the interface of an artifact instead.")] = False,
    c_prefix: Annotated[
        str | None, typer.Option("--c-prefix", metavar="NAME", help="With --c-header: what its macros begin with; else OUT.WASM's name.")
    ] = None,
) -> None:
    """Shows the interface, operations, sizes, memory and imports of a module or an artifact, and what is not supported, if anything."""
    from .host.manifest import Manifest

    if c_prefix is not None and not c_header:
        raise ArgumentError("--c-prefix is about the header that --c-header prints")
    source = read(path, dim)
    if c_header:
        from . import c_header as writer

        if isinstance(source, Module):
            raise ArgumentError(f"{path} is not compiled: --c-header needs the .wasm that is to run, since options move its arrays")
        report.text(writer.header(Manifest.parse(source.manifest), c_prefix or writer.prefix_for(path.stem)).removesuffix("\n"))
        return
    console = report.console()
    if isinstance(source, Module) and not _print_module(console, source):
        raise UnsupportedError("the module cannot be compiled: see the instructions above, and docs/gaps.md")
    artifact = artifact_of(source, target, tune)
    manifest = Manifest.parse(artifact.manifest)
    table = report.table("", "name", "type", "kind", ">bytes")
    for title, leaves in (("parameter", manifest.parameters), ("result", manifest.results)):
        for i, leaf in enumerate(leaves):
            table.add_row(f"{title} {i}", leaf.name, str(leaf), leaf.kind, f"{leaf.bytes:,}")
    for request in manifest.transfers.values():
        passed = request.results or request.operands
        types = ", ".join(map(str, passed))
        name, type_ = request.target or request.name, types if len(passed) == 1 else f"({types})"
        table.add_row("host", name, type_, request.kind, f"{sum(leaf.bytes for leaf in passed):,}")
    console.print(table)
    facts = report.table("compiled", "")
    facts.add_row("size", report.size(len(artifact.wasm)))
    if artifact.weights:
        facts.add_row("weights", report.size(len(artifact.weights)))
    facts.add_row("memory", f"{report.size(manifest.memory_bytes)}, peak use {report.size(manifest.peak_bytes)}")
    facts.add_row("steps", str(len(manifest.steps)))
    facts.add_row("needs", ", ".join(manifest.features))
    facts.add_row(
        "kind", manifest.kind if manifest.kind != MODULE else f"{MODULE}, for a host: `wasmtime run` takes what --kind command makes"
    )
    facts.add_row("imports", ", ".join(INTERFACES if manifest.kind == SERVER else _imports(artifact.wasm)) or "nothing")
    facts.add_row("producer", manifest.producer)
    facts.add_row("hash", manifest.hash)
    console.print(facts)


@app.command()
def dump(
    path: AnyPath,
    stage: Annotated[Stage, typer.Option("--stage", help="What to print; an artifact has only wat and manifest.")],
    dim: DimOption = [],  # noqa: B006
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
) -> None:
    """Prints the module as it stands at a boundary of the compiler."""
    source = read(path, dim)
    if isinstance(source, Module):
        from .compiler import stages

        text = stages(source, Options(target=target, tune=tune))[stage]
    elif stage == "wat":
        from .wasm.disasm import disassemble

        text = disassemble(source.wasm)
    elif stage == "manifest":
        import json

        text = json.dumps(source.manifest, indent=2, ensure_ascii=False)
    else:
        raise ArgumentError(f"{path} is compiled: it has no stage {stage}; name the HLO module it was made from")
    report.text(text.removesuffix("\n"))


@app.command()
def convert(
    path: ModulePath,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write: HLO text if it ends in .txt or .hlo, else a proto.")],
    large_constants: Annotated[bool, typer.Option("--large-constants/--elide", help="Long constants in text: all, or as {...}.")] = True,
    dim: DimOption = [],  # noqa: B006
) -> None:
    """Converts MODULE to HLO text or a serialized HloModuleProto."""
    files.check_outputs([("the result", output)], [path])
    module = module_of(path, "convert", dim)
    if output.suffix in (".txt", ".hlo"):
        files.write(output, module.to_text(large_constants=large_constants))
    else:
        elided = next((x for x in module.instructions() if x.opcode == "constant" and x.attrs["literal"].elided), None)
        if elided is not None:
            raise ArgumentError(f"{path}: the values of {elided.where} were left out of the text, so there is no proto of it")
        files.write(output, module.to_proto())
    report.console().print(Text.assemble((str(output), "bold"), f"  {report.size(output.stat().st_size)}"), soft_wrap=True)


@app.command()
def layout(
    shape: Annotated[str, typer.Argument(help='A shape as HLO text writes it, such as "f32[3,5]{1,0:T(2,2)}".')],
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture instead.")] = None,
) -> None:
    """Draws the order in which an array's elements lie in memory."""
    from . import layout_view
    from .hlo.parser_shapes import parse_shape

    parsed = parse_shape(shape)
    if svg is None:
        report.console().print(layout_view.draw(parsed))
    else:
        files.write(svg, layout_view.svg(parsed))
        report.console().print(Text.assemble((str(svg), "bold"), f"  {report.size(svg.stat().st_size)}"), soft_wrap=True)


@app.command()
def ops(
    name: Annotated[str | None, typer.Argument(help="One operation, to see its attributes and constraints.")] = None,
) -> None:
    """Lists the operations with their documentation."""
    from .ops.table import OPS

    console = report.console()
    if name is None:
        table = report.table("operation", "operands", "what it computes")
        for opcode in sorted(OPS):
            table.add_row(opcode, _arity(OPS[opcode].arity), OPS[opcode].doc)
        console.print(table)
        return
    op = OPS.get(name)
    if op is None:
        import difflib

        near = difflib.get_close_matches(name, OPS, n=3)
        raise ArgumentError(f"there is no operation '{name}'" + (f"; did you mean {' or '.join(near)}?" if near else ": see xla-wasm ops"))
    console.print(Text.assemble((op.opcode, "bold"), " ", op.doc))
    table = report.table("part", "")
    table.add_row("operands", _arity(op.arity))
    for attribute in op.attrs:
        table.add_row("attribute", f"{attribute.name}: {attribute.kind}")
    for called in op.called:
        table.add_row("calls", called)
    for constraint in op.constraints:
        table.add_row("constraint", constraint)
    console.print(table)


@app.command()
def serve(
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    write: Annotated[
        Path | None,
        typer.Option("--write", file_okay=False, metavar="DIR", help="Write the pages there as static files and serve nothing."),
    ] = None,
    allow_host: Annotated[
        list[str],
        typer.Option("--allow-host", metavar="NAME", help="A name, beside localhost and --host, by which browsers come. Repeatable."),
    ] = [],  # noqa: B006
) -> None:
    """Serves the pages: draw digits and train on them, compile HLO in the browser, search by meaning, train on several workers."""
    from . import pages
    from .serve import make_server

    if write is not None:
        for missing in pages.write(write):
            report.console().print(Text.assemble(("left out ", "bold"), missing))
        return
    server = make_server(host, port, names=allow_host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}/"
    report.console().print(Text.assemble((url, "bold"), "   Ctrl-C ends"))
    if open_browser:
        import webbrowser

        webbrowser.open(url)
    with server:
        server.serve_forever()


@app.command("serve-model")
def serve_model(
    path: AnyPath,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 takes requests from other machines.")] = "127.0.0.1",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes.")] = 1,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", exists=True, dir_okay=False, metavar="FILE", help="Weights by name: a .safetensors or .npz file."),
    ] = None,
    settings: Annotated[list[str], typer.Option("--set", metavar="NAME=X.NPY", help="The value of a weight or state. Repeatable.")] = [],  # noqa: B006
    target: TargetOption = SIMD128,
    tune: TuneOption = PORTABLE,
    max_concurrency: Annotated[
        int | None, typer.Option("--max-concurrency", min=1, help="Runs at once, in each process. By default one for each processor.")
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=0, help="Requests that wait beside those; more are answered with 429.")] = 256,
    batch_deadline: Annotated[
        float | None,
        typer.Option("--batch-deadline", min=0, metavar="MS", help="Run requests together: how long the first waits for more."),
    ] = None,
    run_timeout: Annotated[float | None, typer.Option("--run-timeout", metavar="SECONDS", help="How long a run may take.")] = None,
    body_timeout: Annotated[float, typer.Option("--body-timeout", metavar="SECONDS", help="How long a body may take to arrive.")] = 30.0,
    max_body: Annotated[
        int | None, typer.Option("--max-body", min=0, metavar="BYTES", help="The largest body. By default what the inputs can need.")
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="SECONDS", help="How long it finishes what it began, when told to end.")
    ] = 30.0,
    reuse: Annotated[
        bool, typer.Option("--reuse-instances", help="Let instances serve one request after another: faster with large weights.")
    ] = False,
    access_log: Annotated[bool, typer.Option("--access-log", help="Print a line for each request.")] = False,
) -> None:
    """Serves a module or a compiled artifact over HTTP: POST / runs it. Needs the extra 'server'; see docs/serving.md.

    SIGTERM and Ctrl-C end it when what it has begun is answered.
    """
    from .serving import Options, serve_model

    options = Options(max_concurrency, queue, batch_deadline, run_timeout, body_timeout, max_body, grace, reuse)
    code = serve_model(read(path), (target, tune), weights, settings, options, (host, port), workers, access_log)
    raise typer.Exit(code)


def main() -> None:
    """Runs the command line; a mistake of the user's ends in one line and exit code 2, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names have characters that not every terminal has
    try:
        app()
    except XlaWasmError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> NoReturn:
    report.error_console().print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(2)


def _load(artifact: Artifact, threads: int | None = None) -> Executable:
    from .host.executor import load

    return load(artifact, threads=threads)


def _stem(path: Path) -> str:
    """The file's name without the suffixes that HLO files go by."""
    name = path.name
    for suffix in (".pb", ".hlo", ".txt", ".hlo_module"):
        name = name.removesuffix(suffix)
    return name or "out"


def _print_module(console: Console, module: Module) -> bool:
    """Prints a module's operations; returns whether all of them can be compiled."""
    from .compiler import unsupported

    counts = Counter(instruction.opcode for instruction in module.instructions())
    constants = sum(i.shape.bytes for i in module.instructions() if i.opcode == "constant")
    facts = report.table("module", "")
    facts.add_row("name", module.name)
    facts.add_row("computations", str(len(module.computations)))
    facts.add_row("instructions", str(sum(counts.values())))
    facts.add_row("constants", report.size(constants))
    facts.add_row("operations", ", ".join(f"{opcode} {n}" if n > 1 else opcode for opcode, n in sorted(counts.items())))
    console.print(facts)
    problems = unsupported(module)
    if problems:
        table = report.table("not supported", "why")
        for instruction, why in problems:
            table.add_row(Text(instruction.where, "red"), why)
        console.print(table)
    return not problems


def _imports(wasm: bytes) -> list[str]:
    """What the module imports, according to wasmtime, which also validates it."""
    import wasmtime

    try:
        module = wasmtime.Module(wasmtime.Engine(), wasm)
    except wasmtime.WasmtimeError as error:
        raise ArtifactError(f"the WebAssembly module is damaged: {str(error).strip()}") from error
    return [f"{item.module}.{item.name}" for item in module.imports]


def _arity(arity: tuple[int, int | None]) -> str:
    least, most = arity
    return f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
