"""Programs over MPI: the same bits as on threads, and jobs that end, with the right words, when a rank does not do its
part."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_wasm
from tests.support import seeds
from tests.support.collective_programs import Grid, every_collective
from tests.support.replica_programs import inputs, ready, reduced, steps
from tests.support.samples import REPLICATED
from xla_wasm import Options, XlaWasmError
from xla_wasm.errors import ArgumentError
from xla_wasm.host import launch, mpi

BIN = Path(sys.executable).parent
PREAMBLE = f"""
import logging, os, signal, sys, time
sys.path[:0] = {sys.path!r}
import numpy as np
from mpi4py import MPI
import xla_wasm
from xla_wasm import mpi
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
logging.basicConfig(level=logging.INFO, format="%(message)s")
"""


def mpiexec(ranks: int, *command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a job, which must end by itself."""
    launcher = BIN / "mpiexec"
    assert launcher.exists(), "no mpiexec: pip install -e '.[test]' brings it (mpich)"
    return subprocess.run(
        [str(launcher), "-n", str(ranks), *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        check=False,
    )


def job(ranks: int, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "job.py"
    path.write_text(PREAMBLE + textwrap.dedent(script))
    return mpiexec(ranks, sys.executable, "-m", "xla_wasm.host.launch", path, cwd=folder)


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def good(done: subprocess.CompletedProcess[str], ranks: int) -> None:
    """Every rank has come to its end; launchers may mix their lines."""
    assert ok(done).count("good") == ranks, done.stdout + done.stderr


# --- the same as on threads
# ---------------------------------------------------------------------------------------------

REPLAY = """
for name in open("programs.txt").read().split():
    data = np.load(f"{name}.npz")
    r, p = data["grid"]
    arguments = [data[f"a{rank}.{i}"] for i in range(len([k for k in data if k.startswith(f"a{rank}.")]))]
    exe = xla_wasm.load(f"{name}.wasm")
    arguments = [a.view(slot.dtype).reshape(slot.shape) for a, slot in zip(arguments, exe._inputs)]
    first = mpi.run(exe, arguments, num_replicas=int(r), num_partitions=int(p))
    again = mpi.run(exe, arguments, num_replicas=int(r), num_partitions=int(p))
    for i, (a, b) in enumerate(zip(first, again, strict=True)):
        assert a.tobytes() == b.tobytes(), (name, i)
        expected = data[f"r{rank}.{i}"]
        assert a.tobytes() == expected.tobytes(), (name, i, a, expected)
print("good")
"""


def record(folder: Path, name: str, module: xla_wasm.HloModule, arguments: Any, grid: tuple[int, int]) -> None:
    """A program with what it gives on threads."""
    artifact = xla_wasm.compile(module)
    results = xla_wasm.load(artifact).run_replicated(arguments, num_replicas=grid[0], num_partitions=grid[1])
    artifact.save(folder / f"{name}.wasm")
    raw = {f"a{d}.{i}": x for d, own in enumerate(arguments) for i, x in enumerate(own)}
    raw |= {f"r{d}.{i}": x for d, own in enumerate(results) for i, x in enumerate(own)}
    # NumPy's files do not know the small types.
    flat = {key: np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8) for key, x in raw.items()}
    np.savez(folder / f"{name}.npz", grid=np.array(grid), **flat)


@pytest.mark.parametrize(("replicas", "partitions"), [(2, 1), (1, 2), (4, 1), (2, 2)])
def test_every_collective_gives_the_bits_that_threads_give(replicas: int, partitions: int, tmp_path: Path) -> None:
    names = []
    # Those of one and of two dimensions of devices share out the types.
    types = ["f32", "s8", "bf16", "c128", "pred", "s4", "f64", "u64"]
    for seed, element_type in enumerate(types if seeds.exhaustive else types[(replicas * partitions) // 2 - 1 :: 2]):
        program = every_collective(seed, Grid(replicas, partitions), element_type)
        names.append(f"all-{element_type}")
        record(tmp_path, names[-1], program.module(), program.arguments(), (replicas, partitions))
    for i, sample in enumerate(s for s in REPLICATED if (s.replicas, s.partitions) == (replicas, partitions)):
        names.append(f"sample{i}")
        record(tmp_path, names[-1], sample.module(), [list(a) for a in sample.args], (replicas, partitions))
    devices = replicas * partitions
    if partitions == 1:
        names += ["steps", "large"]
        record(tmp_path, "steps", steps(devices), [[np.int32(9), x] for x in inputs(devices)], (devices, 1))
        record(tmp_path, "large", reduced(1 << 20), [[x] for x in inputs(devices, 1 << 20)], (devices, 1))
    (tmp_path / "programs.txt").write_text("\n".join(names))
    good(job(devices, REPLAY, tmp_path), devices)


def test_states_weights_and_communicators(tmp_path: Path) -> None:
    """Each rank keeps what is its own; the ranks of a part of the job run by themselves."""
    script = """
    from tests.support.replica_programs import entry, ready
    from xla_wasm import Options
    module = entry('''x = f32[] parameter(0)
        w = f32[] parameter(1)
        s = f32[] parameter(2)
        v = f32[] multiply(x, w)
        t = f32[] add(s, v)
        y = f32[] all-reduce(t), replica_groups={}, to_apply=add
        ROOT r = (f32[], f32[]) tuple(y, t)''')
    exe = ready(module, Options(weights=("w",), state=(("s", 1),)))
    exe.set("w", np.float32(10))
    exe.set("w", np.float32(100), device=3)
    got = [float(mpi.run(exe, [np.float32(rank)])[0]) for _ in range(3)]
    assert got == [330, 660, 990], got
    assert exe.get("s", device=rank) == 3 * rank * (100 if rank == 3 else 10)
    half = comm.Split(rank % 2, rank)
    exe.set("s", np.float32(0))
    exe.set("w", np.float32(1))
    (both,) = mpi.run(exe, [np.float32(rank)], half)
    assert both == (2 if rank % 2 == 0 else 4), both
    (alone,) = mpi.run(exe, [np.float32(rank)], MPI.COMM_SELF)
    assert alone == rank + (0 if half.Get_rank() else rank), alone
    print("good")
    """
    good(job(4, script, tmp_path), 4)


def test_sends_that_nobody_waits_for(tmp_path: Path) -> None:
    """Send and recv between devices, small and large, to another device and to itself."""
    script = """
    from tests.support.hostio_cases import module, transfer
    for size in (3, 1 << 16):
        for pairs, sources in (("{{0,1},{1,0}}", (1, 0)), ("{{0,0},{1,1}}", (0, 1)), ("{{1,0}}", (1, None))):
            m = module(transfer(pairs, 0, f"f32[{size}]") + f"\\n ROOT r = f32[{size}] copy(y)", f"x: f32[{size}]")
            exe = xla_wasm.load(xla_wasm.compile(m))
            (y,) = mpi.run(exe, [np.full(size, rank + 1, np.float32)])
            source = sources[rank]
            assert (y == (0 if source is None else source + 1)).all(), (pairs, y)
    print("good")
    """
    good(job(2, script, tmp_path), 2)


# --- ranks that disagree
# ------------------------------------------------------------------------------------------------


def test_ranks_that_disagree_are_refused_and_may_go_on(tmp_path: Path) -> None:
    script = """
    from tests.support.replica_programs import inputs, ready, reduced
    from xla_wasm import ArgumentError, ExchangeError
    good, other = ready(reduced(8)), ready(reduced(9))
    x = inputs(3, 8)
    seen = []

    def fails(exe, arguments, kind, **options):
        try:
            mpi.run(exe, arguments, **options)
        except kind as error:
            seen.append(str(error))
        else:
            raise AssertionError("it did not fail")
        (y,) = mpi.run(good, [x[rank]])
        assert (y == (x[0] + x[1]) + x[2]).all()

    fails(other if rank == 1 else good, [inputs(1, 9)[0] if rank == 1 else x[rank]], ExchangeError)
    assert seen[-1] == "rank 1 of 3 runs another program than rank 0: give all the same module", seen
    fails(other if rank == 0 else good, [inputs(1, 9)[0] if rank == 0 else x[rank]], ExchangeError)
    assert seen[-1] == "ranks 1 and 2 of 3 run another program than rank 0: give all the same module", seen
    fails(good, [x[rank]], ExchangeError, **({"num_partitions": 3} if rank == 2 else {"num_replicas": 3}))
    assert seen[-1].startswith("rank 2 of 3 runs other numbers of replicas and partitions than rank 0"), seen
    fails(good, [x[rank]] * (2 if rank == 2 else 1), ArgumentError if rank == 2 else ExchangeError)
    assert ("takes 1 argument " in seen[-1]) and (rank == 2 or seen[-1].startswith("device 2 (rank 2, process ")), seen
    fails(good, [x[rank]], ArgumentError, num_replicas=2)
    wanted = "'m' runs on 1 to 64 devices, a multiple of 2 replicas, got 3: choose such a number of devices"
    assert seen[-1] == wanted, seen
    print("good")
    """
    good(job(3, script, tmp_path), 3)


# --- ranks that fail
# ------------------------------------------------------------------------------------------------------

LOOP = """
from tests.support.replica_programs import inputs, ready, steps
from xla_wasm import Options
exe = ready(steps(size, call=True), Options(host_calls=("tick",)), custom_calls={"tick": lambda i, d: tick(int(i), int(d)) or i})
mpi.run(exe, [np.int32(100), inputs(size)[rank]], timeout=TIMEOUT)
print("ended", rank)
"""  # noqa: E501


@pytest.mark.parametrize("turn", range(seeds.count(5, 10)))
def test_a_rank_that_is_killed(turn: int, tmp_path: Path) -> None:
    """In trip 7 * turn of a loop of exchanges; the others have an hour to wait."""
    rank, ranks = turn % 4, 4
    script = f"""
def tick(i, d):
    if (d, i) == ({rank}, {7 * turn}):
        os.kill(os.getpid(), signal.SIGKILL)
TIMEOUT = 3600
"""
    done = job(ranks, script + LOOP, tmp_path)
    log = done.stdout + done.stderr
    assert done.returncode != 0 and "ended" not in done.stdout, log
    processes = dict(re.findall(r"^rank (\d) of 4 is process (\d+) on ", log, re.M))
    assert len(processes) == ranks, log
    assert re.findall(r"^xla_wasm: (.*): killed by SIGKILL; ending the job$", log, re.M) == [
        f"rank {rank}, process {processes[str(rank)]} on {socket.gethostname()}"
    ], log


@pytest.mark.parametrize("rank", range(3))
def test_a_rank_that_stops(rank: int, tmp_path: Path) -> None:
    """No launcher takes notice; those who wait for it, or for one who does, end the job."""
    script = f"""
def tick(i, d):
    if (d, i) == ({rank}, {20 + rank}):
        os.kill(os.getpid(), signal.SIGSTOP)
TIMEOUT = 2
"""
    done = job(3, script + LOOP, tmp_path)
    log = done.stdout + done.stderr
    assert done.returncode != 0 and "ended" not in done.stdout, log
    waited = re.findall(
        r"^xla_wasm: rank (\d), process \d+ on .*: ExchangeError: device \1 \(replica \1, partition 0\) waited 2 s in "
        r"(?:all-reduce 's'|collective-permute 'y') for (.*); ending the job$",
        log,
        re.M,
    )
    assert {int(r) for r, _ in waited} == {0, 1, 2} - {rank}, log
    assert any(
        re.search(rf"device {rank} \(rank {rank}, process \d+ on [^)]*\), which never arrived", others)
        for _, others in waited
    ), log


@pytest.mark.parametrize("rank", range(2))
def test_a_killed_command(rank: int, folder: Path) -> None:
    """Killed from outside, while it runs again and again."""
    launcher = [str(BIN / "mpiexec"), "-n", "2", *map(str, command(folder, "--iterations", 10**9))]
    process = subprocess.Popen(launcher, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    assert process.stdout is not None
    processes: dict[int, int] = {}
    text = ""
    for line in process.stdout:
        text += line
        if match := re.match(r"rank (\d) of 2 is process (\d+) on ", line):
            processes[int(match[1])] = int(match[2])
        if "result " in line:  # of the first run; many follow
            os.kill(processes[rank], signal.SIGKILL)
    assert process.wait(60) != 0
    assert (
        f"xla_wasm: rank {rank}, process {processes[rank]} on {socket.gethostname()}: killed by SIGKILL; ending the job"
        in text
    ), text


def test_a_rank_that_fails_ends_the_job_at_once(tmp_path: Path) -> None:
    """The others have an hour to wait."""
    for fault, says in (
        ("raise ValueError('no more')", "RunError: custom call 'tick' ('t') failed: ValueError: no more"),
        ("doctor(exe)", r"RunError: 'steps' failed in step \d+ of \d+, [\w.]+: wasm trap: "),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
    ):
        script = f"""
import gc, struct
from xla_wasm.host.instance import Instance

def doctor(exe):
    (instance,) = (x for x in gc.get_objects() if type(x) is Instance and x is not exe._first.pool._idle[0])
    artifact = xla_wasm.compile(steps(size, call=True), Options(host_calls=("tick",)))
    at = artifact.manifest["steps"]["address"]
    for step in range(artifact.manifest["steps"]["count"]):
        instance.memory[at + 32 * step : at + 32 * step + 8] = struct.pack("<2I", 1, 0x7FFFFFFF)

def tick(i, d):
    if (d, i) == (1, 50):
        {fault}
TIMEOUT = 3600
"""
        done = job(3, script + LOOP, tmp_path)
        pattern = (
            rf"^xla_wasm: rank 1, process \d+ on .*: {says if 'wasm' in says else re.escape(says)}.*; ending the job$"
        )
        assert done.returncode != 0 and re.search(pattern, done.stderr, re.M), done.stdout + done.stderr
        assert "ended" not in done.stdout


def test_a_rank_that_never_starts(tmp_path: Path) -> None:
    script = """
    from tests.support.replica_programs import inputs, ready, reduced
    exe = ready(reduced(8))
    if rank == 2:
        time.sleep(600)
    mpi.run(exe, inputs(1, 8), timeout=0.5)
    """
    done = job(3, script, tmp_path)
    assert done.returncode != 0
    assert re.search(
        r"rank [01], .*: waited 0\.5 s at the start for rank 2, which never arrived; ending the job", done.stderr
    ), done.stderr


# --- the command
# --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module that sums over all devices, with inputs for four."""
    (tmp_path / "sum.hlo").write_text(reduced(8).to_text())
    for d, x in enumerate(inputs(4, 8)):
        np.save(tmp_path / f"x.{d}.npy", x)
    return tmp_path


def command(folder: Path, *options: object) -> list[object]:
    return [BIN / "xla-wasm", "run", "sum.hlo", "--replicated", "--input", "x.{rank}.npy", *options]


def alone(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=folder, timeout=300, check=False)


def test_the_command_with_and_without_mpiexec(folder: Path) -> None:
    x = inputs(4, 8)
    total = ((x[0] + x[1]) + x[2]) + x[3]
    threads = ok(alone(folder, *command(folder, "--devices", 4, "--output", "threads.{rank}")))
    processes = mpiexec(4, *command(folder, "--output", "mpi.{rank}", "--iterations", 3), cwd=folder)
    assert "3 runs: fastest" in ok(processes)
    for d in range(4):
        for where in ("threads", "mpi"):
            np.testing.assert_array_equal(np.load(folder / f"{where}.{d}" / "result.npy"), total)
            assert f"1 result written to {where}.{d}/" in threads + processes.stdout
    rows = [line for line in threads.splitlines() if re.match(r"\d +result +f32", line)]
    assert len(rows) == 4 and all(row in processes.stdout.splitlines() for row in rows)
    assert sorted(re.findall(r"^rank (\d) of 4 is process \d+ on", processes.stderr, re.M)) == list("0123")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--replicated",), "'m' runs on any number of devices; say how many with --devices"),
        (("--devices", 2), "--devices, --num-partitions and --mpi are about runs on several devices: add --replicated"),
        (("--replicated", "--devices", 4, "--num-partitions", 3), "'m' runs on .*, got 4"),
        (
            ("--replicated", "--devices", 4, "--output", "out"),
            "each device writes its own; put {rank} into the name, as in out.{rank}",
        ),
        (("--replicated", "--devices", 5), "x.4.npy: there is no such file"),
    ],
)
def test_wrong_commands(folder: Path, options: tuple[object, ...], message: str) -> None:
    name = "x.{rank}.npy" if "--replicated" in options else "x.0.npy"
    done = alone(folder, BIN / "xla-wasm", "run", "sum.hlo", "--input", name, *options)
    assert done.returncode == 2, done.stdout
    assert re.search(message.replace("{", r"\{"), " ".join(done.stderr.split())), done.stderr


def test_wrong_commands_with_mpiexec(folder: Path) -> None:
    (folder / "x.1.npy").unlink()
    for words, message in (
        (command(folder), r"rank 1, process \d+ on .*: --input x\.1\.npy: there is no such file.*; ending the job"),
        (command(folder, "--devices", 3), "--devices 3: MPI has started 2 processes, and each is a device"),
        (command(folder, "--profile"), "--profile is for threads: run it without mpiexec, with --devices"),
    ):
        done = mpiexec(2, *words, cwd=folder)
        assert done.returncode != 0 and re.search(message, done.stderr), done.stderr


def test_random_inputs_and_weights_are_the_same_over_mpi(folder: Path) -> None:
    words = [BIN / "xla-wasm", "run", "sum.hlo", "--replicated", "--random-inputs", "--seed", 7, "--output"]
    ok(alone(folder, *words, "threads.{rank}", "--devices", 2))
    ok(mpiexec(2, *words, "mpi.{rank}", cwd=folder))
    for d in range(2):
        assert (folder / f"threads.{d}" / "result.npy").read_bytes() == (
            folder / f"mpi.{d}" / "result.npy"
        ).read_bytes()


# --- what needs no job
# --------------------------------------------------------------------------------------------------


def test_one_process_is_a_job_of_one(tmp_path: Path) -> None:
    script = """
    from tests.support.replica_programs import inputs, ready, reduced
    (x,) = inputs(1, 8)
    assert (mpi.run(ready(reduced(8)), [x])[0] == x).all()
    print("good")
    """
    path = tmp_path / "job.py"
    path.write_text(PREAMBLE + textwrap.dedent(script))
    good(alone(tmp_path, sys.executable, path), 1)


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi._mpi.cache_clear()
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        XlaWasmError, match=r"running over MPI needs mpi4py and an MPI library: pip install mpi4py mpich"
    ):
        mpi.run(ready(reduced(8)), inputs(1, 8))


def test_a_launcher_is_recognised() -> None:
    assert launch.rank({"PATH": "/bin", "RANK": "0", "PMI_RANK": ""}) is None
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        assert launch.rank({name: "3"}) == 3


def test_the_launcher_of_scripts(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("import sys; print(sys.argv[1:], __name__); sys.exit(5)")
    done = mpiexec(1, sys.executable, "-m", "xla_wasm.host.launch", path, "a", "b")
    assert done.returncode == 5 and "['a', 'b'] __main__" in done.stdout, done.stdout + done.stderr
    done = alone(tmp_path, sys.executable, "-m", "xla_wasm.host.launch", "nothing.py")
    assert done.returncode == 1 and "usage: mpiexec -n N" in done.stderr


def test_a_timeout_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="timeout must be above zero, got -1"):
        mpi.run(ready(reduced(8), Options()), inputs(1, 8), object(), -1)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_supervisor_dies_like_its_rank(name: str, tmp_path: Path) -> None:
    """A launcher that sees a process end by itself may let the others wait."""
    path = tmp_path / "job.py"
    path.write_text(f"import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.{name})")
    words = [sys.executable, "-m", "xla_wasm.host.launch", str(path)]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PMI_RANK": "2"}, timeout=300, check=False
    )
    assert done.returncode == -signal.Signals[name], done.stderr
    assert (
        done.stderr
        == f"xla_wasm: rank 2, process {done.stdout.strip()} on {socket.gethostname()}: killed by {name}; ending the "
        f"job\n"
    )
